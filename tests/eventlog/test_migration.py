"""A file of an earlier format: lifted once, whoever opens it, or read as it is."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import turnlog
from turnlog.eventlog import BadAddress, EventLog, StorageError, Write
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.integrity import check_log, count_erased
from turnlog.eventlog.schema import SCHEMA_VERSION
from turnlog.memory import EventSourcedStore
from turnlog.projections import EntriesProjection, first_difference
from turnlog.replay import Timeline
from turnlog.replay.cli import turnlog as command_line
from turnlog.replay.verification import verify

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1.db"
PROCESSES = 8
HASHES = "select position, hex(hash) from events order by position"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of format 1."""
    return Path(shutil.copy(GOLDEN, tmp_path / "old.db"))


def version(path: Path) -> int:
    """The format of a file that nobody of this process has open."""
    with closing(sqlite3.connect(path)) as db:
        return db.execute("pragma user_version").fetchone()[0]


_LIFT = """
import sys, time
import turnlog
from turnlog.eventlog import Write
from turnlog.eventlog.driver import driver

path, number = sys.argv[1:]
driver()
print("ready", flush=True)
for line in sys.stdin:
    path = line.strip()
    with turnlog.open(path, durability="os", busy_timeout_s=60) as log:
        print(log.execute([Write(f"from {number}", "v")], run="lifted")[0], flush=True)
"""


@pytest.fixture
def lifters() -> Iterator[Callable[[Path], list[int]]]:
    """Lets eight processes open a file at the same moment, and write once each; the positions they got."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _LIFT, "-", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]

    def lift(path: Path) -> list[int]:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
        return [int(process.stdout.readline()) for process in processes if process.stdout is not None]

    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield lift
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("rounds", [2, pytest.param(25, marks=pytest.mark.long)])
def test_eight_processes_lift_one_file_at_once(
    tmp_path: Path, lifters: Callable[[Path], list[int]], rounds: int
) -> None:
    """All of them succeed, no event is lost or changed, and the file is whole."""
    with closing(sqlite3.connect(f"file:{GOLDEN}?immutable=1", uri=True)) as db:
        hashes = db.execute(HASHES).fetchall()
    for number in range(rounds):
        path = Path(shutil.copy(GOLDEN, tmp_path / f"{number}.db"))
        positions = sorted(lifters(path))
        assert positions == list(range(len(hashes) + 1, len(hashes) + PROCESSES + 1))
        with turnlog.open(path, read_only=True) as log, log.reading() as db:
            assert db.execute("pragma user_version").fetchone() == (SCHEMA_VERSION,)
            assert db.execute(HASHES).fetchall()[: len(hashes)] == hashes
            assert list(check_log(db)) == []
            assert first_difference(db) is None


_SLOWLY = """
import sys
import turnlog
from turnlog.eventlog import database, schema

step = schema.MIGRATIONS[1]

class Watched:
    def __init__(self, db, stop):
        self.db, self.left = db, stop

    def execute(self, *statement):
        if self.left == 0:
            print("halfway", flush=True)
            sys.stdin.readline()
        self.left -= 1
        return self.db.execute(*statement)

def watched(db):
    version = step(Watched(db, int(sys.argv[2])))
    if int(sys.argv[2]) >= 9:
        print("halfway", flush=True)
        sys.stdin.readline()
    return version

database.MIGRATIONS[1] = watched
turnlog.open(sys.argv[1])
"""


@pytest.mark.parametrize("stop", [1, 5, pytest.param(3, marks=pytest.mark.long), 9])
def test_a_lift_that_was_killed_half_way_is_made_anew(old: Path, stop: int) -> None:
    """Nothing of it is there afterwards, and the next who opens the file lifts it."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOWLY, old, str(stop)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "halfway\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with turnlog.open(old, read_only=True) as log, log.reading() as db:
        assert db.execute("pragma user_version").fetchone() == (1,)
        assert not db.execute("select 1 from sqlite_schema where name = 'events_redactions'").fetchone()
    with turnlog.open(old) as log, log.reading() as db:
        assert db.execute("pragma user_version").fetchone() == (SCHEMA_VERSION,)
        assert list(check_log(db)) == []


