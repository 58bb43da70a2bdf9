"""What every report has in common: a log on which two rules must hold afterwards, and ways to start others.

The rules: `verify` finds no difference between log and live table, and somebody else who does not wait at all
can write. A test that damages its file on purpose uses another path than `path`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventLog, EventSourcedStore, SharedMemory
from turnlog.eventlog.driver import driver
from turnlog.replay.verification import verify


def others_can_write(path: Path) -> None:
    """Somebody who does not wait for locks gets the one for writing."""
    with closing(driver().connect(path, isolation_level=None, timeout=0)) as outsider:
        outsider.execute("begin immediate")
        outsider.execute("rollback")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Where the log of a test lies; the two rules are checked when the test ends."""
    path = tmp_path / "team.db"
    yield path
    others_can_write(path)
    with turnlog.open(path, read_only=True) as log:
        assert verify(log).problems == []
        with (
            log.reading() as db
        ):  # a table that says of itself that it is behind would not have been compared
            assert db.execute("select name from projections where stale_from is not null").fetchall() == []


@pytest.fixture
def log(path: Path) -> Iterator[EventLog]:
    """A fresh log, open; others can write before it is closed."""
    with turnlog.open(path, durability="os") as log:
        yield log
        others_can_write(path)


@pytest.fixture
def store(log: EventLog) -> EventSourcedStore:
    """A store on the log's run `main`."""
    return EventSourcedStore(log)


@pytest.fixture
def memory(store: EventSourcedStore) -> SharedMemory:
    """Shared memory over it."""
    return SharedMemory(store)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python program; what it was given is in `sys.argv`. Killed when the test ends."""
    with ExitStack() as stack:

        def start(program: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", program, *map(str, arguments)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True} | options
            process = stack.enter_context(subprocess.Popen(command, **pipes))
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def together(start: Callable[..., Any]) -> Callable[..., list[str]]:
    """Runs a program in several processes that all begin at once; what each printed.

    The program gets the arguments and its number, prints `ready` and waits for a line. `meanwhile` is called
    once they have all been told to begin.
    """

    def together(
        program: str, count: int, *arguments: object, meanwhile: Callable[[], object] | None = None
    ) -> list[str]:
        processes = [start(program, *arguments, number) for number in range(count)]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        if meanwhile is not None:
            meanwhile()
        printed = [process.communicate(timeout=100)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * count
        return printed

    return together
