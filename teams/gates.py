"""Gates: where a run asks whether it may go on, and how it says that somebody has to look first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from .arguments import check_function
from .result import TaskResult
from .task import Task

__all__ = ["AWAITING", "ApproveDispatch", "ApprovePlan", "ApproveRound", "Gates", "Suspend"]


@dataclass(frozen=True, slots=True)
class Suspend:
    """What a gate returns to have a reviewer decide: the run stops there until that has been done.

    Attributes:
        reason: why, for the reviewer.

    Raises:
        TypeError: a reason that is no text.
    """

    reason: str | None = None

    def __post_init__(self) -> None:
        """Check the type."""
        if self.reason is not None and type(self.reason) is not str:
            raise TypeError(f"reason must be a str or None, not {type(self.reason).__name__}")


Answer = bool | Suspend
ApprovePlan = Callable[[Sequence[Task]], Answer | Awaitable[Answer]]
ApproveRound = Callable[[Sequence[TaskResult], Sequence[Task]], Answer | Awaitable[Answer]]
ApproveDispatch = Callable[[Task], Answer | Awaitable[Answer]]


AWAITING = "use arun_tasks or arestore"
"""What whoever gave something to be awaited is told."""

_ASKED = {"plan": ("tasks",), "round": ("results", "tasks"), "dispatch": ("task",)}
"""What each gate is asked with."""


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of a run; None where nobody is asked.

    Attributes:
        plan: before anything is begun, with all tasks.
        round: between two rounds, with what the last one completed and what the next would begin.
        dispatch: before each task.
        awaited: whether answers are awaited.

    Raises:
        TypeError: a gate that cannot be called, or a coroutine function where nothing is awaited.
    """

    plan: ApprovePlan | None = None
    round: ApproveRound | None = None
    dispatch: ApproveDispatch | None = None
    awaited: bool = False

    def __post_init__(self) -> None:
        """Refuse what could not be asked."""
        for name, gate in (("plan", self.plan), ("round", self.round), ("dispatch", self.dispatch)):
            if gate is not None:
                awaited = None if self.awaited else f" here; {AWAITING}"
                check_function(f"approve_{name}", gate, *_ASKED[name], optional=True, awaited=awaited)
