"""The views that make a log readable to people who have nothing but a SQLite shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

import turnlog
from turnlog.eventlog import AdvanceTurn, CompareAndSet, Delete, EntryRestored, EventLog, Restored, Write
from turnlog.eventlog.codec import CODES


@pytest.fixture
def shell(path: Path, tell: Callable[..., Any]) -> Any:
    """A log of all types of event, closed, and sqlite-utils on its file."""
    with turnlog.open(path, durability="os") as log:
        log.execute([Write("k", "v", {"n": 1}, 9), AdvanceTurn()], run="main", agent="writer", activity="t")
        log.execute([CompareAndSet("k", "x", "y"), Delete("k")], run="main")
        restored = EntryRestored("k", content=1, birth=1, created_at=1000, expires_at_turn=9)
        log.execute(
            [tell(Restored(0, 1, "me", "why")), tell(restored), Write("\ud800", "\ud800")], run="main"
        )
        log.fork("main", 1, run="fork", turn=0)
    database = Database(path)
    yield database
    database.close()


def test_event_log_names_everything(shell: Any) -> None:
    """`event_log` shows names, the type in words, UTC time and the hash in hex."""
    first, *others = shell["event_log"].rows
    recorded_at, hexadecimal = first.pop("recorded_at"), first.pop("hash")
    assert first == {
        "position": 1,
        "run": "main",
        "revision": 1,
        "turn": 0,
        "type": "EntryWritten",
        "key": "k",
        "agent": "writer",
        "activity": "t",
        "value": "v",
        "metadata": '{"n":1}',
        "expires_at_turn": 9,
        "restored_from_revision": None,
        "detail": None,
    }
    assert recorded_at.endswith("Z")
    assert len(recorded_at) == len("2026-11-30T12:00:00.000Z")
    assert len(hexadecimal) == 64
    assert [row["type"] for row in others] == [
        "TurnAdvanced",
        "WriteRefused",
        "EntryDeleted",
        "Restored",
        "EntryRestored",
        "EntryWritten",
        "RunForked",
    ]


def test_event_log_times_are_those_of_the_events(path: Path, connect: Callable[..., Any]) -> None:
    """The view decodes milliseconds exactly."""
    with EventLog(path, clock=lambda: 1_700_000_000_007) as log:
        log.execute([Write("k", "v")], run="main")
    (at,) = connect().execute("select recorded_at from event_log").fetchone()
    assert at == "2023-11-14T22:13:20.007Z"


def test_event_log_has_a_word_for_every_type(shell: Any) -> None:
    """No type of event shows as a bare number."""
    words = {row["type"] for row in shell.query("select distinct type from event_log")}
    sql = shell["event_log"].schema
    assert words <= {kind.__name__ for kind in CODES}
    assert all(f"when {code} then '{kind.__name__}'" in sql for kind, code in CODES.items())


def test_current_entries_shows_what_lives(shell: Any) -> None:
    """`current_entries` shows each living entry with the text, metadata and author of its content."""
    rows = list(shell["current_entries"].rows)
    assert [(row["run"], row["key"], row["value"], row["agent"], row["version"]) for row in rows] == [
        ("main", "k", "v", "writer", 6),
        ("main", b"\xed\xa0\x80", b"\xed\xa0\x80", None, 7),
        ("fork", "k", "v", "writer", 1),
    ]
    assert (rows[0]["metadata"], rows[0]["expires_at_turn"]) == ('{"n":1}', 9)
    assert rows[0]["created_at"] == "1970-01-01T00:00:01.000Z"


def test_the_schema_is_plain_to_other_tools(shell: Any) -> None:
    """sqlite-utils finds the tables, their keys and the views, and SQLite finds nothing wrong."""
    assert set(shell.table_names()) == {"runs", "names", "events", "projections", "entries"}
    assert set(shell.view_names()) == {"event_log", "current_entries"}
    assert shell["events"].pks == ["position"]
    assert shell["entries"].pks == ["run", "key"]
    assert all(shell[table].strict for table in shell.table_names())
    assert shell.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert shell.execute("pragma foreign_key_check").fetchall() == []
