"""Two processes go on with one run at the same time: one of them does, the other is told."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import turnlog
from turnlog import EventSourcedStore
from turnlog.eventlog import EntryWritten
from turnlog.projections import first_difference
from turnlog.replay.verification import verify
from turnlog.teams import saved_checkpoints

_WORK = """
import asyncio, sys
import turnlog
from turnlog import *

class Killed(BaseException):
    pass

def work(prompt, memory, context):
    if context.task.id == "b" and sys.argv[3] == "begin":
        raise Killed
    print("at", context.task.id, flush=True)
    return context.task.id + " by " + sys.stdin.readline().strip()

tasks = [Task(each, "", "ann", depends_on=needed) for each, needed in (("a", []), ("b", ["a"]), ("c", ["b"]))]
path, way, verb = sys.argv[1:]
with turnlog.open(path, durability="os") as log:
    store = (AsyncEventSourcedStore if way == "loop" else EventSourcedStore)(log)
    team = Team([Agent("ann", work)], shared_memory_store=store)
    try:
        if verb == "begin":
            run_tasks(team, tasks, checkpoint=True)
        elif way == "loop":
            print(asyncio.run(arestore(team, tasks)).status, flush=True)
        else:
            print(restore(team, tasks).status, flush=True)
    except Killed:
        print("killed", flush=True)
    except RunTaken as error:
        print("taken:", str(error).replace(chr(10), " "), flush=True)
"""


class Worker:
    """A process that does the tasks, each when it is let."""

    def __init__(self, path: Path, way: str, verb: str) -> None:
        command = [sys.executable, "-W", "error", "-c", _WORK, str(path), way, verb]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def hear(self) -> str:
        """The next thing it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def let(self, name: str) -> None:
        """Let it finish the task it is at, with a result that says `name`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()

    def end(self) -> int:
        """Wait for its end; how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait(timeout=60)

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        if self._process.returncode is None:
            self._process.kill()
            self.end()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Starts processes on one log; those that a test leaves are killed."""
    started: list[Worker] = []

    def start(way: str, verb: str = "restore") -> Worker:
        started.append(Worker(tmp_path / "team.db", way, verb))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.mark.parametrize("way", ["threads", "loop"])
def test_two_processes_go_on_with_one_run(tmp_path: Path, worker: Callable[..., Worker], way: str) -> None:
    """The first to complete a task goes on; what the other has done is not recorded, and it says why."""
    begun = worker("threads", "begin")
    assert begun.hear() == "at a"
    begun.let("beginner")
    assert begun.hear() == "killed"
    assert begun.end() == 0

    one, other = worker(way), worker(way)
    assert (one.hear(), other.hear()) == ("at b", "at b")
    one.let("one")
    assert one.hear() == "at c"  # so b is recorded
    other.let("other")
    told = other.hear()
    assert told.startswith("taken: ")
    assert "task 'b'" in told
    assert "2 of 3 tasks" in told
    one.let("one")
    assert one.hear() == "completed"
    assert (one.end(), other.end()) == (0, 0)

    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        written = Counter(each.event.key for each in log.read() if isinstance(each.event, EntryWritten))
        results = {entry.key: entry.value for entry in EventSourcedStore(log).list() if "task:" in entry.key}
        assert results == {
            "ann/task:a:result": "a by beginner",
            "ann/task:b:result": "b by one",
            "ann/task:c:result": "c by one",
        }
        assert {written[key] for key in results} == {1}
        assert EventSourcedStore(log).get_turn() == 3
        assert len(list(saved_checkpoints(log, "main"))) == 3
        assert verify(log).problems == []
        with log.reading() as db:
            assert first_difference(db) is None


def test_a_holder_that_was_killed_holds_nobody_up(worker: Callable[..., Worker]) -> None:
    """Whoever comes next goes on; there is nothing to clear away first."""
    first = worker("threads")
    assert first.hear() == "at a"
    first.let("first")
    assert first.hear() == "at b"
    first.kill()
    second = worker("threads")
    assert second.hear() == "at b"
    for _ in "bc":
        second.let("second")
    assert [second.hear(), second.hear()] == ["at c", "completed"]
    assert second.end() == 0
