"""The past of a run, read through the history index: no fold, and no cost for the length of the log.

The newest change of a key at or before a point tells the key's whole state at that point, so one key costs
one index seek per ancestor, and the whole state one seek per key that ever existed. `evolve` is the other,
independent way to the same answers; tests hold the two equal.
"""

from __future__ import annotations

from typing import Any

from .codec import ENTRY_DELETED
from .driver import Connection
from .entry import Content, Entry
from .errors import Corrupt
from .runs import Lineage, name_id
from .schema import CHANGES
from .text import read_text

__all__ = ["content_at", "entries_at", "entry_at", "event_position"]

_STATE = "position, revision, type, content, birth, created_at, expires_at_turn, recorded_at"

_NEWEST_CHANGE = f"""
select {_STATE} from events
where run = ? and key = ? and revision <= ? and {CHANGES}
order by revision desc limit 1
"""  # noqa: S608 - constants only

# A loose index scan: one seek finds the next key, a second one its newest change.
_NEWEST_CHANGES = f"""
with recursive keys (key) as (
    select min(key) from events where run = :run and {CHANGES}
    union all
    select (select min(key) from events where run = :run and key > keys.key and {CHANGES})
    from keys where keys.key is not null
)
select names.text, e.position, e.revision, e.type, e.content, e.birth, e.created_at, e.expires_at_turn,
    e.recorded_at
from keys
join names on names.id = keys.key
join events e on e.position = (
    select position from events
    where run = :run and key = keys.key and revision <= :revision and {CHANGES}
    order by revision desc limit 1
)
where keys.key is not null
"""  # noqa: S608 - constants only

_BORN = "select coalesce(created_at, recorded_at) from events where run = ? and revision = ?"

_CONTENT = """
select value, metadata, (select text from names where names.id = events.agent) from events
where run = ? and revision = ?
"""

_POSITION = "select position from events where run = ? and revision = ?"

_Row = tuple[int, int, int, int | None, int | None, int | None, int | None, int]


def entry_at(db: Connection, lineage: Lineage, key: str, revision: int) -> Entry | None:
    """What `key` held right after `revision`; None if nothing."""
    key_id = name_id(db, lineage.run.family, key)
    if key_id is None:
        return None
    for segment in lineage.upto(revision):
        row = db.execute(_NEWEST_CHANGE, (segment.run, key_id, segment.upto)).fetchone()
        if row is not None:
            return _entry(db, lineage, key, row)
    return None


def entries_at(db: Connection, lineage: Lineage, revision: int) -> list[Entry]:
    """Every living entry right after `revision`, in birth order; expired ones included."""
    found: list[Entry] = []
    seen: set[str] = set()
    for segment in lineage.upto(revision):
        bounds = {"run": segment.run, "revision": segment.upto}
        for name, *state in db.execute(_NEWEST_CHANGES, bounds).fetchall():
            key = read_text(name)
            if key in seen:
                continue
            seen.add(key)
            entry = _entry(db, lineage, key, (*state,))
            if entry is not None:
                found.append(entry)
    found.sort(key=lambda entry: entry.birth)
    return found


def content_at(db: Connection, lineage: Lineage, revision: int) -> Content:
    """Value, metadata and agent of the `EntryWritten` at `revision`.

    Raises:
        Corrupt: there is none.
    """
    row = _row(db, _CONTENT, lineage, revision)
    if row is None or row[0] is None:
        raise Corrupt(f"run {lineage.run.name!r}: revision {revision} should hold a value, but does not")
    value, metadata, agent = row
    return Content(read_text(value), metadata, None if agent is None else read_text(agent))


def event_position(db: Connection, lineage: Lineage, revision: int) -> int:
    """The position in this file of the event at `revision`; 0 for revision 0.

    Raises:
        Corrupt: there is none.
    """
    if revision == 0:
        return 0
    row = _row(db, _POSITION, lineage, revision)
    if row is None:
        raise Corrupt(f"run {lineage.run.name!r}: the event at revision {revision} is missing")
    return row[0]


def _row(db: Connection, query: str, lineage: Lineage, revision: int) -> Any:
    """What `query` finds at `revision` in whichever run of the lineage holds it; None if nothing."""
    for segment in lineage.upto(revision)[:1]:
        return db.execute(query, (segment.run, revision)).fetchone()
    return None


def _entry(db: Connection, lineage: Lineage, key: str, row: _Row) -> Entry | None:
    position, revision, kind, content, birth, created_at, expires_at_turn, recorded_at = row
    if kind == ENTRY_DELETED:
        return None
    if created_at is None and birth is not None:
        born = _row(db, _BORN, lineage, birth)
        if born is None:
            raise Corrupt(
                f"run {lineage.run.name!r}: key {key!r} began at revision {birth}, which is missing"
            )
        created_at = born[0]
    return Entry(
        key=key,
        version=position,
        content=revision if content is None else content,
        birth=revision if birth is None else birth,
        created_at=recorded_at if created_at is None else created_at,
        expires_at_turn=expires_at_turn,
    )
