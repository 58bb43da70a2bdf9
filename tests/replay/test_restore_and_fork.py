"""Taking a run back, and beginning another from its past: events that point, nothing copied or rewritten."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    BadAddress,
    Conflict,
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    EventLog,
    NotFound,
    Restored,
    RunExists,
    RunForked,
    StorageError,
    Write,
)
from turnlog.memory import EventSourcedStore, MemoryEntry
from turnlog.projections import first_difference
from turnlog.replay import Timeline

Stores = Callable[[str], EventSourcedStore]
Timelines = Callable[..., Timeline]


def values(store: EventSourcedStore) -> dict[str, str]:
    """Keys and values as the store lists them."""
    return {entry.key: entry.value for entry in store.list()}


def apart_from_version(entry: MemoryEntry) -> tuple[str, str, Any, datetime, int | None]:
    """Everything a restore brings back; the version tells of the restore itself."""
    return entry.key, entry.value, entry.metadata, entry.created_at, entry.expires_at_turn


def visits(timeline: Timeline) -> list[str]:
    """The addresses of the visits."""
    return [visit.address for visit in timeline.turns()]


@pytest.fixture(autouse=True)
def _the_table_agrees_with_the_log(log: EventLog) -> Any:
    """After every test here the live table is what the log folds to."""
    yield
    with log.reading() as db:
        assert first_difference(db) is None


# -- restore


def test_a_restore_brings_everything_back(
    clock: Any, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Values, metadata, order, creation times, expiry and the turn are what they were."""
    store.set("first", "1", {"agent": "ada"})
    clock.now += 1_000
    store.set_with_expiry("second", "2", 9, {"n": [1]})
    clock.now += 1_000
    store.set("third", "3")
    before = [apart_from_version(entry) for entry in store.list()]
    store.advance_turn()
    clock.now += 1_000
    store.delete("second")
    store.set("first", "changed")
    store.set("fourth", "new")
    store.delete("third")
    store.set("third", "another life")
    recorded = timeline_of().restore(turn=0)
    assert [apart_from_version(entry) for entry in store.list()] == before
    assert store.get_turn() == 0
    assert (recorded.position, recorded.event) == (10, Restored(0, to=3))


