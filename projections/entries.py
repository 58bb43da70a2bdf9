"""The live key-value state of every run, as a table: what stores read.

A row points to the events that hold the text; it copies none. The table is filled inside the append
transaction and can be dropped and rebuilt at any time. While it is behind the log, because somebody appended
without it, the history index answers in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..eventlog import Corrupt, Entry, EntryWritten, RunForked, Step
from ..eventlog.codec import REDACTED, REDACTED_METADATA
from ..eventlog.driver import Connection, driver
from ..eventlog.history import Present, entries_at, entry_at, event_position, present_at, present_of
from ..eventlog.runs import NEWEST_REVISION, Lineage, Run, is_stand_in, lineage, name_id
from ..eventlog.schema import shown_name
from ..eventlog.text import read_text, stored_text
from .fold import fold_runs

__all__ = ["EntriesProjection", "Stored", "read_birth", "read_entries", "read_entry"]

_TABLE = """
create table entries (
    run              integer not null references runs (id),
    key              integer not null references names (id),
    version          integer not null,  -- position of the event that last changed the key
    content          integer not null,  -- position of the event that holds value and metadata
    birth            integer not null,  -- revision that began the key's present life: the order of listing
    created_at       integer not null,  -- when that life began, milliseconds since 1970 UTC
    expires_at_turn  integer,
    primary key (run, key)
) strict, without rowid
"""


def _shown_text(table: str) -> str:
    """The SQL that shows value and metadata: an import may bring the erasure of what is pointed to."""
    erased = f"{table}.value is null and {table}.salt is null and {table}.type = 1"
    return f"""
        case when {erased} then '{REDACTED}' else {table}.value end as value,
        case when {erased} then '{REDACTED_METADATA}' else {table}.metadata end as metadata
    """


_ORDER = "create unique index entries_order on entries (run, birth)"
_VIEW = f"""
create view current_entries as
select
    run_name.text as run,
    {shown_name("key_name")} as key,
    {_shown_text("content")},
    {shown_name("agent_name")} as agent,
    entries.expires_at_turn,
    entries.version,
    strftime('%Y-%m-%dT%H:%M:%fZ', entries.created_at / 1000.0, 'unixepoch') as created_at
from entries
join runs on runs.id = entries.run
join names run_name on run_name.id = runs.name
join names key_name on key_name.id = entries.key
join events content on content.position = entries.content
left join names agent_name on agent_name.id = content.agent
order by entries.run, entries.birth
"""  # noqa: S608 - constants only

_TABLES = (_TABLE, _ORDER, _VIEW)
_DROPS = ("drop view if exists current_entries", "drop table if exists entries")

_UPSERT = """
insert into entries (run, key, version, content, birth, created_at, expires_at_turn)
values (?, ?, ?, ?, ?, ?, ?)
on conflict (run, key) do update set version = excluded.version, content = excluded.content,
    birth = excluded.birth, created_at = excluded.created_at, expires_at_turn = excluded.expires_at_turn
"""
_NO_TURN = -1
_OVERWRITE = f"""
update entries set version = ?, content = ?, expires_at_turn = nullif(?, {_NO_TURN}) where run = ? and key = ?
"""  # noqa: S608 - a constant only
_DELETE = "delete from entries where run = ? and key = ?"

_NAME = "entries"
_VERSION = 2
# Whether the table may be read, as part of the query that reads it, so that both are of the same moment.
_IN_STEP = f"""
(select version = {_VERSION} and stale_from is null from projections where name = '{_NAME}')
"""  # noqa: S608 - constants only
_STATE = f"""
select {_IN_STEP}, (
    select count(*) from sqlite_schema where name in ('entries', 'entries_order', 'current_entries')
)
"""  # noqa: S608 - constants only
_COLUMNS = f"""
entries.version, entries.birth, entries.created_at, entries.expires_at_turn,
    {_shown_text("events")}
