"""What is settled before a run is resumed: that it can be, under which name, and where its memory was.

Everything here either answers or refuses; only `put_memory_back` changes something, and last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from uuid import uuid4

from ..eventlog import EventLog, Recorded
from ..eventlog.commands import exact_str
from ..eventlog.driver import Connection
from ..eventlog.history import event_position
from ..eventlog.runs import Lineage, hash_at, read_head
from ..replay.address import Point
from ..replay.bisect import batch_end
from ..replay.restore import Restore, back_to
from ..replay.timeline import Timeline
from .arguments import a_log, check_function, kind_of
from .checkpoint_error import BadCheckpoint
from .checkpoint_history import SavedCheckpoint
from .checkpoint_snapshot import CheckpointSnapshot, LogPlace, check_loaded
from .shape import ABSENT, Malformed, a_text, an_array, an_integer, an_object

__all__ = [
    "ResumedIdentity",
    "check_resumable",
    "memory_back",
    "memory_point",
    "put_memory_back",
    "resumed_identity",
]


@dataclass(frozen=True, slots=True)
class ResumedIdentity:
    """Under which name a checkpoint is resumed.

    Attributes:
        run_id: the run that goes on.
        attempt: which attempt at it this is; 1 for a fork, which is a run of its own.
        forked_from: the run id of the checkpoint, where a fork resumes its parent's.
        continued_from: trace and root span of the attempt before; None if it left none.
    """

    run_id: str
    attempt: int
    forked_from: str | None
    continued_from: tuple[str, str] | None


def resumed_identity(
    snapshot: CheckpointSnapshot,
    *,
    run_id: str | None = None,
    fork: str | None = None,
    new_run_id: Callable[[], str] = lambda: uuid4().hex,
) -> ResumedIdentity:
    """The identity of the attempt that resumes `snapshot`.

    Args:
        snapshot: a loaded checkpoint.
        run_id: the run id the caller asked for; None for that of the checkpoint.
        fork: name of the run that resumes, where that is a fork of the one that saved.
        new_run_id: for a checkpoint that names no run.

    Raises:
        TypeError: something of another type.
        BadCheckpoint: not a loaded checkpoint; or `run_id` is another than that of the checkpoint, or than
            the fork's.
    """
    check_loaded(snapshot)
    for name, given in (("run_id", run_id), ("fork", fork)):
        if given is not None:
            exact_str(name, given)
    check_function("new_run_id", new_run_id)
    identity = snapshot["identity"]
    own = identity["runId"] if fork is None else fork
    if run_id is not None and own and run_id != own:
        raise BadCheckpoint(
            f"restore runId conflict: the checkpoint is resumed as {own!r:.200}, not as {run_id!r:.200}; "
            "leave run_id out, or fork the run"
        )
    trace, span = identity["lastTraceId"], identity["lastRootSpanId"]
    return ResumedIdentity(
        run_id=own or run_id or new_run_id(),
        attempt=1 if fork is not None else int(identity["attempt"]) + 1,
        forked_from=None if fork is None else identity["runId"],
        continued_from=(trace, span) if trace and span else None,
    )


def check_resumable(snapshot: CheckpointSnapshot) -> None:
    """Refuse a checkpoint whose tasks under way are not those of its queue.

    Raises:
        TypeError: no loaded checkpoint.
        BadCheckpoint: names the task.
    """
    check_loaded(snapshot)
    try:
        _check_under_way(snapshot)
    except Malformed as error:
        raise BadCheckpoint.of("the checkpoint cannot be resumed", error) from error


def memory_point(log: EventLog, run: str, saved: SavedCheckpoint) -> Point:
    """Where the memory kept in `run` was when `saved` was; nothing is changed.

    A checkpoint in the memory's own lineage belongs to the state right after the batch that saved it. One
    that is kept elsewhere says in its member `turnlog` which event was the newest, by revision and hash.

    Raises:
        NotFound: there is no such run.
        BadCheckpoint: it says nothing of this log, or not what this log holds.
    """
    lineage = a_log(log).lineage(run)
    if not isinstance(saved, SavedCheckpoint):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"saved must be a SavedCheckpoint, as checkpoint_at(log, run) gives it, not {kind_of(saved)}"
        )
    with log.reading() as db:
        if _holds(db, lineage, saved.revision, saved.hash.hex()):
            return batch_end(db, lineage, saved.revision)
        place = _log_place(saved.load())
        if place["uid"] == saved.uid or not _holds(db, lineage, place["revision"], place["head"]):
            raise BadCheckpoint(
                f"the checkpoint @{saved.position} was saved after revision {place['revision']} of run "
                f"{place['run']!r:.200}; run {run!r:.200} of {log.path} does not hold that event"
            )
        position = event_position(db, lineage, place["revision"])
    return Timeline(log, run).point(position=position)


def put_memory_back(
    log: EventLog, run: str, saved: SavedCheckpoint, *, by: str | None = None, reason: str | None = None
) -> Recorded:
    """Take the memory kept in `run` back to exactly what it was when `saved` was; see `Timeline.restore`.

    Raises:
        NotFound, BadCheckpoint: see `memory_point`; nothing was changed.
    """
    return a_log(log).execute([memory_back(log, run, saved, by=by, reason=reason)], run=run)[0]


def memory_back(
    log: EventLog, run: str, saved: SavedCheckpoint, *, by: str | None = None, reason: str | None = None
) -> Restore:
    """The command of `put_memory_back`, for whoever commits it together with others.

    Raises:
        NotFound, BadCheckpoint: see `memory_point`.
    """
    point = memory_point(log, run, saved)
    why = f"checkpoint @{saved.position}" if reason is None else reason
    with log.reading() as db:
        return back_to(db, log.lineage(run), point, by, why)


def _holds(db: Connection, lineage: Lineage, revision: int, digest: str) -> bool:
    """Whether the lineage has at `revision` the event of that hash, and so its whole past."""
    if revision > read_head(db, lineage.run.id).revision:
        return False
    return hash_at(db, lineage.upto(revision)[0].run, revision).hex() == digest


def _check_under_way(snapshot: CheckpointSnapshot) -> None:
    queue = snapshot["queue"]
    running = an_array(queue.get("inProgress", []), "$.queue.inProgress")
    assignees: dict[object, object] = {}
    for index, task in enumerate(queue["tasks"]):
        members = an_object(task, f"$.queue.tasks[{index}]")
        assignees[members.get("id")] = members.get("assignee", ABSENT)
    for index, state in enumerate(snapshot["inFlightTasks"]):
        path = f"$.inFlightTasks[{index}]"
        task_id, assignee = state["taskId"], state["assignee"]
        if task_id not in running or task_id not in assignees:
            raise Malformed(f"{path}.taskId", "a task that the queue has in progress", task_id)
        if assignees[task_id] != assignee:
            raise Malformed(f"{path}.assignee", "the assignee that the queue names", assignee)


def _log_place(snapshot: CheckpointSnapshot) -> LogPlace:
    """What the checkpoint says of the log."""
    path = "$.turnlog"
    try:
        place = an_object(cast("dict[str, object]", snapshot).get("turnlog", ABSENT), path)
        an_integer(place.get("revision", ABSENT), f"{path}.revision", minimum=1)
        for name in ("run", "uid", "head"):
            a_text(place.get(name, ABSENT), f"{path}.{name}")
    except Malformed as error:
        message = (
            "the checkpoint does not say where in a log its memory was; if it embeds the memory, "
            "SharedMemory.restore(snapshot['sharedMemory']) puts that back"
        )
        raise BadCheckpoint.of(message, error) from error
    return cast("LogPlace", cast("object", place))
