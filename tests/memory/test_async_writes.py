"""Tasks that write at the same time: in what order, in whose batch, and that each is answered for itself."""

from __future__ import annotations

import asyncio
import os
import random
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from turnlog.eventlog import (
    Conflict,
    EntryRestored,
    EntryWritten,
    Event,
    EventLog,
    Limits,
    Recorded,
    StorageError,
    View,
    Write,
    WriteRefused,
)
from turnlog.memory import AsyncEventSourcedStore, EventSourcedStore, acting_as
from turnlog.projections import first_difference


@dataclass(frozen=True)
class Tell:
    """A command that states facts as they are given, whether they can be stored or not."""

    events: Sequence[Event]
    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing is checked."""

    def decide(self, view: View) -> Sequence[Event]:
        """The facts."""
        return self.events

    def outcome(self, recorded: Sequence[Recorded]) -> None:
        """Nothing to tell."""


def whole(log: EventLog) -> None:
    """Log and table agree."""
    with log.reading() as db:
        assert first_difference(db) is None


# -- order


def test_the_writes_of_one_task_are_applied_in_its_order(disk_log: EventLog) -> None:
    """Among twenty tasks, each sees what it wrote last, and the log has its values in its order."""
    store = AsyncEventSourcedStore(disk_log)

    async def work(name: str) -> None:
        with acting_as(name):
            for number in range(10):
                await store.set(name, str(number))
                assert (await store.get(name)).value == str(number)

    async def main() -> None:
        await asyncio.gather(*(work(f"task {number}") for number in range(20)))

    asyncio.run(main())
    for number in range(20):
        values = [one.event.value for one in disk_log.read(agent=f"task {number}")]
        assert values == [str(each) for each in range(10)]


def test_more_writers_than_may_stand_in_line_are_served_in_order(log: EventLog) -> None:
    """Ten thousand may stand in line; those behind them come in in their order, but for those who gave up."""
    store = AsyncEventSourcedStore(log)
    gave_up = range(9_900, 10_300)

    async def main() -> list[Any]:
        tasks = [asyncio.create_task(store.set(f"k{number % 50}", str(number))) for number in range(10_500)]
        await asyncio.sleep(0)
        for number in gave_up:
            tasks[number].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(main())
    assert [number for number, each in enumerate(results) if not isinstance(each, int)] == [*gave_up]
    assert [each for each in results if isinstance(each, int)] == list(range(1, 10_101))
    served = [str(number) for number in range(10_500) if number not in gave_up]
    assert [one.event.value for one in log.read()] == served


# -- each for itself


def test_each_caller_is_a_batch_of_its_own(disk_log: EventLog) -> None:
    """Although they share a commit, the events of a list are numbered from 0 and lie side by side."""
    store = AsyncEventSourcedStore(disk_log)

    async def main() -> None:
        lists = [[Write(f"{name}{each}", "v") for each in range(name % 3 + 1)] for name in range(30)]
        await asyncio.gather(*(store.execute(commands, agent=str(n)) for n, commands in enumerate(lists)))

    asyncio.run(main())
    recorded = list(disk_log.read())
    assert [(one.agent, one.batch) for one in recorded] == [
        (str(name), each) for name in range(30) for each in range(name % 3 + 1)
    ]


@pytest.mark.parametrize(
    ("event", "error"),
    [
        pytest.param(EntryWritten("half", "v", None, 2**70, birth=None), struct.error, id="number too large"),
        pytest.param(EntryRestored("half", 1, 1, 0, None), StorageError, id="place is taken"),
    ],
)
def test_what_cannot_be_stored_fails_alone(
    disk_log: EventLog, monkeypatch: pytest.MonkeyPatch, event: Event, error: type
) -> None:
    """A fact that no check has caught fails its own list; others stand, and the loop is not held up."""
    flush, flushing = os.fdatasync, set[int]()

    def noticed(descriptor: int) -> None:
        flushing.add(threading.get_ident())
        flush(descriptor)

    async def main() -> list[Any]:
        store = AsyncEventSourcedStore(disk_log)
        await store.set("first", "v")
        lists: list[Any] = [[Write(f"k{number}", "v")] for number in range(20)]
        lists[7] = [Write("half", "v"), Tell([event])]
        return await asyncio.gather(*map(store.execute, lists), return_exceptions=True)

    monkeypatch.setattr(os, "fdatasync", noticed)
    results = asyncio.run(main())
    assert type(results.pop(7)) is error
    assert [type(each) for each in results] == [list] * 19
    kept = [entry.key for entry in EventSourcedStore(disk_log).list()]
    assert kept == ["first", *(f"k{number}" for number in range(20) if number != 7)]
    assert threading.get_ident() not in flushing, "the loop was held up by a flush"
    whole(disk_log)


@pytest.mark.parametrize(
    ("commands", "error"),
    [
        pytest.param([Write("k" * 5000, "v")], ValueError, id="checked at the door"),
        pytest.param([Write("late", "v"), Write("late", "w", expected_version=1)], ValueError, id="decided"),
        pytest.param([Write("held", "v", expected_version=9)], Conflict, id="conflict"),
    ],
)
def test_a_refused_list_fails_alone(disk_log: EventLog, commands: list[Write], error: type) -> None:
    """Its neighbours are written; of a conflict the refusal is recorded, of the rest nothing."""
    store = AsyncEventSourcedStore(disk_log)

    async def main() -> list[Any]:
        await store.set("held", "v")
        lists = [[Write(f"k{number}", "v")] for number in range(6)]
        lists.insert(3, commands)
        with acting_as("somebody"):
            return await asyncio.gather(*map(store.execute, lists), return_exceptions=True)

    results = asyncio.run(main())
    assert type(results.pop(3)) is error
    assert [type(each) for each in results] == [list] * 6
    refusals = [one for one in disk_log.read() if isinstance(one.event, WriteRefused)]
    assert [(one.agent, one.event.key) for one in refusals] == [("somebody", "held")] * (error is Conflict)
    assert len(list(disk_log.read())) == 7 + len(refusals)
    whole(disk_log)


# -- many at once


async def count_up(store: AsyncEventSourcedStore, rng: random.Random) -> None:
    """Raise the counter by one, whatever it takes."""
    patience = 0.001
    while True:
        held = await store.get("counter")
        assert held is not None
        if await store.compare_and_set("counter", held.value, str(int(held.value) + 1)):
            return
        await asyncio.sleep(rng.random() * patience)
        patience = min(2 * patience, 1.0)


@pytest.mark.parametrize(
    "tasks", [pytest.param(100, id="hundred"), pytest.param(1_000, id="thousand", marks=pytest.mark.long)]
)
def test_a_counter_raised_by_many_tasks_ends_exactly_right(disk_log: EventLog, tasks: int) -> None:
    """Each task raises it once by compare-and-set, again until it wins; no increment is lost or doubled."""
    store, rng = AsyncEventSourcedStore(disk_log), random.Random(tasks)

    async def main() -> None:
        await store.set("counter", "0")
        await asyncio.gather(*(count_up(store, rng) for _ in range(tasks)))

    asyncio.run(main())
    events = [one.event for one in disk_log.read(key="counter")]
    values = [event.value for event in events if isinstance(event, EntryWritten)]
    assert values == [str(number) for number in range(tasks + 1)]
    assert any(isinstance(event, WriteRefused) for event in events), "nobody was in anybody's way"
    whole(disk_log)


def test_tasks_and_threads_write_through_one_log(disk_log: EventLog) -> None:
    """While threads write as fast as they can, so do tasks; neither starves, and nothing is lost."""
    progress = dict.fromkeys(["thread 0", "thread 1", "task 0", "task 1"], 0)
    until = time.monotonic() + 0.6

    def work(name: str) -> None:
        store = EventSourcedStore(disk_log)
        while time.monotonic() < until:
            store.set(name, str(progress[name]))
            progress[name] += 1

    async def awork(name: str) -> None:
        store = AsyncEventSourcedStore(disk_log)
        while time.monotonic() < until:
            await store.set(name, str(progress[name]))
            progress[name] += 1

    async def main() -> None:
        await asyncio.gather(awork("task 0"), awork("task 1"))

    threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    asyncio.run(main())
    for thread in threads:
        thread.join()
    for name, count in progress.items():
        assert [one.event.value for one in disk_log.read(key=name)] == [str(each) for each in range(count)]
    assert min(progress.values()) >= max(progress.values()) / 20, progress
    whole(disk_log)


def test_several_loops_write_through_one_log(disk_log: EventLog) -> None:
    """Each in a thread of its own; what each task wrote is there, in its order."""

    def in_a_loop(name: str) -> None:
        store = AsyncEventSourcedStore(disk_log)

        async def work(key: str) -> None:
            for number in range(15):
                await store.set(key, str(number))

        async def main() -> None:
            await asyncio.gather(*(work(f"{name}.{each}") for each in range(5)))

        try:
            for _ in range(2):
                asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    failed: list[BaseException] = []
    threads = [threading.Thread(target=in_a_loop, args=(f"loop {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    for key in (f"loop {number}.{each}" for number in range(4) for each in range(5)):
        values = [one.event.value for one in disk_log.read(key=key)]
        assert values == [str(each) for each in range(15)] * 2
    whole(disk_log)


def test_one_log_in_one_loop_after_another(disk_log: EventLog) -> None:
    """`asyncio.run` may be called again and again; no thread stays behind for a loop that has ended."""
    others = set(threading.enumerate())
    store = AsyncEventSourcedStore(disk_log)
    for number in range(10):
        assert asyncio.run(store.set("k", str(number))) == number + 1
        assert len(set(threading.enumerate()) - others) <= 1
    disk_log.close()
    assert set(threading.enumerate()) <= others