"""
# One row in any case.
_ONE = f"""
select {_IN_STEP}, {_COLUMNS}
from (select 1)
left join names on names.text = ? and names.family = ?
left join entries on entries.run = ? and entries.key = names.id
left join events on events.position = entries.content
"""  # noqa: S608 - constants only
_BIRTH = f"""
select {_IN_STEP}, entries.birth
from (select 1)
left join names on names.text = ? and names.family = ?
left join entries on entries.run = ? and entries.key = names.id
"""  # noqa: S608 - constants only
_PAGE = f"""
select {_IN_STEP}, {shown_name("names")}, {_COLUMNS}
from entries
join names on names.id = entries.key
join events on events.position = entries.content
where entries.run = ? and entries.birth > ? order by entries.birth limit ?
"""  # noqa: S608 - constants only
_ENDED = f"""
select {_IN_STEP} and not exists (select 1 from entries where run = ? and birth > ?)
"""  # noqa: S608 - constants only

_Row = tuple[int | None, ...]

PAGE = 512
"""Entries read with one query."""


class Stored(NamedTuple):
    """A living entry with its text; see `turnlog.eventlog.Entry`. `metadata` is JSON text."""

    key: str
    version: int
    birth: int
    created_at: int
    expires_at_turn: int | None
    value: str
    metadata: str | None


class EntriesProjection:
    """Keeps the table `entries`; implements `turnlog.eventlog.Projection`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """See `Projection.name`."""
        return _NAME

    @property
    def version(self) -> int:
        """Which version of this code fills the table; another one fills it anew."""
        return _VERSION

    def prepare(self, db: Connection) -> None:
        """See `Projection.prepare`: make the tables, and fold the whole log again if they are behind it."""
        in_step, objects = db.execute(_STATE).fetchone()
        if not in_step or objects != len(_TABLES):
            self.rebuild(db)

    def rebuild(self, db: Connection) -> None:
        """Make the tables anew, whatever they were, and fill them with a fold of the whole log."""
        for statement in (*_DROPS, *_TABLES):
            db.execute(statement)
        for past, entries in fold_runs(db):
            db.executemany(_UPSERT, [_inherited_row(db, past, entry) for entry in entries.values()])
        db.execute(
            "insert into projections (name, version) values (?, ?)"
            " on conflict (name) do update set version = excluded.version, stale_from = null",
            (_NAME, _VERSION),
        )

    def apply(self, db: Connection, steps: Sequence[Step]) -> None:
        """See `Projection.apply`."""
        if len(steps) == 1 and len(steps[0].entries) == 1 and self._overwrite(db, steps[0]):
            return
        for step in steps:
            if type(step.recorded[0].event) is RunForked:
                self._inherit(db, step.lineage)
        changed: dict[tuple[int, int], _Row | None] = {}
        for step in steps:
            run = step.lineage.run.id
            for key, entry in step.entries.items():
                changed[run, key] = None if entry is None else _row(db, step, key, entry)
        # Keys that end first: a new life may take the place in the order that another key just left.
        db.executemany(_DELETE, [place for place, row in changed.items() if row is None])
        db.executemany(_UPSERT, [row for row in changed.values() if row is not None])

    def _overwrite(self, db: Connection, step: Step) -> bool:
        """The commonest step, a living key given a new value, with the least work; whether it was that."""
        newest = step.recorded[-1]
        event = newest.event
        if type(event) is not EntryWritten or event.birth is None or len(step.recorded) != 1:
            return False
        ((key, _),) = step.entries.items()
        expires_at_turn = _NO_TURN if event.expires_at_turn is None else event.expires_at_turn
        position = newest.position
        db.execute(_OVERWRITE, (position, position, expires_at_turn, step.lineage.run.id, key))
        return True

    def _inherit(self, db: Connection, past: Lineage) -> None:
        """A fork begins with its parent's living entries: pointers, no text."""
        inherited = entries_at(db, past, past.run.fork_revision)
        db.executemany(_UPSERT, [_inherited_row(db, past, entry) for entry in inherited])


