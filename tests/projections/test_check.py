"""`first_difference`: a table that is not the fold of its log is caught, and the place is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnlog.eventlog import AdvanceTurn, Delete, EventLog, Write
from turnlog.projections import Difference, EntriesProjection, first_difference


@pytest.fixture
def whole(log: EventLog) -> EventLog:
    """Two unrelated runs with a key of the same name, and a fork; positions 1 to 7."""
    log.execute([Write("a", "1"), Write("b", "1", expires_at_turn=5), AdvanceTurn()], run="main")
    log.execute([Write("a", "1"), Write("gone", "1"), Delete("gone")], run="side")
    log.fork("main", 2, run="fork", turn=0)
    return log


def difference(log: EventLog, *alterations: str) -> Difference | None:
    """What the check finds after the table was altered behind the log's back."""
    for alteration in alterations:
        log.transact(lambda db, alteration=alteration: db.execute(alteration))
    with log.reading() as db:
        return first_difference(db)


_B = "where run = 1 and key = (select id from names where text = 'b')"


def test_a_whole_table_has_no_difference(whole: EventLog) -> None:
    """A table that only the log has written is the fold of it."""
    assert difference(whole) is None


@pytest.mark.parametrize(
    ("column", "value", "correct"),
    [
        pytest.param("version", 3, 2, id="version"),
        pytest.param("content", 1, 2, id="content"),
        pytest.param("birth", 9, 2, id="birth"),
        pytest.param("created_at", 7, None, id="created_at"),
        pytest.param("expires_at_turn", 6, 5, id="expires_at_turn"),
        pytest.param("expires_at_turn", None, 5, id="no expires_at_turn"),
        pytest.param("expires_at_turn", 0, 5, id="expires_at_turn 0"),
    ],
)
def test_a_changed_column_is_named(whole: EventLog, column: str, value: Any, correct: Any) -> None:
    """Whichever column differs, run, key, column and both sides are told."""
    altered = "null" if value is None else value
    found = difference(whole, f"update entries set {column} = {altered} {_B}")
    assert found is not None
    assert (found.run, found.key) == ("main", "b")
    assert f"{column} {value}" in str(found.table)
    assert f"{column} {value}" not in str(found.log)
    if correct is not None:
        assert f"{column} {correct}" in str(found.log)
    assert str(found).startswith("run 'main', key 'b': the table entries has version ")


@pytest.mark.parametrize(
    ("alteration", "run", "key", "in_table", "in_log"),
    [
        pytest.param(f"delete from entries {_B}", "main", "b", False, True, id="a row is missing"),
        pytest.param("delete from entries where run = 3", "fork", "a", False, True, id="a fork's rows are"),
        pytest.param("delete from entries", "main", "a", False, True, id="all rows are missing"),
        pytest.param(
            "insert into entries values (2, (select id from names where text = 'gone'), 5, 5, 2, 1, null)",
            "side",
            "gone",
            True,
            False,
            id="a row too many",
        ),
        pytest.param(
            "update entries set key = (select min(id) from names where text = 'main') where run = 1"
            " and key = (select min(id) from names where text = 'a')",
            "main",
            "a",
            False,
            True,
            id="the key is another",
        ),
        pytest.param(
            "update entries set key = (select max(id) from names where text = 'a') where run = 1"
            " and key = (select min(id) from names where text = 'a')",
            "main",
            "a",
            False,
            True,
            id="the key is another family's of the same name",
        ),
        pytest.param(
            "update entries set key = 999 where run = 1 and key = (select id from names where text = 'b')",
            "main",
            "b",
            False,
            True,
            id="the key has no name",
        ),
        pytest.param(
            f"update entries set run = 2, birth = 9 {_B}", "main", "b", False, True, id="the run is another"
        ),
        pytest.param("update entries set run = 99 where run = 2", "side", "a", False, True, id="no such run"),
        pytest.param(
            "insert into entries values (99, 1, 1, 1, 1, 1, null)", "#99", "*", True, False, id="a stray run"
        ),
    ],
)
def test_a_row_out_of_place_is_named(
    whole: EventLog, alteration: str, run: str, key: str, in_table: bool, in_log: bool
) -> None:
    """A row that is missing, too much or filed under the wrong run or key is told, and which side has it."""
    found = difference(whole, alteration)
    assert found is not None
    assert (found.run, found.key) == (run, key)
    assert (found.table is not None, found.log is not None) == (in_table, in_log)


def test_the_first_of_several_differences_is_told(whole: EventLog) -> None:
    """Runs are checked oldest first, entries in the order of birth."""
    found = difference(
        whole, "delete from entries where run = 3", "update entries set created_at = 0 where run = 1"
    )
    assert found is not None
    assert (found.run, found.key) == ("main", "a")


def test_a_rebuild_removes_every_difference(whole: EventLog) -> None:
    """Whatever was wrong with the table, making it anew puts it right."""
    found = difference(
        whole,
        "update entries set version = 1, content = 1, created_at = 1",
        "insert into entries values (99, 1, 1, 1, 1, 1, null)",
        f"delete from entries {_B}",
    )
    assert found is not None
    whole.transact(EntriesProjection().rebuild)
    assert difference(whole) is None


def test_keys_that_are_no_utf_8_are_shown(log: EventLog, wander: Callable[..., Any]) -> None:
    """A difference at an odd key is told like any other, printable."""
    log.execute([Write("\ud83d\0", "v")], run="\udcff")
    found = difference(log, "delete from entries")
    assert found is not None
    assert (found.run, found.key) == ("\udcff", "\ud83d\0")
    assert str(found).isascii()
