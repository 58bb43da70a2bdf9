"""While a flush is out the loop commits the next group: what both are told, and what nobody waits for."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Busy, Closed, EventLog, OutcomeUnknown, StorageError, Write, async_group, writer
from turnlog.eventlog.driver import driver
from turnlog.memory import AsyncEventSourcedStore, EventSourcedStore
from turnlog.projections import first_difference
from turnlog.replay.verification import verify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere SQLite flushes inside COMMIT")

GROUP = 128
TASKS = 2 * GROUP + 44
"""So many that one group is flushed, one is committed behind it, and the rest is in line."""


@dataclass
class Flush:
    """The flushes of the process, each of which waits until it may go on, and may fail then."""

    may_go_on: threading.Event = field(default_factory=threading.Event)
    fails: bool = False
    _real: Callable[[int], None] = field(default_factory=lambda: os.fdatasync)  # not there on every system

    def __call__(self, descriptor: int) -> None:
        """In the place of `os.fdatasync`."""
        assert self.may_go_on.wait(20)
        if self.fails:
            raise OSError(5, "Input/output error")
        self._real(descriptor)


@pytest.fixture
def flush(monkeypatch: pytest.MonkeyPatch, disk_log: EventLog) -> Iterator[Flush]:
    """Flushes are held up from now on."""
    disk_log.execute([Write("before", "v")], run="main")
    held = Flush()
    monkeypatch.setattr(os, "fdatasync", held)
    yield held
    held.may_go_on.set()


def pair(number: int) -> list[Write]:
    """Two writes that must not be seen apart."""
    return [Write(f"{number}/left", "v"), Write(f"{number}/right", "v")]


async def two_groups_in_flight(log: EventLog) -> list[asyncio.Task[Any]]:
    """The tasks, when the first group is being flushed and the second is committed."""
    store = AsyncEventSourcedStore(log)
    tasks = [asyncio.create_task(store.execute(pair(number))) for number in range(TASKS)]
    while EventSourcedStore(log).get(f"{2 * GROUP - 1}/left") is None:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert EventSourcedStore(log).get(f"{2 * GROUP}/left") is None, "a third group was committed"
    assert not any(task.done() for task in tasks), "acknowledged before it was flushed"
    return tasks


def written(log: EventLog, number: int) -> bool:
    """Whether the pair was written; that it was not written in part."""
    store = EventSourcedStore(log)
    left, right = (store.get(f"{number}/{side}") for side in ("left", "right"))
    assert (left is None) is (right is None)
    return left is not None


def test_a_flush_that_fails_leaves_open_what_was_committed_behind_it(
    disk_log: EventLog, flush: Flush
) -> None:
    """Both groups are told that it is unknown, those in line that nothing of theirs was written."""

    async def main() -> list[Any]:
        tasks = await two_groups_in_flight(disk_log)
        flush.fails = True
        flush.may_go_on.set()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    results = asyncio.run(main())
    assert [type(each) for each in results] == [OutcomeUnknown] * 2 * GROUP + [StorageError] * 44
    assert len({id(each) for each in results}) == TASKS, "two tasks share an exception"


def test_a_flush_that_works_after_one_that_failed_acknowledges_nothing(
    disk_log: EventLog, flush: Flush, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may take lost pages for written; so the second group cannot rely on its own flush."""
    calls: list[int] = []

    def first_fails(descriptor: int) -> None:
        calls.append(descriptor)
        flush.fails = len(calls) == 1
        flush(descriptor)

    async def main() -> list[Any]:
        monkeypatch.setattr(os, "fdatasync", first_fails)
        tasks = await two_groups_in_flight(disk_log)
        flush.may_go_on.set()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    results = asyncio.run(main())
    assert {type(each) for each in results[: 2 * GROUP]} == {OutcomeUnknown}


