"""`verify` and `doctor`: what they find, and that their exit code says so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import EventLog, Write
from turnlog.eventlog.driver import driver
from turnlog.replay.doctor import has_reset_race

Cli = Callable[..., Any]


def alter(path: Path, *statements: str) -> None:
    """Change the file behind the log's back."""
    with contextlib.closing(driver().connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_verify_of_a_whole_log(cli: Cli, team: Path) -> None:
    """A whole log verifies, and its heads are printed to be kept."""
    done = cli("verify", team, "--json")
    assert done.code == 0
    head = cli("log", team, "--json", "--last", 1).records[0]["hash"]
    uid = done.records[0]["heads"][0]["uid"]
    assert len(uid) == 32
    assert done.records == [
        {
            "ok": True,
            "events": 10,
            "redacted": 0,
            "heads": [{"run": "main", "uid": uid, "revision": 10, "turn": 2, "hash": head}],
            "problems": [],
        }
    ]
    text = cli("verify", team).out
    assert head in text
    assert "10 events in 1 run: everything holds" in text


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(
            ["drop trigger events_no_update", "update events set value = 'forged' where position = 5"],
            id="a value",
        ),
        pytest.param(
            ["drop trigger events_no_delete", "delete from events where position = 3"], id="an event gone"
        ),
        pytest.param(["update entries set expires_at_turn = 1 where birth = 1"], id="the live table"),
    ],
)
def test_verify_of_an_altered_log(cli: Cli, team: Path, statements: list[str]) -> None:
    """Whatever was altered is found, told, and makes the exit code 1."""
    alter(team, *statements)
    done = cli("verify", team, "--json")
    assert done.code == 1
    assert done.records[0]["ok"] is False
    assert len(done.records[0]["problems"]) >= 1
    text = cli("verify", team)
    assert (text.code, text.err) == (1, "")
    assert "everything holds" not in text.out
    assert done.records[0]["problems"][0]["what"] in text.out


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("delete from events", id="no events"),
        pytest.param("update runs set parent = 1, fork_revision = 1", id="its own parent"),
        pytest.param("update names set text = 1.5 where id = (select name from runs)", id="name of a run"),
        pytest.param("delete from names", id="no names"),
    ],
)
def test_a_damaged_file_is_told_in_one_line(cli: Cli, team: Path, statement: str) -> None:
    """`verify` ends with 1 and a problem, a verb that reads with 2 and one line; none with a traceback."""
    tables = ("events", "runs", "names")
    guards = [f"drop trigger {table}_no_{verb}" for table in tables for verb in ("update", "delete")]
    alter(team, "pragma foreign_keys = off", *guards, statement)
    done = cli("verify", team, "--json")
    assert (done.code, done.err) == (1, "")
    assert done.records[0]["problems"]
    done = cli("runs", team)
    assert (done.code, done.err.count("\n")) in ((2, 1), (0, 0))
    done = cli("state", team, "--run", "main")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_a_problem_names_its_run_once(cli: Cli, team: Path) -> None:
    """A difference of the live table is told with its run and its key."""
    alter(team, "update entries set expires_at_turn = 1 where birth = 1")
    text = cli("verify", team).out
    assert "run 'main': key 'researcher/findings': the table entries has" in text
    assert text.count("run 'main'") == 1


def findings(cli: Cli, path: Path) -> tuple[dict[str, Any], int]:
    """What `doctor` found, by name, and how it ended."""
    done = cli("doctor", path, "--json")
    return {record["what"]: record for record in done.records}, done.code


def test_doctor_of_a_healthy_log(cli: Cli, team: Path) -> None:
    """Everything about a new log is fine but, on some systems, the age of SQLite."""
    found, code = findings(cli, team)
    assert code == 0
    expected = ["sqlite", "journal", "durability", "format", "size", "wal size", "free pages"]
    assert list(found) == [*expected, "permissions", "folder", "schema", "projection", "integrity"]
    assert {record["level"] for name, record in found.items() if name != "sqlite"} == {"fine"}
    assert found["journal"]["value"] == "wal"
    assert found["permissions"]["value"] == "0600"
    assert driver().sqlite_version in found["sqlite"]["value"]


def test_doctor_follows_links(cli: Cli, team: Path, tmp_path: Path) -> None:
    """What lies beside the log is looked for where the link leads to."""
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(team)
    with EventLog(team) as log:
        log.execute([Write("large", "v" * 100_000)], run="main")
        by_link, by_name = findings(cli, link)[0], findings(cli, team)[0]
    assert by_link["wal size"]["value"] == by_name["wal size"]["value"] != "0 bytes"


@pytest.mark.parametrize("mode", [0o640, 0o604], ids=["group", "others"])
def test_doctor_warns_of_a_file_that_others_can_read(cli: Cli, team: Path, mode: int) -> None:
    """Permissions beyond the owner's are a warning, with what to do."""
    team.chmod(mode)
    found, code = findings(cli, team)
    assert (found["permissions"]["level"], code) == ("warning", 0)
    assert "chmod 600" in cli("doctor", team).out


def test_doctor_finds_missing_guards(cli: Cli, team: Path) -> None:
    """A log whose append-only guard was dropped is wrong."""
    alter(team, "drop trigger events_no_delete")
    found, code = findings(cli, team)
    assert (found["schema"]["level"], code) == ("wrong", 1)
    assert "events_no_delete" in found["schema"]["value"]
    assert cli("doctor", team).code == 1


def test_doctor_finds_a_live_table_that_is_behind(cli: Cli, team: Path) -> None:
    """A log that was appended to without the projection is told to catch up by itself."""
    with EventLog(team, durability="os") as log:
        log.execute([Write("late", "value")], run="main")
    found, code = findings(cli, team)
    assert (found["projection"]["level"], code) == ("warning", 0)
    assert "stale from position 11" in found["projection"]["value"]


def test_doctor_finds_damage(cli: Cli, team: Path) -> None:
    """A file with a damaged page is wrong, and the other findings are still there."""
    alter(team, "pragma journal_mode = delete", "pragma journal_mode = wal")
    with contextlib.closing(driver().connect(team)) as db:
        (page,) = db.execute("select rootpage from sqlite_schema where name = 'events_changes'").fetchone()
        (size,) = db.execute("pragma page_size").fetchone()
    with team.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    found, code = findings(cli, team)
    assert (found["integrity"]["level"], code) == ("wrong", 1)


@pytest.mark.parametrize(
    ("version", "has_it"),
    [
        pytest.param((3, 40, 1), True, id="old"),
        pytest.param((3, 44, 5), True, id="3.44 before"),
        pytest.param((3, 44, 6), False, id="3.44 mended"),
        pytest.param((3, 45, 9), True, id="between"),
        pytest.param((3, 50, 6), True, id="3.50 before"),
        pytest.param((3, 50, 7), False, id="3.50 mended"),
        pytest.param((3, 51, 2), True, id="3.51 before"),
        pytest.param((3, 51, 3), False, id="3.51 mended"),
        pytest.param((4, 0, 0), False, id="later"),
    ],
)
def test_which_sqlite_has_the_reset_race(version: tuple[int, ...], has_it: bool) -> None:
    """The race is in every version before the one that mended it, on its branch."""
    assert has_reset_race(version) is has_it
