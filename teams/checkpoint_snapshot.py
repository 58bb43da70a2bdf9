"""What a checkpoint is on the wire: versions 1 to 4 are read, version 4 is written.

The shape is that of open-multi-agent. Members it does not know are kept; ours is `turnlog`, which says where
in the log the memory was when the snapshot was taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Literal, NotRequired, TypedDict, cast

from ..memory.javascript import JAVASCRIPT_SPACES
from .arguments import kind_of
from .checkpoint_error import BadCheckpoint
from .checkpoint_tasks import check_task_under_way, read_decision, read_request
from .shape import ABSENT, Malformed, Members, a_choice, a_text, an_array, an_integer, an_object, is_number

__all__ = [
    "CheckpointIdentity",
    "CheckpointSnapshot",
    "LogPlace",
    "check_loaded",
    "check_snapshot",
    "migrated",
]

VERSION = 4
MODES = ("runTeam", "runTasks", "runFromPlan")

_METADATA_KEY = re.compile(r"[a-z0-9_.]{1,64}")
_METADATA_ENTRIES = 32
_OVERRIDDEN = "_overridden"


class CheckpointIdentity(TypedDict):
    """Which run this is, and at which attempt; `runId` is empty where an old record names none."""

    runId: str
    attempt: int
    lastTraceId: str
    lastRootSpanId: str


class LogPlace(TypedDict):
    """Where in a log the memory was when the snapshot was taken: after the event `revision` of the run.

    `position` is that event's place in its file, `head` its hash in hex, `turn` the run's turn there.
    """

    run: str
    uid: str
    position: int
    revision: int
    turn: int
    head: str


class CheckpointSnapshot(TypedDict):
    """A run that can be taken up again; plain JSON. Absent members are left out.

    `queue` holds the tasks and the ids of those in each status, `completedTaskResults` what the finished ones
    gave, `inFlightTasks` where the model and its tools stood in those under way, and the two lists of
    approvals what waits for a reviewer and what was decided. `sharedMemory` is there if the memory is kept
    in another store.
    """

    version: Literal[4]
    mode: Literal["runTeam", "runTasks", "runFromPlan"]
    createdAt: str
    metadata: NotRequired[dict[str, Any]]
    identity: CheckpointIdentity
    goal: NotRequired[str]
    queue: dict[str, Any]
    sharedMemory: NotRequired[dict[str, Any]]
    messageBus: NotRequired[dict[str, Any]]
    turnCount: NotRequired[int]
    completedTaskResults: list[Any]
    inFlightTasks: list[dict[str, Any]]
    pendingApprovals: list[dict[str, Any]]
    approvalDecisions: list[dict[str, Any]]
    turnlog: NotRequired[LogPlace]


def check_snapshot(value: object) -> int:
    """The version of a checkpoint, which must be whole.

    Raises:
        Malformed: it is not; says where, what belongs there and what is.
    """
    document = an_object(value, "$")
    version = _version(document)
    a_choice(document.get("mode", ABSENT), "$.mode", MODES)
    a_text(document.get("createdAt", ABSENT), "$.createdAt")
    an_array(document.get("completedTaskResults", ABSENT), "$.completedTaskResults")
    if "metadata" in document:
        _check_metadata(document["metadata"])
    if version >= 2:
        _check_identity(document.get("identity", ABSENT))
    if version >= 3:
        tasks = an_array(document.get("inFlightTasks", ABSENT), "$.inFlightTasks")
        _unique(tasks, "$.inFlightTasks", "taskId", check_task_under_way)
    if version >= 4:
        _check_approvals(document)
    _check_queue(document.get("queue", ABSENT))
    return version


def check_loaded(snapshot: object) -> None:
    """Refuse what is no checkpoint as `Checkpoint.load` gives it.

    Raises:
        TypeError: no dict.
        BadCheckpoint: not whole, or of an older version; says where.
    """
    given = "a checkpoint as Checkpoint(store).load() gives it"
    if type(snapshot) is not dict:
        raise TypeError(f"snapshot must be {given}, not {kind_of(snapshot)}")
    try:
        version = check_snapshot(cast("object", snapshot))
        if version != VERSION:
            raise Malformed("$.version", str(VERSION), version)
    except Malformed as error:
        raise BadCheckpoint.of(f"snapshot must be {given}", error) from error


def migrated(value: object, run_id: str | None) -> CheckpointSnapshot:
    """A checkpoint of any version as one of version 4: a fresh dict, members that nobody knows included.

    Args:
        value: a document that has passed `check_snapshot`.
        run_id: the run, for a record of version 1 that names none.
    """
    document = {**cast("Members", value)}
    if is_number(document["version"], 1):
        named = document.pop("runId", run_id)
        document["identity"] = {
            "runId": named if isinstance(named, str) else "",
            "attempt": 1,
            "lastTraceId": "",
            "lastRootSpanId": "",
        }
    for name in ("inFlightTasks", "pendingApprovals", "approvalDecisions"):
        document.setdefault(name, [])
    document["version"] = VERSION
    return cast("CheckpointSnapshot", cast("object", document))


def _version(document: Members) -> int:
    version = document.get("version", ABSENT)
    for known in range(1, VERSION + 1):
        if is_number(version, known):
            return known
    raise Malformed("$.version", f"a number from 1 to {VERSION}", version)


def _check_identity(value: object) -> None:
    identity = an_object(value, "$.identity")
    for name in ("runId", "lastTraceId", "lastRootSpanId"):
        a_text(identity.get(name, ABSENT), f"$.identity.{name}")
    an_integer(identity.get("attempt", ABSENT), "$.identity.attempt", minimum=1)


def _check_queue(value: object) -> None:
    queue = an_object(value, "$.queue")
    version = queue.get("version", ABSENT)
    if not is_number(version, 1) and not is_number(version, 2):
        raise Malformed("$.queue.version", "1 or 2", version)
    an_array(queue.get("tasks", ABSENT), "$.queue.tasks")
    if is_number(version, 2):
        an_integer(queue.get("planRevision", ABSENT), "$.queue.planRevision")
        an_array(queue.get("planRevisions", ABSENT), "$.queue.planRevisions")


def _check_metadata(value: object) -> None:
    metadata = an_object(value, "$.metadata")
    if len(metadata) > _METADATA_ENTRIES:
        raise Malformed("$.metadata", f"an object of at most {_METADATA_ENTRIES} members", metadata)
    for key, item in metadata.items():
        path = f"$.metadata.{key:.80}"
        if key.startswith("oma.") or key == _OVERRIDDEN or not _METADATA_KEY.fullmatch(key):
            raise Malformed(path, "named [a-z0-9_.]{1,64}, not oma.… and not _overridden", key)
        items = cast("list[object]", item) if type(item) is list else [item]
        kinds = {_scalar(each, path) for each in items}
        if len(kinds) > 1:
            raise Malformed(path, "an array of one type", items)


def _scalar(value: object, path: str) -> str:
    """Which of the three types of scalar a value of the metadata has."""
    if type(value) is str:
        return "string"
    if type(value) is bool:
        return "boolean"
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return "number"
    raise Malformed(path, "a string, a finite number, true, false, or an array of one of these", value)


def _check_approvals(document: Members) -> None:
    """Each approval is of this run, occurs once, and none is hidden in a task under way."""
    # `create` trims the run id of a request; the run's own, and those of others, need not be.
    run_id = cast("str", cast("Members", document["identity"])["runId"]).strip(JAVASCRIPT_SPACES)

    def check_request(value: object, path: str) -> str:
        request = read_request(value, path)
        a_choice(request.run_id.strip(JAVASCRIPT_SPACES), f"{path}.runId", (run_id,))
        return request.id

    def check_decision(value: object, path: str) -> str:
        decision = read_decision(value, path)
        a_choice(decision.run_id.strip(JAVASCRIPT_SPACES), f"{path}.runId", (run_id,))
        return decision.request_id

    pending = an_array(document.get("pendingApprovals", ABSENT), "$.pendingApprovals")
    decided = an_array(document.get("approvalDecisions", ABSENT), "$.approvalDecisions")
    asked = _unique(pending, "$.pendingApprovals", "id", check_request)
    answered = _unique(decided, "$.approvalDecisions", "requestId", check_decision)
    for place, task in enumerate(cast("list[Members]", document["inFlightTasks"])):
        for index, call in enumerate(cast("list[Members]", task.get("pendingToolCalls", []))):
            path = f"$.inFlightTasks[{place}].pendingToolCalls[{index}]"
            _check_listed(call, "approvalRequest", "id", asked, path)
            _check_listed(call, "approvalDecision", "requestId", answered, path)


def _check_listed(call: Members, name: str, identity: str, listed: set[str], path: str) -> None:
    if name in call:
        known = cast("Members", call[name])[identity]
        if known not in listed:
            raise Malformed(f"{path}.{name}.{identity}", "one of those the record lists at its top", known)


def _unique(items: list[object], path: str, identity: str, check: Callable[[object, str], str]) -> set[str]:
    """The identities of `items`, none of which may occur twice."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        found = check(item, f"{path}[{index}]")
        if found in seen:
            raise Malformed(f"{path}[{index}].{identity}", "one that occurs once", found)
        seen.add(found)
    return seen
