"""How a run is taken up again: everything that can refuse first, then what changes something.

One list of steps for `restore` and `arestore`; see `turnlog.memory.steps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import uuid4

from ..memory.contract import keeps_turn
from ..memory.entry import MemoryEntry
from ..memory.keys import full_key
from ..memory.snapshot import RestoreSnapshot
from ..memory.steps import Steps
from ..replay.restore import Restore
from .approval_content import PLAN_BOUNDARY, round_boundary
from .approval_decision import ApprovalDecision
from .approval_error import DurableApprovalError, altered
from .approval_record import ApprovalRecord
from .approval_request import ApprovalRequest, request_hash
from .arguments import check_bool
from .checkpoint_error import BadCheckpoint
from .checkpoint_resume import check_resumable, memory_back, resumed_identity
from .checkpoint_snapshot import CheckpointSnapshot
from .checkpoint_steps import Standing
from .gates import Gates
from .hooks import Verdict
from .plan import make_plan
from .queue import TaskQueue
from .record_desk import Found, RecordDesk
from .result import TaskResult
from .run_hooks import RunHooks
from .run_record import RunRecord, read_results, read_tasks
from .shape import Members
from .store_run import store_run
from .task import Task, result_key
from .team import Team

__all__ = ["Resuming", "fresh_run"]


def fresh_run(
    team: Team,
    tasks: Iterable[Task],
    desk: RecordDesk | None,
    gates: Gates,
    standing: Standing | None = None,
) -> Prepared:
    """A run that begins: its queue and its hooks.

    Raises:
        BadPlan: the tasks make no plan.
    """
    plan = make_plan(tasks, team.agents)
    run_id = (desk and desk.checkpoint.run_id) or uuid4().hex
    return TaskQueue(plan), RunHooks(RunRecord.fresh(plan, run_id), gates, desk, standing=standing)


Prepared = tuple[TaskQueue, RunHooks]
"""What can be run, and what joins in."""


@dataclass(frozen=True)
class Resuming:
    """What was asked of `restore`.

    Attributes:
        team: who goes on.
        tasks: what is done if there is no checkpoint.
        desk: where the records are.
        gates: who is asked.
        at: from the newest checkpoint at or before that point; None for the present one.
        restore_memory: whether memory is put back to the checkpoint too.
    """

    team: Team
    tasks: Iterable[Task]
    desk: RecordDesk
    gates: Gates
    at: str | None
    restore_memory: bool

    def run(self) -> Steps[Prepared]:
        """The queue as the checkpoint has it; memory is put back where that was asked for or is needed.

        Raises:
            BadCheckpoint, BadPlan, DurableApprovalError, TypeError, ValueError: nothing was changed.
        """
        check_bool("restore_memory", self.restore_memory)
        if self.restore_memory and self.desk.memory is None:
            raise ValueError("restore_memory=True, but the team has no memory to put back")
        # Looked at before the checkpoint is read: what somebody saves in between counts as a later one.
        standing = yield from self.desk.checkpoint.standing()
        found = yield from self.desk.find(self.at)
        if found is None:
            return fresh_run(self.team, self.tasks, self.desk, self.gates, standing)
        named = None if found.fork is not None else self.desk.checkpoint.named
        identity = resumed_identity(found.snapshot, run_id=named, fork=found.fork)
        snapshot = found.snapshot if found.fork is None else _without_approvals(found.snapshot)
        check_resumable(snapshot)
        plan = make_plan(read_tasks(snapshot), self.team.agents)
        requests = _pending(snapshot)
        results = read_results(snapshot)
        back = self._memory_back(found)
        if back is None:
            results = yield from self._as_in_memory(results)
        queue, record = TaskQueue(plan, results), RunRecord.resumed(snapshot, identity)
        desk = self.desk if found.fork is None else self.desk.named_for(identity.run_id)
        if desk.checkpoint.key != self.desk.checkpoint.key:
            standing = yield from desk.checkpoint.standing()
        approvals = yield from desk.approvals.reconcile(snapshot)
        verdict = _decided(snapshot, record, requests, approvals)
        if verdict == "go":
            saved = yield from self._go_back(desk, record.snapshot(queue), snapshot, back)
            standing = saved or standing
        approved = [each.request for each in approvals if each.state == "approved"]
        rounds = [_ids(each.content["nextTasks"]) for each in approved if each.scope == "task_round"]
        return queue, RunHooks(
            record,
            self.gates,
            desk,
            standing=standing,
            opening=verdict,
            is_noted=not approvals,
            plan_passed=found.fork is None,
            next_round=rounds[0] if rounds else None,
            dispatches=[each.boundary for each in approved if each.scope == "task_dispatch"],
        )

    def _memory_back(self, found: Found) -> Restore | RestoreSnapshot | None:
        """What takes memory back to the checkpoint; None if it stays as it is."""
        embedded = found.snapshot.get("sharedMemory")
        if self.desk.memory is not None and embedded is not None:
            try:
                return RestoreSnapshot(embedded)
            except (TypeError, ValueError) as error:
                raise BadCheckpoint(f"the memory in the checkpoint cannot be put back: {error}") from error
        if not self.restore_memory:
            return None
        where = store_run(self.team.store)
        if where is None or found.saved is None:
            raise TypeError(
                "restore_memory=True needs memory and checkpoints on a log, or checkpoints in a store of "
                "their own; here neither says what memory was"
            )
        return memory_back(where.log, where.run, found.saved)

    def _go_back(
        self,
        desk: RecordDesk,
        present: Members,
        snapshot: CheckpointSnapshot,
        back: Restore | RestoreSnapshot | None,
    ) -> Steps[Standing | None]:
        """Put memory back; after a jump in time, save at once: the latest checkpoint may be a later one.

        Whoever was at the run is told at their next task. What was saved, if anything was.
        """
        memory = desk.memory
        if isinstance(back, Restore) and memory is not None:
            if self.at is not None and desk.shares:
                return (yield from desk.save(present, back=back))
            store: Any = memory.store
            yield store.execute([back])
        elif back is not None and memory is not None:
            yield memory.restore(snapshot.get("sharedMemory"))
        elif memory is not None and "turnCount" in snapshot and not keeps_turn(self.team.store):
            yield memory.set_turn(snapshot["turnCount"])
        return None if self.at is None else (yield from desk.save(present))

    def _as_in_memory(self, results: list[TaskResult]) -> Steps[list[TaskResult]]:
        """The results, those that were changed in memory since as they are there."""
        if self.desk.memory is None:
            return results
        store: Any = self.desk.memory.store
        found: list[TaskResult] = []
        for result in results:
            entry: MemoryEntry | None = None
            if result.status == "completed":
                entry = yield store.get(full_key(result.assignee, result_key(result.task_id)))
            if entry is None or entry.value == result.output:
                found.append(result)
                continue
            try:
                output = self.team.agents[result.assignee].judge(entry.value)
            except Exception as error:
                raise BadCheckpoint(
                    f"the result of task {result.task_id!r:.80} was changed in memory to what agent "
                    f"{result.assignee!r:.80} could not have returned: {error}"
                ) from error
            found.append(replace(result, output=output.text, structured_json=output.structured))
        return found


def _without_approvals(snapshot: CheckpointSnapshot) -> CheckpointSnapshot:
    """A checkpoint as a fork goes on from it: what its parent was allowed says nothing about the fork."""
    return cast(
        "CheckpointSnapshot",
        {**snapshot, "pendingApprovals": [], "approvalDecisions": [], "inFlightTasks": []},
    )


def _pending(snapshot: CheckpointSnapshot) -> list[ApprovalRequest]:
    """What waits for a reviewer, each of it still what the tasks of the checkpoint say.

    Raises:
        BadCheckpoint: it is about something that is not done here.
        DurableApprovalError: `APPROVAL_STALE_DECISION`, `APPROVAL_INTEGRITY_ERROR`: the tasks, or the place,
            are not those that are to be approved.
    """
    tasks = {each["id"]: each for each in snapshot["queue"]["tasks"]}
    requests = [ApprovalRequest.read(each) for each in snapshot["pendingApprovals"]]
    for request in requests:
        content = request.content
        if request.scope == "tool_call" or content.get("continuation") == "plan_only":
            what = "a tool call" if request.scope == "tool_call" else "a plan that is not to be run"
            raise BadCheckpoint(
                f"approval {request.id} is about {what}; only the program that asked can go on from there"
            )
        if request_hash(request.scope, request.boundary, _seen_now(request, tasks)) != request.request_hash:
            raise DurableApprovalError(
                "APPROVAL_STALE_DECISION",
                f"request {request.id} is about tasks that the checkpoint holds otherwise",
            )
    return requests


def _seen_now(request: ApprovalRequest, tasks: dict[str, Members]) -> dict[str, Any]:
    """What the request would be about, made anew of the tasks."""
    content = request.content
    if request.scope == "task_dispatch":
        return content | {"task": tasks.get(request.boundary)}
    if request.scope == "plan":
        if request.boundary != PLAN_BOUNDARY:
            raise altered(f"request {request.id}: {request.boundary!r:.80} is not the boundary of a plan")
        return content | {"tasks": list(tasks.values())}
    completed, following = _ids(content["completedTasks"]), _ids(content["nextTasks"])
    if request.boundary != round_boundary(completed, following):
        raise altered(f"request {request.id}: {request.boundary!r:.80} is not the boundary of its round")
    return content | {
        "completedTasks": [tasks.get(task_id) for task_id in completed],
        "nextTasks": [tasks.get(task_id) for task_id in following],
    }


def _ids(documents: Sequence[Members]) -> list[str]:
    return [cast("str", document["id"]) for document in documents]


def _decided(
    snapshot: CheckpointSnapshot,
    record: RunRecord,
    requests: list[ApprovalRequest],
    approvals: list[ApprovalRecord],
) -> Verdict:
    """What reviewers have made of the run, which is noted in the record."""
    decisions = [ApprovalDecision.read(each) for each in snapshot["approvalDecisions"]]
    decisions += [each.decision for each in approvals if each.decision is not None]
    if any(each.decision is None for each in approvals):
        record.pending.extend(requests)
        return "suspend"
    record.decisions.update((each.request_id, each) for each in decisions)
    return "skip" if any(each.decision == "rejected" for each in decisions) else "go"
