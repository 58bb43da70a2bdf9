"""Snapshots: the shape, what comes back, and that a restore happens wholly or not at all."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from turnlog.eventlog import AdvanceTurn, Busy, EntryDeleted, EntryWritten, EventLog, Limits, Restored, Write
from turnlog.memory import EventSourcedStore, InMemoryStore, MemoryEntry, SharedMemory, acting_as
from turnlog.projections import first_difference
from turnlog.replay import Timeline

from .conftest import ExpiringStore, PlainStore

RESERVED = ["__oma_checkpoint__/latest", "__oma_approval__/apr_1", "__turnlog__/lease"]


def filled(memory: SharedMemory) -> SharedMemory:
    """Some memory: text, structure, metadata, an expiry, an expired entry, reserved records, turn 3."""
    memory.write("a", "text", "é\ud83d\x00", {"source": [1]})
    memory.store.set(RESERVED[0], "checkpoint")
    memory.write_expiring("b", "gone", "x", 2)
    memory.write("b", "json", {"x": [1, None, 0.1]})
    memory.set_turn(3)
    memory.write_expiring("a", "soon", "y", 2)
    memory.store.set("stray", "no metadata")
    memory.store.set(RESERVED[1], "approval")
    return memory


def test_the_shape(memory: SharedMemory) -> None:
    """Version 1: turn and visible entries in order, stored text, ISO 8601 times, absent members left out."""
    snapshot = filled(memory).snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert (snapshot["version"], snapshot["turnCount"]) == (1, 3)
    entries = snapshot["entries"]
    assert [entry["key"] for entry in entries] == ["a/text", "b/json", "a/soon", "stray"]
    assert entries[0]["value"] == "é\ud83d\x00"
    assert entries[0]["metadata"] == {"source": [1], "agent": "a"}
    assert entries[1]["value"] == '{"x":[1,null,0.1]}'
    assert entries[1]["metadata"] == {"sharedMemoryValueEncoding": "json", "agent": "b"}
    assert [sorted(entry) for entry in entries[2:]] == [
        ["createdAt", "expiresAtTurn", "key", "metadata", "value"],
        ["createdAt", "key", "value"],
    ]
    assert entries[2]["expiresAtTurn"] == 5
    created_at = memory.read("a/text").created_at
    assert entries[0]["createdAt"] == f"{created_at:%Y-%m-%dT%H:%M:%S}.{created_at.microsecond // 1000:03d}Z"


def test_an_empty_memory_has_a_snapshot(memory: SharedMemory) -> None:
    """It restores to nothing, at turn 0."""
    snapshot = memory.snapshot()
    assert snapshot == {"version": 1, "turnCount": 0, "entries": []}
    filled(memory).restore(snapshot)
    assert memory.list_all() == []
    assert memory.turn == 0


def test_restore_brings_everything_back(memory: SharedMemory) -> None:
    """Whatever was written, deleted or expired since: values, metadata, times, order and turn are back."""
    snapshot = filled(memory).snapshot()
    before = memory.list_all()
    memory.write("a", "text", "changed")
    memory.delete("b", "json")
    memory.write("b", "json", "again, at the end")
    memory.write("c", "new", "x")
    memory.write("a", "soon", "permanent now")
    memory.set_turn(11)
    memory.restore(snapshot)
    after = memory.list_all()
    assert [strip(entry) for entry in after] == [strip(entry) for entry in before]
    assert memory.turn == 3
    assert memory.snapshot() == snapshot


def strip(entry: Any) -> Any:
    """An entry without its version."""
    return (entry.key, entry.value, entry.metadata, entry.created_at, entry.expires_at_turn)


def test_reserved_records_survive(memory: SharedMemory) -> None:
    """They stay as they are, are not in the snapshot, and are ignored when one brings them along."""
    for key in RESERVED:
        memory.store.set(key, "kept")
    snapshot = filled(memory).snapshot()
    snapshot["entries"].append(
        {"key": RESERVED[2], "value": "forged", "createdAt": "2020-01-01T00:00:00.000Z"}
    )
    memory.store.set(RESERVED[0], "newer")
    memory.restore(snapshot)
    assert [memory.store.get(key).value for key in RESERVED] == ["newer", "approval", "kept"]
    memory.restore({"version": 1, "turnCount": 0, "entries": []})
    assert sorted(entry.key for entry in memory.store.list()) == sorted(RESERVED)


def test_restoring_twice_changes_nothing_visible(memory: SharedMemory) -> None:
    """Not even a version."""
    snapshot = filled(memory).snapshot()
    memory.write("z", "z", "z")
    memory.restore(snapshot)
    before = memory.store.list()
    memory.restore(snapshot)
    assert memory.store.list() == before


def test_what_is_in_place_keeps_its_version(memory: SharedMemory) -> None:
    """Only entries from the first difference on are written anew."""
    for key in ("one", "two", "three", "four"):
        memory.write("a", key, key)
    snapshot = memory.snapshot()
    versions = {entry.key: entry.version for entry in memory.list_all()}
    memory.write("a", "three", "changed")
    memory.write("a", "five", "new")
    memory.restore(snapshot)
    after = {entry.key: entry.version for entry in memory.list_all()}
    assert list(after) == ["a/one", "a/two", "a/three", "a/four"]
    assert [after[key] == versions[key] for key in after] == [True, True, False, False]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: m.store.set("a/two", "2", {"agent": "b"}), id="metadata"),
        pytest.param(lambda m: m.store.set("a/two", "2"), id="no metadata"),
        pytest.param(lambda m: m.store.set("a/two", "2", {}), id="empty metadata"),
        pytest.param(lambda m: m.store.set("a/two", "two", {"agent": "a"}), id="value"),
        pytest.param(lambda m: m.write_expiring("a", "two", "2", 9), id="expiry"),
        pytest.param(lambda m: (m.delete("a", "one"), m.write("a", "one", "1")), id="order"),
        pytest.param(lambda m: m.delete("a", "one"), id="first one gone"),
        pytest.param(lambda m: m.store.clear(), id="all gone"),
    ],
)
def test_any_difference_is_noticed(memory: SharedMemory, change: Callable[[SharedMemory], Any]) -> None:
    """One that is only in metadata, expiry or order as well."""
    for key, value in (("one", "1"), ("two", "2"), ("three", "3")):
        memory.write("a", key, value)
    snapshot = memory.snapshot()
    change(memory)
    memory.restore(snapshot)
    assert memory.snapshot() == snapshot


def test_another_order_is_restored(memory: SharedMemory) -> None:
    """Also where every entry is there, unchanged."""
    for key in ("one", "two", "three"):
        memory.write("a", key, "v")
    snapshot = memory.snapshot()
    snapshot["entries"].reverse()
    memory.restore(snapshot)
    assert [entry.key for entry in memory.list_all()] == ["a/three", "a/two", "a/one"]
    assert memory.snapshot() == snapshot


def test_created_at_of_another_time_comes_back(memory: SharedMemory) -> None:
    """Also when key and value are there already; later writes keep it; a new life has its own."""
    memory.write("a", "k", "v")
    snapshot = memory.snapshot()
    snapshot["entries"][0]["createdAt"] = "1969-07-20T20:17:40.001Z"
    memory.restore(snapshot)
    assert memory.read("a/k").created_at == datetime.fromisoformat("1969-07-20T20:17:40.001Z")
    memory.write("a", "k", "w")
    assert memory.read("a/k").created_at == datetime.fromisoformat("1969-07-20T20:17:40.001Z")
    memory.delete("a", "k")
    memory.write("a", "k", "w")
    assert memory.read("a/k").created_at.year > 2000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("2026-11-30T02:13:00.123Z", "2026-11-30T02:13:00.123Z", id="as we write it"),
        pytest.param("2026-11-30T02:13:00Z", "2026-11-30T02:13:00.000Z", id="whole second"),
        pytest.param("2026-11-30T04:13:00.5+02:00", "2026-11-30T02:13:00.500Z", id="another zone"),
        pytest.param("2026-11-30T02:13:00.123999Z", "2026-11-30T02:13:00.123Z", id="finer"),
        pytest.param("0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z", id="earliest"),
        pytest.param("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z", id="latest"),
    ],
)
def test_times_are_kept_to_the_millisecond(memory: SharedMemory, text: str, expected: str) -> None:
    """Whatever zone they are told in."""
    memory.restore({"version": 1, "turnCount": 0, "entries": [{"key": "k", "value": "v", "createdAt": text}]})
    assert memory.snapshot()["entries"][0]["createdAt"] == expected


ENTRY = {"key": "a/k", "value": "v", "createdAt": "2026-11-30T02:13:00.123Z"}


def having(**members: Any) -> dict[str, Any]:
    """A snapshot whose second entry has these members; None leaves one out."""
    entry = {name: value for name, value in (ENTRY | members).items() if value is not None}
    return {"version": 1, "turnCount": 2, "entries": [{**ENTRY, "key": "first"}, entry]}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        pytest.param(None, TypeError, "snapshot must be a dict", id="None"),
        pytest.param("{}", TypeError, "snapshot must be a dict, not str", id="JSON text"),
        pytest.param([], TypeError, "snapshot must be a dict", id="list"),
        pytest.param({}, ValueError, "unsupported snapshot version None", id="empty"),
        pytest.param({**having(), "version": 2}, ValueError, "snapshot version 2", id="version 2"),
        pytest.param({**having(), "version": "1"}, ValueError, "snapshot version '1'", id="version text"),
        pytest.param({**having(), "version": True}, ValueError, "snapshot version True", id="version bool"),
        pytest.param({**having(), "turnCount": -1}, ValueError, "turnCount", id="negative turn"),
        pytest.param({**having(), "turnCount": 2**53}, ValueError, "turnCount", id="turn too high"),
        pytest.param({**having(), "turnCount": 1.0}, TypeError, "turnCount", id="turn float"),
        pytest.param({**having(), "turnCount": True}, TypeError, "turnCount", id="turn bool"),
        pytest.param({"version": 1, "entries": []}, TypeError, "turnCount", id="no turn"),
        pytest.param({"version": 1, "turnCount": 0}, TypeError, "entries must be a list", id="no entries"),
        pytest.param({"version": 1, "turnCount": 0, "entries": {}}, TypeError, "a list", id="entries dict"),
        pytest.param({"version": 1, "turnCount": 0, "entries": [[]]}, TypeError, r"s\[0\]", id="entry list"),
        pytest.param(having(key=None), TypeError, r"entries\[1\]\.key", id="no key"),
        pytest.param(having(key=1), TypeError, r"entries\[1\]\.key", id="key int"),
        pytest.param(having(value=None), TypeError, r"entries\[1\]\.value", id="no value"),
        pytest.param(having(value={"a": 1}), TypeError, r"entries\[1\]\.value", id="decoded value"),
        pytest.param(having(metadata=[]), TypeError, r"entries\[1\]\.metadata", id="metadata list"),
        pytest.param(having(metadata={"a": float("nan")}), TypeError, r"\[1\]\.metadata.*\$\.a", id="NaN"),
        pytest.param(having(metadata={1: 2}), TypeError, r"entries\[1\]\.metadata", id="metadata int key"),
        pytest.param(having(createdAt=None), TypeError, r"entries\[1\]\.createdAt", id="no time"),
        pytest.param(having(createdAt=0), TypeError, r"entries\[1\]\.createdAt", id="time int"),
        pytest.param(having(createdAt="yesterday"), ValueError, r"entries\[1\]\.createdAt.*ISO", id="no ISO"),
        pytest.param(having(createdAt=""), ValueError, r"entries\[1\]\.createdAt.*ISO", id="empty time"),
        pytest.param(having(createdAt="2026-11-30T02:13:00.123"), ValueError, "no time zone", id="naive"),
        pytest.param(having(expiresAtTurn=-1), ValueError, r"\[1\]\.expiresAtTurn", id="negative expiry"),
        pytest.param(having(expiresAtTurn=1.5), TypeError, r"entries\[1\]\.expiresAtTurn", id="expiry float"),
        pytest.param(having(expiresAtTurn=True), TypeError, r"entries\[1\]\.expiresAtTurn", id="expiry bool"),
        pytest.param(having(key="first"), ValueError, r"entries\[1\].*'first' occurs twice", id="key twice"),
        pytest.param(having(key="x" * 5000), ValueError, "limit", id="key too large"),
    ],
)  # fmt: skip
def test_what_is_no_snapshot_changes_nothing(
    memory: SharedMemory, wrong: Any, error: type[Exception], message: str
) -> None:
    """Everything is checked first; the message names the member."""
    filled(memory)
    entries, turn = memory.store.list(), memory.turn
    with pytest.raises(error, match=message):
        memory.restore(wrong)
    assert (memory.store.list(), memory.turn) == (entries, turn)


def test_the_fiftieth_entry_is_wrong(memory: SharedMemory) -> None:
    """Neither the forty-nine before nor the deletions happen."""
    memory.write("a", "old", "v")
    snapshot: dict[str, Any] = {
        "version": 1,
        "turnCount": 5,
        "entries": [{**ENTRY, "key": f"a/{number}"} for number in range(60)],
    }
    snapshot["entries"][49]["value"] = 49
    before = memory.store.list()
    with pytest.raises(TypeError, match=r"entries\[49\]\.value"):
        memory.restore(snapshot)
    assert memory.store.list() == before
    assert memory.turn == 0


@pytest.mark.parametrize(
    ("what", "entry"),
    [
        pytest.param("value of key 'a/k' has 51", {"value": "x" * 51}, id="value"),
        pytest.param("metadata of key 'a/k' has 61", {"metadata": {"m": "x" * 53}}, id="metadata"),
    ],
)
def test_what_is_over_a_limit_changes_nothing(what: str, entry: dict[str, Any]) -> None:
    """The store's limits hold for a restore too."""
    memory = SharedMemory(InMemoryStore(limits=Limits(value=50, metadata=60)))
    memory.write("a", "old", "v")
    with pytest.raises(ValueError, match=what):
        memory.restore(having(**entry))
    assert [entry.key for entry in memory.list_all()] == ["a/old"]


