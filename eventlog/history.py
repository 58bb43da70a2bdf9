"""The past of a run, read through the history index: no fold, and no cost for the length of the log.

The newest change of a key at or before a point tells the key's whole state at that point, so one key costs
one index seek per ancestor, and the whole state one seek per key that ever existed. `evolve` is the other,
independent way to the same answers; tests hold the two equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple

from .codec import CODES, ENTRY_DELETED, SELECT_RECORDED, decode, is_todays_write
from .driver import Connection
from .entry import Content, Entry
from .errors import Corrupt
from .events import EntryRestored, EntryWritten
from .reading import Readable
from .runs import NEWEST_REVISION, Lineage, is_stand_in, name_id
from .schema import CHANGES, TURN_MARKS, shown_name
from .text import read_text, stored_text
from .tuples import build

__all__ = [
    "POINTERS",
    "Present",
    "content_at",
    "entries_at",
    "entry_at",
    "entry_of",
    "event_position",
    "newest_changes",
    "present_at",
    "present_in_turn",
    "present_of",
    "versions_at",
]


class Present(NamedTuple):
    """A living entry (see `Entry`) with its text; `metadata` is JSON text."""

    key: str
    version: int
    content: int
    birth: int
    created_at: int
    expires_at_turn: int | None
    value: str
    metadata: str | None


# What a change says of its key: the entry's columns, as far as this run itself knows them. The birth may lie
# in an ancestor, and so may the content of a restored entry; those two are then looked up there.
_CREATED_AT = """
case when e.birth is null or e.created_at is not null
    then coalesce(e.created_at, e.recorded_at) else coalesce(b.created_at, b.recorded_at) end
"""
# The version: 0 for a key that was deleted, the negative for a change of no type that is known. One column
# for both, and rows in the order of `Present`: a column takes Python as long as a seek takes SQLite.
_VERSION = f"""
case when e.type in ({CODES[EntryWritten]}, {CODES[EntryRestored]}) then e.position
    when e.type = {ENTRY_DELETED} then 0 else -e.position end
"""
_STATE = f"""
{shown_name("names")}, {_VERSION}, coalesce(e.content, e.revision), coalesce(e.birth, e.revision),
    {_CREATED_AT}, e.expires_at_turn
"""
# Only what needs no decoding; where it is NULL, `content_at` reads the event.
_TEXT = f"case when {is_todays_write('e')} then e.value end, e.metadata"
_BORN = "left join events b on b.run = e.run and b.revision = e.birth"

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
{_BORN}
where names.text = ? and names.family = ?
"""  # noqa: S608 - constants only

# What a key held at the end of the latest visit to a turn that began in this run; no row if none did.
_NEWEST_IN_TURN = f"""
select {_STATE}, {_TEXT}
from (
    select revision from events
    where run = ?1 and turn = ?2 and revision > ?3 and {TURN_MARKS} order by revision desc limit 1
) visit
left join names on names.text = ?4 and names.family = ?5
left join events e on e.position = (
    select position from events
    where run = ?1 and key = names.id and {CHANGES} and revision <= coalesce((
        select min(revision) - 1 from events where run = ?1 and revision > visit.revision and {TURN_MARKS}
    ), {NEWEST_REVISION})
    order by revision desc limit 1
)
{_BORN}
"""  # noqa: S608 - constants only

