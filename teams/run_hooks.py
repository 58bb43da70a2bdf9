"""What joins in while tasks are run: checkpoints after each task, and gates that can suspend the run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from ..eventlog import Command, Conflict
from ..memory.steps import Steps
from .approval_content import PLAN_BOUNDARY, round_boundary
from .approval_error import DurableApprovalError, altered
from .approval_request import ApprovalRequest, Scope
from .checkpoint_steps import Standing, standing_after
from .gates import Gates, Suspend
from .hooks import Announce, Hooks, Verdict
from .queue import TaskQueue
from .record_desk import RecordDesk
from .result import TaskError, TaskResult
from .run_record import RunRecord
from .shape import Members
from .task import Task

__all__ = ["RunHooks"]


class RunHooks(Hooks):
    """The hooks of a run.

    Args:
        record: what its checkpoints say.
        gates: who is asked.
        desk: where checkpoints and approvals are kept; None if nowhere.
        standing: the checkpoint that the run goes on from; None to take the one that is there at the start.
        opening: whether anything is to be begun at all.
        is_noted: whether the checkpoint there is says so already.
        plan_passed: whether the plan was let through before.
        next_round: the tasks of the round that was approved; None if none was.
        dispatches: the tasks that were approved.
    """

    def __init__(
        self,
        record: RunRecord,
        gates: Gates,
        desk: RecordDesk | None,
        *,
        standing: Standing | None = None,
        opening: Verdict = "go",
        is_noted: bool = False,
        plan_passed: bool = False,
        next_round: Sequence[str] | None = None,
        dispatches: Collection[str] = (),
    ) -> None:
        self.by_rounds = gates.round is not None
        self.pending = record.pending
        self._record = record
        self._gates = gates
        self._desk = desk
        self._standing = standing
        self._opening: Verdict = opening
        self._is_noted = is_noted
        self._plan_passed = plan_passed
        self._next_round = None if next_round is None else list(next_round)
        self._dispatches = set(dispatches)
        self._saved_with: str | None = None
        self._announce: Announce | None = None

    def listen(self, announce: Announce) -> None:
        """See `Hooks`."""
        self._announce = announce

    # -- checkpoints

    def recording(self, queue: TaskQueue, result: TaskResult) -> Steps[Sequence[Command[Any]]]:
        """The checkpoint that knows of the result, if it is kept beside the memory."""
        if self._desk is None or not self._desk.shares:
            return ()
        self._saved_with = result.task_id
        try:
            snapshot = self._record.snapshot(queue, result)
            write = yield from self._desk.writing_next(snapshot, self._standing)
        except Exception as error:  # noqa: BLE001 - the result counts for more than the checkpoint
            failed = error
        else:
            return (write,)
        self._failed(result, failed)
        return ()

    def recorded(self, outcomes: Sequence[object]) -> None:
        """See `Hooks`."""
        if outcomes:
            self._standing = standing_after(outcomes[-1])

    def recording_refused(self, result: TaskResult, error: Conflict) -> Steps[Exception]:  # noqa: ARG002
        """Somebody else has gone on with the run."""
        assert self._desk is not None
        return (yield from self._desk.taken(f"The result of task {result.task_id!r:.200} is not recorded,"))

    def not_recorded(self, result: TaskResult, error: Exception) -> None:
        """See `Hooks`."""
        self._failed(result, error)

    def task_finished(self, queue: TaskQueue, result: TaskResult) -> Steps[None]:
        """A checkpoint after a task was completed, where none could go with the result."""
        if result.status == "completed" and self._saved_with != result.task_id:
            yield from self._save(queue, result)

    def run_ended(self, queue: TaskQueue, verdict: Verdict) -> Steps[None]:
        """A checkpoint of a run that a reviewer has ended, so that it stays so."""
        rejected = any(decision.decision == "rejected" for decision in self._record.decisions.values())
        if verdict == "skip" and rejected and not self._is_noted:
            yield from self._save(queue, None)

    def _save(self, queue: TaskQueue, result: TaskResult | None) -> Steps[None]:
        if self._desk is None:
            return
        failed: Exception | None = None
        try:
            self._standing = yield from self._desk.save(self._record.snapshot(queue), standing=self._standing)
        except Exception as error:  # noqa: BLE001 - it is told, and the next one may succeed
            failed = error
        if isinstance(failed, Conflict):
            after = "" if result is None else f" after task {result.task_id!r:.200}"
            raise (yield from self._desk.taken(f"No checkpoint was saved{after},")) from failed
        if failed is not None:  # told out here: what a listener raises is no failed save
            self._failed(result, failed)

    def _failed(self, result: TaskResult | None, error: Exception) -> None:
        assert self._announce is not None
        failure = TaskError("checkpoint", f"{type(error).__name__}: {error}", cause=error)
        self._announce("checkpoint_failed", result, error=failure)

    # -- gates

    def plan_accepted(self, queue: TaskQueue) -> Steps[Verdict]:
        """Ask about the plan, unless it was let through before."""
        if self._desk is not None and self._standing is None:
            self._standing = yield from self._desk.checkpoint.standing()
        gate = self._gates.plan
        if self._opening != "go" or self._plan_passed or gate is None:
            return self._opening
        tasks = tuple(queue.plan.tasks.values())
        return (
            yield from self._ask(
                queue, "plan", PLAN_BOUNDARY, lambda: gate(tasks), self._tasks(queue, queue.plan.tasks)
            )
        )

    def round_ended(
        self, queue: TaskQueue, completed: Sequence[str], following: Sequence[str]
    ) -> Steps[Verdict]:
        """Ask about the next round, unless it is the one that was approved."""
        approved, self._next_round = self._next_round, None
        gate = self._gates.round
        if gate is None or approved == list(following):
            return "go"
        ended = tuple(map(queue.result, completed))
        next_tasks = tuple(queue.plan.tasks[task_id] for task_id in following)
        content: Members = {
            "completedTasks": self._documents(queue, completed),
            "nextTasks": self._documents(queue, following),
        }
        boundary = round_boundary(completed, following)
        return (yield from self._ask(queue, "task_round", boundary, lambda: gate(ended, next_tasks), content))

    def before_dispatch(self, queue: TaskQueue, task: Task) -> Steps[Verdict]:
        """Ask about a task, unless it is one that was approved; that counts once."""
        gate = self._gates.dispatch
        if gate is None or task.id in self._dispatches:
            self._dispatches.discard(task.id)
            return "go"
        content: Members = {"task": self._record.document(queue.result(task.id))}
        return (yield from self._ask(queue, "task_dispatch", task.id, lambda: gate(task), content))

    def _ask(
        self,
        queue: TaskQueue,
        scope: Scope,
        boundary: str,
        gate: Callable[[], bool | Suspend | Awaitable[bool | Suspend]],
        content: Members,
    ) -> Steps[Verdict]:
        answer: object = gate()
        if inspect.isawaitable(answer) and self._gates.awaited:
            answer = yield answer
        if isinstance(answer, bool):
            return "go" if answer else "skip"
        if not isinstance(answer, Suspend):
            if inspect.iscoroutine(answer):
                answer.close()
            name = {"plan": "plan", "task_round": "round"}.get(scope, "dispatch")
            raise TypeError(
                f"approve_{name} must return True, False or Suspend(...), not {type(answer).__name__}"
            )
        request = ApprovalRequest.create(
            run_id=self._record.run_id,
            scope=scope,
            boundary=boundary,
            content={"kind": scope, **content},
            reason=answer.reason,
        )
        return (yield from self._suspend(queue, request))

    def _suspend(self, queue: TaskQueue, request: ApprovalRequest) -> Steps[Verdict]:
        """Keep the checkpoint, then the request; of one that is decided already, heed the decision."""
        if self._desk is None:
            raise DurableApprovalError(
                "APPROVAL_ATOMIC_STORE_REQUIRED",
                f"a gate suspends the run at {request.boundary!r:.200}, but the run has no checkpoint; "
                "pass checkpoint=",
            )
        approvals = self._desk.approvals
        approvals.require_atomic()
        known = yield from approvals.get(request.id)
        if known is not None and known.decision is not None:
            self._record.decisions[request.id] = known.decision
            return "go" if known.decision.decision == "approved" else "skip"
        asked = request if known is None else known.request
        self._record.pending.append(asked)
        try:
            self._standing = yield from self._desk.save(self._record.snapshot(queue), standing=self._standing)
        except Conflict as conflict:
            self._record.pending.clear()
            unasked = f"Nobody was asked about {request.boundary!r:.200},"
            raise (yield from self._desk.taken(unasked)) from conflict
        except Exception as error:
            self._record.pending.clear()
            raise altered(
                f"the checkpoint could not be saved, so nobody was asked about {request.boundary!r:.200}: "
                f"{error}"
            ) from error
        yield from approvals.ensure_request(asked)
        assert self._announce is not None
        about = queue.result(request.boundary) if request.scope == "task_dispatch" else None
        self._announce("approval_pending", about, approval=request.id)
        return "suspend"

    def _tasks(self, queue: TaskQueue, ids: Collection[str]) -> Members:
        return {"continuation": "execute", "tasks": self._documents(queue, ids)}

    def _documents(self, queue: TaskQueue, ids: Collection[str]) -> list[Members]:
        return [self._record.document(queue.result(task_id)) for task_id in ids]