def test_a_lifted_log_can_erase(old: Path) -> None:
    """What format 2 brings works on a file that came from format 1."""
    from turnlog.replay import redact

    with turnlog.open(old) as log:
        written = [each for each in log.read() if type(each.event).__name__ == "EntryWritten"]
        receipt = redact(log, position=written[0].position, reason="leaked", by="dpo")
        assert receipt.events == 1
        assert verify(log).ok


@pytest.fixture
def untouched(old: Path) -> Iterator[EventLog]:
    """The log of format 1, opened to be read; its bytes are the same afterwards."""
    before = old.read_bytes()
    with turnlog.open(old, read_only=True) as log:
        yield log
    assert old.read_bytes() == before
    assert version(old) == 1


def test_an_old_file_is_read_without_being_lifted(untouched: EventLog) -> None:
    """Stores, events, runs, export, verification; writing is refused."""
    assert list(untouched.read())
    assert list(export_lines(untouched))
    assert verify(untouched).ok
    with untouched.reading() as db:
        assert count_erased(db) == 0
    for info in untouched.runs():
        store = EventSourcedStore(untouched, info.run.name)
        assert [store.get(entry.key) for entry in store.list()] == store.list()
        with pytest.raises(StorageError):
            store.set("k", "v")


def test_timelines_work_on_an_old_file(untouched: EventLog) -> None:
    """Every question that can be asked of the past."""
    for info in untouched.runs():
        timeline = Timeline(untouched, info.run.name)
        timeline.turns()
        timeline.blame()
        for position in range(info.head.position + 1):
            try:
                state = timeline.state(position=position, all=True)
            except BadAddress:
                continue  # before the run began
            assert dict(state) == dict(timeline.folded(position=position))
            for key in state:
                timeline.entry(key, position=position)
                assert list(timeline.history(key)) == list(timeline.history(key, reverse=True))[::-1]
                timeline.first(key)
        timeline.diff("0", "head")
        timeline.bisect(bool)


def test_reading_verbs_work_on_an_old_file(old: Path) -> None:
    """The command line leaves the file as it is."""
    before = old.read_bytes()
    with turnlog.open(old, read_only=True) as log:
        run = log.runs()[0].run.name
        key = next(iter(Timeline(log, run).state()))
    for words in (
        ["log", old],
        ["log", old, "--json"],
        ["runs", old],
        ["state", old, "--run", run],
        ["get", old, key, "--run", run],
        ["history", old, key, "--run", run],
        ["blame", old, "--run", run],
        ["turns", old, "--run", run],
        ["diff", old, "0", "head", "--run", run],
        ["verify", old],
        ["export", old],
    ):
        done = CliRunner().invoke(command_line, [str(word) for word in words])
        assert done.exit_code in (0, 1), (words, done.output)
        assert "Traceback" not in done.output
        if words[0] != "diff":
            assert done.exit_code == 0, (words, done.output)
    assert old.read_bytes() == before


def test_the_table_of_an_old_file_is_made_anew(old: Path) -> None:
    """Its view does not know what was erased."""
    with turnlog.open(old) as log, log.reading() as db:
        (row,) = db.execute("select version, stale_from from projections where name = 'entries'").fetchall()
        assert row == (EntriesProjection().version, None)
        assert first_difference(db) is None
        assert (
            "redacted"
            in db.execute("select sql from sqlite_schema where name = 'current_entries'").fetchone()[0]
        )
    assert version(old) == SCHEMA_VERSION


def test_a_log_can_be_written_after_its_lift(old: Path) -> None:
    """Old events and new ones are one chain."""
    with turnlog.open(old) as log:
        for info in log.runs():
            log.execute([Write("new", "v")], run=info.run.name)
        assert verify(log).ok
