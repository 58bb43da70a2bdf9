"""The bare loop: what SQLite itself takes for an event and an entry in one transaction, and nothing else.

Two plain tables, the driver and the pragmas of a turnlog file. No hash, no provenance, no check of arguments,
no lock for threads, no name interned; the metadata comes as finished JSON text.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from turnlog.eventlog.driver import driver

from .logs import VALUE, Asked, agent, key

__all__ = ["Bare"]

_TABLES = (
    """create table if not exists events (position integer primary key, key text not null, agent text,
    value text not null, metadata text, recorded_at integer not null)""",
    """create table if not exists entries (key text primary key, version integer not null,
    value text not null, metadata text, recorded_at integer not null) without rowid""",
)
_EVENT = "insert into events (key, agent, value, metadata, recorded_at) values (?, ?, ?, ?, ?)"
_ENTRY = """
insert into entries (key, version, value, metadata, recorded_at) values (?, ?, ?, ?, ?)
on conflict (key) do update set version = excluded.version, value = excluded.value,
    metadata = excluded.metadata, recorded_at = excluded.recorded_at
"""
_GET = "select version, value, metadata, recorded_at from entries where key = ?"
_LAST = "select coalesce(max(position), 0) from events"


class Bare:
    """The two tables.

    Args:
        path: the file.
        durability: `disk` or `os`, as for a log.
        flushes: flush the WAL after a NORMAL commit, as turnlog does, in place of synchronous=FULL.
        module: the driver.
        busy_timeout_s: how long SQLite itself waits for a lock.
    """

    def __init__(
        self,
        path: Path,
        durability: str,
        *,
        flushes: bool = False,
        module: ModuleType | None = None,
        busy_timeout_s: float = 5,
    ) -> None:
        self._db: Any = (module or driver()).connect(
            path, isolation_level=None, check_same_thread=False, timeout=busy_timeout_s
        )
        synchronous = "full" if durability == "disk" and not flushes else "normal"
        for pragma in ("journal_mode = wal", f"synchronous = {synchronous}", "secure_delete = on"):
            self._db.execute(f"pragma {pragma}").fetchone()
        for statement in _TABLES:
            self._db.execute(statement)
        self._wal = os.open(f"{path}-wal", os.O_RDWR) if flushes else None
        self._lock = threading.Lock()

    def set(self, asked: Asked) -> None:
        """Write one key."""
        name, metadata = asked
        by = metadata["agent"]
        told = f'{{"agent":"{by}"}}'
        now = time.time_ns() // 1_000_000
        execute = self._db.execute
        execute("begin immediate")
        position = execute(_EVENT, (name, by, VALUE, told, now)).lastrowid
        execute(_ENTRY, (name, position, VALUE, told, now))
        execute("commit")
        if self._wal is not None:
            os.fdatasync(self._wal)

    def set_locked(self, asked: Asked) -> None:
        """`set` for several threads."""
        with self._lock:
            self.set(asked)

    def get(self, name: str) -> object:
        """Read one key."""
        return self._db.execute(_GET, (name,)).fetchone()

    def write(self, numbers: Sequence[int], keys: int) -> None:
        """Write many keys in one transaction."""
        now = time.time_ns() // 1_000_000
        self._db.execute("begin immediate")
        (position,) = self._db.execute(_LAST).fetchone()
        events: list[tuple[object, ...]] = []
        entries: list[tuple[object, ...]] = []
        for number in numbers:
            number %= keys
            position += 1
            name, by = key(number), agent(number)
            told = f'{{"agent":"{by}"}}'
            events.append((name, by, VALUE, told, now))
            entries.append((name, position, VALUE, told, now))
        self._db.executemany(_EVENT, events)
        self._db.executemany(_ENTRY, entries)
        self._db.execute("commit")

    def close(self) -> None:
        """Release the file."""
        if self._wal is not None:
            os.close(self._wal)
        self._db.close()
