"""On a full disk the real cause is hidden by a failing rollback, and the object is of no use afterwards.

`tests/crash/test_mutators.py` fills the disk at every point of appends, forks, restores, imports, rebuilds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import SharedMemory, StorageError
from turnlog.eventlog import EventLog
from turnlog.eventlog.driver import driver

from .conftest import others_can_write


def cause(error: BaseException) -> Any:
    """Where it began."""
    return error if error.__cause__ is None else cause(error.__cause__)


def test_it_says_full_and_goes_on_when_there_is_room(path: Path, log: EventLog, memory: SharedMemory) -> None:
    """An error that says so, SQLite's own behind it; all as before; the same object writes when it can."""
    memory.write("a", "k", "before")
    before = memory.list_all()

    def limit(db: Any, pages: int | None = None) -> None:
        (count,) = db.execute("pragma page_count").fetchone()
        db.execute(f"pragma max_page_count = {pages or count + 1}")

    log.transact(limit)
    for _ in range(3):
        with pytest.raises(StorageError, match="full; nothing was written") as caught:
            memory.write("a", "big", "x" * 100_000)
        assert str(path) in str(caught.value)
        assert isinstance(cause(caught.value), driver().Error)
        assert cause(caught.value).sqlite_errorname == "SQLITE_FULL"
        others_can_write(path)
    assert memory.list_all() == before
    log.transact(lambda db: limit(db, 4294967294))
    memory.write("a", "big", "x" * 100_000)
    with turnlog.open(path, read_only=True) as other:
        assert len(turnlog.Timeline(other).state()) == 2
