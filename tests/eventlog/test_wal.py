"""The WAL stays small: nobody who reads holds a statement open, so it can begin anew."""

from __future__ import annotations

import asyncio
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
