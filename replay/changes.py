"""Which keys changed, and the events of one key: what `Timeline` asks of the indexes."""

from __future__ import annotations

from collections.abc import Iterator

from ..eventlog import EventLog, NotFound, Recorded
from ..eventlog.codec import ENTRY_DELETED, SELECT_RECORDED, decode
from ..eventlog.driver import Connection
from ..eventlog.history import newest_changes
from ..eventlog.runs import NEWEST_REVISION, Lineage, Segment, name_id
from ..eventlog.schema import CHANGES, REDACTIONS, REFUSALS, shown_name
from ..eventlog.text import read_text
from .address import Point

__all__ = ["changed_keys", "filled_at", "has_key", "key_events", "known_keys", "read_recorded"]

_PAGE = 512

# `indexed by`, because where revisions are bounded on both sides SQLite prefers the index of all revisions,
# and reads the whole run.
_KEY_EVENTS = """
{select} where e.position in (
    select position from (
        select position, revision from events indexed by events_changes
        where run = :run and key = :key and revision > :after and revision <= :upto and {changes}
        union all
        select position, revision from events indexed by events_refusals
        where run = :run and key = :key and revision > :after and revision <= :upto and {refusals}
        {redactions}
        order by revision {direction} limit :limit
    )
)
order by e.position {direction}
"""
_KEY_REDACTIONS = f"""
        union all
        select position, revision from events indexed by events_redactions
        where run = :run and key = :key and revision > :after and revision <= :upto and {REDACTIONS}
"""  # noqa: S608 - constants only
# By whether the file's format knows redactions, and the direction.
_QUERIES = {
    (redactions, direction): _KEY_EVENTS.format(
        select=SELECT_RECORDED,
        changes=CHANGES,
        refusals=REFUSALS,
        redactions=_KEY_REDACTIONS if redactions else "",
        direction=direction,
    )
    for redactions in (True, False)
    for direction in ("asc", "desc")
}
_FILLED = f"""
select revision from events indexed by events_changes
where run = ? and key = ? and revision > ? and revision <= ? and type <> {ENTRY_DELETED} and {CHANGES}
order by revision limit {_PAGE}
"""  # noqa: S608 - constants only
_HAD = f"""
select exists (select 1 from events where run = :run and key = :key and revision <= :upto and {CHANGES})
    or exists (select 1 from events where run = :run and key = :key and revision <= :upto and {REFUSALS})
"""  # noqa: S608 - constants only

_WIDE = 12
"""From so many events between two points, for each name of the file, whole states are compared instead."""

_NAMES = "select max(id) from names"
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
select {shown_name("names")} from keys join names on names.id = keys.key
where exists (select 1 from events where run = :run and key = keys.key and revision <= :upto and {CHANGES})
limit :limit
"""  # noqa: S608 - constants only


def changed_keys(db: Connection, lineage: Lineage, one: Point, other: Point) -> set[int]:
    """Keys that may differ between two points, as numbers: changed, or expiring at a turn, in between."""
    first, last = sorted((one.revision, other.revision))
    early, late = sorted((one.turn, other.turn))
    wide = last - first > _WIDE * db.execute(_NAMES).fetchone()[0]
    found = _differing(db, lineage, first, last) if wide else set[int]()
    for run, after, upto in lineage.upto(last):
        if upto > first and not wide:
            found.update(key for (key,) in db.execute(_CHANGED, (run, max(after, first), upto)).fetchall())
        if late > early:
            found.update(key for (key,) in db.execute(_EXPIRED, (run, early, late, upto)).fetchall())
    return found


def _differing(db: Connection, lineage: Lineage, first: int, last: int) -> set[int]:
    """Keys whose newest change is not the same at two revisions, by the index of changes."""
    then, now = (newest_changes(db, lineage, revision) for revision in (first, last))
    return {key for key, position in now.items() if then.get(key) != position}


def key_events(
    log: EventLog, lineage: Lineage, key: str, *, reverse: bool = False, limit: int | None = None
) -> Iterator[Recorded]:
    """Every change, refusal and redaction of `key` in the run and its ancestors, in order, page by page."""
    with log.reading() as db:
        ident = name_id(db, lineage.run.family, key)
    if ident is None:
        return
    left = NEWEST_REVISION if limit is None else limit
    for segment in lineage.segments if reverse else reversed(lineage.segments):
        for page in _pages(log, segment, ident, min(_PAGE, left), reverse=reverse):
            yield from page[:left]
            left -= len(page)
            if left <= 0:
                return


def filled_at(log: EventLog, lineage: Lineage, key: str) -> Iterator[int]:
    """The revisions at which `key` was written or restored, oldest first; refusals are not even read."""
    with log.reading() as db:
        ident = name_id(db, lineage.run.family, key)
    for run, first, upto in reversed(lineage.segments):
        after = first
        while True:
            with log.reading() as db:
                rows = db.execute(_FILLED, (run, ident, after, upto)).fetchall()
            yield from (revision for (revision,) in rows)
            if len(rows) < _PAGE:
                break
            after = rows[-1][0]


def has_key(db: Connection, lineage: Lineage, key: str) -> bool:
    """Whether the run or its ancestors ever changed `key`, or refused to."""
    ident = name_id(db, lineage.run.family, key)
    return ident is not None and any(
        db.execute(_HAD, {"run": run, "key": ident, "upto": upto}).fetchone()[0]
        for run, _, upto in lineage.segments
    )


def known_keys(db: Connection, lineage: Lineage, limit: int) -> list[str]:
    """Keys that the run or its ancestors ever changed, at most `limit`."""
    keys: set[str] = set()
    for run, _, upto in lineage.segments:
        bounds = {"run": run, "upto": upto, "limit": max(limit - len(keys), 0)}
        keys.update(read_text(name) for (name,) in db.execute(_KEYS, bounds).fetchall())
    return sorted(keys)


def read_recorded(db: Connection, lineage: Lineage, revision: int) -> Recorded:
    """The event at `revision` of the lineage.

    Raises:
        NotFound: there is none.
    """
    for segment in lineage.upto(min(revision, NEWEST_REVISION))[:1]:
        row = db.execute(
            f"{SELECT_RECORDED} where e.run = ? and e.revision = ?",
            (segment.run, min(revision, NEWEST_REVISION)),
        ).fetchone()
        if row is not None:
            return decode(row)
    raise NotFound(f"run {lineage.run.name!r} has no revision {revision}")


def _pages(
    log: EventLog, segment: Segment, key: int, size: int, *, reverse: bool
) -> Iterator[list[Recorded]]:
    """The segment's events of the key in order, at most `size` at a time."""
    run, after, upto = segment
    while True:
        bounds = {"run": run, "key": key, "after": after, "upto": upto, "limit": size}
        with log.reading() as db:
            (version,) = db.execute("pragma user_version").fetchone()
            query = _QUERIES[version >= 2, "desc" if reverse else "asc"]
            rows = db.execute(query, bounds).fetchall()
        yield [decode(row) for row in rows]
        if len(rows) < size:
            return
        if reverse:
            upto = rows[-1][2] - 1
        else:
            after = rows[-1][2]
