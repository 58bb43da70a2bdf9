"""The asynchronous twins: that they offer what the synchronous classes do, and what is their own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from turnlog.eventlog import EventLog, Write
from turnlog.memory import (
    AgentMemory,
    AsyncAgentMemory,
    AsyncEventSourcedStore,
    AsyncInMemoryStore,
    AsyncSharedMemory,
    EventSourcedStore,
    InMemoryStore,
    SharedMemory,
    acting_as,
)

from .conftest import AsyncPlainStore, PlainStore

TWINS = [
    pytest.param(EventSourcedStore, AsyncEventSourcedStore, id="store on a log"),
    pytest.param(InMemoryStore, AsyncInMemoryStore, id="store in memory"),
    pytest.param(SharedMemory, AsyncSharedMemory, id="shared memory"),
    pytest.param(AgentMemory, AsyncAgentMemory, id="agent's view"),
]
RENAMED = {"turn": "get_turn", "__enter__": "__aenter__", "__exit__": "__aexit__"}


def offered(kind: type) -> dict[str, Any]:
    """What a class offers, by the name its asynchronous twin has for it."""
    wanted = (*RENAMED, *RENAMED.values(), "__init__")
    names = [name for name in dir(kind) if not name.startswith("_") or name in wanted]
    return {RENAMED.get(name, name): inspect.getattr_static(kind, name) for name in names}


def parameters(thing: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults of what a method takes; of a property, those of its function."""
    function = thing.fget if isinstance(thing, property) else thing
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, getattr(one.default, "__name__", one.default)) for one in found]


@pytest.mark.parametrize(("kind", "twin"), TWINS)
def test_twins_offer_the_same(kind: type, twin: type) -> None:
    """The same names with the same parameters and defaults; what waits is a coroutine."""
    one, other = offered(kind), offered(twin)
    assert sorted(one) == sorted(other)
    assert {name: parameters(one[name]) for name in one} == {name: parameters(other[name]) for name in other}
    at_once = {"__init__", "agent", "scan"} | {
        name for name, thing in other.items() if isinstance(thing, property)
    }
    waiting = {name for name, thing in other.items() if inspect.iscoroutinefunction(thing)}
    assert waiting == set(other) - at_once
    assert "scan" not in other or inspect.isasyncgenfunction(other["scan"])


# -- at construction


class HalfAsynchronous(PlainStore):
    """A store one of whose methods is a coroutine."""

    async def get(self, key: str) -> None:  # type: ignore[override]
        """Nothing."""


class AsynchronousBut(AsyncInMemoryStore):
    """An asynchronous store whose compare-and-set is not."""

    def compare_and_set(self, *arguments: Any) -> bool:  # type: ignore[override]
        """Never."""
        return False


class ScanningAtOnce(AsyncInMemoryStore):
    """An asynchronous store whose scan gives a list."""

    async def scan(self, *arguments: Any) -> Any:  # type: ignore[override]
        """Nothing."""
        return []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(InMemoryStore(), "InMemoryStore is synchronous; use SharedMemory", id="synchronous"),
        pytest.param(PlainStore(), "PlainStore is synchronous; use SharedMemory", id="a user's, synchronous"),
        pytest.param(HalfAsynchronous(), "set, list, delete, clear must be coroutines", id="half of each"),
        pytest.param(AsynchronousBut(), "compare_and_set must be coroutines too", id="one method"),
        pytest.param(
            ScanningAtOnce(), "scan must be .* an asynchronous generator", id="scan that is a coroutine"
        ),
        pytest.param({"get": 1}, "lacks set, list, delete", id="dict from JSON"),
        pytest.param(AsyncInMemoryStore, "AsyncInMemoryStore is a class; pass an instance", id="class"),
    ],
)
def test_what_is_no_asynchronous_store_is_refused_at_construction(wrong: Any, message: str) -> None:
    """A TypeError says what is missing or what to use instead."""
    with pytest.raises(TypeError, match=message):
        AsyncSharedMemory(wrong)


