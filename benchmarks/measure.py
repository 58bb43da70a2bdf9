"""How a figure is taken: single calls timed one by one, and the disk probed in the same minute."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Probe", "Spread", "table", "timed"]


@dataclass(frozen=True, slots=True)
class Spread:
    """Microseconds of many calls: median, 99th percentile, mean, the longest, and how many there were."""

    p50: float
    p99: float
    mean: float
    longest: float
    calls: int

    @classmethod
    def of(cls, spent: Iterable[int]) -> Spread:
        """Of nanoseconds."""
        ordered = sorted(spent)
        last = len(ordered) - 1
        return cls(
            p50=statistics.median(ordered) / 1e3,
            p99=ordered[round(last * 0.99)] / 1e3,
            mean=statistics.fmean(ordered) / 1e3,
            longest=ordered[last] / 1e3,
            calls=len(ordered),
        )

    @property
    def us(self) -> str:
        """Median and 99th percentile in microseconds."""
        return f"{self.p50:,.1f} / {self.p99:,.1f}"

    @property
    def ms(self) -> str:
        """Median and 99th percentile in milliseconds."""
        return f"{self.p50 / 1e3:,.2f} / {self.p99 / 1e3:,.2f}"


def timed(action: Callable[[Any], object], arguments: Iterable[Any]) -> list[int]:
    """Nanoseconds of `action` on each of `arguments`, one call at a time."""
    clock = time.perf_counter_ns
    spent: list[int] = []
    for argument in arguments:
        begin = clock()
        action(argument)
        spent.append(clock() - begin)
    return spent


class Probe:
    """The disk under durable figures: 4 KiB appended and flushed, a little in every round.

    Args:
        folder: where the files under measurement lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._block = os.urandom(4096)
        self._spent: list[int] = []

    def __call__(self, seconds: float = 0.05) -> None:
        """Probe for that long."""
        with tempfile.NamedTemporaryFile(dir=self._folder) as file:

            def flush(_: object) -> None:
                os.write(file.fileno(), self._block)
                os.fdatasync(file.fileno())

            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                self._spent += timed(flush, range(10))

    def __str__(self) -> str:
        """What was found, as a line of a report."""
        spread = Spread.of(self._spent)
        quiet = " (no disk answers that fast: these files are in memory)" if spread.p50 < 15 else ""
        return (
            f"fsync probe of the same minutes (4 KiB appended, then fdatasync): {spread.us} µs (p50 / p99), "
            f"longest {spread.longest / 1e3:,.1f} ms, {spread.calls:,} flushes{quiet}."
        )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
