"""Where others join in while tasks are run: checkpoints, approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from ..eventlog import Command, Conflict
from ..memory.steps import Steps
from .approval_request import ApprovalRequest
from .queue import TaskQueue
from .result import TaskError, TaskResult
from .task import Task

__all__ = ["Announce", "Hooks", "Verdict"]

Verdict = Literal["go", "skip", "suspend"]
"""Go on; skip every task not yet begun; or begin nothing more and keep those tasks for another time."""


class Announce(Protocol):
    """How what hooks did becomes a `TaskEvent`."""

    def __call__(
        self,
        kind: Literal["checkpoint_failed", "approval_pending"],
        result: TaskResult | None,
        *,
        error: TaskError | None = None,
        approval: str | None = None,
    ) -> None:
        """Tell whoever listens; `result` is the task it is about, None if it is about the whole run."""
        ...


class Hooks:
    """What happens between the steps of a run: nothing, unless a method is overridden.

    Each method is a list of steps (see `memory.steps`), so that it may ask stores of either kind. They are
    called one at a time, never while the queue moves. What one raises ends the run as a failing store does:
    what is under way is finished, nothing more is begun, and the error is raised.

    Attributes:
        by_rounds: whether a round must end before the next begins; else a task is begun as soon as it can be.
        pending: what waits for a reviewer.
    """

    by_rounds: bool = False
    pending: Sequence[ApprovalRequest] = ()

    def listen(self, announce: Announce) -> None:
        """Before everything else: how to tell of what happens here."""

    def plan_accepted(self, queue: TaskQueue) -> Steps[Verdict]:  # noqa: ARG002
        """Before anything is begun."""
        yield from ()
        return "go"

    def round_ended(
        self,
        queue: TaskQueue,  # noqa: ARG002
        completed: Sequence[str],  # noqa: ARG002
        following: Sequence[str],  # noqa: ARG002
    ) -> Steps[Verdict]:
        """Between two rounds, if `by_rounds`: what the last one completed, and what the next would begin."""
        yield from ()
        return "go"

    def before_dispatch(self, queue: TaskQueue, task: Task) -> Steps[Verdict]:  # noqa: ARG002
        """Before `task`, which is ready, is begun for the first time."""
        yield from ()
        return "go"

    def recording(self, queue: TaskQueue, result: TaskResult) -> Steps[Sequence[Command[Any]]]:  # noqa: ARG002
        """Commands to carry out in the one batch that writes a completed task's result.

        Only asked where the team's store carries out lists and keeps the turn. The queue does not know the
        result yet: `queue.to_data(finished=result)` shows what is about to be.
        """
        yield from ()
        return ()

    def not_recorded(self, result: TaskResult, error: Exception) -> None:
        """The store refused what `recording` gave; the result was written without it."""

    def recorded(self, outcomes: Sequence[object]) -> None:
        """What `recording` gave was carried out; the outcome of each of its commands."""

    def recording_refused(self, result: TaskResult, error: Conflict) -> Steps[Exception]:  # noqa: ARG002
        """A condition of what `recording` gave did not hold, so nothing was written; what is to be raised."""
        yield from ()
        return error

    def task_finished(self, queue: TaskQueue, result: TaskResult) -> Steps[None]:  # noqa: ARG002
        """After a task was completed or has failed, and the queue knows it."""
        yield from ()

    def run_ended(self, queue: TaskQueue, verdict: Verdict) -> Steps[None]:  # noqa: ARG002
        """When nothing is under way any more, unless an error is about to be raised."""
        yield from ()
