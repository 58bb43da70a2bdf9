"""The past of a run, read through the history index: no fold, and no cost for the length of the log.

The newest change of a key at or before a point tells the key's whole state at that point, so one key costs
one index seek per ancestor, and the whole state one seek per key that ever existed. `evolve` is the other,
independent way to the same answers; tests hold the two equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from .codec import ENTRY_DELETED, ENTRY_WRITTEN, REDACTED, REDACTED_METADATA
from .driver import Connection
from .entry import Content, Entry
from .errors import Corrupt
from .runs import Lineage, is_stand_in, name_id
from .schema import CHANGES, shown_name
from .text import read_text, stored_text

__all__ = ["Present", "content_at", "entries_at", "entry_at", "event_position", "present_at", "present_of"]


class Present(NamedTuple):
    """A living entry with its text."""

    entry: Entry
    content: Content


# What a change says of its key: the entry's columns, as far as this run itself knows them. The birth may lie
# in an ancestor, and so may the content of a restored entry; those two are then looked up there.
_STATE = f"""
e.type, {shown_name("names")}, e.position, coalesce(e.content, e.revision), coalesce(e.birth, e.revision),
    case when e.birth is null or e.created_at is not null
        then coalesce(e.created_at, e.recorded_at) else coalesce(b.created_at, b.recorded_at) end,
    e.expires_at_turn