def test_cancelled_with_two_groups_in_flight(disk_log: EventLog, flush: Flush) -> None:
    """What is committed stands, whole, whichever flush it waits for; what is in line leaves nothing."""
    victims = {0, 7, GROUP - 1, GROUP, GROUP + 9, 2 * GROUP - 1, 2 * GROUP, 2 * GROUP + 5, TASKS - 1}

    async def main() -> list[Any]:
        tasks = await two_groups_in_flight(disk_log)
        for victim in victims:
            tasks[victim].cancel()
        await asyncio.sleep(0)
        flush.may_go_on.set()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    results = asyncio.run(main())
    for number, result in enumerate(results):
        assert isinstance(result, asyncio.CancelledError) is (number in victims)
        assert written(disk_log, number) is (number not in victims or number < 2 * GROUP)
    with disk_log.reading() as db:
        assert first_difference(db) is None


def test_closed_with_two_groups_in_flight(disk_log: EventLog, flush: Flush) -> None:
    """What is committed is acknowledged, what is in line is refused, and no thread stays behind."""

    async def main() -> list[Any]:
        tasks = await two_groups_in_flight(disk_log)
        asyncio.get_running_loop().call_later(0.01, flush.may_go_on.set)
        await asyncio.to_thread(disk_log.close)
        assert {"turnlog-flush", "turnlog-checkpoint"}.isdisjoint(each.name for each in threading.enumerate())
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    results = asyncio.run(main())
    answered = [isinstance(each, list) for each in results]
    assert answered[: 2 * GROUP] == [True] * 2 * GROUP
    with turnlog.open(disk_log.path) as log:
        for number, result in enumerate(results):
            assert isinstance(result, list | Closed)
            assert written(log, number) is isinstance(result, list)


