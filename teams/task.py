"""A task: what is to be done, by whom, after what."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from ..eventlog import Limits
from ..eventlog.commands import exact_str
from ..memory.keys import check_agent
from .arguments import kind_of

__all__ = ["MAX_RETRY_DELAY_S", "DependencyPayload", "MemoryScope", "Task", "result_key", "retry_delay_s"]

MemoryScope = Literal["dependencies", "all"]
DependencyPayload = Literal["output", "structured", "both"]

MAX_RETRY_DELAY_S = 30.0
"""The longest wait before a retry, whatever the settings multiply to."""

_MAX_ID = 1024


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a team.

    Attributes:
        id: names it: 1 to 1,024 bytes of UTF-8, any text. Its result is kept as
            `<assignee>/task:<id>:result`.
        description: what is to be done; the agent's prompt is made of it.
        assignee: the name of the agent who does it.
        title: how prompts call it; the id if it is left empty.
        depends_on: the tasks that must be completed before, by id, or by a title that only one task has
            (case and outer white space aside).
        memory_scope: what the prompt tells of memory: `"dependencies"` the results of `depends_on`, `"all"`
            the summary of everything in place of them.
        dependency_payload: in what form: `"output"` as text, `"structured"` as the JSON of the validated
            value, `"both"` as the two. The latter two fail the task where there is no such value.
        max_retries: how often a failed attempt is repeated.
        retry_delay_s: seconds before the first retry.
        retry_backoff: factor for each further one, at least 1; no wait is longer than 30 s.

    Raises:
        TypeError, ValueError: something that cannot be.
    """

    id: str
    description: str
    assignee: str
    title: str = ""
    depends_on: Sequence[str] = ()
    memory_scope: MemoryScope = "dependencies"
    dependency_payload: DependencyPayload = "output"
    max_retries: int = 0
    retry_delay_s: float = 1.0
    retry_backoff: float = 2.0

    def __post_init__(self) -> None:
        """Check everything, so that no task is refused in the middle of a run."""
        if not exact_str("the id of a task", self.id):
            raise ValueError("the id of a task must not be empty")
        Limits(key=_MAX_ID).check_name(f"the id of the task {self.id[:40]!r}", self.id)
        task = f"task {self.id!r:.80}: "
        exact_str(f"{task}description", self.description)
        if not isinstance(self.assignee, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{task}assignee must be a str, not {_name_of(self.assignee)}")
        try:
            check_agent(self.assignee)
        except ValueError as error:
            raise ValueError(f"{task}assignee: {error}") from error
        if not exact_str(f"{task}title", self.title):
            object.__setattr__(self, "title", self.id)
        object.__setattr__(self, "depends_on", _references(task, self.depends_on))
        _one_of(f"{task}memory_scope", self.memory_scope, ("dependencies", "all"))
        _one_of(f"{task}dependency_payload", self.dependency_payload, ("output", "structured", "both"))
        if type(self.max_retries) is not int or self.max_retries < 0:
            raise ValueError(
                f"{task}max_retries must be an integer of at least 0, not {self.max_retries!r:.80}"
            )
        _number(f"{task}retry_delay_s", self.retry_delay_s, 0)
        _number(f"{task}retry_backoff", self.retry_backoff, 1)


def result_key(task_id: str) -> str:
    """The key, in its assignee's namespace, under which a task's result is kept."""
    return f"task:{task_id}:result"


def retry_delay_s(task: Task, failed: int) -> float:
    """Seconds to wait after `failed` attempts (at least 1) of `task` have failed."""
    if not task.retry_delay_s:
        return 0.0
    try:
        return min(task.retry_delay_s * task.retry_backoff ** (failed - 1), MAX_RETRY_DELAY_S)
    except OverflowError:
        return MAX_RETRY_DELAY_S


def _name_of(given: object) -> str:
    """What was given as the name of an agent; of an agent itself, how to write it."""
    name = getattr(given, "name", None)
    written = f"; write assignee={name!r:.80}, the agent's name" if isinstance(name, str) else ""
    return f"{kind_of(given)}{written}"


def _references(task: str, given: object) -> tuple[str, ...]:
    what = f"{task}depends_on must be several ids or titles, for example a list;"
    if isinstance(given, str):
        raise TypeError(f"{what} not one str: write [{given!r:.80}]")
    if isinstance(given, Task):
        raise TypeError(f"{what} not one Task: write [{given.id!r:.80}]")
    if isinstance(given, bytes | Mapping) or inspect.isclass(given) or not isinstance(given, Iterable):
        raise TypeError(f"{what} not {kind_of(cast('object', given))}")
    items = list(cast("Iterable[object]", given))
    for index, each in enumerate(items):
        if not isinstance(each, str):
            written = f"; write its id, {each.id!r:.80}" if isinstance(each, Task) else ""
            raise TypeError(f"{task}depends_on[{index}] must be a str, not {kind_of(each)}{written}")
    return tuple(exact_str("depends_on", each) for each in items)


def _one_of(what: str, given: object, known: tuple[str, ...]) -> None:
    if type(given) is not str or given not in known:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, known))}, not {given!r:.80}")


def _number(what: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{what} must be a number, not {type(given).__name__}")
    if not (given >= least and math.isfinite(given)):
        raise ValueError(f"{what} must be finite and at least {least}, not {given}")
