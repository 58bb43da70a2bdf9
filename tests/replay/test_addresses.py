"""One grammar for points of the past: turns, visits, positions, times and head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from turnlog.eventlog import AdvanceTurn, BadAddress, EventLog, Write
from turnlog.memory import EventSourcedStore
from turnlog.replay import Point, Timeline

Stores = Callable[[str], EventSourcedStore]
Timelines = Callable[..., Timeline]

MINUTE = 60_000


def tell(log: EventLog, clock: Any) -> Timeline:
    """A run with twelve positions and a neighbour in its file; an event a minute, from 02:13 on.

    Positions 1 and 2 write at turn 0; 3 and 4 are a result and the turn's end in one batch; 5 writes at turn
    1; 6 advances to turn 2; 7 and 8 restore turn 0; 9 writes; 10 and 11 are another run's; 12 writes.
    """
    main, other = EventSourcedStore(log), EventSourcedStore(log, "other")
    for happen in (
        lambda: main.set("plan", "1"),
        lambda: main.set("notes", "n"),
        lambda: main.execute([Write("result", "done"), AdvanceTurn()]),
        lambda: main.set("plan", "2"),
        main.advance_turn,
        lambda: Timeline(log).restore(turn=0),
        lambda: main.set("plan", "3"),
        lambda: other.set("x", "1"),
        lambda: other.set("x", "2"),
        lambda: main.set("plan", "4"),
    ):
        happen()
        clock.now += MINUTE
    return Timeline(log)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, open_log: Any, clock_type: Any) -> Iterator[Timeline]:
    """The run that `tell` tells, for tests that only read it."""
    clock = clock_type()
    with open_log(tmp_path_factory.mktemp("told") / "team.db", clock) as log:
        yield tell(log, clock)


@pytest.mark.parametrize(
    ("address", "point"),
    [
        pytest.param("head", Point(10, 12, 0), id="now"),
        pytest.param("0", Point(10, 12, 0), id="latest-visit-of-a-turn-gone-back-to"),
        pytest.param("0.1", Point(3, 3, 0, inside_batch=True), id="first-visit-ends-inside-a-batch"),
        pytest.param("0.2", Point(10, 12, 0), id="second-visit"),
        pytest.param("1", Point(5, 5, 1), id="only-visit-by-turn"),
        pytest.param("1.1", Point(5, 5, 1), id="only-visit-by-number"),
        pytest.param("2", Point(6, 6, 2), id="visit-of-nothing-but-its-mark"),
        pytest.param("0002.01", Point(6, 6, 2), id="leading-zeros"),
        pytest.param("@0", Point(0, 0, 0), id="empty-beginning"),
        pytest.param("@1", Point(1, 1, 0), id="first-event"),
        pytest.param("@3", Point(3, 3, 0, inside_batch=True), id="position-inside-a-batch"),
        pytest.param("@4", Point(4, 4, 1), id="turn-mark"),
        pytest.param("@7", Point(7, 7, 0, inside_batch=True), id="restore-not-finished"),
        pytest.param("@8", Point(8, 8, 0), id="restore-finished"),
        pytest.param("@10", Point(9, 9, 0), id="position-of-another-run"),
        pytest.param("@11", Point(9, 9, 0), id="another-position-of-another-run"),
        pytest.param("@12", Point(10, 12, 0), id="newest-position"),
        pytest.param("2025-11-30T02:13Z", Point(1, 1, 0), id="time-of-the-first-event"),
        pytest.param("2025-11-30T02:14:59.999Z", Point(2, 2, 0), id="time-between"),
        pytest.param("2025-11-30T02:15Z", Point(4, 4, 1), id="time-of-a-batch-is-that-of-its-end"),
        pytest.param("2025-11-30T04:15:00+02:00", Point(4, 4, 1), id="time-with-an-offset-east"),
        pytest.param("2025-11-29T21:15:00-05:00", Point(4, 4, 1), id="time-with-an-offset-west"),
        pytest.param("2025-11-30T02:14:59.9999Z", Point(2, 2, 0), id="time-a-hair-before-an-event"),
        pytest.param("2025-11-30T02:15:00.0004Z", Point(4, 4, 1), id="time-a-hair-behind-an-event"),
        pytest.param("9999-12-31T23:59:59-14:00", Point(10, 12, 0), id="time-beyond-the-calendar-in-utc"),
    ],
)
def test_an_address_leads_to_its_point(told: Timeline, address: str, point: Point) -> None:
    """Each form of address means one point, and says whether it lies inside a batch."""
    assert told.point(at=address) == point


@pytest.mark.parametrize(
    ("address", "message"),
    [
        pytest.param("", "'' is no address; give a turn", id="empty"),
        pytest.param("yesterday", "'yesterday' is no address; give a turn", id="word"),
        pytest.param("HEAD", "'HEAD' is no address", id="head-in-capitals"),
        pytest.param(" 1", "' 1' is no address", id="space"),
        pytest.param("1\n", r"'1\\n' is no address", id="line-break"),
        pytest.param("-1", "'-1' is no address", id="negative"),
        pytest.param("1.", "'1.' is no address", id="visit-missing"),
        pytest.param("1.1.1", "'1.1.1' is no address", id="too-many-parts"),
        pytest.param("@", "'@' is no address", id="position-missing"),
        pytest.param("@1.1", "'@1.1' is no address", id="position-with-a-visit"),
        pytest.param("\u0663", "'\u0663' is no address", id="digit-of-another-script"),
        pytest.param("\ud83d", r"'\\ud83d' is no address", id="half-an-emoji"),
        pytest.param("2025-11-30 02:13Z", "is no address; .* or a UTC time", id="time-with-a-space"),
        pytest.param("y" * 5_000, "^'y{79} is no address", id="long-nonsense-is-cut"),
        pytest.param("3", "run 'main' never was at turn 3; it visited 0-2$", id="turn-never-reached"),
        pytest.param("9" * 30, "never was at turn 9{30}; it visited 0-2$", id="turn-beyond-any"),
        pytest.param("1.2", "has no visit 1.2; it was at turn 1 1 time, the first is 1.1$", id="no-second"),
        pytest.param("0.3", "has no visit 0.3; it was at turn 0 2 times, the first is 0.1$", id="no-third"),
        pytest.param("1.0", "has no visit 1.0; .* the first is 1.1$", id="visits-count-from-one"),
        pytest.param("1." + "9" * 30, "has no visit 1.9{30};", id="visit-beyond-any"),
        pytest.param("@13", "position 13 lies ahead: the newest event of the file is at 12$", id="ahead"),
        pytest.param("@" + "9" * 30, "position 9{30} lies ahead: .* is at 12$", id="position-beyond-any"),
        pytest.param("2025-11-30T02:13", "names no zone; for UTC write 2025-11-30T02:13Z$", id="no-zone"),
        pytest.param("2025-02-30T00:00Z", "is no time: day is out of range.*write it like", id="no-such-day"),
        pytest.param(
            "2025-11-30Tnoon", "is no time: .*; write it like 2026-11-30T02:13Z$", id="no-such-hour"
        ),
        pytest.param(
            "2025-11-30T02:12:59.9999Z",
            r"run 'main' had no event at .*; its first was recorded at 2025-11-30T02:13:00.000Z$",
            id="before-the-first-event",
        ),
        pytest.param("0001-01-01T00:00+14:00", "had no event at 0001-01-01T00:00", id="before-the-calendar"),
    ],
)
def test_a_bad_address_is_refused_with_what_can_be_given(told: Timeline, address: str, message: str) -> None:
    """What cannot be read, or was never reached, is a typed error that says what there is."""
    with pytest.raises(BadAddress, match=message):
        told.state(at=address)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"turn": -1}, BadAddress, "turn must not be negative", id="negative-turn"),
        pytest.param({"position": -1}, BadAddress, "position must not be negative", id="negative-position"),
        pytest.param({"turn": True}, TypeError, "turn must be an int, not bool", id="bool-turn"),
        pytest.param({"position": False}, TypeError, "position must be an int, not bool", id="bool-position"),
        pytest.param({"turn": "1"}, TypeError, "turn must be an int, not str", id="str-turn"),
        pytest.param({"position": 1.0}, TypeError, "position must be an int, not float", id="float-position"),
        pytest.param({"at": 3}, TypeError, "an address must be a str, not int: a turn", id="int-address"),
        pytest.param({"at": b"1"}, TypeError, "an address must be a str, not bytes", id="bytes-address"),
        pytest.param(
            {"turn": 0, "at": "0"},
            TypeError,
            "give one of turn=, position= and at=, not turn and at",
            id="two",
        ),
        pytest.param(
            {"turn": 0, "position": 0, "at": ""}, TypeError, "not turn and position and at", id="all-three"
        ),
        pytest.param({"turn": 2**64}, BadAddress, "turn must lie within 0 and", id="huge-turn"),
        pytest.param({"position": 2**64}, BadAddress, "position must lie within 0", id="huge-position"),
        pytest.param({"turn": 10**5_000}, BadAddress, "turn must lie within 0 and", id="unprintable-turn"),
        pytest.param(
            {"position": 10**5_000}, BadAddress, "position must lie within", id="unprintable-position"
        ),
    ],
)
@pytest.mark.parametrize("method", ["point", "state", "folded", "restore"])
def test_a_bad_argument_is_refused(
    told: Timeline, method: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Wrong types and numbers are refused by every method that takes a point, and nothing is written."""
    with pytest.raises(error, match=message):
        getattr(told, method)(**arguments)
    assert told.point() == Point(10, 12, 0)


