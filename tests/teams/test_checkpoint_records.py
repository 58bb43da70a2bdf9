"""Checkpoints as records: keys, versions, validation to the member, and what is embedded."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from turnlog import AsyncCheckpoint, BadCheckpoint, Checkpoint, TurnlogError
from turnlog.memory import (
    AsyncEventSourcedStore,
    AsyncInMemoryStore,
    AsyncSharedMemory,
    EventSourcedStore,
    InMemoryStore,
    SharedMemory,
)

from ..blocking import Loop

Golden = Callable[[str], Any]
Path_ = tuple[str | int, ...]

MINIMAL: dict[str, Any] = {
    "version": 4,
    "mode": "runTasks",
    "createdAt": "2026-11-30T12:00:00.123Z",
    "identity": {"runId": "trip-42", "attempt": 1, "lastTraceId": "", "lastRootSpanId": ""},
    "queue": {"version": 1, "tasks": []},
    "completedTaskResults": [],
    "inFlightTasks": [],
    "pendingApprovals": [],
    "approvalDecisions": [],
}


def minimal(**named: Any) -> dict[str, Any]:
    """The smallest checkpoint of version 4; what is named replaces."""
    return copy.deepcopy(MINIMAL) | named


def at(document: Any, path: Path_) -> Any:
    """The member at `path`."""
    for name in path:
        document = document[name]
    return document


def changed(document: Any, path: Path_, *replacement: Any) -> Any:
    """A copy with the member at `path` replaced, or without one taken out."""
    whole = copy.deepcopy(document)
    inner = at(whole, path[:-1])
    if replacement:
        inner[path[-1]] = replacement[0]
    else:
        del inner[path[-1]]
    return whole


def shown(path: Path_) -> str:
    """A path as errors show it."""
    return "$" + "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in path)


def refused(document: Any) -> BadCheckpoint:
    """The error with which a stored document is refused."""
    store = InMemoryStore()
    checkpoint = Checkpoint(store)
    store.set(checkpoint.key, document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(BadCheckpoint) as caught:
        checkpoint.load()
    assert isinstance(caught.value, TurnlogError)
    assert checkpoint.key in str(caught.value)
    return caught.value


# -- keys


@pytest.mark.parametrize(
    ("named", "key"),
    [
        pytest.param({}, "__oma_checkpoint__/latest", id="neither"),
        pytest.param({"run_id": ""}, "__oma_checkpoint__/latest", id="empty run"),
        pytest.param({"run_id": "a/b c"}, "__oma_checkpoint__/a/b c/latest", id="not escaped"),
        pytest.param({"key": "mine", "run_id": "r"}, "mine", id="key wins"),
        pytest.param({"key": ""}, "", id="empty key wins too"),
        pytest.param({"run_id": "😀" * 64}, f"__oma_checkpoint__/{'😀' * 64}/latest", id="longest"),
    ],
)
def test_where_it_is_kept(named: dict[str, str], key: str) -> None:
    """H1: an explicit key, else that of the run, else that of no run."""
    assert Checkpoint(InMemoryStore(), **named).key == key


def test_a_run_id_has_a_limit() -> None:
    """H1: at most 128 characters, counted as in JavaScript."""
    with pytest.raises(ValueError, match="129"):
        Checkpoint(InMemoryStore(), run_id="x" * 129)
    with pytest.raises(ValueError, match="130"):
        Checkpoint(InMemoryStore(), run_id="😀" * 65)
    with pytest.raises(TypeError, match="run_id must be a str"):
        Checkpoint(InMemoryStore(), run_id=7)  # type: ignore[arg-type]


def test_the_run_of_the_log_is_the_run(log: turnlog.EventLog) -> None:
    """The run id of a store on a log is the name of its run, unless another is given."""
    store = EventSourcedStore(log, "trip-42")
    assert Checkpoint(store).key == "__oma_checkpoint__/trip-42/latest"
    assert Checkpoint(store, run_id="other").run_id == "other"
    assert AsyncCheckpoint(AsyncEventSourcedStore(log, "trip-42")).run_id == "trip-42"


def test_a_checkpoint_takes_stores_of_its_colour_only() -> None:
    """The other twin is named where the store is handed over."""
    with pytest.raises(TypeError, match="use AsyncCheckpoint"):
        Checkpoint(AsyncInMemoryStore())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="use Checkpoint"):
        AsyncCheckpoint(InMemoryStore())  # type: ignore[arg-type]


# -- saving and loading


def test_it_is_saved_loaded_and_deleted(desk: Any, snapshot: dict[str, Any]) -> None:
    """H2, H3: one entry, replaced by each save, born at the first; missing is None."""
    checkpoint = desk.checkpoint_of(run_id="trip-42")
    assert checkpoint.load() is None
    checkpoint.save(snapshot)
    first = desk.store.get(checkpoint.key)
    assert first.metadata == {
        "namespace": "checkpoint",
        "version": 4,
        "runId": "trip-42",
        "createdAt": "2026-11-30T02:13:05.120Z",
    }
    version = checkpoint.save(snapshot | {"goal": "again"})
    second = desk.store.get(checkpoint.key)
    assert (second.version, second.created_at) == (version, first.created_at)
    loaded = checkpoint.load()
    loaded.pop("turnlog", None)
    assert loaded == snapshot | {"goal": "again"}
    checkpoint.delete()
    assert checkpoint.load() is None
    checkpoint.delete()


def test_what_cannot_be_loaded_is_not_saved(desk: Any) -> None:
    """H2: unlike the original, which saves anything, a save refuses what no load would take."""
    checkpoint = desk.checkpoint_of()
    with pytest.raises(BadCheckpoint, match=r"was not saved: \$.mode must be one of runTeam"):
        checkpoint.save(minimal(mode="walk"))
    with pytest.raises(TypeError, match=r"\$\.goal is a builtins.bytes"):
        checkpoint.save(minimal(goal=b""))
    with pytest.raises(TypeError, match="snapshot must be a dict"):
        checkpoint.save([])
    assert desk.store.list() == []


def test_a_saved_checkpoint_is_a_copy() -> None:
    """What is changed after a save, or in what was loaded, is changed nowhere else."""
    checkpoint, snapshot = Checkpoint(InMemoryStore()), minimal(goal="a")
    checkpoint.save(snapshot)
    snapshot["identity"]["runId"] = "other"
    loaded = checkpoint.load()
    assert loaded is not None
    loaded["goal"] = "b"
    assert checkpoint.load() == minimal(goal="a")


def test_tuples_and_halves_of_emoji_are_kept() -> None:
    """A tuple is saved as the equal list; any text is."""
    checkpoint = Checkpoint(InMemoryStore())
    checkpoint.save(minimal(goal="\ud83d", queue={"version": 1, "tasks": ({"id": "a"},)}))
    loaded = checkpoint.load()
    assert loaded is not None
    assert (loaded.get("goal"), loaded["queue"]["tasks"]) == ("\ud83d", [{"id": "a"}])


def test_the_command_that_saves(log: turnlog.EventLog) -> None:
    """Committed with other commands, a checkpoint is there if and only if they are."""
    store = EventSourcedStore(log, "trip-42")
    checkpoint = Checkpoint(store)
    with pytest.raises(turnlog.Conflict):
        store.execute([checkpoint.writing(minimal()), turnlog.Write("a", "1", expected_version=9)])
    assert checkpoint.load() is None
    store.execute([turnlog.Write("a", "1"), turnlog.AdvanceTurn(), checkpoint.writing(minimal())])
    assert checkpoint.load() is not None
    with pytest.raises(BadCheckpoint, match=r"\$.mode"):
        checkpoint.writing(minimal(mode=7))


# -- versions


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_records_of_every_version_are_read(golden: Golden, version: int) -> None:
    """H4, H5, I11: what the original wrote is loaded as version 4, and every other member is kept."""
    row = golden(f"checkpoint-{version}")
    store = InMemoryStore()
    checkpoint = Checkpoint(store, run_id="trip-42")
    assert checkpoint.key == row["key"]
    store.set(row["key"], row["value"], row["metadata"])
    loaded: Any = checkpoint.load()
    stored = json.loads(row["value"])
    assert loaded["version"] == 4
    assert loaded["identity"]["runId"] == "trip-42"
    assert loaded["identity"]["attempt"] == (1 if version == 1 else 2)
    for name in ("inFlightTasks", "pendingApprovals", "approvalDecisions"):
        assert loaded[name] == stored.get(name, [])
    added = {"version", "runId", "identity", "inFlightTasks", "pendingApprovals", "approvalDecisions"}
    assert {name: loaded[name] for name in loaded if name not in added} == {
        name: stored[name] for name in stored if name not in added
    }
    checkpoint.save(loaded)
    assert checkpoint.load() == loaded


def test_a_first_version_without_a_run(golden: Golden) -> None:
    """H2, H4: it gets the run of the checkpoint object; without one, its run id is empty."""
    document = json.loads(golden("checkpoint-1")["value"])
    del document["runId"]
    for run_id, expected in (("mine", "mine"), (None, "")):
        store = InMemoryStore()
        checkpoint = Checkpoint(store, run_id=run_id)
        store.set(checkpoint.key, json.dumps(document))
        loaded = checkpoint.load()
        assert loaded is not None
        assert loaded["identity"]["runId"] == expected
        assert "runId" not in loaded
        checkpoint.save(document)
        assert checkpoint.load() == loaded


# -- validation


@pytest.mark.parametrize("text", ["", "{", "NaN", "[" * 100_000], ids=["empty", "half", "NaN", "deep"])
def test_what_is_no_json_is_told(text: str) -> None:
    """H3: the message names the key and says that it is not valid JSON."""
    error = refused(text)
    assert "is not valid JSON" in str(error)
    assert error.path is None


CALL = ("inFlightTasks", 0, "pendingToolCalls")
CHECKED: dict[Path_, str] = {
    ("version",): "a number from 1 to 4",
    ("mode",): "one of runTeam, runTasks, runFromPlan",
    ("createdAt",): "a string",
    ("completedTaskResults",): "an array",
    ("identity",): "an object",
    ("identity", "runId"): "a string",
    ("identity", "attempt"): "an integer of at least 1",
    ("identity", "lastTraceId"): "a string",
    ("identity", "lastRootSpanId"): "a string",
    ("queue",): "an object",
    ("queue", "version"): "1 or 2",
    ("queue", "tasks"): "an array",
    ("queue", "planRevision"): "an integer",
    ("queue", "planRevisions"): "an array",
    ("inFlightTasks",): "an array",
    ("inFlightTasks", 0, "taskId"): "a non-empty string",
    ("inFlightTasks", 0, "assignee"): "a non-empty string",
    ("inFlightTasks", 0, "phase"): "one of awaiting_model, executing_tools, completed",
    ("inFlightTasks", 0, "conversationMessages"): "an array",
    ("inFlightTasks", 0, "messages"): "an array",
    ("inFlightTasks", 0, "toolCalls"): "an array",
    ("inFlightTasks", 0, "turns"): "an integer of at least 0",
    ("inFlightTasks", 0, "tokenUsage"): "an object",
    ("inFlightTasks", 0, "tokenUsage", "input_tokens"): "a finite number of at least 0",
    ("inFlightTasks", 0, "tokenUsage", "output_tokens"): "a finite number of at least 0",
    CALL: "an array",
    (*CALL, 0, "call"): "an object",
    (*CALL, 0, "call", "type"): "one of tool_use",
    (*CALL, 0, "call", "id"): "a non-empty string",
    (*CALL, 0, "call", "name"): "a non-empty string",
    (*CALL, 0, "call", "input"): "an object",
    (*CALL, 0, "commit", "result"): "an object",
    (*CALL, 0, "commit", "result", "type"): "one of tool_result",
    (*CALL, 0, "commit", "result", "tool_use_id"): "one of call-0",
    (*CALL, 0, "commit", "result", "content"): "a string",
    (*CALL, 0, "commit", "record"): "an object",
    (*CALL, 0, "commit", "record", "toolName"): "one of read",
    (*CALL, 0, "commit", "record", "input"): "an object",
    (*CALL, 0, "commit", "record", "output"): "a string",
    (*CALL, 0, "commit", "record", "duration"): "a finite number of at least 0",
    (*CALL, 0, "commit", "delegationUsage", "input_tokens"): "a finite number of at least 0",
    ("pendingApprovals",): "an array",
    ("approvalDecisions",): "an array",
}
OPTIONAL: dict[Path_, str] = {
    ("inFlightTasks", 0, "loopWarned"): "true or false",
    ("inFlightTasks", 0, "pendingToolResultText"): "a string",
    (*CALL, 0, "commit"): "an object",
    (*CALL, 0, "commit", "result", "is_error"): "true or false",
    (*CALL, 0, "commit", "delegationUsage"): "an object",
}
FITS = {"a string": str, "an array": list, "an object": dict, "true or false": bool}


def misfits(expected: str) -> list[Any]:
    """Values of every JSON type but the one expected, and null."""
    if "at least" in expected:
        return [None, True, -1, "", [], {}] + ([0.5] if "integer" in expected else [])
    if "non-empty" in expected:
        return [None, True, 7, "", [], {}]
    if expected == "an integer":
        return [None, True, 0.5, "", [], {}]
    kind = FITS.get(expected)
    return [value for value in (None, True, -1, 0.5, "", "?", [], {}) if type(value) is not kind]


@pytest.mark.parametrize(("path", "expected"), (CHECKED | OPTIONAL).items(), ids=lambda each: str(each)[:60])
def test_every_member_that_is_checked(snapshot: dict[str, Any], path: Path_, expected: str) -> None:
    """H5, H6, H7, H8: missing or of another type, it is told where, what belongs there and what was found."""
    if path not in OPTIONAL:
        error = refused(changed(snapshot, path))
        assert (error.path, error.expected, error.found) == (shown(path), expected, "nothing")
    for value in misfits(expected):
        error = refused(changed(snapshot, path, value))
        assert error.path == shown(path), value
        assert error.expected == expected or path == CALL
        assert f"{error.path} must be {error.expected}, found {error.found}" in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def paths(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """The path of every member and element inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from paths(inner, (*path, name))


GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "checkpoint-4.json"
WHOLE = json.loads(json.loads(GOLDEN.read_text("utf-8"))["value"])


@given(st.sampled_from([path for path in paths(WHOLE) if path != ("version",)]), JSON)
def test_any_damage_is_loaded_whole_or_told(path: Path_, value: Any) -> None:
    """H3, H5: whatever one member is replaced by, the record is loaded as it is, or refused with a place."""
    document = changed(WHOLE, path, value)
    store = InMemoryStore()
    store.set("k", json.dumps(document))
    try:
        loaded = Checkpoint(store, key="k").load()
    except BadCheckpoint as error:
        assert "Infinity" in str(error) or error.path is not None  # noqa: PT017 - many examples load
    else:
        assert loaded == document


def test_optional_members_may_be_missing(snapshot: dict[str, Any]) -> None:
    """H5, H7, H8: what is checked if it is there need not be there."""
    for path in OPTIONAL:
        store = InMemoryStore()
        store.set("k", json.dumps(changed(snapshot, path)))
        assert Checkpoint(store, key="k").load() is not None


def test_members_nobody_knows_are_allowed(snapshot: dict[str, Any]) -> None:
    """H5: unknown members are kept at every level, and the lists of the queue are not checked."""
    document = snapshot | {"later": {"more": [1.5]}}
    document["queue"]["pending"] = "anything"
    document["inFlightTasks"][0]["later"] = 1
    store = InMemoryStore()
    store.set("k", json.dumps(document))
    assert Checkpoint(store, key="k").load() == document


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        pytest.param(None, "an object", id="null"),
        pytest.param([], "an object", id="an array"),
        pytest.param({f"k{n}": 1 for n in range(33)}, "at most 32 members", id="too many"),
        pytest.param({"Big": 1}, "named", id="a capital"),
        pytest.param({"": 1}, "named", id="no name"),
        pytest.param({"k" * 65: 1}, "named", id="a long name"),
        pytest.param({"oma.x": 1}, "named", id="a reserved prefix"),
        pytest.param({"_overridden": True}, "named", id="a reserved name"),
        pytest.param({"a": None}, "a string, a finite number", id="null inside"),
        pytest.param({"a": {}}, "a string, a finite number", id="an object inside"),
        pytest.param({"a": [1, "b"]}, "one type", id="mixed"),
        pytest.param({"a": [[1]]}, "a string, a finite number", id="nested"),
    ],
)
def test_the_metadata_of_a_run_is_checked(metadata: Any, said: str) -> None:
    """H5: at most 32 members, plain names, scalars or arrays of one type."""
    error = refused(minimal(metadata=metadata))
    assert error.path is not None
    assert error.path.startswith("$.metadata")
    assert said in str(error.expected)


