"""`verify` looks at more than hashes: what the file declares, where events lie, what may be deleted."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import AdvanceTurn, EntryDeleted, Write
from turnlog.replay.verification import verify

GOLDEN = Path(__file__).parents[1] / "golden" / "format-2.db"
VERIFIER = Path(__file__).parents[2] / "docs" / "verify_example.py"
GUARD = "create trigger events_no_update before update on events begin select 1; end"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the golden log."""
    return Path(shutil.copy(GOLDEN, tmp_path / "golden.db"))


def alter(path: Path, *statements: str) -> None:
    """Change the file behind the log's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def problems(path: Path) -> list[str]:
    """What `verify` says."""
    with turnlog.open(path, read_only=True) as log:
        return [str(problem) for problem in verify(log).problems]


def refused_by_the_example(path: Path) -> bool:
    """Whether the independent verifier refuses the file as well."""
    return subprocess.run([sys.executable, "-I", VERIFIER, path], capture_output=True).returncode == 1


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        pytest.param(
            ["drop trigger events_no_update"], "the trigger events_no_update is missing", id="guard gone"
        ),
        pytest.param(
            ["drop trigger events_no_update", GUARD],
            "the trigger events_no_update is not declared as turnlog declares it",
            id="guard without teeth",
        ),
        pytest.param(
            ["create trigger more after insert on events begin delete from entries; end"],
            "the trigger more on events does not belong there",
            id="another trigger",
        ),
        pytest.param(
            ["create index one on entries (content)"],
            "the index one on entries does not belong there",
            id="another index",
        ),
        pytest.param(["drop index events_turns"], "the index events_turns is missing", id="index gone"),
        pytest.param(
            ["drop index events_turns", "create index events_turns on events (turn)"],
            "the index events_turns is not declared",
            id="index replaced",
        ),
        pytest.param(
            ["drop view event_log", "create view event_log as select 'all is well' as position"],
            "the view event_log is not declared",
            id="view replaced",
        ),
        pytest.param(
            ["drop view current_entries", "create view current_entries as select 'x' as value"],
            "the view current_entries is not declared",
            id="view of the projection replaced",
        ),
        pytest.param(
            ["drop table entries", "create table entries (run integer) strict"],
            "the table entries is not declared",
            id="projection's table replaced",
        ),
        pytest.param(["drop table entries"], "the table entries is missing", id="projection's table gone"),
        pytest.param(
            ["drop table projections", "create table projections (name text, version, stale_from)"],
            "the table projections is not declared",
            id="table replaced",
        ),
        pytest.param(
            ["alter table events add column note text"],
            "the table events is not declared",
            id="another column",
        ),
    ],
)
def test_what_the_file_declares_is_held_against_what_turnlog_declares(
    golden: Path, statements: list[str], said: str
) -> None:
    """A table, index, guard or view that is missing, replaced or added is named, though every hash holds."""
    assert problems(golden) == []
    alter(golden, *statements)
    found = problems(golden)
    assert any(problem.startswith(said) for problem in found), found


def test_further_tables_and_views_are_nobodys_harm(golden: Path) -> None:
    """A table of another projection, or somebody's view, is not held against the log."""
    alter(golden, "create table notes (text)", "create view mine as select count(*) from events")
    assert problems(golden) == []


@pytest.mark.parametrize(
    "before", [pytest.param([], id="never written"), pytest.param(["k"], id="deleted before")]
)
def test_a_deletion_of_what_is_not_alive_is_found(tmp_path: Path, careless: None, before: list[str]) -> None:
    """An EntryDeleted is of a living key only, or it is no true record; its position is named."""

    class DeleteBlindly:
        """Says that a key was deleted, whether or not it was there."""

        agent = None

        def check(self, limits: object) -> None: ...

        def decide(self, view: object) -> list[EntryDeleted]:
            return [EntryDeleted("k")]

        def outcome(self, recorded: object) -> None: ...

    path = tmp_path / "team.db"
    with turnlog.open(path) as log:
        log.execute([Write("other", "v"), *(Write(key, "v") for key in before)], run="main")
        log.execute([DeleteBlindly() for _ in before], run="main")
        log.execute([DeleteBlindly()], run="main")
    (problem,) = problems(path)
    assert problem == f"run 'main': position {2 + 2 * len(before)}: deletes a key that is not alive"
    assert refused_by_the_example(path)


def swapped(path: Path, one: int, other: int) -> None:
    """Let two events change places in the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        guards = db.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall()
        for name, _ in guards:
            db.execute(f"drop trigger {name}")
        for place, target in ((one, -1), (other, one), (-1, other)):
            db.execute("update events set position = ? where position = ?", (target, place))
        db.execute("update projections set stale_from = 1")
        for _, sql in guards:
            db.execute(sql)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        pytest.param(
            2, 3, "position 3: offset 1 of its batch does not stand right behind", id="out of a batch"
        ),
        pytest.param(1, 2, "position 1: run number 2 begins here", id="first events"),
    ],
)
def test_events_of_two_runs_that_changed_places_are_found(
    tmp_path: Path, one: int, other: int, said: str
) -> None:
    """No hash covers positions, but a batch stands together and runs begin in the order of their numbers."""
    path = tmp_path / "team.db"
    with turnlog.open(path) as log:
        first = [Write("a", "1"), AdvanceTurn()] if one == 2 else [Write("a", "1")]
        log.execute(first, run="main")
        log.execute([Write("b", "1")], run="side")
        log.execute([Write("b", "2")], run="side")
    swapped(path, one, other)
    found = problems(path)
    assert any(problem.startswith(said) for problem in found), found
    assert refused_by_the_example(path)


def test_a_batch_that_an_import_cut_at_a_fork_is_in_order(tmp_path: Path) -> None:
    """A fork from inside a batch may come first, and the rest of the batch later: that is no fault."""
    from turnlog.eventlog.export import export_lines
    from turnlog.eventlog.intake import import_lines

    origin, copy = tmp_path / "team.db", tmp_path / "copy.db"
    with turnlog.open(origin) as log, turnlog.open(copy) as other:
        log.execute([Write("a", "1"), Write("b", "2"), Write("c", "3")], run="main")
        log.fork("main", 2, run="fork", turn=0)
        import_lines(other, export_lines(log, "fork"), "fork")
        import_lines(other, export_lines(log, "main"), "main")
        assert verify(other).problems == []
    assert subprocess.run([sys.executable, "-I", VERIFIER, copy], capture_output=True).returncode == 0


def test_the_first_problem_comes_first(golden: Path) -> None:
    """Problems are in the order of their positions, so that the first that is told is the first there is."""
    alter(golden, "drop trigger events_no_update", "update events set value = 'x' where position in (5, 30)")
    with turnlog.open(golden, read_only=True) as log:
        positions = [problem.position for problem in verify(log).problems if problem.position is not None]
    assert positions == sorted(positions)
    assert positions[0] == 5
