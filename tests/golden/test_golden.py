"""Logs that an earlier build wrote are read by today's, to the same events, hashes and entries."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import EventLog
from turnlog.eventlog.codec import CODES
from turnlog.eventlog.history import content_at, entries_at
from turnlog.eventlog.integrity import check_log
from turnlog.eventlog.runs import NEWEST_REVISION
from turnlog.eventlog.schema import APPLICATION_ID, SCHEMA_VERSION
from turnlog.projections import EntriesProjection, fold_runs

HERE = Path(__file__).parent
SCHEMA = "select type, name, tbl_name, sql from sqlite_schema order by type, name"
FORMAT = HERE.parents[1] / "docs" / "format.md"
ALL: dict[int, dict[str, Any]] = {
    version: json.loads((HERE / f"format-{version}.json").read_text(encoding="utf-8")) for version in (1, 2)
}
TODAY = ALL[SCHEMA_VERSION]
MAKER = runpy.run_path(str(HERE / "make_format_2.py"))


@pytest.fixture(params=ALL, ids=lambda version: f"format {version}")
def version(request: pytest.FixtureRequest) -> int:
    """Each format that was ever written."""
    return request.param


@pytest.fixture
def expected(version: int) -> dict[str, Any]:
    """What the golden log of the format must read back as."""
    return ALL[version]


@pytest.fixture
def golden(tmp_path: Path, version: int) -> Path:
    """A copy of the golden log, to be opened without touching the original."""
    return Path(shutil.copy(HERE / f"format-{version}.db", tmp_path / f"format-{version}.db"))


def test_the_golden_file_stands_alone(version: int) -> None:
    """Nothing is left over in a -wal, and the file is a WAL file of its version."""
    assert all(file.stat().st_size == 0 for file in HERE.glob("*-wal"))
    header = (HERE / f"format-{version}.db").read_bytes()[:100]
    assert (header[18:20], header[60:64], header[68:72]) == (b"\2\2", bytes((0, 0, 0, version)), b"turn")


def test_the_newest_golden_file_holds_everything() -> None:
    """Every type of event occurs in it, an erased value and an erased name too."""
    assert {event["type"] for event in TODAY["events"]} == {kind.__name__ for kind in CODES}
    assert [name["text"] for name in TODAY["names"]].count(None) == 1
    assert any(event["event"].get("value") == "[redacted]" for event in TODAY["events"])


def test_todays_code_reads_the_golden_log(golden: Path, expected: dict[str, Any]) -> None:
    """Runs, names, events, hashes and entries are exactly those that were written."""
    assert MAKER["describe"](golden) == expected


def test_an_older_log_is_lifted_in_place(golden: Path) -> None:
    """Opened to be written, a log of any format becomes one of today's, with today's schema, and is whole."""
    with turnlog.open(golden) as log, log.reading() as db:
        lifted = db.execute(SCHEMA).fetchall()
        assert list(check_log(db)) == []
        assert db.execute("pragma user_version").fetchone() == (SCHEMA_VERSION,)
    with turnlog.open(golden.with_name("new.db")) as log, log.reading() as db:
        assert lifted == db.execute(SCHEMA).fetchall()


def test_todays_code_writes_the_golden_log(tmp_path: Path) -> None:
    """The same commands at the same times give the same log, hash by hash."""
    MAKER["make"](tmp_path / "anew.db")
    assert MAKER["describe"](tmp_path / "anew.db") == TODAY


def test_the_golden_log_is_whole(golden: Path) -> None:
    """Our own check of hashes, commitments and references finds nothing wrong, nor does SQLite."""
    with EventLog(golden, read_only=True) as log, log.reading() as db:
        assert list(check_log(db)) == []
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert db.execute("pragma foreign_key_check").fetchall() == []


def by_key(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries as the expectation has them, by their keys."""
    return {json.dumps(entry["key"]): entry for entry in entries}


@pytest.mark.parametrize("way", ["fold", "index"])
def test_every_way_to_the_entries_leads_to_the_golden_ones(
    golden: Path, expected: dict[str, Any], way: str
) -> None:
    """The fold of the events and the history index, which know no table, give the expected entries."""
    with EventLog(golden, read_only=True) as log, log.reading() as db:
        for past, folded in fold_runs(db):
            entries = folded.values() if way == "fold" else entries_at(db, past, NEWEST_REVISION)
            found = []
            for entry in entries:
                facts = entry._asdict() | content_at(db, past, entry.content)._asdict()
                del facts["content"], facts["agent"]
                found.append({name: MAKER["_portable"](value) for name, value in facts.items()})
            assert by_key(found) == by_key(expected["entries"][past.run.name])


def test_a_table_made_anew_holds_the_golden_entries(golden: Path, expected: dict[str, Any]) -> None:
    """Rebuilding the table from the golden events gives the golden entries, in their order."""
    with turnlog.open(golden) as log:
        log.transact(EntriesProjection().rebuild)
    assert MAKER["describe"](golden)["entries"] == expected["entries"]


# -- the worked example of the description


def example() -> dict[str, bytes]:
    """The byte strings that docs/format.md shows, by their names; what follows a `;` is a comment."""
    section = FORMAT.read_text(encoding="utf-8").partition("## Worked example")[2]
    blocks = re.findall(r"`([a-z ]+)`[^`]*?```text\n(.*?)```", section, re.DOTALL)
    return {
        name: bytes.fromhex("".join(line.partition(";")[0] for line in block.splitlines()))
        for name, block in blocks
    }


def test_the_example_of_the_description_is_true() -> None:
    """Each byte string of the worked example hashes to what it says, and the last is in the golden log."""
    shown = example()
    assert list(shown) == ["key name", "content", "genesis", "event"]
    event = TODAY["events"][0]
    key = TODAY["names"][1]
    assert key["text"] == event["event"]["key"] == "plan"
    assert sha256(shown["key name"]).hexdigest() == key["commitment"]
    assert sha256(shown["content"]).hexdigest() == event["content_commitment"]
    assert sha256(shown["genesis"]).hexdigest() == TODAY["runs"][0]["genesis"]
    assert sha256(shown["event"]).hexdigest() == event["hash"]
    text = FORMAT.read_text(encoding="utf-8")
    assert all(sha256(frame).hexdigest() in text for frame in shown.values())


def test_the_description_names_what_there_is(golden: Path) -> None:
    """Identity, types and columns stand in docs/format.md as they are in the file."""
    text = FORMAT.read_text(encoding="utf-8")
    assert f"| {APPLICATION_ID} = {APPLICATION_ID:#X}".replace("0X", "0x") in text
    assert f"| `PRAGMA user_version` | {SCHEMA_VERSION}," in text
    for kind, code in CODES.items():
        assert f"| {code} | {kind.__name__} |" in text
    with EventLog(golden, read_only=True) as log, log.reading() as db:
        for table in ("runs", "names", "events"):
            section = text.partition(f"### {table}\n")[2].partition("\n#")[0]
            columns = {name for (name,) in db.execute("select name from pragma_table_info(?)", (table,))}
            named = {
                name for row in re.findall(r"^\| ([a-z_, ]+) \|", section, re.M) for name in row.split(", ")
            }
            assert named - {"column"} == columns
        for table in ("projections", "entries"):
            section = text.partition("### projections, entries\n")[2].partition("\n#")[0]
            for (name,) in db.execute("select name from pragma_table_info(?)", (table,)):
                assert name in section or name in ("run", "key")
