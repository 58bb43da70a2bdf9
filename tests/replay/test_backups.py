"""A backup is whole, verified and of one moment, whoever writes meanwhile; interrupted, it is not there."""

from __future__ import annotations

import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import AdvanceTurn, Corrupt, EventLog, StorageError, Write
from turnlog.replay.anchoring import anchor
from turnlog.replay.backups import backup
from turnlog.replay.verification import verify

WRITER = """
import sys, turnlog
from turnlog import Write
with turnlog.open(sys.argv[1], durability="os") as log:
    number = 0
    while True:
        log.execute([Write("k", str(number)), Write("j", str(number))], run="other")
        if not number:
            print(flush=True)
        number += 1
"""
BREAK_OFF = """
import os, sys, turnlog
from turnlog.replay.backups import backup
from turnlog.replay.cli import end_on_signals
end_on_signals()
with turnlog.open(sys.argv[1]) as log:
    backup(log, sys.argv[2], progress=lambda done, total: os.kill(os.getpid(), int(sys.argv[3])))
"""
BUSY = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    db.execute("begin immediate")
except sqlite3.OperationalError as error:
    print(error)
"""
LIMITED = """
import resource, signal, sys, turnlog
from turnlog.replay.backups import backup
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with turnlog.open(sys.argv[1], read_only=True) as log:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        backup(log, sys.argv[2])
    except turnlog.StorageError as error:
        print(error)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of several pages, in a folder of its own."""
    (tmp_path / "live").mkdir()
    path = tmp_path / "live" / "team.db"
    with turnlog.open(path, durability="os") as log:
        log.execute([Write(f"key {n}", "x" * 500) for n in range(2000)], run="main")
        log.fork("main", 1000, run="side", turn=0)
    return path


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(each.name for each in folder.iterdir())


def test_a_backup_is_the_log_as_it_was(path: Path, tmp_path: Path) -> None:
    """The copy is one private file that verifies, with the heads of the log, and can be gone on with."""
    out = tmp_path / "copies" / "monday.db"
    out.parent.mkdir()
    with turnlog.open(path) as log:
        anchor(log, tmp_path / "team.anchor")
        steps: list[tuple[int, int]] = []
        found = backup(log, out, progress=lambda done, total: steps.append((done, total)))
        heads = {info.run.name: info.head.hash for info in log.runs()}
    assert {head.run: head.hash for head in found.heads} == heads
    assert steps[-1][0] == steps[-1][1]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert names(out.parent) == ["monday.db"]
    with turnlog.open(out) as copy:
        assert verify(copy, anchor=tmp_path / "team.anchor").ok
        assert len(turnlog.EventSourcedStore(copy, "main").list()) == 2000
        copy.execute([Write("more", "x")], run="main")
        assert copy.head("side") is not None


def test_a_backup_while_others_write(path: Path, tmp_path: Path) -> None:
    """Writers go on, in this process and in another; the copy is a moment between the first and the last."""
    other = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        with turnlog.open(path, durability="os") as log:
            stop = threading.Event()
            written: list[int] = []

            def work() -> None:
                while not stop.is_set():
                    written.append(log.execute([Write("k", "v"), AdvanceTurn()], run="main")[0])

            thread = threading.Thread(target=work)
            thread.start()
            try:
                for number in range(3):
                    before = log.head("main")
                    found = backup(log, tmp_path / f"{number}.db")
                    after = log.head("main")
                    assert before is not None
                    assert after is not None
                    (copied,) = [head.revision for head in found.heads if head.run == "main"]
                    assert before.revision <= copied <= after.revision
            finally:
                stop.set()
                thread.join()
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert written
    for number in range(3):
        with turnlog.open(tmp_path / f"{number}.db", read_only=True) as copy:
            assert verify(copy).ok
            values = [copy.read(run="other", key=key, reverse=True, limit=1) for key in ("k", "j")]
            newest = [getattr(next(each).event, "value", None) for each in values]
            assert newest[0] == newest[1]


def test_a_backup_that_would_take_the_place_of_a_file(path: Path, tmp_path: Path) -> None:
    """Nothing is written over: no file, not a link to nowhere, not the log itself, not beside a stale WAL."""
    taken, dangling = tmp_path / "taken", tmp_path / "dangling"
    taken.write_bytes(b"mine")
    dangling.symlink_to(tmp_path / "nowhere")
    (tmp_path / "stale.db-wal").write_bytes(b"old")
    (tmp_path / "link").symlink_to(path)
    with turnlog.open(path) as log:
        for place in (taken, dangling, path, tmp_path / "stale.db", tmp_path / "link", tmp_path):
            with pytest.raises(StorageError, match="is there already"):
                backup(log, place)
        with pytest.raises(StorageError, match="nothing was written"):
            backup(log, tmp_path / "no such folder" / "out.db")
        assert verify(log).ok
    assert taken.read_bytes() == b"mine"
    assert not [name for name in names(tmp_path) if "partial" in name]


def test_a_damaged_log_is_not_backed_up(path: Path, tmp_path: Path) -> None:
    """A copy that does not verify is no backup; what is wrong is told."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (guard,) = db.execute("select sql from sqlite_schema where name = 'events_no_update'").fetchone()
        db.execute("drop trigger events_no_update")
        db.execute("update events set value = 'forged' where position = 7")
        db.execute(guard)
    with turnlog.open(path, read_only=True) as log, pytest.raises(Corrupt, match="position 7: the hash"):
        backup(log, tmp_path / "out.db")
    assert names(tmp_path) == ["live"]


