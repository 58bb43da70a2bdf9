"""Entries expire by another clock or zone, stay visible until a sweep, or never expire on another store."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, SharedMemory, Timeline, Write
from turnlog.eventlog import EventLog

_WRITE = """
import sys, turnlog
with turnlog.open(sys.argv[1]) as log:
    memory = turnlog.SharedMemory(turnlog.EventSourcedStore(log))
    memory.write_expiring("a", "note", "v", 2)
    memory.advance_turn()
    print(memory.read("a/note").created_at.isoformat())
"""


def test_times_are_utc_wherever_they_are_written(path: Path, start: Callable[..., Any]) -> None:
    """Written in Tokyo and read in Greenwich: one moment, aware, in UTC; the turn survives the restart."""
    writer = start(_WRITE, path, env={**os.environ, "TZ": "Asia/Tokyo"})
    printed = writer.communicate(timeout=60)[0].strip()
    with turnlog.open(path) as log:
        memory = SharedMemory(EventSourcedStore(log))
        entry = memory.read("a/note")
        assert entry is not None
        assert entry.created_at.tzinfo is dt.UTC
        assert entry.created_at.isoformat() == printed
        assert abs(dt.datetime.now(dt.UTC) - entry.created_at) < dt.timedelta(minutes=5)
        assert memory.turn == 1
        memory.advance_turn()
        assert memory.read("a/note") is None


@pytest.mark.parametrize(
    ("ttl", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (1.5, ValueError),
        (True, ValueError),
        ("1", ValueError),
        (10**18, ValueError),
    ],
    ids=str,
)
def test_a_time_to_live_that_cannot_be(memory: SharedMemory, ttl: Any, error: Any) -> None:
    """Anything but an integer of at least 1 that leads to a turn is refused."""
    with pytest.raises((TypeError, error)):
        memory.write_expiring("a", "k", "v", ttl)
    assert memory.list_all() == []


def test_a_naive_time_is_refused(memory: SharedMemory) -> None:
    """A snapshot whose times name no zone is not guessed at."""
    entry = {"key": "a/k", "value": "v", "createdAt": "2026-11-30T02:13:00.123"}
    with pytest.raises(ValueError, match="createdAt"):
        memory.restore({"version": 1, "turnCount": 0, "entries": [entry]})
    assert memory.list_all() == []


def test_it_is_hidden_from_its_turn_on(log: EventLog, store: EventSourcedStore, memory: SharedMemory) -> None:
    """At the turn before it is there, from its turn on nowhere, and always in the history."""
    memory.set_turn(5)
    memory.write_expiring("a", "k", "v", 1)
    born = memory.read("a/k")
    assert born is not None
    memory.advance_turn()
    for _ in range(2):
        assert memory.read("a/k") is None
        assert memory.list_all() == memory.list_by_agent("a") == []
        assert memory.get_summary() == ""
        assert memory.snapshot()["entries"] == []
        assert store.get("a/k") is not None
        memory.advance_turn()
    timeline = Timeline(log)
    assert [each.position for each in timeline.history("a/k")] == [born.version]
    assert timeline.entry("a/k", turn=5) is not None
    assert timeline.entry("a/k", turn=6) is None
    store.execute([Write("a/k", "kept")])
    again = memory.read("a/k")
    assert again is not None
    assert (again.value, again.created_at, again.expires_at_turn) == ("kept", born.created_at, None)
    memory.set_turn(2**53 - 1)
    assert memory.read("a/k") is not None