def read_entry(db: Connection, run: Run, key: str) -> Stored | None:
    """What `key` of `run` holds now, expired or not; None if nothing."""
    rows = None if is_stand_in(key) else _rows(db, _ONE, (stored_text(key), run.family, run.id))
    if rows is None:
        present = present_of(db, lineage(db, run), key, NEWEST_REVISION)
        return None if present is None else _looked_up(present)
    row = rows[0]
    return None if row[1] is None else _stored(run, (key, *row[1:]))


def read_entries(db: Connection, run: Run, after: int, limit: int) -> list[Stored]:
    """At most `limit` living entries born after revision `after`, in birth order; negative: all of them.

    Where the table is not to be read, all of them in any case, since the history index has no such order.
    """
    rows: list[tuple[Any, ...]] | None = _rows(db, _PAGE, (run.id, after, limit))
    if not rows and limit:  # nothing there, or nothing to be read there
        ended = _rows(db, _ENDED, (run.id, after))
        rows = None if ended is None else []
    if rows is None:
        found = present_at(db, lineage(db, run), NEWEST_REVISION)
        return [_looked_up(present) for present in found if present.entry.birth > after]
    return [_stored(run, row[1:]) for row in rows]


def read_birth(db: Connection, run: Run, key: str) -> int | None:
    """The revision at which `key`'s present life began; None if it is not alive."""
    rows = None if is_stand_in(key) else _rows(db, _BIRTH, (stored_text(key), run.family, run.id))
    if rows is None:
        entry = entry_at(db, lineage(db, run), key, NEWEST_REVISION)
        return None if entry is None else entry.birth
    return rows[0][1]


def _rows(db: Connection, query: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]] | None:
    """What `query` finds; None if the table is behind the log, or not as this build makes it."""
    try:
        rows: list[tuple[Any, ...]] = db.execute(query, parameters).fetchall()
    except driver().OperationalError as error:
        # A log opened to be read may have no such table, or one with other columns.
        if getattr(error, "sqlite_errorname", None) != "SQLITE_ERROR":
            raise
        return None
    return None if rows and not rows[0][0] else rows


def _looked_up(present: Present) -> Stored:
    """What the history index says, which is right at any time, and slower."""
    entry, content = present
    return Stored(
        entry.key,
        entry.version,
        entry.birth,
        entry.created_at,
        entry.expires_at_turn,
        content.value,
        content.metadata,
    )


def _stored(run: Run, row: tuple[Any, ...]) -> Stored:
    key, version, birth, created_at, expires_at_turn, value, metadata = row
    if value is None:
        raise Corrupt(f"run {run.name!r}: key {read_text(key)!r} points to an event without a value")
    return Stored(
        key if type(key) is str else read_text(key),
        version,
        birth,
        created_at,
        expires_at_turn,
        value if type(value) is str else read_text(value),
        metadata,
    )


def _row(db: Connection, step: Step, key: int, entry: Entry) -> _Row:
    """The row of an entry that a step changed."""
    newest = step.recorded[-1]
    # Positions of a batch follow each other, so those of its own events need no look-up.
    offset = newest.revision - entry.content
    if 0 <= offset < len(step.recorded):
        content = newest.position - offset
    else:
        content = event_position(db, step.lineage, entry.content)
    return (
        step.lineage.run.id,
        key,
        entry.version,
        content,
        entry.birth,
        entry.created_at,
        entry.expires_at_turn,
    )


def _inherited_row(db: Connection, past: Lineage, entry: Entry) -> _Row:
    """The row of an entry found by a fold or in an ancestor."""
    key = name_id(db, past.run.family, entry.key)
    if key is None:
        raise Corrupt(f"run {past.run.name!r}: the name of key {entry.key!r} is missing")
    content = event_position(db, past, entry.content)
    return (past.run.id, key, entry.version, content, entry.birth, entry.created_at, entry.expires_at_turn)