def test_a_snapshot_is_not_shared_with_the_memory(memory: SharedMemory) -> None:
    """Changing it after the restore changes nothing, and restoring does not change it."""
    memory.write("a", "k", {"x": [1]}, {"tags": ["t"]})
    snapshot = memory.snapshot()
    kept = copy.deepcopy(snapshot)
    memory.delete("a", "k")
    memory.restore(snapshot)
    assert snapshot == kept
    snapshot["entries"][0]["metadata"]["tags"].append("u")
    assert memory.snapshot() == kept


def test_unknown_members_and_empty_ones_are_passed_over(memory: SharedMemory) -> None:
    """A later writer may tell more; null means absent."""
    entry = {**ENTRY, "metadata": None, "expiresAtTurn": None, "more": 1}
    memory.restore({"version": 1, "turnCount": 1, "entries": [entry], "more": {}})
    assert memory.read("a/k").metadata is None
    assert memory.snapshot()["entries"] == [ENTRY]


# -- in the history


def test_a_restore_is_one_batch_of_facts(log: EventLog) -> None:
    """It begins with the restore itself and names who asked; each key that changes has one event."""
    memory = SharedMemory(EventSourcedStore(log))
    memory.write("a", "kept", "1")
    memory.write("a", "changed", "1")
    memory.write("a", "deleted", "1")
    snapshot = memory.snapshot()
    memory.write("a", "changed", "2")
    memory.delete("a", "deleted")
    memory.write("a", "new", "1")
    memory.advance_turn()
    before = log.head("main").position
    memory.restore(snapshot, by="operator")
    recorded = list(log.read(after=before))
    assert [one.batch for one in recorded] == [0, 1, 2, 3]
    assert {one.turn for one in recorded} == {0}
    assert recorded[0].event == Restored(turn=0, to=None, by="operator", reason="snapshot")
    assert recorded[1].event == EntryDeleted("a/new")
    written = [one.event for one in recorded[2:]]
    assert all(isinstance(event, EntryWritten) and event.birth is None for event in written)
    assert [event.key for event in written] == ["a/changed", "a/deleted"]


