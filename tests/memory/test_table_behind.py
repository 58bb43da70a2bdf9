"""Stores answer from the log where the table `entries` must not be read (docs/format.md)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Corrupt, Delete, EventLog, SetTurn, Write
from turnlog.memory import EventSourcedStore, MemoryEntry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log with two runs, the second forked from the first."""
    path = tmp_path / "team.db"
    with turnlog.open(path, durability="os") as log:
        store = EventSourcedStore(log)
        for number in range(3):
            store.set(f"a/{number}", "old", {"n": number})
        log.fork("main", 2, run="fork", turn=0)
        EventSourcedStore(log, "fork").set("a/0", "forked")
    return path


def append(path: Path) -> None:
    """Append as somebody does who keeps no entries."""
    with EventLog(path, durability="os") as log:
        log.execute([Delete("a/1"), SetTurn(3)], run="main")
        log.execute([Write("a/0", "new", expires_at_turn=7), Write("b", "\ud83d", {"x": []})], run="main")
        log.execute([Write(f"many/{number}", "v") for number in range(600)], run="main")
        log.execute([Write("a/1", "new in the fork")], run="fork")


def no_row(path: Path) -> None:
    """As if nobody had ever filled the table."""
    change(path, "delete from projections", "delete from entries")


def another_version(path: Path) -> None:
    """As a later build would leave it, which fills the same columns with something else."""
    change(path, "update projections set version = 2", "update entries set version = version + 1000")


def other_columns(path: Path) -> None:
    """As a later build would leave it, which has no use for one of them."""
    change(path, "update projections set version = 2", "drop view current_entries")
    change(path, "alter table entries drop column version")


def no_table(path: Path) -> None:
    """As somebody leaves it who drops what can be made anew."""
    change(path, "delete from projections", "drop view current_entries", "drop table entries")


def change(path: Path, *statements: str) -> None:
    """Carry out the statements by another program."""
    db = sqlite3.connect(path)
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


DAMAGES = [
    pytest.param(append, id="behind"),
    pytest.param(no_row, id="never filled"),
    pytest.param(another_version, id="filled by another build"),
    pytest.param(other_columns, id="made by another build"),
    pytest.param(no_table, id="not there"),
]


def answers(log: EventLog) -> list[Any]:
    """Everything that stores on the log can be asked."""
    found: list[Any] = []
    for run in ("main", "fork", "none"):
        store = EventSourcedStore(log, run)
        keys = ("a/0", "a/1", "a/2", "b", "none", "many/599")
        found.append([store.get(key) for key in keys])
        found.append(store.list())
        found.append(list(store.scan()))
        found.append(list(store.scan("a/", limit=2)))
        found += [behind(store, key) for key in keys]
    return found


def behind(store: EventSourcedStore, key: str) -> list[MemoryEntry] | str:
    """What comes after `key`, or why nothing does."""
    try:
        return list(store.scan(after=key, limit=550))
    except LookupError as error:
        return str(error)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_opened_to_be_read(path: Path, damage: Callable[[Path], None]) -> None:
    """Where nothing can be made anew, the stores say what they say once it has been."""
    damage(path)
    with turnlog.open(path, read_only=True) as log:
        found = answers(log)
    with turnlog.open(path) as log:
        assert found == answers(log)
        assert found[0][0].value == ("new" if damage is append else "old")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_that_was_open_already(path: Path, damage: Callable[[Path], None]) -> None:
    """A store that read the table before does not go on with it."""
    with turnlog.open(path) as log:
        assert EventSourcedStore(log).get("a/0") is not None
        damage(path)
        found = answers(log)
    with turnlog.open(path) as log:
        assert found == answers(log)


def test_the_next_write_makes_the_table_anew(path: Path) -> None:
    """A store that finds the table behind writes as ever, and the table is then right again."""
    with turnlog.open(path) as log:
        append(path)
        store = EventSourcedStore(log)
        store.set("a/0", "newest")
        assert [entry.key for entry in store.list()][:3] == ["a/0", "a/2", "b"]
        with log.reading() as db:
            assert turnlog.projections.first_difference(db) is None
            assert db.execute("select stale_from from projections").fetchall() == [(None,)]


@pytest.fixture
def statements(path: Path) -> Iterator[tuple[EventSourcedStore, list[str]]]:
    """A store, and what its connection is asked."""
    with turnlog.open(path) as log:
        store = EventSourcedStore(log)
        store.get("a/0")
        asked: list[str] = []
        with log.reading() as db:
            db.set_trace_callback(asked.append)
        yield store, asked


@pytest.mark.parametrize(
    ("ask", "queries"),
    [
        pytest.param(lambda store: store.get("a/0"), 1, id="get"),
        pytest.param(lambda store: store.get("none"), 1, id="get nothing"),
        pytest.param(lambda store: store.list(), 1, id="list"),
        pytest.param(lambda store: list(store.scan("a/")), 1, id="scan"),
        pytest.param(lambda store: list(store.scan(after="a/0")), 2, id="scan after"),
    ],
)
def test_a_table_in_step_costs_no_further_query(
    statements: tuple[EventSourcedStore, list[str]], ask: Callable[[EventSourcedStore], Any], queries: int
) -> None:
    """Whether the table may be read is asked in the query that reads it."""
    store, asked = statements
    ask(store)
    assert len(asked) == queries


def test_an_entry_whose_event_is_gone_is_damage(path: Path) -> None:
    """A row that points nowhere is not taken for a key that is missing."""
    change(path, "update entries set content = 999")
    with turnlog.open(path) as log, pytest.raises(Corrupt, match="points to an event without a value"):
        EventSourcedStore(log).get("a/0")
