"""A run as its checkpoints tell it: written from a queue, read back as a plan and results.

The shape is the one described in `checkpoint_snapshot`. Members that nobody here knows are kept from one
checkpoint to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, cast

from ..eventlog.jsonvalue import encode_json
from ..eventlog.text import read_json
from ..replay.cli_text import iso_time
from .approval_decision import ApprovalDecision
from .approval_request import ApprovalRequest
from .checkpoint_error import BadCheckpoint
from .checkpoint_resume import ResumedIdentity
from .checkpoint_snapshot import CheckpointSnapshot
from .plan import Plan
from .queue import TaskQueue
from .result import FINISHED, TaskError, TaskResult
from .shape import ABSENT, Malformed, Members, a_choice, a_text, an_amount, an_array, an_integer, an_object
from .task import Task

__all__ = ["RunRecord", "read_results", "read_tasks"]

_LISTS = {
    "pending": "pending",
    "inProgress": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "blocked": "blocked",
    "skipped": "skipped",
}
_OF_THE_STATE = ("status", "result", "error", "attempts")
_WRITTEN_ANEW = ("sharedMemory", "turnCount", "turnlog")
_KINDS = ("agent", "validation", "dependency", "skipped")


def _now() -> datetime:
    return datetime.now(UTC)


class RunRecord:
    """What the checkpoints of one attempt at a run say beside the state of its queue.

    Args:
        identity: member `identity` of the checkpoints.
        base: a checkpoint to go on from, whose other members are kept.
        documents: the tasks, as checkpoints show them.
        clock: gives the time, aware.

    Attributes:
        run_id: the run.
        pending: what waits for a reviewer.
        decisions: what reviewers decided, by the id of the request.
    """

    def __init__(
        self,
        identity: Mapping[str, object],
        base: Members,
        documents: Mapping[str, Members],
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.run_id = cast("str", identity["runId"])
        self.pending: list[ApprovalRequest] = []
        self.decisions: dict[str, ApprovalDecision] = {}
        self._identity = dict(identity)
        self._base = {name: item for name, item in base.items() if name not in _WRITTEN_ANEW}
        self._documents = documents
        self._kept_results = {
            cast("str", each["taskId"]): each for each in _completed_results(base.get("completedTaskResults"))
        }
        self._ended = {
            task_id: document["updatedAt"]
            for task_id, document in documents.items()
            if document.get("status") in FINISHED
        }
        self._clock = clock

    @classmethod
    def fresh(cls, plan: Plan, run_id: str, clock: Callable[[], datetime] = _now) -> RunRecord:
        """The record of a run that begins."""
        begun = iso_time(clock())
        documents = {task.id: _document(task, begun) for task in plan.tasks.values()}
        return cls(_identity(run_id, 1), {"mode": "runTasks"}, documents, clock)

    @classmethod
    def resumed(
        cls, snapshot: CheckpointSnapshot, identity: ResumedIdentity, clock: Callable[[], datetime] = _now
    ) -> RunRecord:
        """The record of a run that goes on from a checkpoint with tasks in order; without approvals."""
        named = _identity(identity.run_id, identity.attempt)
        if identity.forked_from is not None:
            named["forkedFrom"] = identity.forked_from
        base = cast("Members", cast("object", snapshot))
        begun = iso_time(clock())
        documents: dict[str, Members] = {}
        for document in cast("list[Members]", snapshot["queue"]["tasks"]):
            times = {"createdAt": begun, "updatedAt": document.get("createdAt", begun)}
            documents[cast("str", document["id"])] = times | document
        return cls(named, base, documents, clock)

    def document(self, result: TaskResult) -> Members:
        """A task in that state, as a checkpoint and a reviewer see it.

        `updatedAt` changes when a task ends and not when it is begun, so that one which was interrupted and
        begins anew is the very one that was approved.
        """
        known = self._documents[result.task_id]
        document = {name: item for name, item in known.items() if name not in _OF_THE_STATE}
        document["status"] = result.status
        if result.status in FINISHED:
            ended = self._ended.setdefault(result.task_id, iso_time(self._clock()))
            document["updatedAt"] = ended
        if result.attempts and result.status not in ("pending", "blocked"):
            document["attempts"] = result.attempts
        if result.output is not None:
            document["result"] = result.output
        if result.error is not None:
            error = {"kind": result.error.kind, "message": result.error.message, "code": result.error.code}
            document["error"] = {name: item for name, item in error.items() if item is not None}
            document["result"] = result.error.message
        return document

    def snapshot(self, queue: TaskQueue, finished: TaskResult | None = None) -> Members:
        """The checkpoint of a queue; `finished` in place of the state of its task there."""
        results = queue.results
        if finished is not None:
            results = {**results, finished.task_id: finished}
        lists = {
            name: [task_id for task_id, result in results.items() if result.status == status]
            for name, status in _LISTS.items()
        }
        base_queue = cast("Members", self._base.get("queue", {"version": 1}))
        return self._base | {
            "version": 4,
            "createdAt": iso_time(self._clock()),
            "identity": self._identity,
            "queue": base_queue | {"tasks": [self.document(result) for result in results.values()]} | lists,
            "completedTaskResults": [
                self._completed(result) for result in results.values() if result.status == "completed"
            ],
            "inFlightTasks": [],
            "pendingApprovals": [request.to_json() for request in self.pending],
            "approvalDecisions": [decision.to_json() for decision in self.decisions.values()],
        }

    def _completed(self, result: TaskResult) -> Members:
        kept = self._kept_results.get(result.task_id)
        if kept is not None and (kept.get("result"), _structured(kept)) == (
            result.output,
            result.structured_json,
        ):
            return kept
        told: Members = {"taskId": result.task_id, "assignee": result.assignee, "result": result.output}
        if result.structured_json is not None:
            told["agentResult"] = {
                "success": True,
                "output": result.output,
                "messages": [],
                "tokenUsage": {"input_tokens": 0, "output_tokens": 0},
                "toolCalls": [],
                "structured": read_json(result.structured_json),
            }
        return told


def read_tasks(snapshot: CheckpointSnapshot) -> list[Task]:
    """The tasks of a checkpoint.

    Raises:
        BadCheckpoint: one of them is none that can be run; names the place in the record.
    """
    try:
        return [
            _task(each, f"$.queue.tasks[{index}]") for index, each in enumerate(snapshot["queue"]["tasks"])
        ]
    except Malformed as error:
        raise BadCheckpoint.of("the checkpoint cannot be resumed", error) from error


def read_results(snapshot: CheckpointSnapshot) -> list[TaskResult]:
    """What became of the tasks of a checkpoint that have ended; `read_tasks` has accepted them.

    Raises:
        BadCheckpoint: a result is malformed; names the place in the record.
    """
    given = {each["taskId"]: each for each in _completed_results(snapshot["completedTaskResults"]) if each}
    results: list[TaskResult] = []
    try:
        for index, document in enumerate(cast("list[Members]", snapshot["queue"]["tasks"])):
            if document["status"] in FINISHED:
                results.append(_result(document, given.get(document["id"]), f"$.queue.tasks[{index}]"))
    except Malformed as error:
        raise BadCheckpoint.of("the checkpoint cannot be resumed", error) from error
    return results


# -- writing


def _identity(run_id: str, attempt: int) -> Members:
    """There are no traces here for the last two to name."""
    return {"runId": run_id, "attempt": attempt, "lastTraceId": "", "lastRootSpanId": ""}


def _document(task: Task, begun: str) -> Members:
    return {
        "id": task.id,
        "title": task.title,
        "description": task.description,
        "status": "pending",
        "createdAt": begun,
        "updatedAt": begun,
        "assignee": task.assignee,
        "dependsOn": list(task.depends_on),
        "memoryScope": task.memory_scope,
        "dependencyPayload": task.dependency_payload,
        "maxRetries": task.max_retries,
        "retryDelayMs": _whole(task.retry_delay_s * 1000),
        "retryBackoff": _whole(task.retry_backoff),
    }


def _whole(number: float) -> float:
    """`number`, an int where it is one: floats are slow to write as JavaScript does."""
    return int(number) if number == int(number) else number


# -- reading


def _task(value: object, path: str) -> Task:
    document = an_object(value, path)
    for name in ("status", "createdAt", "updatedAt"):
        if name == "status" or name in document:
            a_text(document.get(name, ABSENT), f"{path}.{name}")
    a_choice(document["status"], f"{path}.status", tuple(_LISTS.values()))
    needed = an_array(document.get("dependsOn", []), f"{path}.dependsOn")
    scope = a_choice(
        document.get("memoryScope", "dependencies"), f"{path}.memoryScope", ("dependencies", "all")
    )
    payload = a_choice(
        document.get("dependencyPayload", "output"),
        f"{path}.dependencyPayload",
        ("output", "structured", "both"),
    )
    task_id = a_text(document.get("id", ABSENT), f"{path}.id", empty=False)
    description = a_text(document.get("description", ABSENT), f"{path}.description")
    assignee = a_text(document.get("assignee", ABSENT), f"{path}.assignee", empty=False)
    title = a_text(document.get("title", task_id), f"{path}.title")
    depends_on = [a_text(each, f"{path}.dependsOn[{index}]") for index, each in enumerate(needed)]
    max_retries = an_integer(document.get("maxRetries", 0), f"{path}.maxRetries", minimum=0)
    delay_s = an_amount(document.get("retryDelayMs", 1000), f"{path}.retryDelayMs") / 1000
    backoff = an_amount(document.get("retryBackoff", 2), f"{path}.retryBackoff")
    try:
        return Task(
            task_id,
            description,
            assignee,
            title,
            depends_on,
            cast("Any", scope),
            cast("Any", payload),
            max_retries,
            delay_s,
            backoff,
        )
    except (TypeError, ValueError) as error:
        raise Malformed(path, f"a task that can be run ({error})", document) from error


def _completed_results(value: object) -> list[Members]:
    """Those of the list that are results; what else is in it was never checked."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    objects = [cast("Members", item) for item in items if type(item) is dict]
    return [each for each in objects if type(each.get("taskId")) is str]


