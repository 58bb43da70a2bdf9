"""How far long work has come, for somebody who waits at a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(what: str, total: int) -> Generator[Callable[[int], None] | None]:
    """A function to call with the number done so far: a bar on standard error, if that is a terminal.

    The bar appears only once the work has taken a second. None where nobody would see it.
    """
    if not sys.stderr.isatty() or total < 1000:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=total)
    began = time.monotonic()

    def done(count: int) -> None:
        if not bar.live.is_started and time.monotonic() - began > 1:
            bar.start()
        bar.update(task, completed=count)

    try:
        yield done
    finally:
        if bar.live.is_started:
            bar.stop()
