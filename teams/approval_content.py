"""What may be put before a reviewer: the shape of each of the four kinds of content."""

from __future__ import annotations

from collections.abc import Iterable

from .shape import ABSENT, a_bool, a_choice, a_text, an_array, an_object

__all__ = ["PLAN_BOUNDARY", "SCOPES", "call_boundary", "check_content", "round_boundary"]

SCOPES = ("plan", "task_round", "task_dispatch", "tool_call")
"""At which boundary of a run a reviewer is asked; the kind of a content is its scope."""

PLAN_BOUNDARY = "coordinator-plan"
"""The boundary of a plan; that of a task's dispatch is the task's id."""

_TASK_TEXTS = ("id", "title", "description", "status", "createdAt", "updatedAt")
_TOOL_TEXTS = ("toolName", "agentName", "taskId", "toolCallId")


def round_boundary(completed: Iterable[str], following: Iterable[str]) -> str:
    """The boundary between the round of tasks that ended and the one that follows, by their ids."""
    return f"{','.join(completed)}->{','.join(following)}"


def call_boundary(task_id: str, tool_call_id: str) -> str:
    """The boundary of a tool call."""
    return f"{task_id}:{tool_call_id}"


def check_content(value: object, path: str) -> str:
    """The kind of a content, which must have the members of its kind and may have more.

    Raises:
        Malformed: it does not.
    """
    content = an_object(value, path)
    kind = a_choice(content.get("kind", ABSENT), f"{path}.kind", SCOPES)
    if kind == "plan":
        a_choice(content.get("continuation", ABSENT), f"{path}.continuation", ("execute", "plan_only"))
        _check_tasks(content.get("tasks", ABSENT), f"{path}.tasks")
    elif kind == "task_round":
        for name in ("completedTasks", "nextTasks"):
            _check_tasks(content.get(name, ABSENT), f"{path}.{name}")
    elif kind == "task_dispatch":
        _check_task(content.get("task", ABSENT), f"{path}.task")
    else:
        for name in _TOOL_TEXTS:
            a_text(content.get(name, ABSENT), f"{path}.{name}")
        for name in ("rawInput", "input"):
            an_object(content.get(name, ABSENT), f"{path}.{name}")
        a_bool(content.get("consequential", ABSENT), f"{path}.consequential")
    return kind


def _check_tasks(value: object, path: str) -> None:
    for index, task in enumerate(an_array(value, path)):
        _check_task(task, f"{path}[{index}]")


def _check_task(value: object, path: str) -> None:
    task = an_object(value, path)
    for name in _TASK_TEXTS:
        a_text(task.get(name, ABSENT), f"{path}.{name}")
