"""`verify`: is this file whole, and does its live table say what its log says?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..eventlog import Corrupt, EventLog
from ..eventlog.driver import Connection
from ..eventlog.integrity import Problem, check_log
from ..eventlog.runs import read_head, run_at
from ..projections import first_difference

_IN_STEP = "select 1 from projections where name = 'entries' and stale_from is null"

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

    Reads one moment of the file, whatever is written meanwhile.

    Args:
        log: an open log.
        progress: called now and then with the number of events checked so far.
    """
    with log.reading() as db:
        db.execute("begin")
        try:
            problems = list(_problems(db, progress))
            (events,) = db.execute("select count(*) from events").fetchone()
            # Heads of a log that is not in order could not be read, and would say nothing.
            heads = [] if problems else _heads(db)
        finally:
            db.execute("rollback")
    return Verification(events, heads, problems)


def _problems(db: Connection, progress: Callable[[int], None] | None) -> Iterator[Problem]:
    for (line,) in db.execute("pragma integrity_check(10)").fetchall():
        if line != "ok":
            yield Problem(f"SQLite's integrity check: {line}")
            return
    found = False
    for problem in check_log(db, progress):
        found = True
        yield problem
    if found:
        return  # a fold of a log that is not in order says nothing about the table
    if db.execute(_IN_STEP).fetchone() is None:
        return  # there is no table of entries, or the file itself says that it is behind
    try:
        difference = first_difference(db)
    except Corrupt as error:
        yield Problem(str(error))
        return
    if difference is not None:
        yield Problem(str(difference), run=difference.run)


def _heads(db: Connection) -> list[RunHead]:
    heads: list[RunHead] = []
    for (ident,) in db.execute("select id from runs order by id").fetchall():
        run, head = run_at(db, ident), read_head(db, ident)
        heads.append(RunHead(run.name, run.uid, head.revision, head.turn, head.hash))
    return heads
