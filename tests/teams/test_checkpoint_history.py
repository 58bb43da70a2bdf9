"""Every checkpoint ever saved stays addressable, and the memory can be put back to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import AdvanceTurn, BadCheckpoint, Checkpoint, Delete, Timeline, Write
from turnlog.memory import EventSourcedStore, InMemoryStore, SharedMemory
from turnlog.teams import (
    check_resumable,
    checkpoint_at,
    memory_point,
    put_memory_back,
    resumed_identity,
    saved_checkpoints,
)


def minimal(run_id: str, number: int, **named: Any) -> dict[str, Any]:
    """A checkpoint with a number that tests know it by."""
    return {
        "version": 4,
        "mode": "runTasks",
        "createdAt": "2026-11-30T12:00:00.123Z",
        "identity": {"runId": run_id, "attempt": number, "lastTraceId": "t", "lastRootSpanId": "s"},
        "queue": {"version": 1, "tasks": []},
        "completedTaskResults": [],
        "inFlightTasks": [],
        "pendingApprovals": [],
        "approvalDecisions": [],
    } | named


@pytest.fixture
def trip(log: turnlog.EventLog) -> EventSourcedStore:
    """A run that finished three tasks, each with result, turn and checkpoint in one batch; then a write."""
    store = EventSourcedStore(log, "trip")
    checkpoint = Checkpoint(store)
    for number in (1, 2, 3):
        store.execute(
            [
                Write(f"ann/task:{number}:result", f"done {number}", {"agent": "ann"}),
                AdvanceTurn(),
                checkpoint.writing(minimal("trip", number)),
            ]
        )
    store.set("ann/after", "later")
    return store


def numbers(found: Iterator[Any]) -> list[int]:
    """The numbers of checkpoints."""
    return [saved.load()["identity"]["attempt"] for saved in found]


def test_every_checkpoint_is_there(log: turnlog.EventLog, trip: EventSourcedStore) -> None:
    """The store has the newest, the log has all of them, deleted ones included, each in its place."""
    Checkpoint(trip).delete()
    found = list(saved_checkpoints(log, "trip"))
    assert numbers(iter(found)) == [1, 2, 3]
    assert [(saved.position, saved.turn, saved.version) for saved in found] == [
        (3, 1, 4),
        (6, 2, 4),
        (9, 3, 4),
    ]
    assert {saved.key for saved in found} == {"__oma_checkpoint__/trip/latest"}
    with pytest.raises(turnlog.NotFound):
        next(saved_checkpoints(log, "none"))


@pytest.mark.parametrize(
    ("at", "number"),
    [
        pytest.param("head", 3, id="now"),
        pytest.param("@3", 1, id="its own position"),
        pytest.param("@5", 1, id="just before the next"),
        pytest.param("@6", 2, id="the next"),
        pytest.param("2", 2, id="a turn"),
        pytest.param("@2", None, id="before the first"),
        pytest.param("@0", None, id="the beginning"),
    ],
)
def test_the_newest_at_or_before_a_point(
    log: turnlog.EventLog, trip: EventSourcedStore, at: str, number: int | None
) -> None:
    """The checkpoint of an address is the last one saved by then."""
    found = checkpoint_at(log, "trip", at=at)
    assert (None if found is None else found.load()["identity"]["attempt"]) == number
    with pytest.raises(turnlog.BadAddress):
        checkpoint_at(log, "trip", at="@99")


def test_a_fork_sees_those_of_its_parent_up_to_the_fork(
    log: turnlog.EventLog, trip: EventSourcedStore
) -> None:
    """A fork goes on from its parent's checkpoint until it has its own, and never from a later one."""
    Timeline(log, "trip").fork(turn=2, run="what-if")
    found = checkpoint_at(log, "what-if")
    assert found is not None
    assert (found.run, found.load()["identity"]["attempt"]) == ("trip", 2)
    assert Checkpoint(EventSourcedStore(log, "what-if")).load() is None
    Checkpoint(EventSourcedStore(log, "what-if")).save(minimal("what-if", 7))
    assert numbers(saved_checkpoints(log, "what-if")) == [1, 2, 7]
    assert numbers(saved_checkpoints(log, "what-if", inherited=False)) == [7]
    assert numbers(saved_checkpoints(log, "trip")) == [1, 2, 3]


def test_a_key_outside_the_prefix(log: turnlog.EventLog, trip: EventSourcedStore) -> None:
    """Such a checkpoint is found if its key is named, also where a restore has put its entry back since."""
    checkpoint = Checkpoint(trip, key="ops/checkpoint")
    checkpoint.save(minimal("trip", 7))
    checkpoint.save(minimal("trip", 8))
    Timeline(log, "trip").restore(position=11)
    assert numbers(saved_checkpoints(log, "trip", key="ops/checkpoint")) == [7, 8]
    found = checkpoint_at(log, "trip", key="ops/checkpoint")
    assert found is not None
    assert found.load()["identity"]["attempt"] == 8
    assert numbers(saved_checkpoints(log, "trip")) == [1, 2, 3]