def test_what_breaks_a_backup_off_leaves_nothing(path: Path, tmp_path: Path) -> None:
    """Ctrl-C in the middle leaves neither the copy nor anything else, and the log as it was."""

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with turnlog.open(path) as log:
        with pytest.raises(KeyboardInterrupt):
            backup(log, tmp_path / "out.db", progress=interrupt)
        assert names(tmp_path) == ["live"]
        backup(log, tmp_path / "out.db")
        log.execute([Write("k", "v")], run="main")


@pytest.mark.parametrize(
    ("number", "code", "left"),
    [
        pytest.param(signal.SIGTERM, 143, 0, id="SIGTERM"),
        pytest.param(signal.SIGHUP, 129, 0, id="SIGHUP"),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, 1, id="SIGKILL"),
    ],
)
def test_a_process_that_ends_in_a_backup(
    path: Path, tmp_path: Path, number: signal.Signals, code: int, left: int
) -> None:
    """Ended, it leaves nothing; killed, a private draft of a clear name, which no later backup touches."""
    command = [sys.executable, "-c", BREAK_OFF, path, tmp_path / "out.db", str(int(number))]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (code, b"")
    drafts = sorted(tmp_path.glob("out.db.partial-*"))
    assert len(drafts) == left
    assert {stat.S_IMODE(each.stat().st_mode) for each in drafts} <= {0o600}
    assert names(tmp_path) == ["live", *(each.name for each in drafts)]
    with turnlog.open(path) as log:
        assert backup(log, tmp_path / "out.db").ok
    assert names(tmp_path) == ["live", "out.db", *(each.name for each in drafts)]


def test_no_other_file_is_touched(path: Path, tmp_path: Path) -> None:
    """Neither another log of a similar name, nor the log itself, nor a copy that a killed backup made."""
    with turnlog.open(tmp_path / "work.db.partial") as other:
        other.execute([Write("k", "v")], run="main")
    with turnlog.open(path) as log:
        assert backup(log, tmp_path / "monday.db").ok
        (tmp_path / "nightly.db.partial").hardlink_to(tmp_path / "monday.db")
        before = (tmp_path / "monday.db").read_bytes()
        assert backup(log, tmp_path / "work.db").ok
        assert backup(log, tmp_path / "nightly.db").ok
        assert not (tmp_path / "monday.db").samefile(tmp_path / "nightly.db")
        assert (tmp_path / "monday.db").read_bytes() == before
    with turnlog.open(tmp_path / "work.db.partial") as other:
        assert backup(other, tmp_path / "work").ok
        assert other.head("main") is not None
        assert verify(other).events == 1


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_no_place_beside_the_log_is_taken(path: Path, tmp_path: Path, ending: str) -> None:
    """A name that SQLite keeps for the log is refused also while nothing is there, by whatever way."""
    (tmp_path / "way").symlink_to(path.parent)
    (tmp_path / "link.db").symlink_to(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode = delete")
    with turnlog.open(tmp_path / "link.db", read_only=True) as log:
        for folder in (path.parent, tmp_path / "way"):
            place = folder / f"team.db{ending}"
            assert not place.exists()
            with pytest.raises(StorageError, match="belongs to the log itself"):
                backup(log, place)


def test_of_two_backups_to_one_place_one_is_made(path: Path, tmp_path: Path) -> None:
    """The name goes to the first that is done; the other is told so, and takes nothing away."""

    def make_another(done: int, total: int) -> None:
        if not (tmp_path / "out.db").exists():
            assert backup(log, tmp_path / "out.db").ok

    with turnlog.open(path) as log, pytest.raises(StorageError, match="made by somebody else meanwhile"):
        backup(log, tmp_path / "out.db", progress=make_another)
    assert names(tmp_path) == ["live", "out.db"]
    with turnlog.open(tmp_path / "out.db", read_only=True) as copy:
        assert verify(copy).ok


def test_a_backup_lets_go_of_no_lock(path: Path, tmp_path: Path) -> None:
    """The log's file is opened by SQLite alone: a transaction under way still keeps other processes out."""
    with turnlog.open(path) as log:

        def while_writing(db: object) -> str:
            backup(log, tmp_path / "out.db")
            command = [sys.executable, "-c", BUSY, path]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            return done.stdout.strip()

        assert log.transact(while_writing) == "database is locked"


def test_a_full_disk_is_told(path: Path, tmp_path: Path) -> None:
    """Where the copy cannot grow, that is said, and nothing is left."""
    command = [sys.executable, "-c", LIMITED, path, tmp_path / "out.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "out.db.partial" in done.stdout
    assert names(tmp_path) == ["live"]


def test_the_verb(cli: Callable[..., subprocess.CompletedProcess[str]], path: Path, tmp_path: Path) -> None:
    """`turnlog backup` prints what was copied; a taken name is exit code 2 and one line."""
    done = cli("backup", path, tmp_path / "out.db")
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/out.db: 2,001 events in 2 runs, verified\n")
    done = cli("backup", path, tmp_path / "out.db")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert names(tmp_path) == ["live", "out.db"]


def test_the_verb_names_what_a_killed_backup_left(
    cli: Callable[..., subprocess.CompletedProcess[str]], path: Path, tmp_path: Path
) -> None:
    """It is left to whoever knows that no backup is under way; the copy is made all the same."""
    left = tmp_path / "out.db.partial-4711-0123456789abcdef"
    left.write_bytes(b"half a copy")
    (tmp_path / "out.db.partial-notes").write_bytes(b"mine")
    done = cli("backup", path, tmp_path / "out.db")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert f"{left} is the draft of a copy" in done.stderr
    assert left.read_bytes() == b"half a copy"


@pytest.fixture
def cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line as a process."""

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "turnlog", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


def test_a_log_opened_to_read_can_be_backed_up(path: Path, tmp_path: Path) -> None:
    """Backing up needs no right to write the log."""
    with EventLog(path, read_only=True) as log:
        assert backup(log, tmp_path / "out.db").events == 2001
