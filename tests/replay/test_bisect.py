"""Searching the states that somebody saw: by halving, and exactly for one key."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    CompareAndSet,
    Delete,
    EventLog,
    NotFound,
    SetTurn,
    Write,
)
from turnlog.memory import EventSourcedStore
from turnlog.replay import Point, State, Timeline

Stores = Callable[[str], EventSourcedStore]
Timelines = Callable[..., Timeline]


def batches(log: EventLog, sizes: list[int], run: str = "main") -> None:
    """Batches of so many writes, each to a key named after its revision."""
    revision = 0
    for size in sizes:
        log.execute([Write(f"k{revision + each}", "1") for each in range(1, size + 1)], run=run)
        revision += size


# -- bisect


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([1], id="one-event"),
        pytest.param([1] * 17, id="single-events"),
        pytest.param([5], id="one-batch"),
        pytest.param([3, 1, 4, 1, 5, 9, 2, 6], id="batches"),
        pytest.param([40, 1, 1, 40], id="big-batches-around"),
        pytest.param([1, 80, 1], id="a-big-batch-between"),
    ],
)
def test_every_batch_end_can_be_found(log: EventLog, timeline_of: Timelines, sizes: list[int]) -> None:
    """Whichever batch made it true, its end is found, and no state inside a batch is asked about."""
    batches(log, sizes)
    ends = [sum(sizes[: count + 1]) for count in range(len(sizes))]
    asked: list[int] = []

    def holds(since: int, state: State) -> bool:
        asked.append(state.point.revision)
        return f"k{since}" in state

    for since in range(1, sum(sizes) + 1):
        end = next(end for end in ends if end >= since)
        assert timeline_of().bisect(lambda state, since=since: holds(since, state)) == Point(end, end, 0)
    assert set(asked) <= set(ends)


def test_halving_asks_about_few_states(log: EventLog, timeline_of: Timelines) -> None:
    """About as many states as the number of events has binary digits."""
    batches(log, [1] * 300)
    asked: list[State] = []
    found = timeline_of().bisect(lambda state: asked.append(state) or "k123" in state)
    assert found == Point(123, 123, 0)
    assert len(asked) <= math.log2(300) + 2


def test_a_predicate_sees_what_agents_saw(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Expired and reserved entries are hidden from it, and a turn alone can make it true."""
    store.set("__turnlog__/x", "1")
    store.set_with_expiry("scratch", "s", 1)
    store.set("a", "1")
    store.advance_turn()
    store.set("b", "1")
    timeline = timeline_of()
    assert timeline.bisect(lambda state: any(key.startswith("__") for key in state)) is None
    assert timeline.bisect(lambda state: "a" in state and "scratch" not in state) == Point(4, 4, 1)


