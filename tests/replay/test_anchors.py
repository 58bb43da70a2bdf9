"""Anchors: what no log can tell of itself is noticed by whoever kept its heads elsewhere."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import AdvanceTurn, BadAnchor, Busy, Closed, StorageError, Write
from turnlog.replay.anchoring import anchor, read_anchor
from turnlog.replay.anchors import last_anchor
from turnlog.replay.verification import verify


def tell(path: Path, *values: str, run: str = "main") -> None:
    """Write values to a key of their own, each in its commit."""
    with turnlog.open(path, durability="os") as log:
        for value in values:
            log.execute([Write(value, value), AdvanceTurn()], run=run, agent="writer")


def keep(path: Path, kept: Path) -> None:
    """Anchor the log at `path`."""
    with turnlog.open(path, read_only=True) as log:
        anchor(log, kept)


def problems(path: Path, kept: Path) -> list[str]:
    """What `verify` says of the log against its anchor."""
    with turnlog.open(path, read_only=True) as log:
        return [str(problem) for problem in verify(log, anchor=kept).problems]


def tamper(path: Path, *statements: str) -> None:
    """Change the file as somebody would who has it: the guards are there again afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        guards = db.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall()
        for name, _ in guards:
            db.execute(f"drop trigger {name}")
        for statement in statements:
            db.execute(statement)
        for _, sql in guards:
            db.execute(sql)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two runs, whose commits lie between each other."""
    path = tmp_path / "team.db"
    for number in range(3):
        tell(path, f"a{number}", run="main")
        tell(path, f"b{number}", run="side")
    return path


@pytest.fixture
def kept(path: Path, tmp_path: Path) -> Path:
    """The anchor of `path`, elsewhere."""
    (tmp_path / "safe").mkdir()
    kept = tmp_path / "safe" / "team.anchor"
    keep(path, kept)
    return kept


def test_a_log_that_went_on_agrees_with_its_anchors(path: Path, kept: Path) -> None:
    """What was anchored stays true whatever is appended, new runs included; the counter rises."""
    assert problems(path, kept) == []
    tell(path, "more")
    tell(path, "first", run="third")
    assert problems(path, kept) == []
    keep(path, kept)
    keep(path, kept)
    assert problems(path, kept) == []
    found = read_anchor(kept)
    assert (found.counter, found.events, [head.name for head in found.heads]) == (
        3,
        16,
        ["main", "side", "third"],
    )


def test_an_anchor_can_be_checked_by_its_description(path: Path, kept: Path) -> None:
    """The lines are what docs/format.md says: private, chained, with heads and order as the file has them."""
    keep(path, kept)
    first, second = kept.read_bytes().splitlines()
    facts = json.loads(second)
    with closing(sqlite3.connect(path)) as db:
        hashes = [each for (each,) in db.execute("select hash from events order by position")]
        newest = db.execute("select hash from events where run = 2 order by revision desc").fetchone()[0]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(first)["previous"] == "0" * 64
    assert facts["previous"] == sha256(first).hexdigest()
    assert (facts["kind"], facts["version"], facts["counter"]) == ("turnlog-anchor", 1, 2)
    assert (facts["events"], facts["order"]) == (12, sha256(b"".join(hashes)).hexdigest())
    assert (facts["heads"][1]["name"], facts["heads"][1]["hash"]) == ("side", newest.hex())


def test_any_name_of_a_run_can_be_anchored(tmp_path: Path) -> None:
    """Half an emoji and a line break in a name are kept as they are, in one line."""
    path, kept = tmp_path / "team.db", tmp_path / "team.anchor"
    tell(path, "v", run="half \ud83d\nrun")
    keep(path, kept)
    assert problems(path, kept) == []
    assert [head.name for head in read_anchor(kept).heads] == ["half \ud83d\nrun"]
    assert kept.read_bytes().count(b"\n") == 1


CUT = [
    "delete from entries where run = 2 and version > 10",
    "delete from events where position > 10",
]


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        pytest.param(
            CUT, "run 'side': ends at revision 4, though anchor 1 saw revision 6", id="tail cut off"
        ),
        pytest.param(
            [
                "delete from entries where run = 2",
                "delete from events where run = 2",
                "delete from runs where id = 2",
            ],
            "run 'side': is gone, though anchor 1 saw its revision 6",
            id="a run taken out",
        ),
    ],
)
def test_what_was_cut_off_is_noticed(path: Path, kept: Path, statements: list[str], said: str) -> None:
    """A run that ends before its anchored head is named, with both revisions."""
    tamper(path, *statements)
    assert any(said in problem for problem in problems(path, kept))


def test_a_clean_cut_is_seen_by_the_anchor_alone(path: Path, kept: Path) -> None:
    """The same cut leaves a log that is in order in itself: that is what the anchor is for."""
    tamper(path, *CUT)
    with turnlog.open(path, read_only=True) as log:
        assert verify(log).ok
        assert not verify(log, anchor=kept).ok


def test_an_older_copy_put_back_is_noticed(path: Path, kept: Path, tmp_path: Path) -> None:
    """A whole older copy of the log, genuine in every byte, is behind its anchor."""
    older = shutil.copy(path, tmp_path / "older.db")
    tell(path, "late")
    keep(path, kept)
    path.unlink()
    shutil.copy(older, path)
    assert any("an older copy of the log was put back" in problem for problem in problems(path, kept))


def test_a_chain_made_anew_is_noticed(path: Path, kept: Path, tmp_path: Path) -> None:
    """The same uids, names and revisions with another past have another hash at the anchored head."""
    forged = tmp_path / "forged.db"
    with closing(sqlite3.connect(path)) as db:
        uids = iter([uid for (uid,) in db.execute("select uid from runs order by id")])
    with turnlog.EventLog(forged, durability="os", new_uid=lambda: next(uids)) as log:
        for number in range(3):
            for run in ("main", "side"):
                log.execute([Write("forged", str(number)), AdvanceTurn()], run=run)
        assert verify(log).ok
        found = [str(problem) for problem in verify(log, anchor=kept).problems]
    said = "revision 6 is not the one that anchor 1 saw: its past was made anew"
    assert found == [f"run 'main': {said}", f"run 'side': {said}"]


def test_commits_of_two_runs_that_changed_places_are_noticed(path: Path, kept: Path) -> None:
    """Positions are in no chain, but the anchor knows in which order all events lay."""
    swap = [
        f"update events set position = -position where position in ({', '.join(map(str, range(5, 9)))})",
        "update events set position = 7 where position = -5",
        "update events set position = 8 where position = -6",
        "update events set position = 5 where position = -7",
        "update events set position = 6 where position = -8",
        "update entries set version = 12 - version, content = 12 - content where version in (5, 7)",
    ]
    tamper(path, *swap)
    with turnlog.open(path, read_only=True) as log:
        assert verify(log).ok
    assert problems(path, kept) == ["up to position 12 the events are not in the order that anchor 1 saw"]


def test_an_anchor_of_another_log_is_noticed(path: Path, tmp_path: Path) -> None:
    """An anchor that knows none of the log's runs is of another log, whatever these are called."""
    other, kept = tmp_path / "other.db", tmp_path / "other.anchor"
    tell(other, "x", run="main")
    keep(other, kept)
    assert problems(path, kept) == ["anchor 1 knows none of the runs in this log: it is of another log"]
    with turnlog.open(path) as log, pytest.raises(BadAnchor, match="of another log"):
        anchor(log, kept)