def test_a_run_goes_on_from_where_it_was_restored(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """The turn gone back to is visited a second time; the past before the restore stays readable."""
    store.set("plan", "a")
    store.advance_turn()
    store.set("plan", "b")
    timeline = timeline_of()
    timeline.restore(turn=0)
    store.set("plan", "c")
    store.advance_turn()
    store.set("plan", "d")
    assert visits(timeline) == ["0.1", "1.1", "0.2", "1.2"]
    told = {address: timeline.entry("plan", at=address) for address in (*visits(timeline), "0", "1")}
    assert {address: entry and entry.value for address, entry in told.items()} == {
        "0.1": "a",
        "1.1": "b",
        "0.2": "c",
        "1.2": "d",
        "0": "c",
        "1": "d",
    }


def test_a_restore_points_and_copies_nothing(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """One batch: the restore, then what goes and what comes back; the value stays where it was written."""
    secret = "a value of which there is one copy"
    store.set("kept", "1")
    store.set("k", secret)
    store.advance_turn()
    store.set("k", "2")
    store.set("new", "3")
    timeline_of().restore(turn=0, by="ada", reason="a bad turn")
    batch = list(log.read(run="main", after=5))
    assert [each.event for each in batch] == [
        Restored(0, to=2, by="ada", reason="a bad turn"),
        EntryDeleted("new"),
        EntryRestored("k", content=2, birth=2, created_at=batch[0].recorded_at_ms),
    ]
    assert [each.batch for each in batch] == [0, 1, 2]
    assert {each.agent for each in batch} == {"ada"}
    with log.reading() as db:
        assert db.execute("select position from events where value = ?", (secret,)).fetchall() == [(2,)]


def test_restoring_twice_changes_nothing_the_second_time(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """The second restore is recorded, and finds everything in its place, versions included."""
    store.set("a", "1")
    store.advance_turn()
    store.set("a", "2")
    timeline = timeline_of()
    timeline.restore(turn=0)
    once = store.list()
    assert timeline.restore(at="0.1").revision == 6
    assert store.list() == once
    assert isinstance([*log.read(run="main")][-1].event, Restored)


def test_restoring_the_present_records_only_that(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """A restore to where the run stands changes no entry."""
    store.set("a", "1")
    before = store.list()
    timeline = timeline_of()
    assert timeline.restore().event == Restored(0, to=1)
    assert (store.list(), timeline.point().revision) == (before, 2)


def test_a_restore_to_the_empty_beginning_empties_the_run(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Position 0 is a point like any other, and what was there can be had back."""
    store.set("a", "1")
    store.advance_turn()
    timeline = timeline_of()
    timeline.restore(position=0)
    assert (store.list(), store.get_turn()) == ([], 0)
    timeline.restore(turn=1)
    assert (values(store), store.get_turn()) == ({"a": "1"}, 1)


def test_a_restore_leaves_reserved_entries_alone(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Checkpoints, approvals and turnlog's own entries are neither taken back, nor removed, nor revived."""
    kept, born, gone = "__turnlog__/lease", "__oma_checkpoint__/late", "__oma_approval__/gone"
    store.set(kept, "old")
    store.set(gone, "1")
    store.set("a", "1")
    store.advance_turn()
    store.set(kept, "new")
    store.set(born, "1")
    store.delete(gone)
    store.set("a", "2")
    before = [store.get(kept), store.get(born)]
    with pytest.warns(UserWarning, match="the checkpoint at @6 is later than turn 0"):
        timeline_of().restore(turn=0)
    assert [store.get(kept), store.get(born), store.get(gone)] == [*before, None]
    assert values(store) == {kept: "new", "a": "1", born: "1"}


def test_an_entry_that_had_expired_comes_back_expired(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """A restore brings back what was stored, hidden as it was at that turn."""
    store.set_with_expiry("scratch", "s", 1)
    store.set("a", "1")
    store.set_turn(2)
    store.set_turn(3)
    store.clear()
    timeline = timeline_of()
    timeline.restore(turn=2)
    assert values(store) == {"scratch": "s", "a": "1"}
    assert [*timeline.state()] == ["a"]
    assert timeline.state(all=True).expired == {"scratch"}


def test_a_restore_to_a_turn_before_expiry_shows_the_entry_again(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Nothing was deleted when it expired, so the turn alone revives it."""
    store.set_with_expiry("scratch", "s", 2)
    store.advance_turn()
    store.advance_turn()
    timeline = timeline_of()
    assert timeline.entry("scratch") is None
    timeline.restore(turn=1)
    entry = timeline.entry("scratch")
    assert entry is not None
    assert entry.version == 1, "no event was needed for it"


def test_setting_the_turn_down_revives_what_had_expired(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Expiry is judged at the turn of the point, whichever way the turn went."""
    store.set_with_expiry("scratch", "s", 2)
    for turn, seen in ((5, False), (1, True), (2, False), (0, True)):
        store.set_turn(turn)
        assert ("scratch" in timeline_of().state()) is seen
    assert [("scratch" in timeline_of().state(position=position)) for position in range(6)] == [
        False,
        True,
        False,
        True,
        False,
        True,
    ]


def test_an_entry_restored_keeps_its_birth_when_it_is_written_again(
    clock: Any, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """The life put back goes on: overwriting keeps its place and its creation time."""
    store.set("a", "1")
    store.set("b", "1")
    born = store.list()[0].created_at
    clock.now += 60_000
    store.delete("a")
    timeline_of().restore(position=2)
    clock.now += 60_000
    store.set("a", "2")
    assert [(entry.key, entry.value) for entry in store.list()] == [("a", "2"), ("b", "1")]
    assert store.list()[0].created_at == born


@pytest.mark.parametrize("at", [{"at": "@2"}, {"at": "@002"}, {"position": 2}])
def test_no_position_inside_a_batch_is_gone_back_to(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines, at: dict[str, Any]
) -> None:
    """Nobody ever saw that state, so it is not made the present of a run; its ends are named."""
    store.execute([Write("a", "1")])
    store.execute([Write("b", "1"), Write("c", "1"), Write("d", "1")])
    store.execute([Write("e", "1")])
    timeline = timeline_of()
    assert set(timeline.state(**at)) == {"a", "b"}
    with pytest.raises(BadAddress, match=r"inside a batch.*before, @1, or of this one, @4$"):
        timeline.restore(**at)
    with pytest.raises(BadAddress, match=r"inside a batch.*before, @1, or of this one, @4$"):
        timeline.fork(run="what-if", **at)
    assert [info.run.name for info in log.runs()] == ["main"]
    assert len(list(log.read())) == 5


def test_a_batch_at_the_beginning_has_the_empty_state_before_it(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Position 0 is an end like any other."""
    store.execute([Write("a", "1"), Write("b", "1")])
    with pytest.raises(BadAddress, match=r"before, @0, or of this one, @2$"):
        timeline_of().restore(position=1)


def test_a_fork_that_left_inside_a_batch_may_go_back_there(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """In the fork everybody saw what it began with."""
    store.execute([Write("a", "1"), AdvanceTurn(), Write("c", "1")])
    fork = timeline_of().fork(run="what-if", at="0")
    log.execute([Write("d", "1")], run="what-if")
    assert not fork.point(position=1).inside_batch
    fork.restore(position=1)
    assert set(fork.state()) == {"a"}


def test_the_end_of_a_visit_may_lie_inside_a_batch(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """A batch that went on to another turn was at this one's end on its way."""
    store.execute([Write("a", "1"), Write("b", "1"), AdvanceTurn(), Write("c", "1")])
    timeline = timeline_of()
    timeline.restore(at="0.1")
    assert (values(store), store.get_turn()) == ({"a": "1", "b": "1"}, 0)
    timeline.restore(turn=1)
    assert values(store) == {"a": "1", "b": "1", "c": "1"}


def test_a_restore_can_be_undone(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """What a restore took away is in the past, and can be restored."""
    store.set("a", "1")
    store.set("a", "2")
    before = [apart_from_version(entry) for entry in store.list()]
    timeline = timeline_of()
    taken_back = timeline.restore(position=1)
    timeline.restore(position=taken_back.position - 1)
    assert [apart_from_version(entry) for entry in store.list()] == before


def test_a_version_from_before_a_restore_conflicts_after_it(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """A restored entry has a new version, so nobody writes over it believing nothing had happened."""
    first = store.set("a", "1")
    second = store.set("a", "2")
    timeline_of().restore(position=first)
    for version in (first, second):
        with pytest.raises(Conflict):
            store.execute([Write("a", "3", expected_version=version)])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param({"turn": 7}, BadAddress, "never was at turn 7", id="turn-never-reached"),
        pytest.param({"at": "soon"}, BadAddress, "is no address", id="no-address"),
        pytest.param({"turn": 0, "by": 3}, TypeError, "by must be a str, not int", id="by-no-text"),
        pytest.param(
            {"turn": 0, "reason": b"x"}, TypeError, "reason must be a str, not bytes", id="reason-bytes"
        ),
        pytest.param(
            {"turn": 0, "reason": "x" * 5_000}, ValueError, "the reason has 5,000 bytes", id="long-reason"
        ),
        pytest.param({"turn": 0, "by": "x" * 5_000}, ValueError, "agent.* has 5,000 bytes", id="long-by"),
    ],
)
def test_a_restore_that_cannot_be_writes_nothing(
    log: EventLog,
    store: EventSourcedStore,
    timeline_of: Timelines,
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    """Bad points and bad texts are refused before anything is recorded."""
    store.set("a", "1")
    with pytest.raises(error, match=message):
        timeline_of().restore(**arguments)
    assert len([*log.read()]) == 1


def test_half_an_emoji_is_a_reason(store: EventSourcedStore, timeline_of: Timelines, log: EventLog) -> None:
    """Who and why are kept exactly, lone surrogates included."""
    store.set("a", "1")
    timeline_of().restore(position=0, by="\udc88", reason="half \ud83d")
    restored = [each for each in log.read() if isinstance(each.event, Restored)]
    assert [(each.agent, each.event) for each in restored] == [
        ("\udc88", Restored(0, to=0, by="\udc88", reason="half \ud83d"))
    ]


def test_a_log_opened_to_be_read_restores_and_forks_nothing(
    tmp_path: Path, store: EventSourcedStore, log: EventLog
) -> None:
    """A timeline on a read-only log reads; what would write is a typed error."""
    store.set("a", "1")
    with EventLog(log.path, read_only=True) as readable:
        timeline = Timeline(readable)
        assert timeline.state()["a"].value == "1"
        with pytest.raises(StorageError, match="read only"):
            timeline.restore(position=0)
        with pytest.raises(StorageError, match="read only"):
            timeline.fork(run="what-if")


# -- fork


def test_a_fork_starts_from_a_point_and_copies_no_event(
    log: EventLog, store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """It holds what its parent held there, by one event of its own."""
    store.set("a", "1", {"agent": "ada"})
    store.set_with_expiry("scratch", "s", 1)
    store.set("__turnlog__/lease", "1")
    store.advance_turn()
    there = store.list()
    store.set("a", "2")
    fork = timeline_of().fork(run="what-if", position=4, by="zoe")
    assert store_of("what-if").list() == there
    assert store_of("what-if").get_turn() == 1
    assert fork.state(all=True) == {entry.key: entry for entry in there}
    (only,) = log.read(run="what-if")
    assert (only.revision, only.turn, only.agent) == (5, 1, "zoe")
    assert only.event == RunForked(timeline_of().lineage.run.uid, 4, 1)


def test_a_fork_and_its_parent_go_their_own_ways(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """Neither sees what the other writes, deletes or restores after the fork."""
    store.set("a", "1")
    store.set("b", "1")
    timeline_of().fork(run="what-if")
    fork = store_of("what-if")
    fork.set("a", "fork")
    fork.delete("b")
    fork.advance_turn()
    store.set("c", "parent")
    assert values(store) == {"a": "1", "b": "1", "c": "parent"}
    assert values(fork) == {"a": "fork"}
    assert (store.get_turn(), fork.get_turn()) == (0, 1)
    timeline_of().restore(position=1)
    assert values(fork) == {"a": "fork"}


def test_inherited_entries_are_compared_by_their_versions(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """A version from the parent holds in the fork until the fork changes the key."""
    version = store.set("a", "1")
    timeline_of().fork(run="what-if")
    store.set("a", "2")
    fork = store_of("what-if")
    assert fork.compare_and_set("a", "2", "x") is False
    fork.execute([Write("a", "3", expected_version=version)])
    with pytest.raises(Conflict):
        fork.execute([Write("a", "4", expected_version=version)])


def test_the_past_of_a_fork_crosses_into_its_parent(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """History, visits and states before the fork are the parent's; revisions go on counting."""
    store.set("a", "1")
    store.advance_turn()
    store.set("a", "2")
    fork = timeline_of().fork(run="what-if")
    store.set("a", "parent")
    store_of("what-if").set("a", "fork")
    assert [(each.run, each.revision) for each in fork.history("a")] == [
        ("main", 1),
        ("main", 3),
        ("what-if", 5),
    ]
    assert visits(fork) == ["0.1", "1.1", "1.2"]
    assert [fork.state(position=position)["a"].value for position in (1, 2, 3, 4, 5, 6)] == [
        "1",
        "1",
        "2",
        "2",
        "2",
        "fork",
    ]


def test_a_fork_can_be_forked_before_and_after_its_own_beginning(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """A point before the fork belongs to the grandparent, and the new run hangs on that."""
    store.set("a", "1")
    store.set("a", "2")
    store.set("a", "3")
    one = timeline_of().fork(run="one", position=2)
    store_of("one").set("b", "one")
    after = one.fork(run="after")
    before = one.fork(run="before", position=1)
    at = one.fork(run="at", position=2)
    store_of("one").set("b", "later")
    assert [values(store_of(run)) for run in ("after", "before", "at")] == [
        {"a": "2", "b": "one"},
        {"a": "1"},
        {"a": "2"},
    ]
    assert [timeline.point().revision for timeline in (after, before, at)] == [5, 2, 3]
    assert [each.run for each in after.history("a")] == ["main", "main"]
    assert [each.value for each in before.folded().values()] == ["1"]
    store_of("before").set("b", "x")
    store_of("after").set("b", "y")
    assert [each.run for each in after.history("b")] == ["one", "after"]
    assert [each.run for each in before.history("b")] == ["before"]


def test_a_fork_of_the_empty_beginning_is_a_fresh_run_with_a_past(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """At position 0 there is nothing to inherit; the fork works like any run, and can be forked there too."""
    store.set("a", "1")
    store.advance_turn()
    fork = timeline_of().fork(run="fresh", position=0)
    assert (store_of("fresh").list(), store_of("fresh").get_turn()) == ([], 0)
    store_of("fresh").set("a", "fresh")
    again = fork.fork(run="fresher", position=0)
    store_of("fresher").set("b", "fresher")
    assert fork.state().keys() == {"a"}
    assert again.state().keys() == {"b"}
    assert fork.state(position=0) == again.state(position=0) == {}
    assert [each.run for each in fork.history("a")] == ["fresh"]
    with pytest.raises(NotFound):
        again.history("a")
    assert fork.restore(position=0).turn == 0
    assert store_of("fresh").list() == []


def test_a_fork_from_inside_a_batch_starts_from_what_nobody_saw(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """So a visit's end may be; the batch's later events stay behind."""
    store.execute([Write("a", "1"), Write("b", "1"), AdvanceTurn(), Write("c", "1")])
    fork = timeline_of().fork(run="what-if", at="0.1")
    assert (values(store_of("what-if")), store_of("what-if").get_turn()) == ({"a": "1", "b": "1"}, 0)
    store_of("what-if").set("c", "fork")
    assert fork.state()["c"].value == "fork"
    assert fork.state(position=2) == timeline_of().state(position=2)


def test_a_restore_in_a_fork_goes_back_behind_the_fork(
    clock: Any, store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """The restore points into the parent's events, and its entries go on living in the fork."""
    store.set("a", "1", {"agent": "ada"})
    store.set("b", "1")
    created = store.list()[0].created_at
    store.advance_turn()
    store.set("a", "2")
    store.delete("b")
    fork = timeline_of().fork(run="what-if").fork(run="deeper")
    clock.now += 60_000
    deeper = store_of("deeper")
    deeper.set("a", "3")
    fork.restore(at="0.1")
    assert values(deeper) == {"a": "1", "b": "1"}
    assert values(store) == {"a": "2"}
    deeper.set("a", "4")
    (entry, _) = deeper.list()
    assert (entry.value, entry.created_at) == ("4", created)
    assert [type(each.event) for each in fork.history("a")] == [
        EntryWritten,
        EntryWritten,
        EntryWritten,
        EntryRestored,
        EntryWritten,
    ]
    assert fork.state(turn=0) == fork.state()
    assert [entry.value for entry in fork.folded().values()] == ["4", "1"]


def test_a_fork_of_a_restored_run_holds_what_was_restored(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """Pointers are followed through restore and fork to where the value was written."""
    store.set("a", "1")
    store.advance_turn()
    store.set("a", "2")
    timeline_of().restore(turn=0)
    fork = timeline_of().fork(run="what-if")
    assert values(store_of("what-if")) == {"a": "1"}
    fork.restore(at="1")
    assert (values(store_of("what-if")), store_of("what-if").get_turn()) == ({"a": "2"}, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        pytest.param(
            {"run": "main"}, RunExists, "run 'main' exists already; choose another name", id="itself"
        ),
        pytest.param({"run": "other"}, RunExists, "run 'other' exists already", id="taken"),
        pytest.param({"run": ""}, ValueError, "must not be empty", id="no-name"),
        pytest.param({"run": 3}, TypeError, "run must be a str, not int", id="no-text"),
        pytest.param({"run": "x" * 5_000}, ValueError, "name of the run has 5,000 bytes", id="long-name"),
        pytest.param({"run": "new", "by": 3}, TypeError, "agent must be a str, not int", id="by-no-text"),
        pytest.param({"run": "new", "turn": 9}, BadAddress, "never was at turn 9", id="turn-never-reached"),
        pytest.param({"run": "new", "position": 9}, BadAddress, "position 9 lies ahead", id="ahead"),
    ],
)
def test_a_fork_that_cannot_be_writes_nothing(
    log: EventLog,
    store: EventSourcedStore,
    store_of: Stores,
    timeline_of: Timelines,
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    """Taken names, bad names and bad points are refused, and no run begins."""
    store.set("a", "1")
    store_of("other").set("a", "1")
    with pytest.raises(error, match=message):
        timeline_of().fork(**arguments)
    assert [info.run.name for info in log.runs()] == ["main", "other"]


def test_forks_have_awkward_names(store: EventSourcedStore, store_of: Stores, timeline_of: Timelines) -> None:
    """A run's name is any text, and may be that of a key."""
    store.set("a", "1")
    for name in ("a", "\ud83d", "\0", "a/b", "%", "caf\u00e9", "cafe\u0301"):
        timeline_of().fork(run=name)
        store_of(name).set("b", name)
    assert [values(store_of(name))["b"] for name in ("a", "\ud83d", "caf\u00e9", "cafe\u0301")] == [
        "a",
        "\ud83d",
        "caf\u00e9",
        "cafe\u0301",
    ]