@pytest.mark.parametrize(
    "metadata",
    [{}, {"a.b_1": "x" * 500, "k" * 64: 1.5}, {"a": [], "b": [1, 2.5], "c": [True]}],
    ids=["empty", "scalars", "arrays"],
)
def test_metadata_that_fits_is_kept(metadata: dict[str, Any]) -> None:
    """H5: and nothing in it is cut."""
    checkpoint = Checkpoint(InMemoryStore())
    checkpoint.save(minimal(metadata=metadata))
    loaded = checkpoint.load()
    assert loaded is not None
    assert loaded.get("metadata") == metadata


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        pytest.param((*CALL,), [], "$.inFlightTasks[0].pendingToolCalls", id="no calls"),
        pytest.param(("inFlightTasks", 0, "finalOutput"), "x", "$.inFlightTasks[0].finalOutput", id="output"),
        pytest.param(
            ("inFlightTasks", 0, "phase"), "completed", "$.inFlightTasks[0].pendingToolCalls", id="phase"
        ),
        pytest.param(
            (*CALL, 0, "commit", "result", "content"),
            [{"type": "text"}],
            "$.inFlightTasks[0].pendingToolCalls[0].commit.result.content",
            id="rich content",
        ),
        pytest.param(
            (*CALL, 1, "commit"), {}, "$.inFlightTasks[0].pendingToolCalls[1].approvalRequest", id="both"
        ),
        pytest.param(
            (*CALL, 0, "approvalDecision"),
            {},
            "$.inFlightTasks[0].pendingToolCalls[0].approvalDecision",
            id="a decision about nothing",
        ),
        pytest.param(
            (*CALL, 1, "call", "id"),
            "other",
            "$.inFlightTasks[0].pendingToolCalls[1].approvalRequest.content.toolCallId",
            id="another call",
        ),
        pytest.param(
            (*CALL, 1, "call", "name"),
            "other",
            "$.inFlightTasks[0].pendingToolCalls[1].approvalRequest.content.toolName",
            id="another tool",
        ),
        pytest.param(
            (*CALL, 1, "approvalRequest", "requestHash"),
            "0" * 64,
            "$.inFlightTasks[0].pendingToolCalls[1].approvalRequest",
            id="a request that does not verify",
        ),
        pytest.param(
            ("pendingApprovals",),
            [],
            "$.inFlightTasks[0].pendingToolCalls[1].approvalRequest.id",
            id="hidden",
        ),
        pytest.param(("pendingApprovals", 0, "id"), "x", "$.pendingApprovals[0]", id="pending"),
        pytest.param(("identity", "runId"), "other", "$.pendingApprovals[0].runId", id="another run"),
        pytest.param(("approvalDecisions", 0, "reviewer"), {}, "$.approvalDecisions[0]", id="decision"),
        pytest.param(
            ("approvalDecisions", 0, "runId"), "other", "$.approvalDecisions[0].runId", id="decision, run"
        ),
    ],
)
def test_what_must_fit_together(snapshot: dict[str, Any], path: Path_, value: Any, where: str) -> None:
    """H7, H8, H9: members that contradict each other, and approvals that do not verify or are hidden."""
    assert refused(changed(snapshot, path, value)).path == where


