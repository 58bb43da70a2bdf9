"""The living entries of one run of a log, to be read: what the store on a log and its twin have in common."""

from __future__ import annotations

from collections.abc import Iterator

from ..eventlog import EventLog
from ..eventlog.commands import exact_str
from ..eventlog.driver import Connection
from ..eventlog.runs import Run, find_run
from ..projections import EntriesProjection, Stored, read_birth, read_entries, read_entry
from ..projections.entries import PAGE
from .contract import check_limit
from .entry import MemoryEntry, entry_of

__all__ = ["LiveEntries"]


class LiveEntries:
    """What a store on `run` of `log` reads; for the meaning of each method see `EventSourcedStore`.

    Raises:
        TypeError: not a log, a log without the projection that stores read, or a name that is no str.
        ValueError: an empty or over-long name.

    Attributes:
        log: the log.
        run: the run's name.
    """

    def __init__(self, log: EventLog, run: str) -> None:
        if not isinstance(log, EventLog):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"log must be an open EventLog (turnlog.open(path)), not {type(log).__name__}")
        if not any(isinstance(projection, EntriesProjection) for projection in log.projections):
            raise TypeError("the log keeps no entries to read; open it with turnlog.open(path)")
        self.log = log
        self.run = exact_str("run", run)
        log.limits.check_name("the name of the run", run)
        if not run:
            raise ValueError("the name of a run must not be empty")
        self._found: Run | None = None

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`."""
        if type(key) is not str:
            key = exact_str("key", key)
        run = self._found
        if run is None:
            with self.log.reading() as db:
                run = self._find(db)
        held = None if run is None else read_entry(self.log, run, key)
        return None if held is None else entry_of(key, *held)

    def list(self) -> list[MemoryEntry]:
        """Every entry."""
        with self.log.reading() as db:
            run = self._find(db)
            return [] if run is None else [_entry(stored) for stored in read_entries(db, run, 0, -1)]

    def pages(self, prefix: str, after: str | None, limit: int | None) -> Iterator[list[MemoryEntry]]:
        """What a scan gives, one list for each page that is read; nothing is held in between."""
        prefix = exact_str("prefix", prefix)
        check_limit(limit)
        born = 0
        if after is not None:
            after = exact_str("after", after)
            with self.log.reading() as db:
                run = self._find(db)
                found = None if run is None else read_birth(db, run, after)
            if found is None:
                raise LookupError(f"there is no entry {after!r} to begin behind")
            born = found
        return self._pages(prefix, born, limit)

    def turn(self) -> int:
        """The run's turn."""
        head = self.log.head(self.run)
        return 0 if head is None else head.turn

    def _pages(self, prefix: str, born: int, limit: int | None) -> Iterator[list[MemoryEntry]]:
        left = limit
        while left is None or left > 0:
            with self.log.reading() as db:
                run = self._find(db)
                page = [] if run is None else read_entries(db, run, born, PAGE)
            found = [_entry(stored) for stored in page if stored.key.startswith(prefix)][:left]
            yield found
            if len(page) < PAGE:
                return
            born = page[-1].birth
            left = None if left is None else left - len(found)

    def _find(self, db: Connection) -> Run | None:
        if self._found is None:
            self._found = find_run(db, self.run)
        return self._found


def _entry(stored: Stored) -> MemoryEntry:
    key, version, _, created_at, expires_at_turn, value, metadata = stored
    return entry_of(key, value, metadata, created_at, expires_at_turn, version)