"""
_TEXT = f"case when e.content is null then e.value end, e.metadata, {shown_name('agents')}"
_BORN = "left join events b on b.run = e.run and b.revision = e.birth"
_AGENT = "left join names agents on agents.id = e.agent"

_NEWEST_CHANGE = f"""
select {_STATE} from events e join names on names.id = e.key {_BORN}
where e.position = (
    select position from events where run = ? and key = ? and revision <= ? and {CHANGES}
    order by revision desc limit 1
)
"""  # noqa: S608 - constants only

_NEWEST_OF = f"""
select {_STATE}, {_TEXT}
from names
join events e on e.position = (
    select position from events where run = ? and key = names.id and revision <= ? and {CHANGES}
    order by revision desc limit 1
)
{_BORN} {_AGENT}
where names.text = ? and names.family = ?
"""  # noqa: S608 - constants only

_NEWEST_CHANGES = f"""
with recursive keys (key) as ({{keys}})
select {{columns}}
from keys
join names on names.id = keys.key
join events e on e.position = (
    select position from events
    where run = :run and key = keys.key and revision <= :revision and {CHANGES}
    order by revision desc limit 1
)
{_BORN} {{joins}}
where keys.key is not null
"""  # noqa: S608 - constants only
# A loose index scan: one seek finds the next key, a second one its newest change.
_EVERY_KEY = f"""
select min(key) from events where run = :run and {CHANGES}
union all
select (select min(key) from events where run = :run and key > keys.key and {CHANGES})
from keys where keys.key is not null
"""  # noqa: S608 - constants only
_GIVEN_KEYS = "select value from json_each(:keys)"
_ENTRIES = _NEWEST_CHANGES.format(keys=_EVERY_KEY, columns=_STATE, joins="")
_PRESENT = _NEWEST_CHANGES.format(keys=_EVERY_KEY, columns=f"{_STATE}, {_TEXT}", joins=_AGENT)
_PRESENT_OF = _NEWEST_CHANGES.format(keys=_GIVEN_KEYS, columns=f"{_STATE}, {_TEXT}", joins=_AGENT)

_BIRTH = "select coalesce(created_at, recorded_at) from events where run = ? and revision = ?"
_CONTENT = f"""
select e.value, e.metadata, {shown_name("agents")}, e.type = {ENTRY_WRITTEN} and e.salt is null
from events e {_AGENT} where e.run = ? and e.revision = ?
"""  # noqa: S608 - constants only
_POSITION = "select position from events where run = ? and revision = ?"


def entry_at(db: Connection, lineage: Lineage, key: str, revision: int) -> Entry | None:
    """What `key` held right after `revision`; None if nothing."""
    key_id = name_id(db, lineage.run.family, key)
    if key_id is None:
        return None
    for segment in lineage.upto(revision):
        row = db.execute(_NEWEST_CHANGE, (segment.run, key_id, segment.upto)).fetchone()
        if row is not None:
            return None if row[0] == ENTRY_DELETED else _entry(db, lineage, row)
    return None


def entries_at(db: Connection, lineage: Lineage, revision: int) -> list[Entry]:
    """Every living entry right after `revision`, in birth order; expired ones included."""
    found = [_entry(db, lineage, row) for row in _newest_changes(db, _ENTRIES, lineage, revision)]
    found.sort(key=lambda entry: entry.birth)
    return found


def present_of(db: Connection, lineage: Lineage, key: str, revision: int) -> Present | None:
    """`entry_at` with its text, in one query for each ancestor."""
    name, family = stored_text(key), lineage.run.family
    if is_stand_in(key):
        ident = name_id(db, family, key)
        found = [] if ident is None else present_at(db, lineage, revision, [ident])
        return found[0] if found else None
    for segment in lineage.upto(revision):
        row = db.execute(_NEWEST_OF, (segment.run, segment.upto, name, family)).fetchone()
        if row is not None:
            return None if row[0] == ENTRY_DELETED else _present(db, lineage, row)
    return None


def present_at(
    db: Connection, lineage: Lineage, revision: int, keys: Iterable[int] | None = None
) -> list[Present]:
    """`entries_at`, each with its text; with `keys`, only those with these numbers in `names`."""
    if keys is None:
        rows = _newest_changes(db, _PRESENT, lineage, revision)
    else:
        rows = _newest_changes(db, _PRESENT_OF, lineage, revision, keys=json.dumps(list(keys)))
    found = [_present(db, lineage, row) for row in rows]
    found.sort(key=lambda present: present.entry.birth)
    return found


def content_at(db: Connection, lineage: Lineage, revision: int) -> Content:
    """Value, metadata and agent of the `EntryWritten` at `revision`; `[redacted]` where it was erased.

    Raises:
        Corrupt: there is none.
    """
    row = _row(db, _CONTENT, lineage, revision)
    value, metadata, agent, erased = row or (None, None, None, False)
    if value is None and erased:
        value, metadata = REDACTED, REDACTED_METADATA
    if value is None:
        raise Corrupt(f"run {lineage.run.name!r}: revision {revision} should hold a value, but does not")
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


def _newest_changes(
    db: Connection, query: str, lineage: Lineage, revision: int, **more: str
) -> list[tuple[Any, ...]]:
    """For each key that lives right after `revision` the row of its newest change."""
    living: list[tuple[Any, ...]] = []
    seen: set[str | bytes] = set()
    segments = lineage.upto(revision)
    for segment in segments:
        rows = db.execute(query, {"run": segment.run, "revision": segment.upto, **more}).fetchall()
        living += [row for row in rows if row[0] != ENTRY_DELETED and row[1] not in seen]
        if segment is not segments[-1]:
            seen.update(row[1] for row in rows)
    return living


def _present(db: Connection, lineage: Lineage, row: tuple[Any, ...]) -> Present:
    entry = _entry(db, lineage, row)
    value, metadata, agent = row[7:]
    if value is None:
        return Present(entry, content_at(db, lineage, entry.content))
    text = value if type(value) is str else read_text(value)
    return Present(entry, Content(text, metadata, None if agent is None else read_text(agent)))


def _entry(db: Connection, lineage: Lineage, row: tuple[Any, ...]) -> Entry:
    _, name, position, content, birth, created_at, expires_at_turn = row[:7]
    key = name if type(name) is str else read_text(name)
    if created_at is None:
        born = _row(db, _BIRTH, lineage, birth)
        if born is None:
            raise Corrupt(
                f"run {lineage.run.name!r}: key {key!r} began at revision {birth}, which is missing"
            )
        created_at = born[0]
    return Entry(key, position, content, birth, created_at, expires_at_turn)


def _row(db: Connection, query: str, lineage: Lineage, revision: int) -> Any:
    """What `query` finds at `revision` in whichever run of the lineage holds it; None if nothing."""
    for segment in lineage.upto(revision)[:1]:
        return db.execute(query, (segment.run, revision)).fetchone()
    return None