@pytest.mark.parametrize(
    ("name", "identity"),
    [("inFlightTasks", "taskId"), ("pendingApprovals", "id"), ("approvalDecisions", "requestId")],
)
def test_nothing_occurs_twice(snapshot: dict[str, Any], name: str, identity: str) -> None:
    """H7, H9: tasks under way, requests and decisions are unique."""
    snapshot[name] *= 2
    assert refused(snapshot).path == f"$.{name}[1].{identity}"


def test_a_task_that_is_completed() -> None:
    """H7: it has its output, which may be empty, and no calls."""
    task = {
        "taskId": "a",
        "assignee": "ann",
        "phase": "completed",
        "conversationMessages": [],
        "messages": [],
        "toolCalls": [],
        "turns": 2.0,
        "tokenUsage": {"input_tokens": 0, "output_tokens": 1.5},
        "finalOutput": "",
    }
    Checkpoint(InMemoryStore()).save(minimal(inFlightTasks=[task]))
    del task["finalOutput"]
    assert refused(minimal(inFlightTasks=[task])).path == "$.inFlightTasks[0].finalOutput"
    assert refused(minimal(inFlightTasks=[task | {"phase": "awaiting_model", "finalOutput": ""}])).path == (
        "$.inFlightTasks[0].finalOutput"
    )