def _result(document: Members, given: Members | None, path: str) -> TaskResult:
    status = cast("Literal['completed', 'failed', 'skipped']", document["status"])
    told = a_text(document.get("result", ""), f"{path}.result")
    attempts = an_integer(document.get("attempts", 0), f"{path}.attempts", minimum=0)
    of_the_task = cast("str", document["id"]), cast("str", document["assignee"]), status, attempts
    if status != "completed":
        return TaskResult(*of_the_task, error=_error(document, status, told))
    texts = [told] if "result" in document else []
    for holder, name in ((given, "result"), (given and given.get("agentResult"), "output")):
        if isinstance(holder, dict):
            found = cast("Members", holder).get(name)
            texts += [found] if isinstance(found, str) else []
    return TaskResult(*of_the_task, texts[0] if texts else "", None if given is None else _structured(given))


def _error(document: Members, status: str, told: str) -> TaskError:
    error = document.get("error")
    kind: Any = "skipped" if status == "skipped" else "agent"
    code: Any = None
    if isinstance(error, dict):
        members = cast("Members", error)
        kind = members["kind"] if members.get("kind") in _KINDS else kind
        code = members["code"] if isinstance(members.get("code"), str) else None
    return TaskError(kind, told, code)


def _structured(given: Members) -> str | None:
    """The validated value of a completed task as compact JSON, if its run brought one."""
    run = given.get("agentResult")
    if not isinstance(run, dict):
        return None
    members = cast("Members", run)
    if members.get("success") is not True or "structured" not in members:
        return None
    return encode_json(members["structured"])
