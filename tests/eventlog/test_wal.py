"""The WAL stays small: nobody who reads holds a statement open, so it can begin anew."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from turnlog.eventlog import EventLog, Write

MOST = 20 * 1024 * 1024
"""Bytes, as docs/reliability.md states."""


def wal_size(path: Path) -> int:
    """Bytes of the WAL."""
    return path.with_name(path.name + "-wal").stat().st_size


def page(first: int) -> list[Write]:
    """A list of 500 writes."""
    return [Write(f"key {number % 1000}", "x" * 1000) for number in range(first, first + 500)]


@pytest.mark.long
def test_a_reader_half_way_does_not_hold_up_the_wal(path: Path, log: EventLog) -> None:
    """While somebody reads event by event, more is written than the WAL may hold, and it stays below that."""
    log.execute(page(0), run="main")
    reading = log.read()
    next(reading)
    largest, written = 0, 0
    while written < 2 * MOST:
        log.execute(page(0), run="main")
        written += 500 * 1000
        next(reading)
        largest = max(largest, wal_size(path))
    assert largest < MOST


@pytest.mark.long
def test_tasks_do_not_let_the_wal_grow(path: Path, log: EventLog) -> None:
    """A loop leaves checkpoints to its worker, which makes them in time."""

    async def write() -> int:
        largest = 0
        for _ in range(2 * MOST // 500_000):
            await log.aexecute(page(0), run="main")
            largest = max(largest, wal_size(path))
        return largest

    assert asyncio.run(write()) < MOST


@pytest.mark.long
@pytest.mark.parametrize("where", ["value", "metadata"])
def test_long_texts_of_tasks_do_not_let_the_wal_grow(path: Path, log: EventLog, where: str) -> None:
    """What counts is how much was written, not how often; beyond the bound there is one transaction."""
    tasks, long = 4, "x" * 1_000_000
    value, metadata = (long, None) if where == "value" else ("v", {"note": long})
    sizes: list[int] = []

    async def task(key: str) -> None:
        for _ in range(2 * MOST // len(long) // tasks + 1):
            await log.aexecute([Write(key, value, metadata)], run="main")
            sizes.append(wal_size(path))

    async def write() -> None:
        await asyncio.gather(*(task(f"key {number}") for number in range(tasks)))

    asyncio.run(write())
    assert max(sizes) < MOST + tasks * len(long)


TOGETHER = 128 * 1024 * 1024
"""Bytes, as docs/reliability.md states for processes that never pause."""


@pytest.mark.long
def test_loops_that_never_pause_do_not_let_the_wal_grow(tmp_path: Path) -> None:
    """Three logs on one file, each written by tasks: it begins anew though somebody always commits."""
    path = tmp_path / "team.db"
    many = 60_000  # writes, of 6 kB or more in the WAL each: several times what it may hold
    sizes: list[int] = []

    async def task(log: EventLog, first: int) -> None:
        number = first
        while len(sizes) < many:
            await log.aexecute([Write(f"key {number % 1000}", "x" * 256)], run="main")
            number += 7
            sizes.append(wal_size(path))

    async def tasks(log: EventLog) -> None:
        await asyncio.gather(*(task(log, first * 61) for first in range(16)))

    def write() -> None:
        with EventLog(path, durability="os", busy_timeout_s=60) as log:
            asyncio.run(tasks(log))

    with ThreadPoolExecutor(3) as pool:
        for written in [pool.submit(write) for _ in range(3)]:
            written.result(timeout=90)
    assert max(sizes) < TOGETHER


_ALONE = """
import sys
import turnlog
with turnlog.open(sys.argv[1], durability="os", busy_timeout_s=60) as log:
    store = turnlog.EventSourcedStore(log)
    for number in range(int(sys.argv[3])):
        store.set(f"{sys.argv[2]} {number % 50}", "x" * 200)
"""


@pytest.mark.long
def test_lone_callers_of_several_processes_do_not_let_the_wal_grow(path: Path, log: EventLog) -> None:
    """Three processes that write value after value: a commit comes before anybody's move has ended."""
    log.execute(page(0), run="main")
    with ExitStack() as stack:
        writers = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", _ALONE, path, str(name), "30000"]))
            for name in range(3)
        ]
        assert [writer.wait(240) for writer in writers] == [0] * 3
        assert wal_size(path) < TOGETHER  # a WAL is never cut, so this is the most it ever was
