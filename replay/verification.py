"""`verify`: is this file whole, does its live table agree with its log, and its log with an anchor?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..eventlog import BadAnchor, Corrupt, EventLog
from ..eventlog.driver import Connection, driver
from ..eventlog.integrity import Problem, check_log, count_erased
from ..eventlog.runs import read_head, run_at
from ..eventlog.schema_check import declared, differences, expected_schema
from ..projections import EntriesProjection, first_difference
from .anchoring import read_anchor, standing
from .anchors import Anchor, contradictions

_VERSION = "select user_version from pragma_user_version"
# Versions 1 and 2 of the table differ in a view only.
_COMPARABLE = "select 1 from projections where name = 'entries' and version in (1, 2) and stale_from is null"
_DAMAGE = (1, 11, 25, 26)  # SQLite: error (a table or column is missing), corrupt, range, not a database

__all__ = ["Problem", "RunHead", "Verification", "check_file", "schema_problems", "verify"]


@dataclass(frozen=True, slots=True)
class RunHead:
    """Where a run stood when it was checked."""

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
        problems: what is wrong, that at the lowest position first; empty if all is well.
        anchor: the anchor that the log was held against, if it was.
        redacted: how many events have lost their text to a redaction, as is right.
    """

    events: int
    heads: list[RunHead]
    problems: list[Problem]
    anchor: Anchor | None = None
    redacted: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(
    log: EventLog,
    *,
    anchor: str | os.PathLike[str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Verification:
    """Check a log: SQLite's own integrity, every hash from genesis, commitments, references, the live table.

    Reads one moment of the file, whatever is written meanwhile. However damaged the file is, what is wrong
    with it ends up in `Verification.problems`.

    Args:
        log: an open log.
        anchor: a file that `anchor` has appended to. With it are noticed as well, of what was there when it
            was anchored: an end that was cut off, runs that were made anew, an older copy of the log put in
            its place, and events of different runs that changed places. A damaged anchor file, and one of
            another log, is a problem too.
        progress: called now and then with the number of events checked so far.

    Raises:
        Closed: the log was closed.
        Busy, StorageError: the file, or that of the anchor, cannot be read now.
    """
    expected, problems = None, list[Problem]()
    if anchor is not None:
        # Before the log is looked at: what is anchored meanwhile would be ahead of what is seen here.
        try:
            expected = read_anchor(anchor, busy_timeout_s=log.busy_timeout_s)
        except BadAnchor as error:
            problems.append(Problem(str(error)))
    with log.reading() as db:
        db.execute("begin")
        try:
            found = check_file(db, expected, progress)
        finally:
            db.execute("rollback")
    return replace(found, problems=problems + found.problems)


def check_file(
    db: Connection, expected: Anchor | None = None, progress: Callable[[int], None] | None = None
) -> Verification:
    """`verify`, of what a connection sees; inside a transaction, unless nobody writes."""
    problems: list[Problem] = []
    events, redacted, heads = 0, 0, list[RunHead]()
    try:
        problems += _damage(db)
        if not problems:
            problems += schema_problems(db)
            wrong = list(check_log(db, progress))
            problems += wrong
            problems += [] if wrong else _difference(db)
            (events,) = db.execute("select count(*) from events").fetchone()
            redacted = count_erased(db)
            problems += [] if expected is None else contradictions(expected, standing(db, expected))
        # Heads of a log that is not in order could not be read, and would say nothing.
        heads = [] if problems else _heads(db)
    except (Corrupt, driver().Error) as error:
        if not _tells_of_damage(error):
            raise
        problems.append(Problem(f"the file cannot be read to its end: {error}"))
    problems.sort(key=lambda problem: problem.position or 0)
    return Verification(events, heads, problems, expected, redacted)


def schema_problems(db: Connection) -> Iterator[Problem]:
    """Tables, indexes, guards and views that are missing or not as this build declares them."""
    projection = EntriesProjection()
    expected = expected_schema(db.execute(_VERSION).fetchone()[0])
    if projection.is_in_step(db):  # else it is made anew, whatever it is now
        expected += projection.schema()
    yield from map(Problem, differences(declared(db), expected))


def _damage(db: Connection) -> list[Problem]:
    """What is wrong below the tables."""
    lines = [line for (line,) in db.execute("pragma integrity_check(10)").fetchall()]
    return [] if lines == ["ok"] else [Problem(f"SQLite's integrity check: {lines[0]}")]


def _difference(db: Connection) -> list[Problem]:
    """What the live table, if it is said to be in step, has otherwise than the log."""
    projection = EntriesProjection()
    if db.execute(_COMPARABLE).fetchone() is None or not projection.is_readable(db):
        return []  # the file says itself that it is behind; or it is no such table, which has been told
    try:
        found = first_difference(db)
    except Corrupt as error:
        return [Problem(str(error))]
    if found is None:
        return []
    table, log = found.table or "nothing", found.log or "nothing"
    what = f"key {found.key!r}: the table entries has {table}, the log says {log}; `turnlog rebuild` mends it"
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