def test_a_run_id_with_white_space_around_it(snapshot: dict[str, Any]) -> None:
    """H10: unlike in the original, such a suspended run can be loaded, although its requests are trimmed."""
    snapshot["identity"]["runId"] = " trip-42\n"
    Checkpoint(InMemoryStore()).save(snapshot)
    for document in (*snapshot["pendingApprovals"], *snapshot["approvalDecisions"]):
        document["runId"] = " trip-42\n"  # as the original would have it
    Checkpoint(InMemoryStore()).save(snapshot)


# -- the memory


def test_of_memory_in_the_same_store_only_the_turn_is_kept(log: turnlog.EventLog) -> None:
    """I3: the entries are in the store already; two objects on one run of one log are one store."""
    for store, other in (
        ((inner := InMemoryStore()), inner),
        (EventSourcedStore(log, "trip-42"), EventSourcedStore(log, "trip-42")),
    ):
        memory = SharedMemory(other)
        memory.write("ann", "a", "1")
        memory.advance_turn()
        checkpoint = Checkpoint(store)
        checkpoint.save(minimal(), memory=memory)
        loaded = checkpoint.load()
        assert loaded is not None
        assert loaded.get("turnCount") == 1
        assert "sharedMemory" not in loaded


def test_memory_of_another_store_is_embedded(log: turnlog.EventLog) -> None:
    """I3, H4: its snapshot is in every save, so that it can be put back without the log."""
    memory = SharedMemory(EventSourcedStore(log, "trip-42"))
    memory.write("ann", "a", {"n": 1})
    memory.advance_turn()
    for store in (InMemoryStore(), EventSourcedStore(log, "elsewhere")):
        checkpoint = Checkpoint(store)
        checkpoint.save(minimal(), memory=memory)
        loaded = checkpoint.load()
        assert loaded is not None
        assert loaded.get("sharedMemory") == memory.snapshot()
        assert loaded.get("turnCount") == 1
        assert loaded.get("turnlog", {}).get("run") == "trip-42"


