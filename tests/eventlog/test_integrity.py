"""What `verify` finds in a damaged file, and what an import refuses: the rules of docs/format.md."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    BadImport,
    Clear,
    Delete,
    EntryRestored,
    EntryWritten,
    EventLog,
    Limits,
    TurnAdvanced,
    Write,
)
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.eventlog.integrity import check_log
from turnlog.replay.verification import verify

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1.db"
VERIFIER = Path(__file__).parents[2] / "docs" / "verify_example.py"


def refused_by_both(path: Path) -> bool:
    """Whether the library and the independent verifier both refuse the file; they must agree."""
    with turnlog.open(path, read_only=True) as log:
        own = verify(log).ok
    judged = subprocess.run([sys.executable, "-I", VERIFIER, path], capture_output=True, check=False)
    assert (judged.returncode == 0) == own, judged.stdout
    return not own


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(["update runs set parent = 99 where id = 3"], id="no such parent"),
        pytest.param(["update runs set parent = id where id = 3"], id="its own parent"),
        pytest.param(["update runs set name = 999 where id = 2"], id="no such name of a run"),
        pytest.param(["update names set text = null where id = 1"], id="NULL for a name"),
        pytest.param(["update names set text = 1.5 where id = 1"], id="a number for a name"),
        pytest.param(["update names set text = x'ff' where id = 1"], id="bytes for a name"),
        pytest.param(["update names set text = cast(x'ff' as text) where id = 1"], id="a name not UTF-8"),
        pytest.param(["update events set value = 1.5 where position = 1"], id="a number for a value"),
        pytest.param(["update events set value = x'ff' where position = 1"], id="bytes for a value"),
        pytest.param(
            ["update events set value = cast(x'ff' as text) where position = 1"], id="a value not UTF-8"
        ),
        pytest.param(["update runs set uid = upper(uid) || 'X' where id = 1"], id="a uid that is none"),
        pytest.param(["drop view current_entries", "drop table entries"], id="entries dropped"),
        pytest.param(
            [
                "delete from entries where run = 2",
                "delete from events where run = 2",
                "delete from runs where id = 2",
            ],
            id="a whole run removed",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, statements: list[str]) -> None:
    """What no hash covers is checked too; the check ends in a problem, never in an exception or a hang."""
    path = Path(shutil.copy(GOLDEN, tmp_path / "golden.db"))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
            db.execute(f"drop trigger {name}")
        for statement in statements:
            db.execute(statement)
    assert refused_by_both(path)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([EntryRestored("a", 2, 2, 1000)], id="another key's content"),
        pytest.param([EntryRestored("a", 1, 1, 999)], id="another time of creation"),
        pytest.param([TurnAdvanced(10)], id="turn advanced by ten"),
        pytest.param([EntryWritten("a", "x", birth=2)], id="birth of another key"),
        pytest.param([EntryWritten("a", "x", birth=1, created_at=5)], id="time of a life gone on with"),
        pytest.param([EntryWritten("a", "x", "[1]")], id="metadata that is no object"),
        pytest.param([EntryWritten("a", "x", "{no")], id="metadata that is no JSON"),
        pytest.param([EntryWritten("a", "x", expires_at_turn=-1)], id="expiry before turn 0"),
    ],
)
def test_a_log_that_breaks_a_rule_is_refused(
    path: Path, log: EventLog, tell: Callable[..., Any], careless: None, facts: list[Any]
) -> None:
    """Facts whose hashes are right but that contradict what came before are found."""
    log.execute([Write("a", "of a"), Write("b", "of b")], run="main")
    log.execute([tell(*facts)], run="main")
    with log.reading() as db:
        (problem,) = check_log(db)
    assert (problem.run, problem.position) == ("main", 3)
    judged = subprocess.run([sys.executable, "-I", VERIFIER, path], capture_output=True, check=False)
    assert judged.returncode == 1


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        pytest.param("update events set salt = salt || x'00'", "salt has 17 bytes", id="event"),
        pytest.param("update names set salt = salt || x'00'", "salt of 17 bytes", id="name"),
    ],
)
def test_a_salt_of_another_length_is_refused(
    log: EventLog, connect: Callable[..., Any], statement: str, what: str
) -> None:
    """A longer salt could take in a part of what it is to salt, and leave the hash as it was."""
    log.execute([Write("a", "of a")], run="main")
    db = connect()
    for table in ("events", "names"):
        db.execute(f"drop trigger {table}_no_update")
    db.execute(statement.replace("salt || x'00'", "cast(salt || x'00' as blob)"))
    with log.reading() as reader:
        assert what in str(next(iter(check_log(reader))))


@pytest.mark.parametrize("revision", range(6))
def test_a_fork_goes_on_with_the_lives_of_its_past(log: EventLog, revision: int) -> None:
    """Wherever a run is left, what its keys held there is taken for what they held, earlier lives or not."""
    log.execute([Write("a", "1"), Delete("a"), Write("a", "2"), Write("b", "1"), Delete("b")], run="main")
    log.fork("main", revision, run="fork", turn=0)
    log.execute([Write("a", "3"), Write("b", "2")], run="fork")
    log.execute([Delete("a"), Write("a", "4"), Clear()], run="fork")
    log.fork("fork", revision + 2, run="fork of it", turn=0)
    log.execute([Write("a", "5"), Write("b", "3"), Clear()], run="fork of it")
    with log.reading() as db:
        assert list(check_log(db)) == []


def test_an_event_filed_before_its_runs_first_is_refused(
    path: Path, log: EventLog, connect: Callable[..., Any]
) -> None:
    """A newest event with a revision that no chain comes by is found: its like leaves no gap behind."""
    log.execute([Write("a", "of a"), AdvanceTurn()], run="main")
    db = connect()
    db.execute("drop trigger events_no_update")
    db.execute("update events set revision = -2 where position = 2")
    with log.reading() as reader:
        (problem,) = check_log(reader)
    assert (problem.run, problem.position) == ("main", 2)
    judged = subprocess.run([sys.executable, "-I", VERIFIER, path], capture_output=True, check=False)
    assert judged.returncode == 1


def edited(kind: str, **members: Any) -> Callable[[list[dict[str, Any]]], None]:
    """An edit of the first line of that kind."""

    def edit(lines: list[dict[str, Any]]) -> None:
        next(line for line in lines if line["kind"] == kind).update(members)

    return edit


def circle(lines: list[dict[str, Any]]) -> None:
    """Two runs, each the other's parent."""
    root = next(line for line in lines if line["kind"] == "run")
    other = root | {"uid": "b" * 32, "parent": root["uid"], "fork_revision": 1}
    root.update(parent=other["uid"], fork_revision=1)
    lines.insert(lines.index(root) + 1, other)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        pytest.param(edited("name", salt="00" * 17), "17 bytes", id="salt of a name"),
        pytest.param(edited("event", salt="00" * 17), "17 bytes", id="salt of an event"),
        pytest.param(edited("run", fork_revision=5), "cannot begin", id="a root that begins later"),
        pytest.param(edited("run", uid="a"), "uid", id="a uid that is none"),
        pytest.param(circle, "before its parent", id="a circle of parents"),
        pytest.param(edited("event", value={"base64": "/w=="}), "form of text", id="a value that is no text"),
        pytest.param(edited("event", value="x" * 2000), "the limit is 1,000", id="a value too long"),
    ],
)
def test_an_import_refuses_what_cannot_be(tmp_path: Path, log: EventLog, edit: Any, what: str) -> None:
    """An export that says what no log can hold, or the log's limits forbid, is refused whole, by its line."""
    log.execute([Write("a", "of a")], run="main")
    lines = [json.loads(line) for line in export_lines(log)]
    edit(lines)
    with EventLog(tmp_path / "copy.db", durability="os", limits=Limits(value=1000)) as copy:
        with pytest.raises(BadImport, match=what):
            import_lines(copy, map(json.dumps, lines), "main")
        assert copy.runs() == []


