"""How far a plan has come: which tasks are ready, done, or never to be begun.

Pure: no clock, no store, no thread. It can be built from plain data and turned into it, so that a run can be
continued by another process.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from .plan import Plan
from .result import FINISHED, Output, Status, TaskError, TaskResult

__all__ = ["TaskQueue"]


class TaskQueue:
    """The state of a plan. A task that is neither completed, failed nor skipped begins anew.

    Args:
        plan: the tasks.
        results: what became of some of them before. Whoever waits for one that failed or was skipped fails or
            is skipped too.

    Raises:
        ValueError: a result of a task that the plan does not have.
    """

    def __init__(self, plan: Plan, results: Iterable[TaskResult] = ()) -> None:
        self.plan = plan
        self._place = {task_id: place for place, task_id in enumerate(plan.tasks)}
        self._ids = list(plan.tasks)
        self._ready: list[int] = []
        self._results = {
            task.id: TaskResult(task.id, task.assignee, "blocked") for task in plan.tasks.values()
        }
        for result in results:
            if result.task_id not in self._results:
                raise ValueError(f"there is a result of task {result.task_id!r:.80}, which the plan lacks")
            if result.status in FINISHED:
                self._results[result.task_id] = result
        self._missing = {task_id: sum(1 for _ in self._unmet(task_id)) for task_id in self._ids}
        for task_id in self._ids:
            if self._results[task_id].status in ("failed", "skipped"):
                self._cascade(task_id)
        for task_id in self._ids:
            self._release(task_id)

    # -- looking

    @property
    def results(self) -> Mapping[str, TaskResult]:
        """Every task's state by its id, in the order of the plan; a copy."""
        return dict(self._results)

    def result(self, task_id: str) -> TaskResult:
        """The state of one task."""
        return self._results[task_id]

    def ready(self) -> list[str]:
        """The tasks that could be begun now, in the order of the plan."""
        return [self._ids[place] for place in sorted(self._ready) if self._is_ready(place)]

    def next_ready(self) -> str | None:
        """The first of the tasks that could be begun now."""
        while self._ready and not self._is_ready(self._ready[0]):
            heapq.heappop(self._ready)
        return self._ids[self._ready[0]] if self._ready else None

    def finished(self) -> int:
        """How many tasks are completed, failed or skipped."""
        return sum(result.status in FINISHED for result in self._results.values())

    # -- moving on

    def start(self, task_id: str) -> int:
        """Begin a ready task, or repeat one that is in progress; the number of the attempt, from 1."""
        before = self._expect(task_id, "pending", "in_progress")
        self._results[task_id] = replace(before, status="in_progress", attempts=before.attempts + 1)
        return before.attempts + 1

    def completed(self, task_id: str, output: Output) -> TaskResult:
        """How a task in progress would look, were it completed with `output`; nothing is changed."""
        before = self._expect(task_id, "in_progress")
        return replace(before, status="completed", output=output.text, structured_json=output.structured)

    def complete(self, result: TaskResult) -> None:
        """Take a task in progress as completed; those that waited for it alone become ready."""
        self._expect(result.task_id, "in_progress")
        self._results[result.task_id] = result
        for waiting in self.plan.dependents[result.task_id]:
            self._missing[waiting] -= 1
            self._release(waiting)

    def fail(self, task_id: str, error: TaskError) -> list[TaskResult]:
        """Take a task as failed, and whoever waits for it, directly or not, too; all of these."""
        before = self._expect(task_id, "pending", "in_progress")
        failed = replace(before, status="failed", error=error)
        self._results[task_id] = failed
        return [failed, *self._cascade(task_id)]

    def skip_rest(self, reason: str) -> list[TaskResult]:
        """Take every task that was not begun as skipped; all of these."""
        skipped: list[TaskResult] = []
        for task_id, before in self._results.items():
            if before.status in ("pending", "blocked"):
                skipped.append(replace(before, status="skipped", error=TaskError("skipped", reason)))
                self._results[task_id] = skipped[-1]
        return skipped

    # -- plain data

    def to_data(self, finished: TaskResult | None = None) -> list[dict[str, Any]]:
        """Every task's state as JSON data, in the order of the plan.

        Args:
            finished: a state to show in place of the present one of its task: what is about to become true.
        """
        results = self._results if finished is None else {**self._results, finished.task_id: finished}
        return [_data_of(result) for result in results.values()]

    @classmethod
    def from_data(cls, plan: Plan, data: object) -> TaskQueue:
        """The queue that `to_data` described; what was in progress begins anew.

        Raises:
            TypeError, ValueError: not such data, or tasks that the plan lacks.
        """
        return cls(plan, _results_in(data))

    # -- inside

    def _is_ready(self, place: int) -> bool:
        return self._results[self._ids[place]].status == "pending"

    def _unmet(self, task_id: str) -> Iterator[str]:
        needed = self.plan.tasks[task_id].depends_on
        return (each for each in needed if self._results[each].status != "completed")

    def _release(self, task_id: str) -> None:
        before = self._results[task_id]
        if before.status == "blocked" and not self._missing[task_id]:
            self._results[task_id] = replace(before, status="pending")
            heapq.heappush(self._ready, self._place[task_id])

    def _cascade(self, task_id: str) -> list[TaskResult]:
        status = self._results[task_id].status
        told: list[TaskResult] = []
        ended = deque([task_id])
        while ended:
            cause = ended.popleft()
            for waiting in self.plan.dependents[cause]:
                before = self._results[waiting]
                if before.status not in ("pending", "blocked"):
                    continue
                fate = "has failed" if status == "failed" else "was skipped"
                reason = f"it depends on task {cause!r:.200}, which {fate}"
                self._results[waiting] = replace(before, status=status, error=TaskError("dependency", reason))
                told.append(self._results[waiting])
                ended.append(waiting)
        return told

    def _expect(self, task_id: str, *allowed: Status) -> TaskResult:
        found = self._results[task_id]
        if found.status not in allowed:
            raise ValueError(f"task {task_id!r:.80} is {found.status}, not {' or '.join(allowed)}")
        return found


def _data_of(result: TaskResult) -> dict[str, Any]:
    error = result.error
    told = {
        "id": result.task_id,
        "assignee": result.assignee,
        "status": result.status,
        "attempts": result.attempts,
        "output": result.output,
        "structured": result.structured_json,
        "error": None
        if error is None
        else {"kind": error.kind, "message": error.message, "code": error.code},
    }
    return {name: value for name, value in told.items() if value is not None}


def _results_in(data: object) -> Iterator[TaskResult]:
    if not isinstance(data, list):
        raise TypeError(f"the state of tasks must be a list, not {type(data).__name__}")
    for place, each in enumerate(cast("list[object]", data)):
        try:
            told = cast("dict[str, Any]", each)
            error = told.get("error")
            reason = None if error is None else TaskError(error["kind"], error["message"], error.get("code"))
            result = TaskResult(
                task_id=told["id"],
                assignee=told["assignee"],
                status=told["status"],
                attempts=told["attempts"],
                output=told.get("output"),
                structured_json=told.get("structured"),
                error=reason,
            )
        except (AttributeError, KeyError, TypeError) as lacking:
            raise ValueError(f"the state of tasks cannot be read at [{place}]: {lacking!r:.200}") from lacking
        if result.status == "completed" and result.output is None:
            raise ValueError(f"the state of tasks cannot be read at [{place}]: completed without an output")
        yield result
