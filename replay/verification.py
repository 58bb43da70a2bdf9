"""`verify`: is this file whole, and does its live table say what its log says?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..eventlog import Corrupt, EventLog
from ..eventlog.driver import Connection, driver
from ..eventlog.integrity import Problem, check_log
from ..eventlog.runs import read_head, run_at
from ..projections import first_difference

# Versions 1 and 2 of the table, which differ in a view only, are what `first_difference` knows.
_IN_STEP = "select 1 from projections where name = 'entries' and version in (1, 2) and stale_from is null"
_HAS_ENTRIES = "select 1 from pragma_table_list where schema = 'main' and name = 'entries' and strict"
_DAMAGE = (1, 11, 25, 26)  # SQLite: error (a table or column is missing), corrupt, range, not a database

__all__ = ["Problem", "RunHead", "Verification", "verify"]


@dataclass(frozen=True, slots=True)
class RunHead:
    """Where a run stood when it was checked. Kept elsewhere, it shows later that a file was cut or remade."""

    run: str
    uid: str
    revision: int
    turn: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check found.

    Attributes:
        events: how many events there are.
        heads: the newest event of each run.
        problems: what is wrong; empty if all is well.
    """

    events: int
    heads: list[RunHead]
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(log: EventLog, *, progress: Callable[[int], None] | None = None) -> Verification:
    """Check a log: SQLite's own integrity, every hash from genesis, commitments, references, the live table.

    Reads one moment of the file, whatever is written meanwhile. However damaged the file is, what is wrong
    with it ends up in `Verification.problems`.

    Args:
        log: an open log.
        progress: called now and then with the number of events checked so far.

    Raises:
        Closed: the log was closed.
        Busy, StorageError: the file cannot be read now.
    """
    with log.reading() as db:
        db.execute("begin")
        problems: list[Problem] = []
        events, heads = 0, list[RunHead]()
        try:
            problems += _damage(db)
            if not problems:
                problems += check_log(db, progress)
                problems += [] if problems else _difference(db)
                (events,) = db.execute("select count(*) from events").fetchone()
            # Heads of a log that is not in order could not be read, and would say nothing.
            heads = [] if problems else _heads(db)
        except (Corrupt, driver().Error) as error:
            if not _tells_of_damage(error):
                raise
            problems.append(Problem(f"the file cannot be read to its end: {error}"))
        finally:
            db.execute("rollback")
    return Verification(events, heads, problems)


def _damage(db: Connection) -> list[Problem]:
    """What is wrong below the tables."""
    lines = [line for (line,) in db.execute("pragma integrity_check(10)").fetchall()]
    return [] if lines == ["ok"] else [Problem(f"SQLite's integrity check: {lines[0]}")]


def _difference(db: Connection) -> list[Problem]:
    """What the live table, if it is said to be in step, has otherwise than the log."""
    if db.execute(_IN_STEP).fetchone() is None:
        return []  # there is no table, or the file itself says that it is behind
    if db.execute(_HAS_ENTRIES).fetchone() is None:
        return [Problem("the table entries is missing or not STRICT")]
    try:
        found = first_difference(db)
    except Corrupt as error:
        return [Problem(str(error))]
    if found is None:
        return []
    table, log = found.table or "nothing", found.log or "nothing"
    what = f"key {found.key!r}: the table entries has {table}, the log says {log}"
    return [Problem(what, run=found.run)]


def _tells_of_damage(error: Exception) -> bool:
    """Whether it is about what is in the file: not about a lock, the disk, or the like."""
    if isinstance(error, Corrupt):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGE


def _heads(db: Connection) -> list[RunHead]:
    heads: list[RunHead] = []
    for (ident,) in db.execute("select id from runs order by id").fetchall():
        run, head = run_at(db, ident), read_head(db, ident)
        heads.append(RunHead(run.name, run.uid, head.revision, head.turn, head.hash))
    return heads