def test_nobody_is_answered_before_a_flush_that_began_after_his_commit(
    disk_log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each flush found committed when it began is what may be acknowledged once it is over."""
    flush, durable, overtaken, until = os.fdatasync, [0], list[int](), time.monotonic() + 20

    def noted(descriptor: int) -> None:
        (found,) = reader.execute("select max(position) from events").fetchone()
        while not overtaken and time.monotonic() < until:  # goes on once the next group is committed
            (later,) = reader.execute("select max(position) from events").fetchone()
            overtaken.extend([later] * (later > GROUP))
        flush(descriptor)
        durable[0] = max(durable[0], found)

    async def work(store: AsyncEventSourcedStore, number: int) -> None:
        for each in range(5):
            version = await store.set(f"{number}", f"{each}")
            assert version <= durable[0], "acknowledged before it was durable"

    async def main() -> None:
        store = AsyncEventSourcedStore(disk_log)
        await asyncio.wait_for(asyncio.gather(*(work(store, number) for number in range(TASKS))), 60)

    with closing(driver().connect(disk_log.path, check_same_thread=False)) as reader:
        monkeypatch.setattr(os, "fdatasync", noted)
        asyncio.run(main())
    assert durable == [5 * TASKS]
    assert overtaken, "no group was committed while a flush was out"


# -- the way in


def test_a_place_given_to_somebody_who_gives_up_is_free_again(
    disk_log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task cancelled in the very moment at which it may line up does not keep others out for ever."""
    monkeypatch.setattr(async_group, "MAX_WAITING", 1)

    async def main() -> list[Any]:
        store = AsyncEventSourcedStore(disk_log)
        line = disk_log._async_group()
        tasks = [asyncio.create_task(store.set(f"{number}", "v")) for number in range(4)]
        await asyncio.sleep(0)
        leave = line._leave

        def leave_and_cancel(count: int) -> None:
            leave(count)
            tasks[1].cancel()

        monkeypatch.setattr(line, "_leave", leave_and_cancel)
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    first, given_up, *others = asyncio.run(main())
    assert isinstance(given_up, asyncio.CancelledError)
    assert [first, *others] == [1, 2, 3]


# -- moving the WAL into the file


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_nobody_waits_while_the_wal_is_moved(request: pytest.FixtureRequest, durability: str) -> None:
    """Writes are acknowledged while a thread moves into the file what was written before them."""
    log = request.getfixturevalue("disk_log" if durability == "disk" else "log")
    begun, may_go_on = threading.Event(), threading.Event()
    checkpoint = log._writer.checkpoint

    def held_up() -> None:
        begun.set()
        assert may_go_on.wait(20)
        checkpoint()

    async def main() -> None:
        store = AsyncEventSourcedStore(log)
        while not begun.is_set():
            await asyncio.wait_for(store.execute([Write(f"k{number}", "v") for number in range(500)]), 20)
        for _ in range(5):
            await asyncio.wait_for(store.set("k", "v"), 20)
        may_go_on.set()

    log._writer.checkpoint = held_up
    asyncio.run(main())


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_the_wal_begins_anew_while_tasks_write_without_a_pause(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    """All of it is moved into the file again and again, although somebody always writes meanwhile."""
    log = request.getfixturevalue("disk_log" if durability == "disk" else "log")
    monkeypatch.setattr(writer, "CHECKPOINT_FRAMES", 100)
    until, moved = time.monotonic() + 10, writer._moved

    def overtaken(db: Any, how: Any) -> Any:
        """As if so much had been written meanwhile that what was moved did not count."""
        return moved(db, how) if db is log._connections._writer else writer._Moved(whole=True, frames=0)

    def times_begun() -> int:
        with Path(f"{log.path}-wal").open("rb") as wal:
            return int.from_bytes(wal.read(16)[12:], "big")  # the checkpoint's number, in the WAL's header

    async def work(store: AsyncEventSourcedStore, number: int) -> None:
        while times_begun() < 3 and time.monotonic() < until:
            await store.set(f"{number}", f"{number}" * 500)

    async def main() -> None:
        store = AsyncEventSourcedStore(log)
        await asyncio.gather(*(work(store, number) for number in range(80)))

    monkeypatch.setattr(writer, "_moved", overtaken)
    asyncio.run(main())
    assert times_begun() >= 3
    assert verify(log).ok
    with log.reading() as db:
        assert first_difference(db) is None


def test_a_late_move_of_the_wal_is_not_waited_for_longer_than_a_lock(tmp_path: Path) -> None:
    """A write that waits for the WAL to be moved is told `Busy` in the end, and nothing of it is written."""
    with turnlog.open(tmp_path / "team.db", durability="os", busy_timeout_s=0.2) as log:
        store = AsyncEventSourcedStore(log)

        async def main() -> None:
            await store.set("k", "before")
            with log._writer._moving:
                log._writer._frames = 10_000
                with pytest.raises(Busy):
                    await asyncio.wait_for(store.set("k", "meanwhile"), 20)
            await store.set("l", "after")
            entry = await store.get("k")
            assert entry is not None
            assert entry.value == "before"

        asyncio.run(main())


def test_a_wal_that_somebody_reads_is_not_made_to_begin_anew(
    monkeypatch: pytest.MonkeyPatch, log: EventLog
) -> None:
    """While another program reads what is only in the WAL, nobody is held up by tries that cannot succeed."""
    monkeypatch.setattr(writer, "CHECKPOINT_FRAMES", 50)
    monkeypatch.setattr(writer, "_LONG_WAL_FRAMES", 100)
    ways, moved = list[str](), writer._moved

    def recorded(db: Any, how: Any) -> Any:
        ways.append(how)
        return moved(db, how)

    monkeypatch.setattr(writer, "_moved", recorded)

    async def work(store: AsyncEventSourcedStore, number: int) -> None:
        for round_ in range(20):
            await store.set(f"{number}", f"{round_}" * 500)

    async def main() -> None:
        store = AsyncEventSourcedStore(log)
        await store.set("k", "v")
        with closing(driver().connect(log.path, isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from events").fetchone()
            await asyncio.gather(*(work(store, number) for number in range(40)))

    asyncio.run(main())
    assert Path(f"{log.path}-wal").stat().st_size > 100 * 4096
    assert "passive" in ways
    assert "restart" not in ways