def test_a_restore_names_the_ambient_agent(log: EventLog) -> None:
    """Where nobody else is named."""
    memory = SharedMemory(EventSourcedStore(log))
    with acting_as("keeper", activity="night"):
        memory.restore(memory.snapshot())
    recorded = list(log.read())
    assert recorded[-1].event == Restored(turn=0, by="keeper", reason="snapshot")
    assert (recorded[-1].agent, recorded[-1].activity) == ("keeper", "night")


def test_a_restore_is_by_whoever_asked(log: EventLog) -> None:
    """Who asks for it is the agent of every event of it, as with `Timeline.restore`."""
    memory = SharedMemory(EventSourcedStore(log))
    memory.write("a", "k", "v")
    memory.restore({"version": 1, "turnCount": 0, "entries": []}, by="ops")
    assert [recorded.agent for recorded in log.read(after=1)] == ["ops", "ops"]


@pytest.mark.parametrize("by", [pytest.param("", id="empty"), pytest.param("x" * 4097, id="too long")])
def test_who_asks_must_have_a_name(memory: SharedMemory, by: str) -> None:
    """A name that no agent can have is refused before anything changes."""
    memory.write("a", "k", "v")
    with pytest.raises(ValueError, match=r"^by "):
        memory.restore({"version": 1, "turnCount": 0, "entries": []}, by=by)
    assert [entry.value for entry in memory.list_all()] == ["v"]