def test_an_import_refuses_what_verify_would(
    tmp_path: Path, log: EventLog, tell: Callable[..., Any], careless: None
) -> None:
    """Right hashes are not enough: a rule that is broken is found while nothing has been imported yet."""
    log.execute([Write("a", "of a")], run="main")
    log.execute([tell(TurnAdvanced(10))], run="main")
    with (
        EventLog(tmp_path / "copy.db", durability="os") as copy,
        pytest.raises(BadImport, match="revision 2: advances the run from turn 0 to turn 10"),
    ):
        import_lines(copy, export_lines(log))


def test_deep_json_is_refused(log: EventLog) -> None:
    """A line that nests too deep to be read is malformed like any other."""
    header = json.dumps({"kind": "turnlog-export", "version": 1})
    with pytest.raises(BadImport, match="line 2"):
        import_lines(log, [header, "[" * 100_000])


def test_others_write_while_an_export_comes_slowly(tmp_path: Path, log: EventLog) -> None:
    """The lines are read to their end before the write lock is taken."""
    log.execute([Write("a", "of a")], run="main")

    def slowly(copy: EventLog) -> Any:
        for line in export_lines(log):
            copy.execute([Write("meanwhile", "v")], run="other")
            yield line

    with EventLog(tmp_path / "copy.db", durability="os", busy_timeout_s=0.1) as copy:
        assert import_lines(copy, slowly(copy), "main") == ["main"]
        assert {info.run.name for info in copy.runs()} == {"other", "main"}