def test_what_does_not_hold_now_is_not_searched(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """None, after one look at the present."""
    store.set("a", "1")
    store.delete("a")
    asked: list[State] = []
    assert timeline_of().bisect(lambda state: asked.append(state) or "a" in state) is None
    assert len(asked) == 1


def test_what_always_held_holds_at_the_first_batch_end(log: EventLog, timeline_of: Timelines) -> None:
    """The empty beginning is no state that anybody saw."""
    batches(log, [3, 2])
    assert timeline_of().bisect(lambda state: True) == Point(3, 3, 0)


def test_halving_goes_on_into_the_parent(log: EventLog, store_of: Stores, timeline_of: Timelines) -> None:
    """In a fork of a fork the point is found wherever it lies; a batch cut by a fork ends at the fork."""
    batches(log, [2, 4])
    log.fork("main", 4, run="one", turn=0)
    one = timeline_of("one")
    store_of("one").set("in one", "1")
    two = one.fork(run="two")
    log.execute([Write("in two", "1"), Write("also in two", "1")], run="two")
    found = {key: two.bisect(lambda state, key=key: key in state) for key in two.state()}
    assert {key: point and point.revision for key, point in found.items()} == {
        "k1": 2,
        "k2": 2,
        "k3": 4,
        "k4": 4,
        "in one": 6,
        "in two": 9,
        "also in two": 9,
    }
    assert two.bisect(lambda state: "k5" in state) is None


def test_one_change_is_found_where_it_came_and_went(log: EventLog, timeline_of: Timelines) -> None:
    """Where a predicate holds, fails and holds again, one of its beginnings is found."""
    for value in "abababab":
        log.execute([Write("k", value)], run="main")
    found = timeline_of().bisect(lambda state: state["k"].value == "b")
    assert found is not None
    assert found.revision in (2, 4, 6, 8)


def test_an_error_of_the_predicate_is_the_callers(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """It is passed on, and the log can be used afterwards."""
    store.set("a", "1")
    with pytest.raises(KeyError, match="missing"):
        timeline_of().bisect(lambda state: bool(state["missing"]))
    store.set("b", "1")
    assert timeline_of().state().keys() == {"a", "b"}


def test_a_predicate_may_write(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """No lock is held while it looks; what it writes is not searched."""
    for number in range(4):
        store.set(f"k{number}", "1")

    def noting(state: State) -> bool:
        store.set("note", str(len(state)))
        return "k1" in state

    assert timeline_of().bisect(noting) == Point(2, 2, 0)


# -- first


def test_the_first_is_found_where_values_come_and_go(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Exact, though halving would find another."""
    for value in ("ab", "a", "b", "a", "bc", "a"):
        store.set("k", value)
    store.delete("k")
    store.set("k", "abc")
    timeline = timeline_of()
    assert [timeline.first("k", text) for text in ("a", "b", "bc", "abc", "abcd")] == [
        Point(1, 1, 0),
        Point(1, 1, 0),
        Point(5, 5, 0),
        Point(8, 8, 0),
        None,
    ]


def test_without_a_text_the_first_existence_is_found(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """An empty value exists; a refused one does not."""
    store.compare_and_set("k", "x", "y")
    store.set("k", "")
    assert timeline_of().first("k") == Point(2, 2, 0)


def test_what_was_refused_only_never_existed(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """The run knows the key, but nobody ever saw it."""
    store.compare_and_set("k", "x", "y")
    assert timeline_of().first("k") is None


@pytest.mark.parametrize(
    ("commands", "text", "revision"),
    [
        pytest.param([Write("k", "ab"), Write("k", "b")], "a", None, id="written-over-in-its-batch"),
        pytest.param([Write("k", "a"), Delete("k")], "", None, id="deleted-in-its-batch"),
        pytest.param(
            [Write("k", "a"), Write("x", "1"), Write("x", "2")], "a", 3, id="seen-at-its-batchs-end"
        ),
        pytest.param([Write("k", "a"), CompareAndSet("k", "a", "b")], "b", 2, id="swapped-in-its-batch"),
        pytest.param([Write("k", "a", None, 1), AdvanceTurn()], "a", None, id="expired-by-its-batchs-end"),
        pytest.param(
            [AdvanceTurn(), Write("k", "a", None, 1), SetTurn(0)], "a", 3, id="revived-in-its-batch"
        ),
    ],
)
def test_only_batch_ends_were_seen(
    log: EventLog, timeline_of: Timelines, commands: list[Write], text: str, revision: int | None
) -> None:
    """What came and went within one batch, nobody saw."""
    log.execute(commands, run="main")
    found = timeline_of().first("k", text)
    assert (found and found.revision) == revision


def test_what_was_born_expired_is_first_seen_when_the_turn_goes_back(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """No event of the key tells of that moment, only one of the turn."""
    store.set_turn(5)
    store.set_with_expiry("k", "a", 3)
    store.set_turn(4)
    store.set_turn(3)
    log.execute([SetTurn(2), SetTurn(7)], run="main")
    log.execute([SetTurn(2), Write("x", "1")], run="main")
    store.set_with_expiry("k", "ab", 1)
    timeline = timeline_of()
    assert timeline.first("k", "a") == Point(8, 8, 2)
    assert timeline.first("k", "b") is None
    timeline.restore(at="0.1")
    store.set_turn(0)
    assert timeline.first("k", "b") is None, "the restore took the key away before the turn was low enough"


def test_a_restored_value_is_found_where_it_was_first_seen(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """A value hidden when it was written may be seen first after a restore brought it back."""
    store.set_with_expiry("k", "a", 0)
    store.set("x", "1")
    store.delete("k")
    timeline = timeline_of()
    timeline.restore(position=1)
    assert timeline.first("k", "a") is None
    store.set("k", "ab")
    assert timeline.first("k", "a") == timeline.point()


def test_the_first_may_lie_in_the_parent(
    log: EventLog, store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """And a batch that the fork cut off ends where it was cut."""
    store.execute([Write("k", "a"), Write("k", "b"), Write("k", "c")])
    log.fork("main", 2, run="what-if", turn=0)
    fork = timeline_of("what-if")
    store_of("what-if").set("k", "d")
    assert [fork.first("k", text) for text in "abcd"] == [None, Point(2, 2, 0), None, Point(4, 5, 0)]
    assert timeline_of().first("k", "c") == Point(3, 3, 0)


def test_a_reserved_key_may_be_searched(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Asked for by name, as `entry` gives it."""
    store.set("__turnlog__/lease", "a")
    assert timeline_of().first("__turnlog__/lease", "a") == Point(1, 1, 0)


def test_a_search_takes_a_known_key_and_a_text(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Anything else is refused."""
    store.set("k", "1")
    with pytest.raises(NotFound, match="never had a key 'q'"):
        timeline_of().first("q")
    with pytest.raises(TypeError, match="text must be a str, not int"):
        timeline_of().first("k", 1)  # pyright: ignore[reportArgumentType]