@pytest.mark.parametrize("kind", [EventSourcedStore, AsyncEventSourcedStore])
def test_a_store_on_a_log_needs_a_log_and_a_name(log: EventLog, tmp_path: Any, kind: Any) -> None:
    """What cannot be is refused when the store is made, by both twins."""
    with pytest.raises(TypeError, match="must be an open EventLog"):
        kind(str(tmp_path / "team.db"))
    with pytest.raises(TypeError, match="run"):
        kind(log, run=7)
    with pytest.raises(ValueError, match="must not be empty"):
        kind(log, run="")
    with EventLog(tmp_path / "bare.db") as bare, pytest.raises(TypeError, match=r"turnlog\.open"):
        kind(bare)
    store = kind(log)
    assert (store.log, store.run) == (log, "main")


def test_no_store_means_a_new_one_in_memory() -> None:
    """Two memories without a store share nothing."""

    async def main() -> None:
        first, second = AsyncSharedMemory(), AsyncSharedMemory()
        assert isinstance(first.store, AsyncInMemoryStore)
        await first.write("a", "k", "v")
        assert await second.list_all() == []

    asyncio.run(main())


# -- reading


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine gives that never waits."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    return end.value.value


def test_reads_are_done_at_once(log: EventLog) -> None:
    """Not even a loop is needed for them."""
    SharedMemory(EventSourcedStore(log)).write_expiring("a", "k", {"x": 1}, 1)
    memory = AsyncSharedMemory(AsyncEventSourcedStore(log))
    assert at_once(memory.read("a/k")).value == {"x": 1}
    assert [entry.key for entry in at_once(memory.list_all())] == ["a/k"]
    assert at_once(memory.get_turn()) == 0
    assert at_once(memory.snapshot())["entries"][0]["key"] == "a/k"


def test_a_scan_gives_control_back_between_pages(log: EventLog) -> None:
    """Other tasks get their turns while many entries are gone through, even if none of them matches."""
    EventSourcedStore(log).execute([Write(f"{'ab'[number % 2]}/{number}", "v") for number in range(3_000)])
    store, memory = AsyncEventSourcedStore(log), AsyncSharedMemory(AsyncEventSourcedStore(log))

    async def passes_during(action: Awaitable[Any]) -> tuple[Any, int]:
        passes, over = 0, False

        async def count() -> None:
            nonlocal passes
            while not over:
                passes += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        result = await action
        over = True
        await counting
        return result, passes

    async def keys(prefix: str, limit: int | None = None) -> list[str]:
        return [entry.key async for entry in store.scan(prefix, limit=limit)]

    async def main() -> None:
        found, passes = await passes_during(keys("b/"))
        assert found == [f"b/{number}" for number in range(1, 3_000, 2)]
        assert passes >= 5
        assert (await passes_during(keys("nothing")))[1] >= 5
        assert (await passes_during(keys("b/", 700)))[0] == found[:700]
        listed, passes = await passes_during(memory.list_by_agent("a"))
        assert [entry.key for entry in listed] == [f"a/{number}" for number in range(0, 3_000, 2)]
        assert passes >= 5

    asyncio.run(main())


def test_a_scan_that_is_broken_off_holds_nothing(log: EventLog) -> None:
    """After a `break` the log can be written, read and closed."""
    EventSourcedStore(log).execute([Write(f"k{number}", "v") for number in range(1_500)])
    store = AsyncEventSourcedStore(log)

    async def main() -> None:
        scan = store.scan()
        async for entry in scan:
            if entry.key == "k700":
                break
        await store.set("k701", "changed")
        assert (await anext(scan)).key == "k701"
        await scan.aclose()

    asyncio.run(main())


# -- agents


