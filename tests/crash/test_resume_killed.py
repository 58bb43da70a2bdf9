"""A run whose process is killed, again and again, is finished by those that take it up."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import turnlog
from turnlog import EventSourcedStore, Timeline
from turnlog.eventlog import EntryWritten
from turnlog.projections import first_difference
from turnlog.replay.verification import verify
from turnlog.teams import saved_checkpoints

TASKS = 50

_WORK = """
import asyncio, hashlib, random, sys
import turnlog
from turnlog import *

def answer(prompt, context):
    return f"{context.task.id}: {hashlib.sha256(prompt.encode()).hexdigest()}"

def function(prompt, memory, context):
    memory.write(f"note {context.task.id}", prompt)
    memory.write(f"effect {context.task.id}", 1, idempotency_key=f"effect {context.task.id}")
    return answer(prompt, context)

async def coroutine(prompt, memory, context):
    await memory.write(f"note {context.task.id}", prompt)
    await memory.write(f"effect {context.task.id}", 1, idempotency_key=f"effect {context.task.id}")
    return {"said": answer(prompt, context)}

chance = random.Random(3)
tasks = [
    Task(
        f"t{number}",
        f"Do {number}.",
        chance.choice(["ann", "bob"]),
        depends_on=chance.sample([f"t{before}" for before in range(number)], min(number, 2)),
    )
    for number in range(50)
]
path, way = sys.argv[1:]
with turnlog.open(path, durability="os") as log:
    store = (AsyncEventSourcedStore if way == "loop" else EventSourcedStore)(log)
    agents = [Agent("ann", function), Agent("bob", coroutine, dict[str, str])]
    team = Team(agents, shared_memory_store=store)
    told = lambda event: print(event.kind, event.task_id, flush=True)
    if way == "loop":
        result = asyncio.run(arestore(team, tasks, on_event=told))
    else:
        result = restore(team, tasks, on_event=told)
    print(result.status, flush=True)
"""


def work(path: Path, way: str, lines: int | None) -> list[str]:
    """What a process told; it was killed after `lines` of it, if it got so far."""
    command = [sys.executable, "-W", "error", "-c", _WORK, str(path), way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [] if lines is None else [process.stdout.readline() for _ in range(lines)]
        if lines is not None:
            process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    assert process.returncode in (0, -signal.SIGKILL)
    return [line.removesuffix("\n") for line in told if line.endswith("\n")]


def final(path: Path) -> tuple[dict[str, str], int]:
    """What memory holds in the end, and its turn."""
    with turnlog.open(path, read_only=True) as log:
        state = Timeline(log, "main").state()
        return {key: entry.value for key, entry in state.items()}, EventSourcedStore(log).get_turn()


def check_effects(path: Path, completed: set[str]) -> None:
    """Every task has written once, and all that was told is there; the log holds together."""
    with turnlog.open(path, durability="os") as log:
        written = Counter(each.event.key for each in log.read() if isinstance(each.event, EntryWritten))
        for number in range(TASKS):
            effects = [key for key in written if key.endswith(f"/effect t{number}")]
            results = [key for key in written if key.endswith(f"/task:t{number}:result")]
            assert [written[key] for key in (*effects, *results)] == [1, 1]
        done = [len(saved.load()["queue"]["completed"]) for saved in saved_checkpoints(log, "main")]
        assert done == list(range(1, TASKS + 1))
        assert completed <= {f"t{number}" for number in range(TASKS)}
        assert verify(log).problems == []
        with log.reading() as db:
            assert first_difference(db) is None


@pytest.mark.parametrize(
    ("way", "rounds"),
    [
        pytest.param("threads", 1, id="threads, once"),
        pytest.param("threads", 30, id="threads", marks=pytest.mark.long),
        pytest.param("loop", 30, id="loop", marks=pytest.mark.long),
    ],
)
def test_a_killed_run_is_finished_by_others(tmp_path: Path, way: str, rounds: int) -> None:
    """I8, I10, semantics 3.2: each task's effect is there once, and all ends as if nothing had been."""
    assert work(tmp_path / "whole.db", way, None)[-1] == "completed"
    whole = final(tmp_path / "whole.db")
    assert whole[1] == TASKS
    chance = random.Random(11)
    for number in range(rounds):
        path = tmp_path / f"{number}.db"
        told: list[str] = []
        for _ in range(chance.choice([1, 1, 2, 4])):
            told += work(path, way, chance.randrange(0, 120))
        told += work(path, way, None)
        assert told[-1] == "completed"
        completed = [line.split()[1] for line in told if line.startswith("completed ")]
        assert len(completed) == len(set(completed))
        check_effects(path, set(completed))
        assert final(path) == whole
