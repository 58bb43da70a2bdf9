"""`docs/verify_example.py`, written from `docs/format.md` alone, judges a log as the library does."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, SharedMemory, Timeline
from turnlog.replay.verification import verify

HERE = Path(__file__).parent
VERIFIER = HERE.parents[1] / "docs" / "verify_example.py"
EXPECTED: dict[str, Any] = json.loads((HERE / "format-2.json").read_text(encoding="utf-8"))


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A copy of the golden log."""
    return Path(shutil.copy(HERE / "format-2.db", tmp_path / "golden.db"))


def use(log: turnlog.EventLog) -> None:
    """Do what a team does: write, refuse, expire, delete, restore, fork, and put back a snapshot."""
    team = SharedMemory(EventSourcedStore(log, "trip"))
    planner = team.agent("planner", activity="task 1")
    planner.write("plan", "survey", {"pages": 3})
    team.write("editor", "half \ud83d", {"n": [1, None], "text": "\udfff\0"})
    snapshot = team.snapshot()
    team.advance_turn()
    team.write_expiring("editor", "draft", "é", ttl_turns=2)
    assert not planner.compare_and_set("plan", "no such plan", "report")
    planner.write("plan", "report")
    team.delete("editor", "half \ud83d")
    Timeline(log, "trip").restore(turn=0, by="editor", reason="the survey was right")
    fork = Timeline(log, "trip").fork(run="what if", turn=1, by="editor")
    SharedMemory(EventSourcedStore(log, "what if")).write("planner", "plan", "walk")
    fork.fork(run="what if\nnot").restore(position=1)
    team.restore(snapshot, by="planner")
    SharedMemory(EventSourcedStore(log, "elsewhere")).restore(snapshot)


def judge(path: Path) -> subprocess.CompletedProcess[str]:
    """The verifier's exit code and output."""
    return subprocess.run(
        [sys.executable, "-I", VERIFIER, path], capture_output=True, encoding="utf-8", check=False, timeout=60
    )


def library_accepts(path: Path) -> bool:
    """What the library says of the file as it is."""
    with turnlog.open(path, read_only=True) as log:
        return verify(log).ok


