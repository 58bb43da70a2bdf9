"""What became of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..eventlog.text import read_json
from .approval_request import ApprovalRequest
from .errors import PayloadCode

__all__ = ["FINISHED", "Output", "Status", "TaskError", "TaskResult", "TeamResult"]

Status = Literal["blocked", "pending", "in_progress", "completed", "failed", "skipped"]
"""Waiting for others, ready, being done; and the three in which a task stays."""

FINISHED = ("completed", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class Output:
    """What an attempt brought.

    Attributes:
        text: what the task's result in memory says.
        structured: compact JSON of the validated value; None where the agent declares no type.
    """

    text: str
    structured: str | None = None


@dataclass(frozen=True, slots=True)
class TaskError:
    """Why a task was not completed.

    Attributes:
        kind: `"agent"`: the agent raised; `"validation"`: what it returned, or was to be given, cannot be;
            `"dependency"`: a task it needs was not completed; `"skipped"`: it was not to be begun;
            `"checkpoint"`: nothing about the task, but where it stands could not be saved.
        message: what happened.
        code: names the reason where the dependency payload is it.
        cause: the exception; None after a restart.
    """

    kind: Literal["agent", "validation", "dependency", "skipped", "checkpoint"]
    message: str
    code: PayloadCode | None = None
    cause: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task, as far as it has come.

    Attributes:
        task_id: the task.
        assignee: who does it.
        status: how far it is.
        attempts: how often it was begun.
        output: the agent's text, if it is completed.
        structured_json: the validated value as compact JSON, if it is completed and its agent has a type.
        error: why it was not completed, if it has failed or was skipped.
    """

    task_id: str
    assignee: str
    status: Status
    attempts: int = 0
    output: str | None = None
    structured_json: str | None = None
    error: TaskError | None = None

    @property
    def structured(self) -> Any:
        """The validated value as JSON data, fresh each time; None if there is none (or if it is a null)."""
        return None if self.structured_json is None else read_json(self.structured_json)


@dataclass(frozen=True, slots=True)
class TeamResult:
    """What `run_tasks` did.

    Attributes:
        status: `"completed"` if every task is; `"suspended"` if some were kept until somebody has decided;
            `"rejected"` if some were not to be begun; else `"failed"`.
        tasks: the result of each task by its id, in the order of the plan.
        pending_approvals: what is to be decided before a suspended run can go on.
    """

    status: Literal["completed", "failed", "suspended", "rejected"]
    tasks: Mapping[str, TaskResult]
    pending_approvals: tuple[ApprovalRequest, ...] = ()

    @property
    def success(self) -> bool:
        """Whether every task was completed."""
        return self.status == "completed"

    def __getitem__(self, task_id: str) -> TaskResult:
        """The result of one task.

        Raises:
            KeyError: there is no such task; says which there are.
        """
        try:
            return self.tasks[task_id]
        except KeyError:
            known = ", ".join(map(repr, self.tasks)) or "none"
            raise KeyError(f"there is no task {task_id!r:.80}; there are {known:.200}") from None
