"""What the tests of redaction share: a secret, all bytes of a log, and what must hold of it afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import turnlog
from turnlog.eventlog import (
    BadAddress,
    EventLog,
)
from turnlog.eventlog.intake import import_lines
from turnlog.memory import EventSourcedStore
from turnlog.projections import first_difference
from turnlog.replay import Timeline
from turnlog.replay.verification import verify

__all__ = [
    "SECRET",
    "WHY",
    "check_whole",
    "files",
    "files_elsewhere",
    "judged",
    "open_log",
    "spellings",
    "taken_in",
]

ROOT = Path(__file__).parents[2]
SECRET = "sk-Zq7vXw29LmPbT4"
WHY: dict[str, str] = {"reason": "leaked token", "by": "dpo"}


def open_log(path: Path) -> EventLog:
    """A log as users open it, without waiting for the disk."""
    return turnlog.open(path, durability="os")


def files(path: Path) -> bytes:
    """All bytes of a log's files; call it only where this process does not have the log open."""
    companions = [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))]
    return b"".join(each.read_bytes() for each in companions if each.exists())


_CAT = """
import pathlib, sys
for suffix in ("", "-wal", "-journal"):
    file = pathlib.Path(sys.argv[1] + suffix)
    if file.exists():
        sys.stdout.buffer.write(file.read_bytes())
"""


def files_elsewhere(path: Path) -> bytes:
    """The same while the log is open, by a process that has no lock to lose."""
    return subprocess.run(
        [sys.executable, "-c", _CAT, path], capture_output=True, check=True, timeout=60
    ).stdout


def spellings(secret: str) -> list[bytes]:
    """How a text may lie in a file."""
    return [
        secret.encode("utf-8", "surrogatepass"),
        secret.encode("utf-8", "surrogatepass").hex().encode(),
        secret.encode("utf-16-le", "surrogatepass"),
    ]


def check_whole(log: EventLog, gone: Sequence[str] = ()) -> None:
    """Every point of every run answers, table and fold agree, the chain holds, nothing shows what is gone."""
    assert verify(log).ok
    with log.reading() as db:
        assert first_difference(db) is None
        views = ("event_log", "current_entries")
        shown = [db.execute(f"select * from {view}").fetchall() for view in views]
        assert not any(text in repr(shown) for text in gone)
    for info in log.runs():
        timeline = Timeline(log, info.run.name)
        keys: set[str] = set()
        for position in range(info.head.position + 1):
            try:
                state = timeline.state(position=position, all=True)
            except BadAddress:
                continue  # before the run began, or an event of another run
            assert dict(state) == dict(timeline.folded(position=position))
            assert not any(text in repr(state) for text in gone)
            keys.update(state)
        for key in keys:
            told = list(timeline.history(key))
            assert told == list(timeline.history(key, reverse=True))[::-1]
            assert not any(text in repr(told) for text in gone)
        store = EventSourcedStore(log, info.run.name)
        assert store.list() == [store.get(entry.key) for entry in store.list()]
        assert {entry.key: entry.value for entry in store.list()} == {
            key: entry.value for key, entry in timeline.state(all=True).items()
        }
        timeline.blame()
        timeline.diff("0", "head")


def judged(path: Path) -> subprocess.CompletedProcess[str]:
    """What the example of another program that verifies says."""
    command = [sys.executable, "-I", ROOT / "docs" / "verify_example.py", path]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def taken_in(path: Path, lines: Sequence[str], run: str | None = None) -> EventLog:
    """A log at `path` that took in an export."""
    log = open_log(path)
    import_lines(log, lines, run)
    return log