def test_where_the_log_stood_is_noted(log: turnlog.EventLog) -> None:
    """The member `turnlog` is the head of the memory's run when the snapshot was taken."""
    memory = SharedMemory(EventSourcedStore(log, "trip-42"))
    checkpoint = Checkpoint(EventSourcedStore(log, "trip-42"))
    checkpoint.save(minimal())
    first = checkpoint.load()
    assert first is not None
    assert "turnlog" not in first  # the run began with it
    memory.write("ann", "a", "1")
    head = log.head("trip-42")
    assert head is not None
    checkpoint.save(minimal() | {"turnlog": "stale"})
    loaded = checkpoint.load()
    assert loaded is not None
    assert loaded.get("turnlog") == {
        "run": "trip-42",
        "uid": log.lineage("trip-42").run.uid,
        "position": head.position,
        "revision": head.revision,
        "turn": head.turn,
        "head": head.hash.hex(),
    }


def test_the_twin_embeds_memory_too(log: turnlog.EventLog) -> None:
    """What an asynchronous checkpoint keeps of asynchronous memory."""
    store = AsyncEventSourcedStore(log, "trip-42")
    memory = AsyncSharedMemory(store)
    with Loop() as loop:
        loop.run(memory.write("ann", "a", "1"))
        loop.run(memory.advance_turn())
        embedding, sharing = AsyncCheckpoint(AsyncInMemoryStore()), AsyncCheckpoint(store)
        loop.run(embedding.save(minimal(), memory=memory))
        loop.run(sharing.save(minimal(), memory=memory))
        one, other = loop.run(embedding.load()), loop.run(sharing.load())
        assert one["sharedMemory"] == loop.run(memory.snapshot())
    assert (one["turnCount"], other["turnCount"]) == (1, 1)
    assert one["turnlog"] == other["turnlog"]
    assert "sharedMemory" not in other


def test_memory_of_the_other_colour_is_refused() -> None:
    """And what is no shared memory at all."""
    for memory in (AsyncSharedMemory(), InMemoryStore()):
        with pytest.raises(TypeError, match="memory must be a SharedMemory, not"):
            Checkpoint(InMemoryStore()).save(minimal(), memory=memory)  # type: ignore[arg-type]
    with Loop() as loop, pytest.raises(TypeError, match="memory must be a AsyncSharedMemory, not Shared"):
        loop.run(AsyncCheckpoint(AsyncInMemoryStore()).save(minimal(), memory=SharedMemory()))  # type: ignore[arg-type]


def test_a_key_outside_the_prefix_is_ordinary_memory(path: Path) -> None:
    """H1: it is listed like anybody's entry, where one under the prefix is not."""
    store = InMemoryStore()
    Checkpoint(store, key="ops/checkpoint").save(minimal())
    Checkpoint(store).save(minimal())
    assert [entry.key for entry in SharedMemory(store).list_all()] == ["ops/checkpoint"]
