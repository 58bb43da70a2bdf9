"""How a figure is taken: many single calls timed one by one, and the disk probed in the same minute."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Spread:
    """Microseconds of many calls: median, 99th percentile, mean, and how many there were."""

    p50: float
    p99: float
    mean: float
    calls: int

    def __str__(self) -> str:
        return f"{self.p50:,.1f} / {self.p99:,.1f}"


def timed(action: Callable[[Any], object], arguments: Iterable[Any]) -> Spread:
    """Time `action` on each of `arguments`, one call at a time."""
    clock = time.perf_counter_ns
    spent: list[int] = []
    for argument in arguments:
        begin = clock()
        action(argument)
        spent.append(clock() - begin)
    spent.sort()
    last = len(spent) - 1
    return Spread(
        p50=statistics.median(spent) / 1000,
        p99=spent[min(last, round(last * 0.99))] / 1000,
        mean=statistics.fmean(spent) / 1000,
        calls=len(spent),
    )


def fsync_probe(folder: Path, seconds: float = 0.5) -> Spread:
    """Append 4 KiB and flush, again and again: what the disk under a durable figure took at the time."""
    block = os.urandom(4096)
    with tempfile.NamedTemporaryFile(dir=folder) as file:

        def flush(_: object) -> None:
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())

        end = time.perf_counter() + seconds
        return timed(flush, iter(lambda: time.perf_counter() < end, False))


def machine() -> str:
    """The machine and versions, for the head of a report."""
    from turnlog.eventlog.driver import driver

    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"CPython {platform.python_version()}, SQLite {driver().sqlite_version} ({driver().__name__})"
    )