def test_a_log_that_fell_behind_is_not_anchored(path: Path, kept: Path) -> None:
    """Going on after a cut does not launder it: the anchor is not moved back, and stays as it was."""
    before = kept.read_bytes()
    tamper(path, *CUT)
    with turnlog.open(path) as log, pytest.raises(BadAnchor, match=r"nothing was appended.*run 'side'"):
        anchor(log, kept)
    assert kept.read_bytes() == before


MANGLED: list[tuple[str, Callable[[list[bytes]], list[bytes]], str]] = [
    ("emptied", lambda lines: [], "is empty"),
    ("half a line", lambda lines: [*lines[:-1], lines[-1][50:]], "line 3"),
    (
        "the end of a line",
        lambda lines: [*lines[:-1], lines[-1][50:-1]],
        "line 3: the anchor file was damaged",
    ),
    (
        "half of an earlier line",
        lambda lines: [*lines, lines[1][:100]],
        "line 4: the anchor file was damaged",
    ),
    ("an ended half of a line", lambda lines: [*lines[:-1], lines[-1][:100] + b"\n"], "line 3"),
    ("first line gone", lambda lines: lines[1:], "line 1: the anchor file was damaged"),
    ("middle line gone", lambda lines: [lines[0], lines[2]], "line 2: the anchor file was damaged"),
    ("a line altered", lambda lines: [lines[0], lines[1].replace(b"side", b"slde"), lines[2]], "line 3"),
    ("an empty line", lambda lines: [*lines, b"\n"], "line 4"),
    ("nesting", lambda lines: [*lines, b"[" * 100_000 + b"\n"], "line 4"),
    ("no JSON", lambda lines: [b"\x00" * 10 + b"\n"], "line 1"),
    ("another version", lambda lines: [lines[0].replace(b'"version":1', b'"version":2')], "upgrade turnlog"),
]