_NEWEST_POSITION = f"""
select position from events where run = :run and key = {{key}} and revision <= :revision and {CHANGES}
order by revision desc limit 1
"""  # noqa: S608 - constants only
# A loose index scan: a seek for each key. Names are numbered one after the other, so the number that follows
# is tried first, and the next key is searched only where it turns out to be none.
_NEXT_KEY = f"""
case when changes.position is not null then changes.key + 1 else (
    select key from events where run = :run and key > changes.key and {CHANGES} order by key limit 1
) end
"""  # noqa: S608 - constants only
_EVERY_KEY = f"""
with recursive changes (key, position) as (
    select 0, null
    union all
    select {_NEXT_KEY}, ({_NEWEST_POSITION.format(key=f"({_NEXT_KEY})")})
    from changes where changes.key is not null
)
"""  # noqa: S608 - constants only
_GIVEN_KEYS = f"""
with changes (key, position) as (
    select asked.value, ({_NEWEST_POSITION.format(key="asked.value")}) from json_each(:keys) asked
)
"""  # noqa: S608 - constants only
_OF_CHANGES = """
from changes
cross join events e on e.position = changes.position
cross join names on names.id = changes.key
"""
_ENTRIES = f"{_EVERY_KEY} select {_STATE} {_OF_CHANGES} {_BORN}"
_PRESENT = f"{_EVERY_KEY} select {_STATE}, {_TEXT} {_OF_CHANGES} {_BORN}"
_PRESENT_OF = f"{_GIVEN_KEYS} select {_STATE}, {_TEXT} {_OF_CHANGES} {_BORN}"
# An expired entry has version 0 too. Sorted here, since that lets SQLite find all rows before the first of
# them becomes Python's.
_VERSIONS = f"""
{_EVERY_KEY}
select {shown_name("names")}, case when e.expires_at_turn <= :turn then 0 else {_VERSION} end,
    coalesce(e.birth, e.revision)
{_OF_CHANGES} order by 3
"""
POINTERS = f"""
{_EVERY_KEY}
select changes.key, e.position, case when e.content is null then e.position else (
    select position from events where run = e.run and revision = e.content
) end, coalesce(e.birth, e.revision), {_CREATED_AT}, e.expires_at_turn
from changes cross join events e on e.position = changes.position {_BORN}
where e.type <> {ENTRY_DELETED}
"""  # noqa: S608 - constants only
"""For each entry that lives right after `:revision` of `:run`, which is no fork: the number of its key, its
version, the position of its content, its birth, when that was, and its expiry."""

_CHANGES = f"{_EVERY_KEY} select key, position from changes where position is not null"  # noqa: S608 - constants only

_TYPE = "select type from events where position = ?"
_BIRTH = "select coalesce(created_at, recorded_at) from events where run = ? and revision = ?"
_EVENT = f"{SELECT_RECORDED} where e.run = ? and e.revision = ?"
_POSITION = "select position from events where run = ? and revision = ?"


def entry_at(db: Connection, lineage: Lineage, key: str, revision: int) -> Entry | None:
    """What `key` held right after `revision`; None if nothing."""
    key_id = name_id(db, lineage.run.family, key)
    return None if key_id is None else entry_of(db, lineage, key_id, revision)


def entry_of(db: Connection, lineage: Lineage, key_id: int, revision: int) -> Entry | None:
    """`entry_at` for the key with this number in `names`."""
    for segment in lineage.upto(revision):
        row = db.execute(_NEWEST_CHANGE, (segment.run, key_id, segment.upto)).fetchone()
        if row is not None:
            return None if row[1] == 0 else _entry(db, lineage, row)
    return None


def entries_at(db: Connection, lineage: Lineage, revision: int) -> list[Entry]:
    """Every living entry right after `revision`, in birth order; expired ones included."""
    found = [_entry(db, lineage, row) for row in _newest_rows(db, _ENTRIES, lineage, revision)]
    found.sort(key=attrgetter("birth"))
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
            return None if row[1] == 0 else _present(db, lineage, row)
    return None


def present_at(
    db: Connection, lineage: Lineage, revision: int, keys: Iterable[int] | None = None
) -> list[Present]:
    """`entries_at`, each with its text; with `keys`, only those with these numbers in `names`."""
    if keys is None:
        rows = _newest_rows(db, _PRESENT, lineage, revision)
    else:
        rows = _newest_rows(db, _PRESENT_OF, lineage, revision, keys=json.dumps(list(keys)))
    found = [build(Present, row) if _is_whole(row) else _present(db, lineage, row) for row in rows]
    found.sort(key=attrgetter("birth"))
    return found


def present_in_turn(
    log: Readable, lineage: Lineage, turn: int, key: str
) -> tuple[Literal[True], Present | None] | tuple[Literal[False], None]:
    """What `key` held at the end of the latest visit to `turn`, by one query: whether it tells, and what.

    It does not tell where that visit, or the key's newest change before its end, lies in an ancestor, nor
    where the key's name was erased.
    """
    if is_stand_in(key):
        return False, None
    run, after, _ = lineage.segments[0]
    rows = log.ask(_NEWEST_IN_TURN, (run, turn, after, stored_text(key), lineage.run.family))
    if not rows:
        return False, None
    row = rows[0]
    if row[1] is None and len(lineage.segments) > 1:
        return False, None
    if not row[1]:
        return True, None
    if _is_whole(row):
        return True, build(Present, row)
    with log.reading() as db:
        return True, _present(db, lineage, row)


