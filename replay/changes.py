"""Which keys changed, and the events of one key: what `Timeline` asks of the indexes."""

from __future__ import annotations

from collections.abc import Iterator

from ..eventlog import EventLog, NotFound, Recorded
from ..eventlog.codec import SELECT_RECORDED, decode
from ..eventlog.driver import Connection
from ..eventlog.runs import Lineage, Segment, name_id
from ..eventlog.schema import CHANGES, REFUSALS
from ..eventlog.text import read_text
from .address import Point

__all__ = ["changed_keys", "key_events", "known_keys", "read_recorded"]

_PAGE = 512

_KEY_EVENTS = """
{select} where e.position in (
    select position from (
        select position, revision from events
        where run = :run and key = :key and revision > :after and revision <= :upto and {changes}
        union all
        select position, revision from events
        where run = :run and key = :key and revision > :after and revision <= :upto and {refusals}
        order by revision {direction} limit :limit
    )
)
order by e.position {direction}
"""
_ASCENDING, _DESCENDING = (
    _KEY_EVENTS.format(select=SELECT_RECORDED, changes=CHANGES, refusals=REFUSALS, direction=direction)
    for direction in ("asc", "desc")
)

_CHANGED = f"""
select distinct key from events
where run = ? and revision > ? and revision <= ? and +key is not null and {CHANGES}
"""  # noqa: S608 - constants only
_EXPIRED = """
select distinct key from events
where run = ? and expires_at_turn > ? and expires_at_turn <= ? and revision <= ?
    and expires_at_turn is not null
"""
_KEYS = f"""
with recursive keys (key) as (
    select min(key) from events where run = :run and {CHANGES}
    union all
    select (select min(key) from events where run = :run and key > keys.key and {CHANGES})
    from keys where keys.key is not null
)
select names.text from keys join names on names.id = keys.key
"""  # noqa: S608 - constants only
_NAME_TEXT = "select text from names where id = ?"


def changed_keys(db: Connection, lineage: Lineage, one: Point, other: Point) -> set[str]:
    """The keys that may differ between two points: changed in between, or expiring at a turn in between."""
    first, last = sorted((one.revision, other.revision))
    early, late = sorted((one.turn, other.turn))
    found: set[int] = set()
    for run, after, upto in lineage.upto(last):
        if upto > first:
            found.update(key for (key,) in db.execute(_CHANGED, (run, max(after, first), upto)).fetchall())
        if late > early:
            found.update(key for (key,) in db.execute(_EXPIRED, (run, early, late, upto)).fetchall())
    return {read_text(db.execute(_NAME_TEXT, (key,)).fetchone()[0]) for key in found}


def key_events(
    log: EventLog, lineage: Lineage, key: str, *, reverse: bool = False, limit: int | None = None
) -> Iterator[Recorded]:
    """Every change and refusal of `key` in the run and its ancestors, in order, a page at a time."""
    with log.reading() as db:
        ident = name_id(db, lineage.run.family, key)
    if ident is None:
        return
    segments = lineage.segments if reverse else tuple(reversed(lineage.segments))
    left = limit
    for segment in segments:
        for recorded in _segment_events(log, segment, ident, reverse=reverse):
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            yield recorded


def known_keys(db: Connection, lineage: Lineage) -> list[str]:
    """Every key the run or its ancestors ever changed."""
    keys: set[str] = set()
    for segment in lineage.segments:
        keys.update(read_text(name) for (name,) in db.execute(_KEYS, {"run": segment.run}).fetchall())
    return sorted(keys)


def read_recorded(db: Connection, lineage: Lineage, revision: int) -> Recorded:
    """The event at `revision` of the lineage.

    Raises:
        NotFound: there is none.
    """
    for segment in lineage.upto(revision)[:1]:
        row = db.execute(
            f"{SELECT_RECORDED} where e.run = ? and e.revision = ?", (segment.run, revision)
        ).fetchone()
        if row is not None:
            return decode(row)
    raise NotFound(f"run {lineage.run.name!r} has no revision {revision}")


def _segment_events(log: EventLog, segment: Segment, key: int, *, reverse: bool) -> Iterator[Recorded]:
    after, upto = segment.after, segment.upto
    while True:
        bounds = {"run": segment.run, "key": key, "after": after, "upto": upto, "limit": _PAGE}
        with log.reading() as db:
            rows = db.execute(_DESCENDING if reverse else _ASCENDING, bounds).fetchall()
        for row in rows:
            yield decode(row)
        if len(rows) < _PAGE:
            return
        if reverse:
            upto = rows[-1][2] - 1
        else:
            after = rows[-1][2]