def test_the_memory_is_put_back_exactly(log: turnlog.EventLog, trip: EventSourcedStore) -> None:
    """Entries and turn are those right after the batch that saved the checkpoint."""
    timeline = Timeline(log, "trip")
    then = [(entry.key, entry.value, entry.created_at) for entry in timeline.state(position=6).values()]
    found = checkpoint_at(log, "trip", at="2")
    assert found is not None
    restored = put_memory_back(log, "trip", found, by="ops")
    state = timeline.state()
    assert [(entry.key, entry.value, entry.created_at) for entry in state.values()] == then
    assert (state.point.turn, restored.agent, restored.event.reason) == (2, "ops", "checkpoint @6")  # type: ignore[union-attr]
    latest = Checkpoint(trip).load()
    assert latest is not None
    assert latest["identity"]["attempt"] == 3  # records under a reserved prefix stay


def test_what_is_committed_with_a_checkpoint_belongs_to_it(log: turnlog.EventLog) -> None:
    """Even what follows it in its batch: between the two nobody ever saw the memory."""
    store = EventSourcedStore(log, "trip")
    store.execute([Checkpoint(store).writing(minimal("trip", 1)), Write("ann/a", "1")])
    store.set("ann/a", "2")
    found = checkpoint_at(log, "trip", at="@1")
    assert found is not None
    assert memory_point(log, "trip", found).revision == 2
    put_memory_back(log, "trip", found)
    entry = store.get("ann/a")
    assert entry is not None
    assert entry.value == "1"


def test_a_fork_puts_its_memory_back_to_its_parents_checkpoint(
    log: turnlog.EventLog, trip: EventSourcedStore
) -> None:
    """A checkpoint of the common past is a point of the fork's lineage too; one after the fork is not."""
    Timeline(log, "trip").fork(turn=2, run="what-if")
    EventSourcedStore(log, "what-if").set("bob/b", "x")
    first, third = list(saved_checkpoints(log, "trip"))[0::2]
    put_memory_back(log, "what-if", first)
    assert list(Timeline(log, "what-if").state()) == ["ann/task:1:result"]
    before = log.head("what-if")
    with pytest.raises(BadCheckpoint, match="does not hold that event"):
        put_memory_back(log, "what-if", third)
    assert log.head("what-if") == before


def test_memory_kept_elsewhere_is_put_back_by_its_head(log: turnlog.EventLog, tmp_path: Path) -> None:
    """A checkpoint in another file says which event of the memory's log was the newest, and its hash."""
    memory = SharedMemory(EventSourcedStore(log, "trip"))
    memory.write("ann", "a", "1")
    memory.advance_turn()
    with turnlog.open(tmp_path / "checkpoints.db") as other:
        Checkpoint(EventSourcedStore(other, "trip")).save(minimal("trip", 1), memory=memory)
        found = checkpoint_at(other, "trip")
    assert found is not None
    memory.write("ann", "a", "2")
    memory.write("bob", "b", "3")
    put_memory_back(log, "trip", found)
    assert [(entry.key, entry.value) for entry in memory.list_all()] == [("ann/a", "1")]
    assert memory.turn == 1


@pytest.mark.parametrize(
    ("place", "said"),
    [
        pytest.param(None, r"\$.turnlog must be an object, found nothing", id="none"),
        pytest.param({"revision": 0}, r"\$.turnlog.revision must be an integer of at least 1", id="no event"),
        pytest.param(
            {"revision": 99, "run": "trip", "uid": "0", "head": "00"}, "does not hold that event", id="ahead"
        ),
        pytest.param(
            {"revision": 1, "run": "trip", "uid": "0", "head": "00"}, "does not hold that event", id="another"
        ),
    ],
)
def test_a_restore_that_is_refused_changes_nothing(
    log: turnlog.EventLog, tmp_path: Path, place: Any, said: str
) -> None:
    """A checkpoint that says nothing of this log, or what it does not hold, is refused before any change."""
    EventSourcedStore(log, "trip").set("ann/a", "1")
    with turnlog.open(tmp_path / "checkpoints.db") as other:
        document = minimal("trip", 1) | ({} if place is None else {"turnlog": place})
        EventSourcedStore(other, "trip").set("__oma_checkpoint__/trip/latest", json.dumps(document))
        found = checkpoint_at(other, "trip")
    assert found is not None
    before = log.head("trip")
    with pytest.raises(BadCheckpoint, match=said):
        put_memory_back(log, "trip", found)
    assert log.head("trip") == before


