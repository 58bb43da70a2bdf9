"""Rows and position are saved apart, so that a crash in between applies an event twice or skips it.

`tests/crash/test_kills.py` kills writers in 240 rounds.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, Write
from turnlog.eventlog import EventLog
from turnlog.projections import EntriesProjection, first_difference

_WRITE = """
import itertools, sys
import turnlog
with turnlog.open(sys.argv[1]) as log:
    store = turnlog.EventSourcedStore(log)
    for number in itertools.count():
        print(store.set(f"k{number % 5}", str(number)), flush=True)
"""


def test_a_killed_writer(path: Path, start: Callable[..., Any]) -> None:
    """Table and log agree after each kill, and what was acknowledged is there."""
    for round_ in range(2):
        writer = start(_WRITE, path)
        acknowledged = [int(writer.stdout.readline()) for _ in range(10 * (round_ + 1))]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
        writer.wait(20)
        with turnlog.open(path) as log, log.reading() as db:
            assert first_difference(db) is None
            assert set(acknowledged) <= {each.position for each in log.read()}


def test_a_fold_that_raises(path: Path) -> None:
    """The append itself fails, and neither log nor table has the event."""

    class Failing(EntriesProjection):
        def apply(self, db: Any, steps: Any) -> None:
            super().apply(db, steps)
            raise ArithmeticError("the fold raised")

    with turnlog.open(path) as log:
        EventSourcedStore(log).set("k", "before")
    with EventLog(path, projections=(Failing(),)) as log:
        with pytest.raises(ArithmeticError, match="the fold raised"):
            log.execute([Write("k", "never"), Write("j", "never")], run="main")
        assert [each.position for each in log.read()] == [1]
    with turnlog.open(path) as log:
        assert [entry.value for entry in EventSourcedStore(log).list()] == ["before"]


def test_taking_in_again_changes_nothing(log: EventLog, store: EventSourcedStore) -> None:
    """A table that is in step is left alone, and one made anew is the same."""
    store.execute([Write("k", "v"), Write("j", "v")])

    def rows(db: Any) -> list[Any]:
        return db.execute("select * from entries").fetchall()

    before = log.transact(rows)
    log.transact(EntriesProjection().prepare)
    assert log.transact(rows) == before
    log.transact(EntriesProjection().rebuild)
    assert log.transact(rows) == before
