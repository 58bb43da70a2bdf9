"""A process that is killed while its team works leaves whole results, each with its turn."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import turnlog
from turnlog import EventSourcedStore
from turnlog.projections import first_difference

_WORK = """
import asyncio, sys
import turnlog
from turnlog import *

async def coroutine(prompt, memory, context):
    await memory.write("note", context.activity)
    return prompt

def function(prompt, memory, context):
    memory.write("note", context.activity)
    return prompt

with turnlog.open(sys.argv[1], durability="os") as log:
    asynchronous = sys.argv[2] == "loop"
    store = (AsyncEventSourcedStore if asynchronous else EventSourcedStore)(log)
    team = Team([Agent("ann", function), Agent("bob", coroutine)], shared_memory_store=store)
    for number in range(10_000):
        tasks = [
            Task(f"{number}a", "", "ann"),
            Task(f"{number}b", "", "bob"),
            Task(f"{number}c", "", "bob", depends_on=[f"{number}a", f"{number}b"]),
        ]
        told = lambda event: print(event.kind, event.task_id, flush=True)
        if asynchronous:
            asyncio.run(arun_tasks(team, tasks, on_event=told))
        else:
            run_tasks(team, tasks, on_event=told)
"""


@pytest.mark.long
@pytest.mark.parametrize("way", ["threads", "loop"])
def test_a_killed_team_leaves_whole_results(tmp_path: Path, way: str) -> None:
    """Semantics 3.2: after SIGKILL at any moment there are as many turns as results, and all we were told."""
    path = tmp_path / "team.db"
    chance = random.Random(7)
    for _ in range(20):
        path.unlink(missing_ok=True)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        with subprocess.Popen(
            [sys.executable, "-c", _WORK, str(path), way], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            told = [process.stdout.readline() for _ in range(chance.randrange(1, 400))]
            process.send_signal(signal.SIGKILL)
            told += process.stdout.readlines()
        completed = {
            line.split()[1] for line in told if line.startswith("completed ") and line.endswith("\n")
        }
        with turnlog.open(path) as log:
            store = EventSourcedStore(log)
            results = {entry.key.split(":")[1] for entry in store.list() if entry.key.endswith(":result")}
            assert completed <= results
            assert len(results) == store.get_turn()
            with log.reading() as db:
                assert first_difference(db) is None
