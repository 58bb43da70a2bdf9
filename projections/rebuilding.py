"""Making a projection anew while others go on writing.

The fold of a long log takes its time, so it is done without the lock, up to a position, into a table of its
own that lies outside the file. Then the lock is taken, what was appended meanwhile is folded on, and the
table takes the place of the old one: all that in one transaction. Until then readers have the old table, and
writers fill it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import cast

from ..eventlog import Entry, EventLog, NotFound, Projection, evolve
from ..eventlog.driver import Connection, driver, storage_error
from ..eventlog.runs import NEWEST_REVISION, Lineage, Segment, lineage, name_id, run_at
from .entries import EntriesProjection, Row, rows_of
from .fold import changes, fold, fold_runs

__all__ = ["rebuild"]

_PAGE = 4096
_LAST = "select coalesce(max(position), 0) from events"
_GROWN = "select distinct run from events where position > ? order by run"
_KNOWN = "select max(revision) from events where run = ? and position <= ?"
_MARK_STALE = "update projections set stale_from = 0 where name = ?"
_REVISION = "select revision from events where position = ?"

_SHADOW = """
create table shadow (
    run, key, version, content, birth, created_at, expires_at_turn, primary key (run, key)
) without rowid
"""
_PUT = "insert or replace into shadow values (?, ?, ?, ?, ?, ?, ?)"
_TAKE_OUT = "delete from shadow where run = ? and key = ?"
_ONE = "select version, content, birth, created_at, expires_at_turn from shadow where run = ? and key = ?"
_ALL = "select run, key, version, content, birth, created_at, expires_at_turn from shadow order by run, key"


def rebuild(
    log: EventLog, name: str | None = None, *, progress: Callable[[int], None] | None = None
) -> list[str]:
    """Make the projections of `log` anew from its events, whatever state they are in; others go on meanwhile.

    Args:
        log: a log opened to write.
        name: only this projection.
        progress: called now and then with the number of runs that have been folded so far, without the lock.

    Returns:
        Names of those that were made anew.

    Raises:
        NotFound: the log keeps no projection of that name; names those it keeps.
        Corrupt: an event cannot be read; names its position, and nothing was changed.
        Busy, StorageError, Closed: nothing was changed.
    """
    wanted = [projection for projection in log.projections if name in (None, projection.name)]
    if not wanted:
        kept = ", ".join(projection.name for projection in log.projections) or "none"
        raise NotFound(f"{log.path} keeps no projection {name!r:.80}; it keeps {kept}")
    for projection in wanted:
        if isinstance(projection, EntriesProjection):
            _rebuild_entries(log, projection, progress)
        else:
            log.transact(lambda db, projection=projection: _prepare_anew(db, projection))
    return [projection.name for projection in wanted]


def _prepare_anew(db: Connection, projection: Projection) -> None:
    """Let a projection that is made anew in one piece do so."""
    db.execute(_MARK_STALE, (projection.name,))
    projection.prepare(db)


def _rebuild_entries(
    log: EventLog, projection: EntriesProjection, progress: Callable[[int], None] | None
) -> None:
    with closing(_Shadow(log.path)) as shadow:
        with log.reading() as db:
            db.execute("begin")
            try:
                (position,) = db.execute(_LAST).fetchone()
                for number, (past, entries) in enumerate(fold_runs(db), start=1):
                    shadow.put(rows_of(db, past, entries.values()))
                    if progress is not None:
                        progress(number)
            finally:
                db.execute("rollback")

        def swap(db: Connection) -> None:
            for (ident,) in db.execute(_GROWN, (position,)).fetchall():
                _fold_on(db, lineage(db, run_at(db, ident)), position, shadow)
            projection.replace(db, shadow.pages())

        log.transact(swap)


class _Shadow:
    """The table to be: in a private database that SQLite keeps in memory, or on disk once it is large."""

    def __init__(self, path: str) -> None:
        self._db = cast("Connection", driver().connect("", isolation_level=None, check_same_thread=False))
        try:
            self._db.execute("pragma journal_mode = off")
            self._db.execute(_SHADOW)
        except driver().Error as error:
            raise storage_error(error, path, busy_timeout_s=0) from error

    def put(self, rows: Iterable[Row]) -> None:
        """Add rows, or put them in the place of those of the same key."""
        self._db.execute("begin")
        self._db.executemany(_PUT, rows)
        self._db.execute("commit")

    def take_out(self, run: int, key: int) -> None:
        """Remove the row of a key, if it has one."""
        self._db.execute(_TAKE_OUT, (run, key))

    def row(self, run: int, key: int) -> tuple[int, int, int, int, int | None] | None:
        """Version, position of the content, birth, time of creation and expiry of a key."""
        return self._db.execute(_ONE, (run, key)).fetchone()

    def pages(self) -> Iterator[list[Row]]:
        """Every row."""
        rows = self._db.execute(_ALL)
        while page := rows.fetchmany(_PAGE):
            yield page

    def close(self) -> None:
        """Give up everything."""
        self._db.close()


def _fold_on(db: Connection, past: Lineage, position: int, shadow: _Shadow) -> None:
    """Take into `shadow` what the run was given behind `position`."""
    run = past.run.id
    (known,) = db.execute(_KNOWN, (run, position)).fetchone()
    if known is None:  # it began meanwhile
        shadow.put(rows_of(db, past, fold(db, past).values()))
        return
    changed: dict[str, Entry | None] = {}
    for key, recorded in changes(db, Segment(run, known, NEWEST_REVISION)):
        before = changed[key] if key in changed else _entry(db, past, key, shadow)
        changed[key] = evolve(before, recorded)
    shadow.put(rows_of(db, past, [entry for entry in changed.values() if entry is not None]))
    for key in [key for key, entry in changed.items() if entry is None]:
        ident = name_id(db, past.run.family, key)
        if ident is not None:
            shadow.take_out(run, ident)


def _entry(db: Connection, past: Lineage, key: str, shadow: _Shadow) -> Entry | None:
    """What `shadow` has for a key."""
    ident = name_id(db, past.run.family, key)
    row = None if ident is None else shadow.row(past.run.id, ident)
    if row is None:
        return None
    version, content, birth, created_at, expires_at_turn = row
    (revision,) = db.execute(_REVISION, (content,)).fetchone()
    return Entry(key, version, revision, birth, created_at, expires_at_turn)