def test_a_damaged_checkpoint_is_found_and_told(log: turnlog.EventLog, trip: EventSourcedStore) -> None:
    """It is listed like any other; reading it says what is wrong with it."""
    trip.set(Checkpoint(trip).key, '{"version": 4}')
    found = checkpoint_at(log, "trip")
    assert found is not None
    with pytest.raises(BadCheckpoint, match=r"\$.mode must be one of"):
        found.load()


# -- identity


def loaded(run_id: str, **named: Any) -> Any:
    """A checkpoint as it is loaded."""
    checkpoint = Checkpoint(InMemoryStore())
    checkpoint.save(minimal(run_id, 2, **named))
    return checkpoint.load()


def test_a_run_goes_on_under_its_name() -> None:
    """I11: the same run, the next attempt, linked to the trace before."""
    identity = resumed_identity(loaded("trip"), run_id="trip")
    assert (identity.run_id, identity.attempt, identity.forked_from) == ("trip", 3, None)
    assert identity.continued_from == ("t", "s")


def test_another_name_is_a_conflict() -> None:
    """I11: a run id that differs from that of the checkpoint is refused."""
    with pytest.raises(BadCheckpoint, match="restore runId conflict"):
        resumed_identity(loaded("trip"), run_id="other")
    with pytest.raises(BadCheckpoint, match="restore runId conflict"):
        resumed_identity(loaded("trip"), run_id="trip", fork="what-if")


def test_a_checkpoint_without_a_name_gets_one() -> None:
    """I11: a record of version 1 that names no run goes on under a new id, or under the one asked for."""
    identity = resumed_identity(loaded(""), new_run_id=lambda: "new")
    assert (identity.run_id, identity.attempt) == ("new", 3)
    assert resumed_identity(loaded(""), run_id="asked").run_id == "asked"


def test_a_fork_goes_on_under_its_own_name() -> None:
    """A fork is a run of its own: its first attempt, and it says where it comes from."""
    identity = resumed_identity(loaded("trip"), fork="what-if")
    assert (identity.run_id, identity.attempt, identity.forked_from) == ("what-if", 1, "trip")


# -- tasks under way


TASK = {
    "taskId": "a",
    "assignee": "ann",
    "phase": "awaiting_model",
    "conversationMessages": [],
    "messages": [],
    "toolCalls": [],
    "turns": 0,
    "tokenUsage": {"input_tokens": 0, "output_tokens": 0},
}


@pytest.mark.parametrize(
    ("queue", "path"),
    [
        pytest.param({"inProgress": ["a"], "tasks": [{"id": "a", "assignee": "ann"}]}, None, id="fine"),
        pytest.param(
            {"inProgress": [], "tasks": [{"id": "a", "assignee": "ann"}]}, "taskId", id="not running"
        ),
        pytest.param({"tasks": [{"id": "a", "assignee": "ann"}]}, "taskId", id="no list"),
        pytest.param({"inProgress": ["a"], "tasks": []}, "taskId", id="unknown"),
        pytest.param({"inProgress": ["a"], "tasks": [{"id": "a"}]}, "assignee", id="no assignee"),
        pytest.param(
            {"inProgress": ["a"], "tasks": [{"id": "a", "assignee": "bob"}]}, "assignee", id="another"
        ),
    ],
)
def test_tasks_under_way_are_those_of_the_queue(queue: dict[str, Any], path: str | None) -> None:
    """I10: what was under way must be in progress there, with the same assignee."""
    snapshot = loaded("trip", queue={"version": 1, **queue}, inFlightTasks=[TASK])
    if path is None:
        check_resumable(snapshot)
        return
    with pytest.raises(BadCheckpoint, match="cannot be resumed") as caught:
        check_resumable(snapshot)
    assert caught.value.path == f"$.inFlightTasks[0].{path}"


def test_the_queue_must_hold_tasks() -> None:
    """I10: a queue whose tasks are none is refused when it is to be resumed."""
    with pytest.raises(BadCheckpoint, match=r"\$.queue.tasks\[0\] must be an object"):
        check_resumable(loaded("trip", queue={"version": 1, "tasks": [7], "inProgress": []}))


def test_deleted_entries_come_back_with_the_memory(log: turnlog.EventLog, trip: EventSourcedStore) -> None:
    """What was deleted after a checkpoint is there again, in its place."""
    before = list(Timeline(log, "trip").state(position=9))
    trip.execute([Delete("ann/task:1:result")])
    found = checkpoint_at(log, "trip")
    assert found is not None
    put_memory_back(log, "trip", found)
    assert list(Timeline(log, "trip").state()) == before
