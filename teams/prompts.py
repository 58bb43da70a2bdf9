"""What an agent is told: the task, and what it needs to know of those before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from ..eventlog.text import read_json, utf8_size
from ..memory.javascript import javascript_json
from .errors import PayloadError
from .result import TaskResult
from .task import Task

__all__ = ["MAX_PAYLOAD", "stable_json", "task_prompt"]

MAX_PAYLOAD = 64 * 1024
"""Bytes of UTF-8 that one dependency's section may have where a structured value is in it."""

_STRUCTURED = "#### Validated structured result"
_RAW = "#### Raw output"
_MAX_INDEX = 2**32 - 2


def task_prompt(
    task: Task, summary: str, titled: Callable[[str], Task], result: Callable[[str], TaskResult]
) -> str:
    """The prompt for `task`: its title and description, then its context.

    Args:
        task: what is to be done.
        summary: the team's memory as `get_summary` gives it; the context of a task whose scope is `"all"`.
        titled: a task by its id.
        result: how far a task has come, by its id.

    Raises:
        PayloadError: a dependency has no structured value where one is asked for, or too large a section.
    """
    lines = [f"# Task: {task.title}", "", task.description]
    if task.memory_scope == "all":
        if summary:
            lines += ["", summary]
        return "\n".join(lines)
    sections: list[str] = []
    for needed in task.depends_on:
        found = result(needed)
        if found.status == "completed":
            sections += _section(task, titled(needed), found)
    if sections:
        lines += ["", "## Context from prerequisite tasks", "", *sections]
    return "\n".join(lines)


def stable_json(value: object) -> str:
    """Compact JSON of decoded JSON with sorted members, the same text as in the original.

    Members are sorted by UTF-16 code units, but those whose names are array indexes come first, by number.
    """
    return javascript_json(_sorted(value))


def _section(task: Task, needed: Task, found: TaskResult) -> list[str]:
    """At most one section of text."""
    heading = f"### {needed.title} (by {needed.assignee})"
    raw = found.output or ""
    if task.dependency_payload == "output":
        return [f"{heading}\n{raw}"] if raw else []
    if found.structured_json is None:
        raise PayloadError(
            "DEPENDENCY_STRUCTURED_RESULT_MISSING",
            f"task {task.id!r:.200} asks for the structured result of {needed.id!r:.200}, which has none; "
            f"give agent {needed.assignee!r:.200} a result_type",
        )
    lines = [heading, _STRUCTURED] if task.dependency_payload == "structured" else []
    lines = lines or [heading, _RAW, raw, "", _STRUCTURED]
    section = "\n".join([*lines, stable_json(read_json(found.structured_json))])
    size = utf8_size(section)
    if size > MAX_PAYLOAD:
        raise PayloadError(
            "DEPENDENCY_PAYLOAD_TOO_LARGE",
            f"task {task.id!r:.200} is to be given {size:,} bytes of task {needed.id!r:.200}; the limit is "
            f"{MAX_PAYLOAD:,} bytes: let it return less, or what is needed of it",
        )
    return [section]


def _sorted(value: object) -> object:
    if isinstance(value, list):
        return [_sorted(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {name: _sorted(members[name]) for name in sorted(members, key=_place)}
    return value


def _place(name: str) -> tuple[int, int, bytes]:
    if name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0") and len(name) <= 10:
        index = int(name)
        if index <= _MAX_INDEX:
            return (0, index, b"")
    return (1, 0, name.encode("utf-16-be", "surrogatepass"))