@pytest.mark.parametrize("name", ["turn", "position"])
def test_a_number_may_be_given_as_itself(told: Timeline, name: str) -> None:
    """`turn=` and `position=` mean what the address forms mean."""
    form = {"turn": "{}", "position": "@{}"}[name]
    for number in (0, 1, 2):
        assert told.point(**{name: number}) == told.point(at=form.format(number))


def test_turns_never_visited_are_told_as_ranges(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """The message about a turn that was skipped lists the others shortly."""
    for turn in (1, 2, 5, 9, 8):
        store.set_turn(turn)
    with pytest.raises(BadAddress, match=r"never was at turn 7; it visited 0-2, 5, 8-9$"):
        timeline_of().state(turn=7)


def test_a_run_without_a_turn_change_was_at_turn_0(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Turn 0 needs no mark: it is the present until the first."""
    store.set("a", "1")
    store.set("a", "2")
    timeline = timeline_of()
    assert timeline.point(turn=0) == timeline.point(at="0.1") == timeline.point() == Point(2, 2, 0)
    with pytest.raises(BadAddress, match=r"never was at turn 1; it visited 0$"):
        timeline.point(turn=1)


def test_a_run_that_begins_with_a_turn_was_at_turn_0_before(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """A first event that advances the turn leaves an empty visit to turn 0 behind it."""
    store.advance_turn()
    timeline = timeline_of()
    assert timeline.point(turn=0) == Point(0, 0, 0)
    assert timeline.state(turn=0) == {}
    assert timeline.point(turn=1) == Point(1, 1, 1)


def test_a_clock_set_back_does_not_reorder_the_log(
    clock: Any, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """A time means the newest event, in the order of the log, that was stamped at or before it."""
    start = clock.now
    for minute in (0, 5, 2, 9):
        clock.now = start + minute * MINUTE
        store.set("at", str(minute))
    timeline = timeline_of()
    assert timeline.state(at="2025-11-30T02:14Z")["at"].value == "0"
    assert timeline.state(at="2025-11-30T02:18Z")["at"].value == "2"
    assert timeline.state(at="2025-11-30T02:15Z")["at"].value == "2"
    assert timeline.state(at="2025-11-30T02:30Z")["at"].value == "9"


def test_a_clock_that_stands_still_means_the_newest(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Of several events of one millisecond, a time means the last."""
    for value in "abc":
        store.set("k", value)
    assert timeline_of().state(at="2025-11-30T02:13:00.000Z")["k"].value == "c"


def test_addresses_of_a_fork_reach_into_its_parent(log: EventLog, clock: Any, store_of: Stores) -> None:
    """A fork was where its parent was before it, at the same turns, positions and times."""
    told = tell(log, clock)
    fork = told.fork(run="what-if", turn=1)
    clock.now += MINUTE
    store_of("what-if").set("plan", "other")
    assert fork.point(at="0") == told.point(at="0.1")
    assert fork.point(at="1.1") == told.point(at="1")
    assert fork.point(at="1").revision == fork.point(at="1.2").revision == fork.point().revision == 7
    assert fork.point(at="@5") == told.point(at="@5")
    assert fork.point(at="@12").revision == 5, "what the parent did later is none of the fork's past"
    assert fork.point(at="2025-11-30T02:14Z") == told.point(at="2025-11-30T02:14Z")
    assert fork.point(at="2025-11-30T02:18Z").revision == 5
    with pytest.raises(BadAddress, match=r"run 'what-if' never was at turn 2; it visited 0-1$"):
        fork.point(turn=2)


def test_a_point_reads_well() -> None:
    """A point says where it is, for people."""
    assert str(Point(4, 12, 1)) == "turn 1, position 12"
    assert str(Point(3, 11, 0, inside_batch=True)) == "turn 0, position 11, inside a batch"
