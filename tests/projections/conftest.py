"""A log with a long and varied past, for the tests of what is derived from it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    CompareAndSet,
    Delete,
    Entry,
    EntryDeleted,
    EntryRestored,
    Event,
    EventLog,
    Limits,
    Recorded,
    Restored,
    SetTurn,
    View,
    Write,
)
from turnlog.eventlog.history import entries_at

KEYS = ["a", "b", "a/b", "", "\ud83d", "é", "nul\0", "k" * 300]


@dataclass(frozen=True)
class GoBack:
    """Takes a run back to the entries given, by events that point to where they were written."""

    to: int
    entries: Sequence[Entry]
    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: View) -> Sequence[Event]:
        """The mark, and what must change."""
        wanted = {entry.key: entry for entry in self.entries}
        events: list[Event] = [Restored(view.turn, self.to)]
        events += [EntryDeleted(now.key) for now in view.entries() if now.key not in wanted]
        events += [
            EntryRestored(then.key, then.content, then.birth, then.created_at, then.expires_at_turn)
            for then in wanted.values()
        ]
        return events

    def outcome(self, recorded: Sequence[Recorded]) -> None:
        """Nothing to answer."""


class Wanderer:
    """Does one random thing after another to the runs of a log."""

    def __init__(self, log: EventLog, seed: int) -> None:
        self._log = log
        self._random = random.Random(seed)
        self._runs = ["main"]
        self._names = itertools.count(1)
        log.execute([Write("a", "first")], run="main")

    def step(self) -> None:
        """One list of commands, one fork, or one step back."""
        chance = self._random.random()
        if chance < 0.06 and len(self._runs) < 12:
            self._fork()
        elif chance < 0.16:
            self._go_back()
        elif chance < 0.2:
            self._runs.append(f"run {next(self._names)}")
            self._log.execute([Write("a", "begin")], run=self._runs[-1])
        else:
            commands = [self._command() for _ in range(self._random.randint(1, 6))]
            self._log.execute(commands, run=self._random.choice(self._runs), agent="somebody")

    def _command(self) -> Any:
        key, value = self._random.choice(KEYS), str(self._random.randint(0, 3))
        return self._random.choice(
            [
                Write(key, value),
                Write(key, value, {"n": value}, expires_at_turn=self._random.randint(0, 9)),
                CompareAndSet(key, self._random.choice([None, value]), value + "!"),
                Delete(key),
                self._random.choice([AdvanceTurn(), SetTurn(2), Clear()]),
            ]
        )

    def _point(self) -> tuple[str, int]:
        run = self._random.choice(self._runs)
        head = self._log.head(run)
        assert head is not None
        return run, self._random.randint(0, head.revision)

    def _fork(self) -> None:
        run, revision = self._point()
        self._runs.append(f"run {next(self._names)}")
        self._log.fork(run, revision, run=self._runs[-1], turn=0)

    def _go_back(self) -> None:
        run, revision = self._point()
        with self._log.reading() as db:
            entries = entries_at(db, self._log.lineage(run), revision)
        self._log.execute([GoBack(revision, entries)], run=run)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log of a test lies."""
    return tmp_path / "team.db"


@pytest.fixture
def log(path: Path) -> Iterator[EventLog]:
    """A fresh log with its projection."""
    with turnlog.open(path, durability="os") as log:
        yield log


@pytest.fixture
def wander(log: EventLog) -> Callable[[int], Wanderer]:
    """Makes a wanderer from a seed."""
    return lambda seed: Wanderer(log, seed)


@pytest.fixture
def long_past(log: EventLog, wander: Callable[[int], Wanderer]) -> EventLog:
    """A log of several runs and forks with some hundred events."""
    wanderer = wander(7)
    for _ in range(150):
        wanderer.step()
    return log