def test_tasks_act_for_their_own_agents(log: EventLog) -> None:
    """Blocks of tasks that run at the same time do not mix; tasks begun inside a block belong to it."""
    store = AsyncEventSourcedStore(log)
    memory = AsyncSharedMemory(store)

    async def helper(name: str) -> None:
        await store.set(f"helper of {name}", "v")

    async def work(name: str) -> None:
        async with memory.agent(name, activity=f"of {name}") as agent:
            for number in range(5):
                await agent.write("k", number)
                await store.set(f"raw {name}", str(number))
                await asyncio.sleep(0)
            await asyncio.create_task(helper(name))
        await store.set(f"after {name}", "v")

    async def main() -> None:
        await asyncio.gather(*map(work, "abcdefgh"))

    asyncio.run(main())
    for name in "abcdefgh":
        for key, times in ((f"{name}/k", 5), (f"raw {name}", 5), (f"helper of {name}", 1)):
            told = [(one.agent, one.activity) for one in log.read(key=key)]
            assert told == [(name, f"of {name}")] * times
        assert [(one.agent, one.activity) for one in log.read(key=f"after {name}")] == [(None, None)]


def test_a_block_that_is_cancelled_ends(log: EventLog) -> None:
    """Afterwards its agent acts no more, and its view can be used again."""
    store = AsyncEventSourcedStore(log)
    memory = AsyncSharedMemory(store)
    writer = memory.agent("writer")

    async def block() -> None:
        async with writer:
            await asyncio.sleep(60)

    async def main() -> None:
        with acting_as("outside"):
            task = asyncio.create_task(block())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="take another one"):
                async with writer:
                    pass
            task.cancel()
            await asyncio.wait([task])
            await store.set("k", "v")
            async with writer:
                await store.set("k", "w")

    asyncio.run(main())
    assert [one.agent for one in log.read()] == ["outside", "writer"]


# -- together


def test_both_twins_on_one_log_see_each_other(log: EventLog) -> None:
    """They are two ways to one memory, the turn included."""
    memory, twin = SharedMemory(EventSourcedStore(log)), AsyncSharedMemory(AsyncEventSourcedStore(log))

    async def main() -> None:
        memory.write_expiring("a", "k", {"n": 1}, 1)
        assert (await twin.read("a/k")) == memory.read("a/k")
        assert await twin.compare_and_set("a", "k", {"n": 1}, {"n": 2})
        assert memory.read("a/k").value == {"n": 2}
        await twin.advance_turn()
        assert memory.turn == await twin.get_turn() == 1
        assert await twin.snapshot() == memory.snapshot()

    asyncio.run(main())


@pytest.mark.parametrize("make", [lambda log: AsyncEventSourcedStore(log), lambda _: AsyncInMemoryStore()])
def test_a_structured_counter_raised_by_many_tasks(log: EventLog, make: Any) -> None:
    """Compare-and-set of shared memory loses no increment, although its steps wait in between."""
    memory = AsyncSharedMemory(make(log))

    async def count_up(agent: str) -> None:
        while True:
            entry = await memory.read("team/count")
            assert entry is not None
            wanted = {"n": entry.value["n"] + 1, "by": agent}
            if await memory.compare_and_set("team", "count", entry.value, wanted):
                return

    async def main() -> int:
        await memory.write("team", "count", {"n": 0, "by": None})
        await asyncio.gather(*(count_up(f"agent {number}") for number in range(30)))
        entry = await memory.read("team/count")
        assert entry is not None
        return entry.value["n"]

    assert asyncio.run(main()) == 30


def test_a_turn_kept_in_the_memory_counts_every_task() -> None:
    """Where the store keeps no turn, no advance is lost either."""
    memory = AsyncSharedMemory(AsyncPlainStore(PlainStore()))

    async def main() -> int:
        await asyncio.gather(*(memory.advance_turn() for _ in range(100)))
        return await memory.get_turn()

    assert asyncio.run(main()) == 100
