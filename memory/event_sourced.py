"""The store on a log: what it holds is a fold of events that are never lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..eventlog import Command, EventLog
from ..eventlog.commands import exact_str
from ..eventlog.events import moment
from ..eventlog.runs import Run, find_run
from ..projections import EntriesProjection, Stored, read_birth, read_entries, read_entry
from ..projections.entries import PAGE
from .acting import current_actor
from .contract import check_limit
from .entry import MemoryEntry, read_metadata
from .verbs import CommandVerbs

__all__ = ["EventSourcedStore"]


class EventSourcedStore(CommandVerbs):
    """A `MemoryStore` on one run of a log.

    Several stores, threads and processes may use one run; every operation is atomic across all of them. The
    run begins with its first event. Keys are compared exactly, values are kept exactly. What was overwritten,
    deleted or refused stays in the history (see `Timeline`).

    Args:
        log: an open log, from `turnlog.open`.
        run: the run's name.

    Raises:
        TypeError: not a log, a log without the projection that stores read, or a name that is no str.
        ValueError: an empty or over-long name.
    """

    def __init__(self, log: EventLog, run: str = "main") -> None:
        if not isinstance(log, EventLog):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"log must be an open EventLog (turnlog.open(path)), not {type(log).__name__}")
        if not any(isinstance(projection, EntriesProjection) for projection in log.projections):
            raise TypeError("the log keeps no entries to read; open it with turnlog.open(path)")
        self._log = log
        self._name = exact_str("run", run)
        log.limits.check_name("the name of the run", run)
        if not run:
            raise ValueError("the name of a run must not be empty")
        self._run: Run | None = None

    @property
    def log(self) -> EventLog:
        """The log."""
        return self._log

    @property
    def run(self) -> str:
        """The run's name."""
        return self._name

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none."""
        key = exact_str("key", key)
        with self._log.reading() as db:
            run = self._find(db)
            stored = None if run is None else read_entry(db, run, key)
        return None if stored is None else _entry(stored)

    def list(self) -> list[MemoryEntry]:
        """Every entry, expired ones included, in birth order, as of one moment."""
        with self._log.reading() as db:
            run = self._find(db)
            return [] if run is None else [_entry(stored) for stored in read_entries(db, run, 0, -1)]

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> Iterator[MemoryEntry]:
        """Entries whose key begins with `prefix` (literally), in birth order, a page at a time.

        Entries that exist throughout are neither skipped nor repeated, whatever is written meanwhile.

        Args:
            prefix: `""` means every key.
            after: begin behind the entry of this key, which must exist.
            limit: at most so many.

        Raises:
            LookupError: there is no entry `after`.
            TypeError, ValueError: bad arguments.
        """
        prefix = exact_str("prefix", prefix)
        check_limit(limit)
        born = 0
        if after is not None:
            after = exact_str("after", after)
            with self._log.reading() as db:
                run = self._find(db)
                found = None if run is None else read_birth(db, run, after)
            if found is None:
                raise LookupError(f"there is no entry {after!r} to begin behind")
            born = found
        return self._scan(prefix, born, limit)

    def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Carry out `commands` as one batch, all or nothing; one outcome each. See `EventLog.execute`."""
        acting = current_actor()
        return self._log.execute(
            commands,
            run=self._name,
            agent=acting.agent if agent is None else agent,
            activity=acting.activity if activity is None else activity,
        )

    def get_turn(self) -> int:
        """The run's turn; 0 at first. It lives in the log and survives a restart."""
        head = self._log.head(self._name)
        return 0 if head is None else head.turn

    def _scan(self, prefix: str, born: int, limit: int | None) -> Iterator[MemoryEntry]:
        given = 0
        while limit is None or given < limit:
            with self._log.reading() as db:
                run = self._find(db)
                page = [] if run is None else read_entries(db, run, born, PAGE)
            for stored in page:
                if stored.key.startswith(prefix):
                    yield _entry(stored)
                    given += 1
                    if given == limit:
                        return
            if len(page) < PAGE:
                return
            born = page[-1].birth

    def _find(self, db: Any) -> Run | None:
        if self._run is None:
            self._run = find_run(db, self._name)
        return self._run


def _entry(stored: Stored) -> MemoryEntry:
    return MemoryEntry(
        key=stored.key,
        value=stored.value,
        metadata=read_metadata(stored.metadata),
        created_at=moment(stored.created_at),
        expires_at_turn=stored.expires_at_turn,
        version=stored.version,
    )
