"""Addresses of the past: one grammar for the API and the command line.

3                   the end of the latest visit to turn 3
3.1                 the end of the first visit to turn 3 (a restore can lead back to a turn)
@120                the state right after position 120 of the file
head                now
2026-11-30T02:13Z   after the newest event recorded at or before that time
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..eventlog import BadAddress
from ..eventlog.driver import Connection
from ..eventlog.limits import MAX_TURN
from ..eventlog.runs import Head, Lineage, read_head, revision_upto
from .cli_text import iso_time
from .visits import read_visits, visit_end, visit_marks

__all__ = ["Point", "locate", "resolve"]

_TURN = re.compile(r"(\d{1,40})(?:\.(\d{1,40}))?", re.ASCII)
_POSITION = re.compile(r"@(\d{1,40})", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT.*", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_FORMS = "a turn (3), a visit (3.1), a position (@120), head, or a UTC time (2026-11-30T02:13Z)"

_AT_REVISION = "select position, turn from events where run = ? and revision = ?"
_AT_POSITION = "select run, revision from events where position = ?"
_GOES_ON = "select 1 from events where run = ? and revision = ? and batch > 0"
_NEWEST_BY = """
select revision from events where run = ? and revision > ? and revision <= ? and recorded_at <= ?
order by revision desc limit 1
"""
_LAST_POSITION = "select coalesce(max(position), 0) from events"


@dataclass(frozen=True, slots=True)
class Point:
    """A point in the past of a run: right after one of its events.

    Attributes:
        revision: that event's place in the run's lineage; 0 is the empty beginning.
        position: its place in the file; 0 at the beginning.
        turn: the turn at which expiry is judged.
        inside_batch: more events of the same batch follow, so nobody ever saw this state.
    """

    revision: int
    position: int
    turn: int
    inside_batch: bool = False

    def __str__(self) -> str:
        """For people."""
        inside = ", inside a batch" if self.inside_batch else ""
        return f"turn {self.turn}, position {self.position}{inside}"


def resolve(db: Connection, lineage: Lineage, address: str) -> Point:
    """The point that `address` means in the run.

    Raises:
        TypeError: it is not a str.
        BadAddress: it cannot be read, or the run never was there; says what can be.
    """
    found = _find(db, lineage, address)
    return found if isinstance(found, Point) else _point(db, lineage, *found)


def locate(db: Connection, lineage: Lineage, address: str) -> tuple[int, int]:
    """Revision and turn of `resolve`, found with less work where the rest of the point is not asked for."""
    found = _find(db, lineage, address)
    return (found.revision, found.turn) if isinstance(found, Point) else found


def _find(db: Connection, lineage: Lineage, address: str) -> Point | tuple[int, int]:
    if type(address) is not str:
        raise TypeError(f"an address must be a str, not {type(address).__name__}: {_FORMS}")
    head = read_head(db, lineage.run.id)
    if address == "head":
        return Point(head.revision, head.position, head.turn)
    if match := _TURN.fullmatch(address):
        visit = None if match[2] is None else int(match[2])
        turn = int(match[1])
        return _end_of_turn(db, lineage, head, turn, visit), turn
    if match := _POSITION.fullmatch(address):
        return _position(db, lineage, head, int(match[1]))
    if _TIME.fullmatch(address):
        return _time(db, lineage, head, address)
    raise BadAddress(f"{address!r:.80} is no address; give {_FORMS}")


def _end_of_turn(db: Connection, lineage: Lineage, head: Head, turn: int, visit: int | None) -> int:
    marks = visit_marks(db, lineage, head, turn, latest=visit is None) if turn <= MAX_TURN else []
    if not marks:
        raise BadAddress(
            f"run {lineage.run.name!r} never was at turn {turn}; it visited {_visited(db, lineage, head)}"
        )
    if visit is not None and not 1 <= visit <= len(marks):
        raise BadAddress(
            f"run {lineage.run.name!r} has no visit {turn}.{visit}; it was at turn {turn} "
            f"{len(marks)} time{'s' if len(marks) != 1 else ''}, the first is {turn}.1"
        )
    return visit_end(db, lineage, marks[-1] if visit is None else marks[visit - 1], head)


def _position(db: Connection, lineage: Lineage, head: Head, position: int) -> Point:
    if position > head.position:
        (last,) = db.execute(_LAST_POSITION).fetchone()
        if position > last:
            raise BadAddress(f"position {position} lies ahead: the newest event of the file is at {last}")
        return Point(head.revision, head.position, head.turn)
    return _point(db, lineage, _revision_upto(db, lineage, head, position))


def _time(db: Connection, lineage: Lineage, head: Head, address: str) -> Point:
    try:
        when = datetime.fromisoformat(address)
    except ValueError as error:
        raise BadAddress(f"{address!r:.80} is no time: {error}; write it like 2026-11-30T02:13Z") from error
    if when.tzinfo is None:
        raise BadAddress(f"{address!r} names no zone; for UTC write {address}Z")
    # In whole numbers, since a float could miss an event stamped at this very millisecond.
    milliseconds = (when - _EPOCH) // timedelta(milliseconds=1)
    for run, after, upto in lineage.segments:
        row = db.execute(_NEWEST_BY, (run, after, min(upto, head.revision), milliseconds)).fetchone()
        if row is not None:
            return _point(db, lineage, row[0])
    first = read_visits(db, lineage, head)
    begun = next((visit.began_at for visit in first if visit.began_at is not None), None)
    first_at = "never" if begun is None else f"at {iso_time(begun)}"
    raise BadAddress(f"run {lineage.run.name!r} had no event at {address}; its first was recorded {first_at}")


def _revision_upto(db: Connection, lineage: Lineage, head: Head, position: int) -> int:
    """The newest revision of the lineage at or before `position`; 0 if there is none."""
    exact = db.execute(_AT_POSITION, (position,)).fetchone()
    for segment in lineage.upto(head.revision):
        run, after, upto = segment
        if exact is not None and exact[0] == run and after < exact[1] <= upto:
            return exact[1]
        found = revision_upto(db, segment, position)
        if found > after:
            return found
    return 0


def _point(db: Connection, lineage: Lineage, revision: int, turn: int | None = None) -> Point:
    for run, after, upto in lineage.segments:
        if not after < revision <= upto:
            continue
        position, at_turn = db.execute(_AT_REVISION, (run, revision)).fetchone()
        # Where a fork left its parent in the middle of a batch, everybody saw this state: in the fork.
        goes_on = revision < upto and db.execute(_GOES_ON, (run, revision + 1)).fetchone() is not None
        return Point(revision, position, at_turn if turn is None else turn, goes_on)
    return Point(0, 0, 0 if turn is None else turn)


def _visited(db: Connection, lineage: Lineage, head: Head) -> str:
    """The turns a run visited, as ranges."""
    turns = sorted({visit.turn for visit in read_visits(db, lineage, head)})
    ranges: list[list[int]] = []
    for turn in turns:
        if ranges and ranges[-1][1] == turn - 1:
            ranges[-1][1] = turn
        else:
            ranges.append([turn, turn])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return ", ".join(shown[:50]) + (", …" if len(shown) > 50 else "")
