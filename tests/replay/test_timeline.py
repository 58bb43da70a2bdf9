"""What a run's memory was at a point, key by key and whole, and the visits it consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from turnlog.eventlog import AdvanceTurn, BadAddress, Closed, Corrupt, EventLog, NotFound, SetTurn, Write
from turnlog.memory import EventSourcedStore, SharedMemory
from turnlog.replay import Point, State, Timeline, Visit

Stores = Callable[[str], EventSourcedStore]
Timelines = Callable[..., Timeline]


# -- states


def test_a_state_is_what_shared_memory_showed_then(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Entries that had expired and reserved ones are hidden, as agents' listings hide them."""
    memory = SharedMemory(store)
    shown: list[list[str]] = [[]]
    for step in (
        lambda: memory.write("ada", "plan", "1"),
        lambda: memory.write_expiring("ada", "scratch", "s", 1),
        lambda: store.set("__oma_checkpoint__/latest", "{}"),
        memory.advance_turn,
        lambda: memory.write("bob", "draft", {"n": [1, None]}),
        lambda: memory.set_turn(0),
        lambda: memory.delete("ada", "plan"),
    ):
        step()
        shown.append([entry.key for entry in memory.list_all()])
    timeline = timeline_of()
    assert [[*timeline.state(position=position)] for position in range(len(shown))] == shown
    assert shown[4] == ["ada/plan"]
    assert shown[6] == ["ada/plan", "ada/scratch", "bob/draft"]


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda timeline: timeline.state(), id="state"),
        pytest.param(lambda timeline: timeline.versions(), id="versions"),
        pytest.param(lambda timeline: timeline.entry("b"), id="entry"),
        pytest.param(lambda timeline: timeline.entry("b", turn=0), id="entry at a turn"),
        pytest.param(lambda timeline: timeline.blame(), id="blame"),
        pytest.param(lambda timeline: timeline.diff("@1", "head"), id="diff"),
    ],
)
def test_a_change_of_an_unknown_type_is_not_passed_over(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines, look: Callable[[Timeline], object]
) -> None:
    """What a later build may have recorded of a key is neither taken for a value nor for a deletion."""
    for key in ("a", "b", "c"):
        store.set(key, "v")
    log.transact(lambda db: db.execute("drop trigger events_no_update"))
    log.transact(lambda db: db.execute("update events set type = 4 where position = 2"))
    with pytest.raises(Corrupt, match=r"position 2 cannot be read: .*event type 4"):
        look(timeline_of())


