"""How far a run has come, for a callback or for somebody at a terminal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from ..replay.cli_text import cut, escaped
from .result import TaskError

__all__ = ["TaskEvent", "reporting"]

_SHOWN = 3

_BESIDES = 40
"""Columns that the bar takes beside the names: "tasks", 20 of the bar itself, two counts, the time, gaps."""


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """Something that has happened to a task.

    Attributes:
        kind: what: an attempt was begun, one has failed and is to be repeated, or how the task ended;
            `"checkpoint_failed"` if where the run stands after it could not be saved, `"approval_pending"` if
            a reviewer was asked.
        task_id, assignee: to which task; `""` if it is about the run.
        attempt: how often it has been begun so far.
        error: why it is repeated or was not completed, or why the checkpoint failed.
        finished: how many tasks of the plan are completed, failed or skipped by now.
        total: how many there are.
        approval: the id of the request for approval.
    """

    kind: Literal[
        "started", "retried", "completed", "failed", "skipped", "checkpoint_failed", "approval_pending"
    ]
    task_id: str
    assignee: str
    attempt: int
    error: TaskError | None
    finished: int
    total: int
    approval: str | None = None


@contextmanager
def reporting(
    on_event: Callable[[TaskEvent], object] | None, total: int
) -> Generator[Callable[[TaskEvent], object]]:
    """A function to tell of each event: the callback, else a bar on standard error if that is a terminal.

    Without a callback, that a checkpoint failed is a warning.
    """
    if on_event is not None:
        yield on_event
    elif total and sys.stderr is not None and sys.stderr.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        with _bar(total) as tell:
            yield lambda event: (tell(event), _warn(event))
    else:
        yield _warn


def _warn(event: TaskEvent) -> None:
    if event.kind == "checkpoint_failed" and event.error is not None:
        after = f" after task {event.task_id!r:.80}" if event.task_id else ""
        warnings.warn(f"no checkpoint was saved{after}: {event.error.message}", RuntimeWarning, stacklevel=2)


@contextmanager
def _bar(total: int) -> Generator[Callable[[TaskEvent], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    running: dict[str, None] = {}
    console = Console(stderr=True)
    room = console.width - _BESIDES - 2 * len(str(total))
    columns = (
        TextColumn("tasks"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("", total=total)

        def tell(event: TaskEvent) -> None:
            if event.kind == "started":
                running[event.task_id] = None
            elif event.kind in ("completed", "failed", "skipped"):
                running.pop(event.task_id, None)
            named = ", ".join(escaped(task_id)[:30] for task_id in list(running)[:_SHOWN])
            more = f" and {len(running) - _SHOWN} more" if len(running) > _SHOWN else ""
            description = cut(named + more, room) if room > 0 else ""
            bar.update(shown, completed=event.finished, description=description)

        yield tell
