"""What the cases of one invocation share: a folder, long logs that are built once, and where plots go."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from . import logs
from .measure import Probe
from .plots import Line, draw

__all__ = ["PER_TURN", "Bench"]

PER_TURN = 20
"""Writes between two turn advances of a long log."""

T = TypeVar("T")


@dataclass
class Bench:
    """One invocation.

    Attributes:
        folder: for files, removed afterwards.
        quick: small sizes, to see that all works; the figures say little.
        plots: where plots go; None with `quick`.
    """

    folder: Path
    quick: bool
    plots: Path | None = None

    @property
    def long(self) -> int:
        """The events of a long log."""
        return self.choose(1_000_000, 50_000)

    def choose(self, full: T, quick: T) -> T:
        """One of the two."""
        return quick if self.quick else full

    def probe(self) -> Probe:
        """A probe of the disk."""
        return Probe(self.folder)

    def log(self, events: int, keys: int) -> Path:
        """A log of that size, closed, `PER_TURN` writes to a turn; it must not be changed."""
        path = self.folder / f"{events}-events-{keys}-keys.db"
        if not path.exists():
            logs.build(path, events=events, keys=keys, turns=max(1, events // PER_TURN)).close()
        return path

    @contextmanager
    def copy(self, events: int, keys: int) -> Iterator[Path]:
        """A copy of that log, to be changed; removed afterwards."""
        with self.room() as room:
            # Nobody has the original open now: to copy an open one would drop SQLite's locks on it.
            yield Path(shutil.copyfile(self.log(events, keys), room / "copy.db"))

    @contextmanager
    def room(self) -> Iterator[Path]:
        """A folder for some files, removed afterwards."""
        room = self.folder / f"room-{time.monotonic_ns()}"
        room.mkdir()
        try:
            yield room
        finally:
            shutil.rmtree(room)

    def plot(self, name: str, title: str, axes: tuple[str, str], lines: list[Line]) -> list[str]:
        """Draw a plot; what shows it in a report."""
        if self.plots is None:
            return []
        self.plots.mkdir(exist_ok=True)
        (self.plots / f"{name}.svg").write_text(draw(title, axes, lines), encoding="utf-8")
        return ["", f"![{title}](plots/{name}.svg)"]
