"""The visits of a run: the stretches between two turn marks, across its ancestors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ..eventlog.driver import Connection
from ..eventlog.events import moment
from ..eventlog.runs import Head, Lineage
from ..eventlog.schema import TURN_MARKS

__all__ = ["Visit", "read_visits", "turned_below", "visit_end", "visit_marks"]

_MARKS = f"""
select revision, turn from events where run = ? and revision > ? and revision <= ? and {TURN_MARKS}
order by revision
"""  # noqa: S608 - constants only
_MARKS_OF_TURN = f"""
select revision from events where run = ? and turn = ? and revision > ? and revision <= ? and {TURN_MARKS}
order by revision
"""  # noqa: S608 - constants only
_LATEST_OF_TURN = f"""
select revision from events where run = ? and turn = ? and revision > ? and revision <= ? and {TURN_MARKS}
order by revision desc limit 1
"""  # noqa: S608 - constants only
_MARKS_BELOW = f"""
select revision from events
where run = ? and revision > ? and revision <= ? and +turn < ? and {TURN_MARKS}
order by revision
"""  # noqa: S608 - constants only
_NEXT_MARK = f"""
select min(revision) from events where run = ? and revision > ? and revision <= ? and {TURN_MARKS}
"""  # noqa: S608 - constants only
_EMPTY: tuple[tuple[int, datetime | None], tuple[int, datetime | None]] = ((0, None), (0, None))
_PLACE = "select position, recorded_at from events where run = ? and revision = ?"


@dataclass(frozen=True, slots=True)
class Visit:
    """A stretch of a run spent at one turn.

    Attributes:
        turn: the turn.
        visit: 1 for the run's first visit to it, 2 for the second (after a restore), …
        first_revision, last_revision: its events; `last_revision < first_revision` where it has none.
        first_position, last_position: the same as positions; 0 where it has none.
        began_at, ended_at: when its first and last event were recorded, aware UTC; None where it has none.
    """

    turn: int
    visit: int
    first_revision: int
    last_revision: int
    first_position: int
    last_position: int
    began_at: datetime | None
    ended_at: datetime | None

    @property
    def events(self) -> int:
        """How many events were recorded in it."""
        return self.last_revision - self.first_revision + 1

    @property
    def address(self) -> str:
        """The address that reads the end of this visit: `TURN.VISIT`."""
        return f"{self.turn}.{self.visit}"


def read_visits(db: Connection, lineage: Lineage, head: Head) -> list[Visit]:
    """Every visit of the run up to `head`, oldest first, those it inherited included."""
    marks = list(_all_marks(db, lineage, head))
    ends = [mark - 1 for mark, _ in marks[1:]] + [head.revision]
    counts: Counter[int] = Counter()
    visits: list[Visit] = []
    for (mark, turn), last in zip(marks, ends, strict=True):
        first = max(mark, 1)
        counts[turn] += 1
        opened, closed = (_place(db, lineage, first), _place(db, lineage, last)) if last >= first else _EMPTY
        visits.append(Visit(turn, counts[turn], first, last, opened[0], closed[0], opened[1], closed[1]))
    return visits


def visit_marks(
    db: Connection, lineage: Lineage, head: Head, turn: int, *, latest: bool = False
) -> list[int]:
    """The revision of the mark that began each visit to `turn` up to `head`, oldest first.

    A run begins at turn 0 without a mark; revision 0 stands for it. With `latest`, only the latest visit.
    """
    query = _LATEST_OF_TURN if latest else _MARKS_OF_TURN
    found: list[int] = []
    for run, after, upto in lineage.upto(head.revision):  # newest first
        found[:0] = [revision for (revision,) in db.execute(query, (run, turn, after, upto)).fetchall()]
        if latest and found:
            return found
    return [0, *found] if turn == 0 else found


def visit_end(db: Connection, lineage: Lineage, mark: int, head: Head) -> int:
    """The last revision of the visit that `mark` began; before `mark` if the visit saw no event."""
    for run, _, upto in reversed(lineage.upto(head.revision)):
        if mark <= upto:
            (following,) = db.execute(_NEXT_MARK, (run, mark, upto)).fetchone()
            # A segment that ends is followed by a fork's first event, which is a mark.
            return upto if following is None else following - 1
    return head.revision


def turned_below(db: Connection, lineage: Lineage, turn: int, after: int) -> Iterator[int]:
    """The revision of each mark after revision `after` that led to a turn below `turn`, oldest first."""
    for run, first, upto in reversed(lineage.segments):
        if upto > after:
            marks = db.execute(_MARKS_BELOW, (run, max(first, after), upto, turn)).fetchall()
            yield from (revision for (revision,) in marks)


def _all_marks(db: Connection, lineage: Lineage, head: Head) -> Iterator[tuple[int, int]]:
    """Revision and turn of the mark of every visit up to `head`, oldest first."""
    yield 0, 0
    for segment in reversed(lineage.upto(head.revision)):
        yield from db.execute(_MARKS, segment).fetchall()


def _place(db: Connection, lineage: Lineage, revision: int) -> tuple[int, datetime | None]:
    for segment in lineage.upto(revision)[:1]:
        position, recorded_at = db.execute(_PLACE, (segment.run, revision)).fetchone()
        return position, moment(recorded_at)
    return 0, None