def test_a_restore_can_be_looked_behind(log: EventLog) -> None:
    """What was before the restore is still there to be asked for, and the log folds to what is there now."""
    memory = SharedMemory(EventSourcedStore(log))
    memory.write("a", "k", "1")
    snapshot = memory.snapshot()
    memory.write("a", "k", "2")
    position = log.head("main").position
    memory.advance_turn()
    memory.write("a", "k", "3")
    memory.restore(snapshot)
    timeline = Timeline(log, run="main")
    assert timeline.entry("a/k", position=position).value == "2"
    assert timeline.entry("a/k").value == "1"
    assert timeline.entry("a/k").created_at == memory.read("a/k").created_at
    with log.reading() as db:
        assert first_difference(db) is None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["write", "expire", "delete", "turn", "save", "restore"]),
            st.sampled_from(["k", "l", "m"]),
            st.integers(0, 3),
        ),
        max_size=25,
    )
)
def test_snapshots_taken_at_any_time_come_back(steps: list[tuple[str, str, int]]) -> None:
    """After a restore the visible state is exactly that of the snapshot, whatever happened in between."""
    memory = SharedMemory()
    saved = [memory.snapshot()]
    for verb, key, number in steps:
        if verb == "write":
            memory.write("a", key, number)
        elif verb == "expire":
            memory.write_expiring("a", key, number, number + 1)
        elif verb == "delete":
            memory.delete("a", key)
        elif verb == "turn":
            memory.set_turn(number)
        elif verb == "save":
            saved.append(memory.snapshot())
        else:
            wanted = saved[number % len(saved)]
            memory.restore(wanted)
            assert memory.snapshot() == wanted