def tamper(path: Path, *statements: str) -> None:
    """Change what no writer can change: without the triggers, which are there again afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        triggers = db.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"drop trigger {name}")
        for statement in statements:
            assert db.execute(statement).rowcount == 1, statement
        for _, sql in triggers:
            db.execute(sql)


def test_the_golden_log_is_whole(golden: Path) -> None:
    """Every run of the golden log is named with its events and its newest hash, and nothing is wrong."""
    result = judge(golden)
    assert result.stdout.splitlines() == [
        *(
            f"run {run['run']}: {head['revision'] - run['fork_revision']} events, head {head['hash']}"
            for run in EXPECTED["runs"]
            for head in [run["head"]]
        ),
        "ok",
    ]
    assert (result.returncode, result.stderr) == (0, "")


def test_a_log_in_use_is_whole(tmp_path: Path) -> None:
    """What is only in the write-ahead log counts, and the heads are those that the library gives."""
    path = tmp_path / "new.db"
    with turnlog.open(path) as log:
        use(log)
        result, own = judge(path), verify(log)
    assert result.returncode == 0, result.stdout
    assert own.ok
    assert [line.rpartition(" ")[2] for line in result.stdout.splitlines()[:-1]] == [
        head.hash.hex() for head in own.heads
    ]
    assert "run what if\\nnot: " in result.stdout
    assert judge(path).stdout == result.stdout


def test_triggers_that_were_away_leave_no_trace(golden: Path) -> None:
    """Dropping the triggers and making them again is not what the cases below are found by."""
    tamper(golden)
    assert judge(golden).returncode == 0
    assert library_accepts(golden)


@pytest.mark.parametrize(
    ("position", "statements"),
    [
        pytest.param(5, ["update events set value = 'Survey, then report' where position = 5"], id="value"),
        pytest.param(1, ["update events set value = 'surveyed' where position = 1"], id="longer value"),
        pytest.param(
            1, ["update events set value = cast(value as blob) where position = 1"], id="text as blob"
        ),
        pytest.param(
            10,
            ["update events set value = x'6f746865722068616c6620edb88100' where position = 10"],
            id="surrogates",
        ),
        pytest.param(
            2, ["update events set metadata = replace(metadata, '1', '2') where position = 2"], id="metadata"
        ),
        pytest.param(3, ["update events set metadata = null where position = 3"], id="empty metadata"),
        pytest.param(12, ["update events set salt = zeroblob(16) where position = 12"], id="salt"),
        pytest.param(
            1, ["update names set text = 'plum' where text = 'plan' and family = 1"], id="key's name"
        ),
        pytest.param(5, ["update names set text = 'Editor' where text = 'editor'"], id="agent's name"),
        pytest.param(27, ["update names set text = 'trip-44' where text = 'trip-43'"], id="run's name"),
        pytest.param(1, ["update names set salt = zeroblob(16) where text = 'task 1'"], id="name's salt"),
        pytest.param(1, ["update names set commitment = zeroblob(32) where id = 3"], id="commitment"),
        pytest.param(5, ["update events set agent = 3 where position = 5"], id="agent"),
        pytest.param(
            22, ["update events set agent = 3 where position = 22"], id="agent of an anonymous event"
        ),
        pytest.param(30, ["update events set key = 8 where position = 30"], id="key"),
        pytest.param(2, ["update events set activity = null where position = 2"], id="activity"),
        pytest.param(6, ["update events set turn = 2 where position = 6"], id="turn"),
        pytest.param(15, ["update events set turn = 6 where position = 15"], id="turn of a turn mark"),
        pytest.param(7, ["update events set batch = 0 where position = 7"], id="batch"),
        pytest.param(
            20,
            ["update events set hash = cast(substr(hash, 1, 31) || x'00' as blob) where position = 20"],
            id="hash",
        ),
        pytest.param(20, ["update events set content = 5 where position = 20"], id="content"),
        pytest.param(30, ["update events set birth = null where position = 30"], id="birth"),
        pytest.param(25, ["update events set created_at = 0 where position = 25"], id="created_at"),
        pytest.param(21, ["update events set expires_at_turn = 2 where position = 21"], id="expiry"),
        pytest.param(
            6, ["update events set detail = replace(detail, '5', '6') where position = 6"], id="detail"
        ),
        pytest.param(31, ["update events set recorded_at = 0 where position = 31"], id="recorded_at"),
        pytest.param(
            11,
            [
                "update events set position = -1 where position = 11",
                "update events set position = 11 where position = 12",
                "update events set position = 12 where position = -1",
            ],
            id="order",
        ),
        pytest.param(29, ["update runs set uid = replace(uid, '4', '5') where id = 3"], id="uid"),
        pytest.param(27, ["update runs set created_at = 0 where id = 2"], id="run's created_at"),
        pytest.param(29, ["update runs set fork_revision = 9 where id = 3"], id="fork point"),
        pytest.param(45, ["delete from events where position = 55"], id="newest event deleted"),
        pytest.param(29, ["delete from events where position = 28"], id="newest event of a run deleted"),
        pytest.param(13, ["delete from events where position = 12"], id="middle event deleted"),
        pytest.param(28, ["delete from events where position = 27"], id="first event of a run deleted"),
        pytest.param(
            None,
            ["delete from events where position = 38", "delete from events where position = 39"],
            id="all events of a run deleted",
        ),
        pytest.param(
            39, ["update events set run = 2, revision = 3 where position = 39"], id="event of another run"
        ),
        pytest.param(
            2, ["update entries set version = 1 where run = 4 and key = 5"], id="entry of another version"
        ),
        pytest.param(22, ["update entries set content = 5 where run = 1 and key = 2"], id="entry's content"),
        pytest.param(2, ["update entries set birth = 99 where run = 3 and key = 5"], id="entry's birth"),
        pytest.param(1, ["update entries set created_at = 0 where run = 5"], id="entry's created_at"),
        pytest.param(39, ["update entries set expires_at_turn = 1 where run = 6"], id="entry's expiry"),
        pytest.param(33, ["delete from entries where run = 4 and key = 2"], id="entry missing"),
        pytest.param(
            27, ["insert into entries values (2, 17, 27, 27, 1, 0, null)"], id="entry of a deleted key"
        ),
    ],
)
def test_tampering_is_found(golden: Path, position: int | None, statements: list[str]) -> None:
    """The position of the first event concerned is named, and the library refuses the file too."""
    tamper(golden, *statements)
    result = judge(golden)
    assert (result.returncode, result.stderr) == (1, "")
    *runs, problem = result.stdout.splitlines()
    assert all(line.startswith("run ") for line in runs)
    assert problem.startswith(f"position {position}: " if position else "run ")
    assert not library_accepts(golden)


@pytest.mark.parametrize(
    ("position", "change"),
    [
        pytest.param(
            1, "update events set value = replace(value, 'survey', 'surveY') where position = 1", id="value"
        ),
        pytest.param(
            2, "update events set metadata = replace(metadata, 'n', 'm') where position = 2", id="metadata"
        ),
        pytest.param(
            1,
            "update names set text = 'planner/plum' where text = 'planner/plan' and family = 1",
            id="key's name",
        ),
        pytest.param(4, "update events set turn = 0 where position = 4", id="turn"),
        pytest.param(6, "delete from events where position = 5", id="middle event deleted"),
    ],
)
def test_tampering_with_a_new_log_is_found(tmp_path: Path, position: int, change: str) -> None:
    """A log that was written now is watched over as the golden one is."""
    path = tmp_path / "new.db"
    with turnlog.open(path) as log:
        use(log)
    tamper(path, change)
    result = judge(path)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].startswith(f"position {position}: ")
    assert not library_accepts(path)


def test_a_deleted_newest_event_is_missed_by_the_entries(tmp_path: Path) -> None:
    """The chain goes on without it, but the live table still holds what it wrote."""
    path = tmp_path / "new.db"
    with turnlog.open(path) as log:
        use(log)
        newest = EventSourcedStore(log, "trip").set("editor/last", "word")
    tamper(path, f"delete from events where position = {newest}")
    result = judge(path)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].startswith(f"position {newest}: entries: ")
    assert not library_accepts(path)


def test_a_value_cannot_move_into_its_salt(tmp_path: Path) -> None:
    """A salt longer than 16 bytes could begin with the old value's bytes and so keep the old commitment."""
    path, start, end = tmp_path / "new.db", "harmless", "harm"
    value = start + "\2\0\0\0\0\0\0\0\4" + end
    with turnlog.open(path) as log:
        EventSourcedStore(log, "trip").set("key", value)
    moved = (b"\2" + len(value).to_bytes(8, "big") + start.encode()).hex()
    tamper(path, f"update events set value = '{end}', salt = cast(salt || x'{moved}' as blob)")
    result = judge(path)
    assert (result.returncode, result.stdout) == (1, "position 1: the salt has not 16 bytes\n")
    assert not library_accepts(path)