@pytest.mark.parametrize(
    ("mangle", "said"), [pytest.param(mangle, said, id=name) for name, mangle, said in MANGLED]
)
def test_a_damaged_anchor_is_noticed(
    path: Path, kept: Path, mangle: Callable[[list[bytes]], list[bytes]], said: str
) -> None:
    """An anchor file that was altered or cut off is a problem that names the line; nothing is added to it."""
    keep(path, kept)
    keep(path, kept)
    kept.write_bytes(b"".join(mangle(kept.read_bytes().splitlines(keepends=True))))
    before = kept.read_bytes()
    (problem,) = problems(path, kept)
    assert said in problem
    if before:
        with turnlog.open(path) as log, pytest.raises(BadAnchor):
            anchor(log, kept)
        assert kept.read_bytes() == before


@pytest.mark.parametrize("left", [1, 50, 100, 200, -2, -1])
def test_what_an_interrupted_append_left_is_no_line(path: Path, kept: Path, left: int) -> None:
    """However much of a line a killed process wrote, it is told, and the next anchor takes its place."""
    keep(path, kept)
    before = kept.read_bytes()
    keep(path, kept)
    line = kept.read_bytes()[len(before) :]
    kept.write_bytes(before + line[:left])
    whole = left == -1  # all but the end of the line: it says all that there is to say
    (problem,) = problems(
        path, kept
    )  # before it was repaired, nobody can tell it from a file that was cut off
    assert "line 3: the line has no end" in problem
    with turnlog.open(path) as log:
        assert anchor(log, kept).counter == (4 if whole else 3)
    assert kept.read_bytes().startswith(before)
    counters = [json.loads(each)["counter"] for each in kept.read_bytes().splitlines()]
    assert counters == [1, 2, 3, 4][: 3 + whole]
    assert problems(path, kept) == []


def test_the_first_line_may_be_interrupted_too(path: Path, kept: Path) -> None:
    """Half of a first line is no anchor, which is told, and the next one begins the file."""
    kept.write_bytes(kept.read_bytes()[:70])
    with pytest.raises(BadAnchor, match="line 1: the line has no end"):
        read_anchor(kept)
    with turnlog.open(path) as log:
        assert anchor(log, kept).counter == 1


