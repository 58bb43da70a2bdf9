"""A task that is cancelled while it writes has written wholly or not at all, and disturbs nobody."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from turnlog.eventlog import EventLog, Write
from turnlog.memory import AsyncEventSourcedStore, AsyncSharedMemory, EventSourcedStore
from turnlog.projections import first_difference

NEIGHBOURS = 49
_FLUSHED_BY_US = pytest.mark.skipif(not hasattr(os, "fdatasync"), reason="SQLite flushes by itself here")


def pair(name: str) -> list[Write]:
    """Two writes that must not be seen apart."""
    return [Write(f"{name}/left", name), Write(f"{name}/right", name)]


def written(log: EventLog, name: str) -> bool:
    """Whether the pair was written; that it was not written in part."""
    store = EventSourcedStore(log)
    left, right = store.get(f"{name}/left"), store.get(f"{name}/right")
    assert (left is None) is (right is None)
    return left is not None


def check_at_rest(log: EventLog, outsider: Any) -> None:
    """No transaction is open, and log and table agree."""
    outsider.execute("begin immediate")  # busy at once if one were open
    outsider.execute("rollback")
    with log.reading() as db:
        assert first_difference(db) is None


@_FLUSHED_BY_US
@pytest.mark.parametrize("place", ["first", "amid", "last"])
@pytest.mark.parametrize("moment", range(8))
def test_cancelled_at_any_point_of_a_write(
    disk_log: EventLog, outsider: Any, monkeypatch: pytest.MonkeyPatch, moment: int, place: str
) -> None:
    """So many passes of the loop after it was begun: before its commit, after it, while it is flushed."""
    flush, may_flush = os.fdatasync, threading.Event()

    def held_up(descriptor: int) -> None:
        assert may_flush.wait(20)
        flush(descriptor)

    async def main() -> list[Any]:
        store = AsyncEventSourcedStore(disk_log)
        before = {"first": 0, "amid": NEIGHBOURS // 2, "last": NEIGHBOURS}[place]
        names = [f"n{number}" for number in range(NEIGHBOURS)]
        names.insert(before, "victim")
        tasks = {name: asyncio.create_task(store.execute(pair(name))) for name in names}
        for _ in range(moment):
            await asyncio.sleep(0)
        tasks["victim"].cancel()
        if moment < 7:
            may_flush.set()
        else:
            asyncio.get_running_loop().call_later(0.01, may_flush.set)
        results = await asyncio.gather(*tasks.values(), return_exceptions=True)
        outsider.execute("begin immediate")
        outsider.execute("rollback")
        await store.set("afterwards", "x")
        return [results.pop(before), *results]

    monkeypatch.setattr(os, "fdatasync", held_up)
    victim, *neighbours = asyncio.run(main())
    assert isinstance(victim, asyncio.CancelledError)
    assert [type(each) for each in neighbours] == [list] * NEIGHBOURS
    assert all(written(disk_log, f"n{number}") for number in range(NEIGHBOURS))
    # It is put in line in the first pass and taken out of it in the second.
    assert written(disk_log, "victim") is (moment > 1)
    assert EventSourcedStore(disk_log).get("afterwards") is not None
    check_at_rest(disk_log, outsider)


async def cancel_at_random(log: EventLog, rng: random.Random, rounds: int, probe: Callable[[], None]) -> None:
    """Rounds of fifty gathered writes, of which some are cancelled at random moments."""
    store = AsyncEventSourcedStore(log)
    for number in range(rounds):
        names = [f"{number}.{each}" for each in range(NEIGHBOURS + 1)]
        tasks = [asyncio.create_task(store.execute(pair(name))) for name in names]
        victims = rng.sample(range(len(tasks)), rng.randint(1, 8))
        for victim in victims:
            await asyncio.sleep(rng.choice((0, 0, rng.uniform(0, 0.002))))
            tasks[victim].cancel()
            probe()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for each, (name, result) in enumerate(zip(names, results, strict=True)):
            if isinstance(result, asyncio.CancelledError):
                assert each in victims
                written(log, name)  # wholly or not at all; either is fine
            else:
                assert [entry.version for entry in [await store.get(f"{name}/left")] if entry] == result[:1]
                assert written(log, name)
        probe()
    assert await store.set("afterwards", "x") > 0


@pytest.mark.parametrize(
    "rounds", [pytest.param(15, id="some"), pytest.param(600, id="many", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("durability", ["disk", "os"])
def test_cancelled_at_random_moments(
    request: pytest.FixtureRequest, outsider: Any, durability: str, rounds: int
) -> None:
    """Some of fifty, again and again: the others are answered truly, and no transaction is ever left open."""
    log = request.getfixturevalue("disk_log" if durability == "disk" else "log")

    def probe() -> None:
        outsider.execute("begin immediate")
        outsider.execute("rollback")

    asyncio.run(cancel_at_random(log, random.Random(rounds), rounds, probe))
    check_at_rest(log, outsider)


def test_a_cancelled_operation_of_shared_memory_is_whole(disk_log: EventLog) -> None:
    """Each verb of shared memory, cancelled after so many passes of the loop, has happened or has not."""

    async def attempt(verb: str, passes: int) -> tuple[Any, Any]:
        memory = AsyncSharedMemory(AsyncEventSourcedStore(disk_log, run=f"{verb} {passes}"))
        await memory.write("a", "k", {"n": 0})
        await memory.write("a", "gone", "x")
        snapshot = await memory.snapshot()
        await memory.write("a", "new", "x")
        await memory.delete("a", "gone")
        operation = {
            "write": lambda: memory.write("a", "k", {"n": 1}),
            "compare_and_set": lambda: memory.compare_and_set("a", "k", {"n": 0}, {"n": 1}),
            "write_expiring": lambda: memory.write_expiring("a", "k", {"n": 1}, 1),
            "advance_turn": memory.advance_turn,
            "restore": lambda: memory.restore(snapshot),
        }[verb]
        before = [await memory.snapshot()]
        task = asyncio.create_task(operation())
        for _ in range(passes):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        cancelled = await memory.snapshot()
        return cancelled == before[0], task.cancelled()

    for verb in ("write", "compare_and_set", "write_expiring", "advance_turn", "restore"):
        outcomes = [asyncio.run(attempt(verb, passes)) for passes in range(5)]
        assert outcomes[0] == (True, True), verb
        assert outcomes[-1][0] is False, verb