def test_restoring_while_others_write(store: Any) -> None:
    """A restore is never seen half done: all keys of the snapshot are there together, or none."""
    memory = SharedMemory(store)
    for number in range(5):
        memory.write("a", f"k{number}", "saved")
    full = memory.snapshot()
    empty = {"version": 1, "turnCount": 0, "entries": []}
    seen: set[int] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.add(sum(entry.key.startswith("a/") for entry in store.list()))

    def write() -> None:
        for number in range(20):
            store.set("b/other", str(number))

    threads = [threading.Thread(target=look), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        memory.restore(empty)
        memory.restore(full)
    stop.set()
    for thread in threads:
        thread.join()
    assert seen <= {0, 5}
    assert len(memory.list_by_agent("a")) == 5


class Restless(InMemoryStore):
    """A store on which another writer finishes a task while entries are being listed, so many times."""

    times = 0

    def list(self) -> list[MemoryEntry]:
        """The entries, as of before the other's write."""
        entries = super().list()
        if self.times:
            self.times -= 1
            self.execute([Write("b/result", str(self.get_turn() + 1)), AdvanceTurn()])
        return entries


def test_a_snapshot_is_of_one_turn() -> None:
    """Entries and turn belong together, although the store is asked for one after the other."""
    store = Restless()
    memory = SharedMemory(store)
    memory.store.set("b/result", "0")
    store.times = 3
    snapshot = memory.snapshot()
    assert snapshot["turnCount"] == 3
    assert snapshot["entries"][0]["value"] == "3"


def test_a_snapshot_is_not_waited_for_without_end() -> None:
    """If the turn changes every time, that is an error, not a snapshot that never was."""
    store = Restless()
    store.times = 10**6
    with pytest.raises(Busy, match="turn changed"):
        SharedMemory(store).snapshot()


# -- stores that can do less


def test_restoring_a_plain_store(plain: SharedMemory, plain_store: PlainStore) -> None:
    """Entry by entry: values, metadata, order and turn come back, reserved records stay."""
    plain_store.set(RESERVED[0], "kept")
    plain.write("a", "1", {"x": 1}, {"m": 1})
    plain.write("a", "2", "two")
    plain.set_turn(4)
    snapshot = plain.snapshot()
    plain.write("a", "1", "changed")
    plain.write("a", "3", "new")
    plain.set_turn(9)
    plain.restore(snapshot)
    assert [(entry.key, entry.value) for entry in plain.list_all()] == [("a/1", {"x": 1}), ("a/2", "two")]
    assert plain.read("a/1").metadata["m"] == 1
    assert plain.turn == 4
    assert plain_store.get(RESERVED[0]).value == "kept"


def test_restoring_a_plain_store_checks_the_snapshot_first(
    plain: SharedMemory, plain_store: PlainStore
) -> None:
    """Although the restore itself is not atomic, a bad snapshot changes nothing."""
    plain.write("a", "k", "v")
    with pytest.raises(TypeError):
        plain.restore(having(value=1))
    assert list(plain_store.entries) == ["a/k"]


def test_a_failure_half_way_through_a_plain_store(plain: SharedMemory, plain_store: PlainStore) -> None:
    """It surfaces as the store raised it, and the turn stays; the entries are left in between."""
    plain.write("a", "1", "v")
    plain.write("a", "2", "v")
    plain.set_turn(1)
    snapshot = plain.snapshot()
    plain.set_turn(5)
    plain_store.fail_at = "a/2"
    with pytest.raises(OSError, match="cannot write a/2"):
        plain.restore(snapshot)
    assert plain.turn == 5
    assert list(plain_store.entries) == ["a/1"]


def test_expiries_come_back_where_the_store_keeps_them(
    plain: SharedMemory, expiring_store: ExpiringStore
) -> None:
    """A store that cannot keep one gets a permanent entry."""
    snapshot = having(expiresAtTurn=7)
    memory = SharedMemory(expiring_store)
    memory.restore(snapshot)
    plain.restore(snapshot)
    assert memory.read("a/k").expires_at_turn == 7
    assert memory.read("first").expires_at_turn is None
    assert plain.read("a/k").expires_at_turn is None


def test_a_store_without_time_zones_is_told(plain: SharedMemory, plain_store: PlainStore) -> None:
    """Its times cannot be written down without a guess."""
    plain_store.entries["a/k"] = MemoryEntry("a/k", "v", None, datetime(2026, 1, 1))
    with pytest.raises(ValueError, match=r"'a/k'.*time zone"):
        plain.snapshot()


@pytest.mark.parametrize("created_at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_utc_does_not_have_is_refused(created_at: str) -> None:
    """What could be stored but never shown again is refused, and nothing is changed."""
    memory = SharedMemory()
    memory.write("agent", "k", "v")
    entry = {"key": "agent/new", "value": "v", "createdAt": created_at}
    with pytest.raises(ValueError, match="is not a time"):
        memory.restore({"version": 1, "turnCount": 0, "entries": [entry]})
    assert [each.key for each in memory.list_all()] == ["agent/k"]