def test_an_anchor_that_falls_is_none() -> None:
    """A line that says less than the one before it is damage, though its hashes are right."""
    facts = {"kind": "turnlog-anchor", "version": 1, "counter": 1, "previous": "0" * 64, "anchored_at": "now"}
    facts |= {"events": 2, "order": "0" * 64, "heads": []}
    first = json.dumps(facts).encode()
    facts |= {"counter": 2, "previous": sha256(first).hexdigest(), "events": 1}
    with pytest.raises(BadAnchor, match="become shorter"):
        last_anchor(first + b"\n" + json.dumps(facts).encode() + b"\n", "kept")


def test_anchors_at_the_same_time_do_not_interleave(path: Path, kept: Path) -> None:
    """Processes and threads that anchor at once, while others write, leave one chain of whole lines."""
    many = 8
    command = [sys.executable, "-m", "turnlog", "anchor", str(path), str(kept)]
    processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    with turnlog.open(path, durability="os") as log:

        def work(number: int) -> None:
            for turn in range(many):
                log.execute([Write(f"k{number}", str(turn))], run="main")
                anchor(log, kept)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [process.wait(60) for process in processes] == [0, 0]
    assert read_anchor(kept).counter == 1 + 2 + 3 * many
    assert problems(path, kept) == []


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_the_log_is_not_its_own_anchor(path: Path, tmp_path: Path, ending: str) -> None:
    """A file of the log is refused as anchor before it is opened, also by another name."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "v")], run="main")
        os.link(f"{path}{ending}", tmp_path / "another name")
        with pytest.raises(StorageError, match="belongs to the log itself"):
            anchor(log, tmp_path / "another name")
        assert verify(log).ok


def test_an_anchor_that_cannot_be_written(path: Path, tmp_path: Path) -> None:
    """A folder, a device and a place that does not exist are refused as what they are."""
    with turnlog.open(path) as log:
        for place in (tmp_path, Path("/dev/full"), tmp_path / "no" / "such"):
            with pytest.raises(StorageError):
                anchor(log, place)
        with pytest.raises(StorageError, match="No such file"):
            verify(log, anchor=tmp_path / "nothing")


def test_an_anchor_that_failed_leaves_no_file(path: Path, tmp_path: Path) -> None:
    """What was never anchored has no empty file that would read as an anchor; one that was there stays."""
    there = tmp_path / "made before"
    there.touch()
    log = turnlog.open(path)
    log.close()
    for place in (there, tmp_path / "new"):
        with pytest.raises(Closed):
            anchor(log, place)
    assert there.exists()
    assert not (tmp_path / "new").exists()


def test_an_anchor_is_made_where_a_link_leads_to(path: Path, tmp_path: Path) -> None:
    """A link to a file that is not there yet is followed."""
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    keep(path, tmp_path / "link")
    keep(path, tmp_path / "link")
    assert read_anchor(tmp_path / "kept").counter == 2


def test_an_anchor_in_a_pipe_is_refused_at_once(path: Path, tmp_path: Path) -> None:
    """Nobody waits for somebody who would write a named pipe."""
    os.mkfifo(tmp_path / "pipe")
    with turnlog.open(path) as log:
        for attempt in (
            lambda: verify(log, anchor=tmp_path / "pipe"),
            lambda: anchor(log, tmp_path / "pipe"),
        ):
            with pytest.raises(StorageError, match="is not a file"):
                attempt()


def test_an_anchor_file_that_is_held_is_waited_for_no_longer_than_the_log(path: Path, kept: Path) -> None:
    """After the log's `busy_timeout_s`, whoever anchors or verifies is told that the file is Busy."""
    before = kept.read_bytes()
    with turnlog.open(path, busy_timeout_s=0.05) as log, kept.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for attempt in (lambda: anchor(log, kept), lambda: verify(log, anchor=kept)):
            with pytest.raises(Busy, match=r"team\.anchor"):
                attempt()
        fcntl.flock(held, fcntl.LOCK_UN)
        assert kept.read_bytes() == before
        assert anchor(log, kept).counter == 2
