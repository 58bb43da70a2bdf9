"""Binary search through the states of a run that somebody saw."""

from __future__ import annotations

from collections.abc import Callable

from ..eventlog import Entry, EventLog
from ..eventlog.driver import Connection
from ..eventlog.history import entry_at
from ..eventlog.runs import Lineage, read_head
from .address import Point
from .visits import turned_below

__all__ = ["batch_end", "ends_beside", "first_batch_end", "first_sight"]

_NEXT_BATCH = "select min(revision) from events where run = ? and revision > ? and batch = 0"
_AT = "select position, turn, batch from events where run = ? and revision = ?"


def first_batch_end(log: EventLog, lineage: Lineage, holds: Callable[[Point], bool]) -> Point | None:
    """The first batch end at which `holds`, if it holds from some point on until now; None if not now.

    Asks once for each binary digit of the number of events.
    """
    with log.reading() as db:
        head = read_head(db, lineage.run.id)
    newest = Point(head.revision, head.position, head.turn)
    if not holds(newest):
        return None
    answer = newest
    low, high = 1, head.revision
    while low < high:
        with log.reading() as db:
            start, end = _batch_around(db, lineage, (low + high) // 2, head.revision)
        if holds(end):
            answer, high = end, start
        else:
            low = end.revision + 1
    return answer


def batch_end(db: Connection, lineage: Lineage, revision: int) -> Point:
    """The end of the batch that holds `revision`: the first state anybody saw with it."""
    return _batch_around(db, lineage, revision, read_head(db, lineage.run.id).revision)[1]


def ends_beside(db: Connection, lineage: Lineage, revision: int) -> tuple[int, int]:
    """Positions of the ends of the batch before the one that holds `revision`, and of that one."""
    first, end = _batch_around(db, lineage, revision, read_head(db, lineage.run.id).revision)
    before = lineage.upto(first - 1)[:1]
    return next((db.execute(_AT, (each.run, first - 1)).fetchone()[0] for each in before), 0), end.position


def first_sight(db: Connection, lineage: Lineage, entry: Entry, end: Point) -> Point | None:
    """The first batch end from `end` on at which `entry` had not expired; None if there was none.

    `end` must be a batch end at which its key holds `entry`. What had expired is seen again once the turn is
    set back, if the key still holds it then.
    """
    expiry = entry.expires_at_turn
    if expiry is None or end.turn < expiry:
        return end
    for mark in turned_below(db, lineage, expiry, end.revision):
        later = batch_end(db, lineage, mark)
        if entry_at(db, lineage, entry.key, later.revision) != entry:
            return None
        if later.turn < expiry:
            return later
    return None


def _batch_around(db: Connection, lineage: Lineage, revision: int, newest: int) -> tuple[int, Point]:
    """First revision and end of the batch that holds `revision`."""
    run, _, upto = lineage.upto(revision)[0]._replace(upto=_segment_end(lineage, revision, newest))
    following = db.execute(_NEXT_BATCH, (run, revision)).fetchone()[0]
    last = upto if following is None else min(upto, following - 1)
    position, turn, offset = db.execute(_AT, (run, last)).fetchone()
    return last - offset, Point(last, position, turn)


def _segment_end(lineage: Lineage, revision: int, newest: int) -> int:
    """The last revision of the lineage's stretch that holds `revision`."""
    return next(min(upto, newest) for _, after, upto in lineage.segments if after < revision)