def versions_at(db: Connection, lineage: Lineage, revision: int, turn: int) -> dict[str, int]:
    """Key and version of `entries_at`, in its order, but for those that had expired at `turn`."""
    rows = _newest_rows(db, _VERSIONS, lineage, revision, turn=turn)
    if len(lineage.segments) > 1:
        rows.sort(key=itemgetter(2))
    versions = {name if type(name) is str else read_text(name): version for name, version, _ in rows}
    _check_version(db, min(versions.values(), default=0))
    return versions


def newest_changes(db: Connection, lineage: Lineage, revision: int) -> dict[int, int]:
    """Position of each key's newest change up to `revision`; keys by their number, ended ones included."""
    found: dict[int, int] = {}
    for segment in reversed(lineage.upto(revision)):  # oldest first: what is newer takes its place
        found.update(db.execute(_CHANGES, {"run": segment.run, "revision": segment.upto}).fetchall())
    return found


def content_at(db: Connection, lineage: Lineage, revision: int) -> Content:
    """Value, metadata and agent of the `EntryWritten` at `revision`; `[redacted]` where it was erased.

    Raises:
        Corrupt: there is none, or it cannot be read.
    """
    row = _row(db, _EVENT, lineage, revision)
    recorded = None if row is None else decode(row)
    if recorded is None or not isinstance(recorded.event, EntryWritten):
        raise Corrupt(f"run {lineage.run.name!r}: revision {revision} should hold a value, but does not")
    return Content(recorded.event.value, recorded.event.metadata, recorded.agent)


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


def _newest_rows(
    db: Connection, query: str, lineage: Lineage, revision: int, **more: str | int
) -> list[tuple[Any, ...]]:
    """For each key that lives right after `revision` the row of its newest change."""
    living: list[tuple[Any, ...]] = []
    seen: set[str | bytes] = set()
    segments = lineage.upto(revision)
    for segment in segments:
        rows = db.execute(query, {"run": segment.run, "revision": segment.upto, **more}).fetchall()
        living += [row for row in rows if row[1] != 0 and row[0] not in seen]
        if segment is not segments[-1]:
            seen.update(row[0] for row in rows)
    return living


def _is_whole(row: tuple[Any, ...]) -> bool:
    """Whether a row of `_STATE` and `_TEXT` has the members of a `Present` as they are."""
    return type(row[0]) is type(row[6]) is str and row[4] is not None


def _present(db: Connection, lineage: Lineage, row: tuple[Any, ...]) -> Present:
    entry, value, metadata = _entry(db, lineage, row), row[6], row[7]
    if value is None:
        value, metadata, _ = content_at(db, lineage, entry.content)
    return build(Present, (*entry, value if type(value) is str else read_text(value), metadata))


def _entry(db: Connection, lineage: Lineage, row: tuple[Any, ...]) -> Entry:
    name, version, content, birth, created_at, expires_at_turn = row[:6]
    _check_version(db, version)
    key = name if type(name) is str else read_text(name)
    if created_at is None:
        born = _row(db, _BIRTH, lineage, birth)
        if born is None:
            raise Corrupt(
                f"run {lineage.run.name!r}: key {key!r} began at revision {birth}, which is missing"
            )
        created_at = born[0]
    return build(Entry, (key, version, content, birth, created_at, expires_at_turn))


def _check_version(db: Connection, version: int) -> None:
    if version < 0:
        (kind,) = db.execute(_TYPE, (-version,)).fetchone()
        raise Corrupt(f"the event at position {-version} cannot be read: event type {kind} is unknown")


def _row(db: Connection, query: str, lineage: Lineage, revision: int) -> Any:
    """What `query` finds at `revision` in whichever run of the lineage holds it; None if nothing."""
    for segment in lineage.upto(revision)[:1]:
        return db.execute(query, (segment.run, revision)).fetchone()
    return None
