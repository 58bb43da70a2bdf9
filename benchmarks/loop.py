"""Tasks of one event loop that write as fast as they can, and what that does to others on the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from .load import Load
from .logs import Asked

__all__ = ["by_tasks", "steps_timed"]

BEAT_S = 0.001
SPIN_NS = 1_000_000

Write = Callable[[Asked], Awaitable[object]]


async def by_tasks(
    write: Write, writers: int, seconds: float, keys: list[Asked], *, spinning: bool = False
) -> tuple[Load, list[int]]:
    """Let so many tasks write for so long, each beginning with another key.

    Args:
        spinning: beside a task that computes for a millisecond whenever it gets its turn.

    Returns:
        The load, and the nanoseconds by which a task that sleeps a millisecond each time woke up late.
    """
    spent: list[list[int]] = [[] for _ in range(writers)]
    clock = time.perf_counter_ns
    begin = clock()
    deadline = begin + int(seconds * 1e9)

    async def work(writer: int) -> None:
        number, mine = writer * 101, spent[writer]
        while (asked_at := clock()) < deadline:
            await write(keys[number % len(keys)])
            mine.append(clock() - asked_at)
            number += 1

    late: list[int] = []
    others = [asyncio.create_task(_beat(late))]
    if spinning:
        others.append(asyncio.create_task(_spin()))
    try:
        await asyncio.wait_for(asyncio.gather(*[work(writer) for writer in range(writers)]), seconds + 60)
    finally:
        for other in others:
            other.cancel()
    return Load((clock() - begin) / 1e9, spent), late


@contextmanager
def steps_timed() -> Generator[list[int]]:
    """Nanoseconds of each step of turnlog's own on a loop in the block: how long it holds up the rest."""
    taken: list[int] = []
    clock = time.perf_counter_ns
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        begin = clock()
        own = str(getattr(handle._callback, "__module__", "")).startswith("turnlog.")
        run(handle)
        if own:
            taken.append(clock() - begin)

    asyncio.Handle._run = timed
    try:
        yield taken
    finally:
        asyncio.Handle._run = run


async def _beat(late: list[int]) -> None:
    clock = time.perf_counter_ns
    while True:
        due = clock() + int(BEAT_S * 1e9)
        await asyncio.sleep(BEAT_S)
        late.append(max(0, clock() - due))


async def _spin() -> None:
    while True:
        until = time.perf_counter_ns() + SPIN_NS
        while time.perf_counter_ns() < until:
            pass
        await asyncio.sleep(0)