@pytest.mark.parametrize(
    ("position", "statement"),
    [
        pytest.param(13, "update events set value = 'x' where position = 13", id="value of a deletion"),
        pytest.param(20, "update events set metadata = '{}' where position = 20", id="metadata of a restore"),
        pytest.param(22, "update events set agent = 0 where position = 22", id="no such name"),
        pytest.param(1, "update names set family = 6 where text = 'task 1'", id="family of a name"),
        pytest.param(27, "update runs set family = 1 where id = 2", id="family of a run"),
        pytest.param(29, "update runs set parent = 4 where id = 3", id="parent of its own fork"),
        pytest.param(11, "delete from events where position = 10", id="fork point deleted"),
        pytest.param(56, "update events set position = 56 where position = 55", id="gap of positions"),
    ],
)
def test_what_no_hash_covers_is_checked_against_the_page(golden: Path, position: int, statement: str) -> None:
    """Columns that must be empty, ids, families, parents and positions are to be as the page says."""
    tamper(golden, statement)
    result = judge(golden)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1].startswith(f"position {position}: ")
    assert not library_accepts(golden)


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("update projections set stale_from = 1", id="stale"),
        pytest.param("update projections set version = 3", id="of another version"),
        pytest.param("delete from projections", id="unknown"),
    ],
)
def test_a_live_table_that_may_lack_events_is_not_read(golden: Path, statement: str) -> None:
    """Entries that do not claim to be in step with the log are no evidence against it."""
    tamper(golden, "delete from entries where run = 6", statement)
    assert judge(golden).stdout.endswith("\nok\n")
    assert library_accepts(golden)


@pytest.mark.parametrize("copy", [pytest.param(0, id="first"), pytest.param(1, id="second")])
def test_damage_below_the_tables_is_found(golden: Path, copy: int) -> None:
    """One byte of the file is enough, be it in a table or in the index that repeats it."""
    uid = next(run["uid"].encode() for run in EXPECTED["runs"] if run["run"] == "trip-43")
    content = golden.read_bytes()
    assert content.count(uid) == 2
    before, after = uid.join(content.split(uid)[: copy + 1]), uid.join(content.split(uid)[copy + 1 :])
    golden.write_bytes(before + uid.replace(b"9", b"8", 1) + after)
    assert judge(golden).returncode == 1
    assert not library_accepts(golden)


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        pytest.param("application_id", 0, id="another application"),
        pytest.param("user_version", 3, id="a greater version"),
        pytest.param("user_version", 0, id="no version"),
    ],
)
def test_other_databases_are_not_judged(golden: Path, pragma: str, value: int) -> None:
    """What is no log of a known version is left alone."""
    with closing(sqlite3.connect(golden)) as db:
        db.execute(f"pragma {pragma} = {value}")
    result = judge(golden)
    assert (result.returncode, result.stdout) == (2, "")
    assert "not a log of version 1 or 2" in result.stderr


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="missing"),
        pytest.param(b"", id="empty"),
        pytest.param(b"Dear diary, " * 100, id="prose"),
        pytest.param((HERE / "format-2.db").read_bytes()[:5000], id="cut off"),
    ],
)
def test_what_cannot_be_read_is_not_judged(tmp_path: Path, content: bytes | None) -> None:
    """The exit code tells a file that is wrong from a file that cannot be read."""
    path = tmp_path / "file.db"
    if content is not None:
        path.write_bytes(content)
    result = judge(path)
    assert (result.returncode, result.stdout) == (2, "")
    assert str(path) in result.stderr
    assert "Traceback" not in result.stderr
