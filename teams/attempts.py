"""Attempts at tasks: what the scheduler asks for, and what comes of it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from ..memory.acting import acting_as
from ..memory.async_shared import AsyncSharedMemory
from ..memory.shared import SharedMemory
from .agent import Agent
from .task import Task

__all__ = ["Attempt", "Attempts", "Outcome", "TaskContext", "act", "act_async", "cancelled_itself"]


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What an agent may know of the attempt it makes.

    Attributes:
        task: the task.
        attempt: the number of the attempt, from 1.
        activity: the id of the attempt; the events it leads to name it.
    """

    task: Task
    attempt: int
    activity: str
    _stopping: Event = field(repr=False, compare=False)

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is being stopped: what is returned from now on is thrown away.

        A coroutine is cancelled then; a function that takes long should look here from time to time, since
        the run waits for it to end.
        """
        return self._stopping.is_set()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to be made.

    Attributes:
        task: at which task.
        agent: by whom.
        prompt: what the agent is told.
        number: from 1.
        activity: what its events name.
        delay_s: seconds to wait before.
    """

    task: Task
    agent: Agent
    prompt: str
    number: int
    activity: str
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: what the agent returned, or what it raised."""

    attempt: Attempt
    returned: object
    raised: BaseException | None = None


class Attempts(Protocol):
    """Who makes attempts, several at once. A wait is answered by its answer, or by an awaitable of it."""

    def start(self, attempt: Attempt) -> None:
        """Begin an attempt; returns at once."""
        ...

    def next(self) -> Outcome | Awaitable[Outcome]:
        """Wait for the outcome of any attempt that was begun."""
        ...


def act(attempt: Attempt, memory: SharedMemory | None, stopping: Event) -> object:
    """Let the agent make the attempt; what it returns. What it does meanwhile is attributed to it."""
    name, activity = attempt.agent.name, attempt.activity
    with acting_as(name, activity=activity):
        view = None if memory is None else memory.agent(name, activity=activity)
        context = TaskContext(attempt.task, attempt.number, activity, stopping)
        return attempt.agent.run(attempt.prompt, view, context)


async def act_async(attempt: Attempt, memory: AsyncSharedMemory | None, stopping: Event) -> object:
    """`act`, for an agent whose `run` is a coroutine function."""
    name, activity = attempt.agent.name, attempt.activity
    with acting_as(name, activity=activity):
        view = None if memory is None else memory.agent(name, activity=activity)
        context = TaskContext(attempt.task, attempt.number, activity, stopping)
        returned = attempt.agent.run(attempt.prompt, view, context)
        return await returned if inspect.isawaitable(returned) else returned


def cancelled_itself(error: BaseException) -> Exception:
    """What it counts as when an agent's coroutine is cancelled, but not by us: a failure of the agent's."""
    failure = RuntimeError("the agent was cancelled by something of its own")
    failure.__cause__ = error
    return failure