def test_the_whole_state_marks_what_is_hidden(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """With `all` everything is there; `expired` and `reserved` say what agents would not have seen."""
    store.set("__turnlog__/lease", "1")
    store.set_with_expiry("__turnlog__/old", "1", 1)
    store.set_with_expiry("scratch", "s", 1)
    store.set_with_expiry("later", "l", 2)
    store.set("__turnlog__", "not below the prefix")
    store.advance_turn()
    state = timeline_of().state(all=True)
    assert [*state] == ["__turnlog__/lease", "__turnlog__/old", "scratch", "later", "__turnlog__"]
    assert state.expired == {"__turnlog__/old", "scratch"}
    assert state.reserved == {"__turnlog__/lease", "__turnlog__/old"}
    visible = timeline_of().state()
    assert [*visible] == ["later", "__turnlog__"]
    assert (visible.expired, visible.reserved) == (frozenset(), frozenset())


def test_a_state_is_a_dict_that_knows_its_point(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Equal to a plain dict of what the store lists."""
    store.set("a", "1", {"agent": "ada"})
    store.advance_turn()
    state = timeline_of().state(turn=0)
    assert isinstance(state, State)
    assert state == {entry.key: entry for entry in store.list()}
    assert state.point == timeline_of().point(turn=0)


def test_metadata_of_a_past_state_is_never_live(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Every reading gives fresh dicts, so that nobody can change the past."""
    store.set("a", "1", {"tags": ["x"]})
    entry = timeline_of().state()["a"]
    assert entry.metadata is not None
    entry.metadata["tags"].append("y")
    assert timeline_of().state()["a"].metadata == {"tags": ["x"]}


@pytest.mark.parametrize(
    "key", ["", "\0", "/", "%", "_", "caf\u00e9", "cafe\u0301", "\ud83d", "\U0001f600", "x" * 4096]
)
@pytest.mark.parametrize("value", ["", "\0", "007", "\udc88 half", "\U0001f600", "a\r\nb"])
def test_any_text_comes_back_from_the_past(
    told: tuple[Timeline, dict[tuple[str, str], int]], key: str, value: str
) -> None:
    """Keys and values are exact at any point, by index and by fold."""
    timeline, positions = told
    position = positions[key, value]
    entry = timeline.entry(key, position=position)
    assert entry is not None
    assert (entry.key, entry.value) == (key, value)
    assert timeline.state(position=position)[key] == entry == timeline.folded(position=position)[key]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, open_log: Any, clock_type: Any) -> Any:
    """A timeline in which every awkward key had every awkward value, and the position of each."""
    keys = ["", "\0", "/", "%", "_", "caf\u00e9", "cafe\u0301", "\ud83d", "\U0001f600", "x" * 4096]
    values = ["", "\0", "007", "\udc88 half", "\U0001f600", "a\r\nb"]
    with open_log(tmp_path_factory.mktemp("texts") / "team.db", clock_type()) as log:
        pairs = [(key, value) for value in values for key in keys]
        positions = log.execute([Write(key, value) for key, value in pairs], run="main")
        yield Timeline(log), dict(zip(pairs, positions, strict=True))


def test_one_entry_at_a_point(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Before its birth, over its life, after its end, and in its next life."""
    store.set("k", "1")
    store.set("k", "2")
    store.delete("k")
    store.set("k", "3")
    timeline = timeline_of()
    entries = [timeline.entry("k", position=position) for position in range(5)]
    assert [entry and (entry.value, entry.version) for entry in entries] == [
        None,
        ("1", 1),
        ("2", 2),
        None,
        ("3", 4),
    ]
    assert timeline.entry("never") is None


def test_one_entry_is_judged_at_the_turn_of_its_point(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """An expired entry is not given, a reserved one is, when asked for by name."""
    store.set_with_expiry("scratch", "s", 1)
    store.set("__turnlog__/lease", "1")
    store.advance_turn()
    timeline = timeline_of()
    assert timeline.entry("scratch", turn=0) == store.get("scratch")
    assert timeline.entry("scratch", turn=1) is None
    assert timeline.entry("__turnlog__/lease") == store.get("__turnlog__/lease")


def test_entries_made_in_the_batch_that_ends_a_turn_belong_to_it(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """A task's result and the turn it ends are one batch: the result is seen at that turn."""
    store.execute([Write("result", "done", None, 1), AdvanceTurn(), Write("next", "1")])
    timeline = timeline_of()
    assert [*timeline.state(turn=0)] == ["result"]
    assert timeline.state(turn=0).point.inside_batch
    assert [*timeline.state(turn=1)] == ["next"]
    assert not timeline.state(turn=1).point.inside_batch


def test_a_store_and_its_timeline_share_the_present(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """A timeline is no snapshot: what is written later, it shows."""
    store.set("a", "1")
    timeline = timeline_of()
    store.set("a", "2")
    assert timeline.state()["a"].value == "2"
    assert [visit.last_revision for visit in timeline.turns()] == [2]


def test_runs_of_one_file_do_not_mix(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """The same key in two runs has two histories."""
    for number in range(3):
        store.set("k", f"main {number}")
        store_of("other").set("k", f"other {number}")
    assert [each.position for each in timeline_of().history("k")] == [1, 3, 5]
    assert [each.position for each in timeline_of("other").history("k")] == [2, 4, 6]
    entry = timeline_of("other").entry("k", position=3)
    assert entry is not None
    assert entry.value == "other 0"


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        pytest.param("nope", NotFound, "has no run 'nope'; it has 'main', 'other'$", id="unknown"),
        pytest.param("", NotFound, "has no run ''; it has 'main', 'other'$", id="empty"),
        pytest.param("Main", NotFound, "has no run 'Main'", id="another-case"),
        pytest.param(None, TypeError, "run must be a str, not NoneType", id="none"),
        pytest.param(b"main", TypeError, "run must be a str, not bytes", id="bytes"),
    ],
)
def test_an_unknown_run_is_refused(
    log: EventLog,
    store: EventSourcedStore,
    store_of: Stores,
    run: Any,
    error: type[Exception],
    message: str,
) -> None:
    """With the names of those there are."""
    store.set("a", "1")
    store_of("other").set("a", "1")
    with pytest.raises(error, match=message):
        Timeline(log, run)


def test_a_file_without_runs_says_so(log: EventLog) -> None:
    """Opening a store begins no run, and neither does asking for its timeline."""
    with pytest.raises(NotFound, match="has no run 'main'; it has no runs yet"):
        Timeline(log)


def test_a_closed_log_says_so(log: EventLog, store: EventSourcedStore, timeline_of: Timelines) -> None:
    """A timeline outlives its log no better than a store does."""
    store.set("a", "1")
    timeline = timeline_of()
    log.close()
    with pytest.raises(Closed, match="was closed; open it again"):
        timeline.state()


# -- visits


def test_a_run_without_a_turn_change_is_one_visit(
    clock: Any, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """From its first event to its newest."""
    store.set("a", "1")
    clock.now += 60_000
    store.set("a", "2")
    began, ended = datetime(2025, 11, 30, 2, 13, tzinfo=UTC), datetime(2025, 11, 30, 2, 14, tzinfo=UTC)
    (visit,) = timeline_of().turns()
    assert visit == Visit(0, 1, 1, 2, 1, 2, began, ended)
    assert (visit.address, visit.events) == ("0.1", 2)


def test_a_run_that_begins_with_a_turn_change_was_nowhere_before(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """The visit to turn 0 is there, without events, places or times."""
    store.set_turn(3)
    first, second = timeline_of().turns()
    assert first == Visit(0, 1, 1, 0, 0, 0, None, None)
    assert first.events == 0
    assert (second.address, second.first_position, second.events) == ("3.1", 1, 1)


def test_visits_are_told_with_their_places(
    log: EventLog, store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """Each turn mark begins one; the events of other runs in between do not count."""
    store.set("a", "1")
    store_of("other").set("a", "1")
    store.advance_turn()
    store_of("other").advance_turn()
    log.execute([Write("b", "1"), SetTurn(0), Write("c", "1")], run="main")
    assert [
        (visit.address, visit.first_revision, visit.last_revision, visit.first_position, visit.last_position)
        for visit in timeline_of().turns()
    ] == [("0.1", 1, 1, 1, 1), ("1.1", 2, 3, 3, 5), ("0.2", 4, 5, 6, 7)]


def test_setting_the_turn_to_what_it_is_begins_no_visit(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Nothing changed, so nothing was recorded."""
    store.set("a", "1")
    store.set_turn(0)
    assert len(timeline_of().turns()) == 1


def test_a_fork_inherits_its_parents_visits(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """The last of them ends at the fork, and the fork begins one of its own at the same turn."""
    store.set("a", "1")
    store.advance_turn()
    store.set("a", "2")
    store.set("a", "3")
    fork = timeline_of().fork(run="what-if", position=3)
    store.advance_turn()
    store_of("what-if").advance_turn()
    assert [(visit.address, visit.first_revision, visit.last_revision) for visit in fork.turns()] == [
        ("0.1", 1, 1),
        ("1.1", 2, 3),
        ("1.2", 4, 4),
        ("2.1", 5, 5),
    ]


@pytest.fixture
def moving(log: EventLog, store: EventSourcedStore) -> Iterator[Callable[[], int]]:
    """Lets somebody advance the turn before each of the next three statements read; tells the turn."""
    store.set_with_expiry("scratch", "s", 10**6)
    left = 0
    with EventLog(log.path, projections=log.projections, durability="os") as other:
        somebody = EventSourcedStore(other)

        def move(_: str) -> None:
            nonlocal left
            if left:
                left -= 1
                somebody.advance_turn()

        def let_move() -> int:
            nonlocal left
            left = 3
            return somebody.get_turn()

        with log.reading() as db:
            db.set_trace_callback(move)
        yield let_move
        with log.reading() as db:
            db.set_trace_callback(None)


def test_a_log_that_moves_is_read_as_of_one_moment(moving: Callable[[], int], timeline_of: Timelines) -> None:
    """Turns that are advanced between two statements of a reading do not tear it apart."""
    timeline = timeline_of()
    moving()
    visits = timeline.turns()
    assert [(visit.turn, visit.events) for visit in visits] == [(0, 1), (1, 1)]
    ahead = moving() + 2
    with pytest.raises(BadAddress, match=f"never was at turn {ahead}; it visited 0-{ahead - 1}$"):
        timeline.point(turn=ahead)
    ahead = moving() + 1
    assert timeline.point(turn=ahead) == Point(ahead + 1, ahead + 1, ahead)
    ahead = moving() + 1
    assert timeline.state().point == Point(ahead + 1, ahead + 1, ahead)
    ahead = moving() + 1
    assert timeline.bisect(lambda state: state.point.turn >= ahead) == Point(ahead + 1, ahead + 1, ahead)


def test_a_fold_and_the_index_agree(log: EventLog, store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Two independent ways to the same states, over more events than a page holds."""
    log.execute(
        [Write(f"k{number % 7}", str(number), None, number % 5 or None) for number in range(700)], run="main"
    )
    log.execute([AdvanceTurn()], run="main")
    store.delete("k3")
    timeline = timeline_of()
    fork = timeline.fork(run="what-if")
    log.execute([Write("k3", "again"), Write("k1", "fork")], run="what-if")
    for position in (0, 1, 6, 511, 512, 513, 700, 701, 702, 703, 705):
        indexed = fork.state(position=position, all=True)
        assert [*indexed.items()] == [*fork.folded(position=position).items()]


def test_a_timeline_is_of_an_open_log() -> None:
    """A path in its place is refused, and the error says what to pass."""
    with pytest.raises(TypeError, match=r"turnlog\.open"):
        Timeline("team.db")  # type: ignore[arg-type]
