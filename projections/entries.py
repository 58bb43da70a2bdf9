"""The live key-value state of every run, as a table: what stores read.

A row points to the events that hold the text; it copies none. The table is filled inside the append
transaction and can be dropped and rebuilt at any time. While it is behind the log, because somebody appended
without it, the history index answers in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from ..eventlog import Corrupt, Entry, EntryWritten, RunForked, Step, StorageError
from ..eventlog.codec import REDACTED, REDACTED_METADATA, SELECT_RECORDED, decode, is_todays_write
from ..eventlog.driver import Connection, driver
from ..eventlog.history import (
    POINTERS,
    Present,
    entries_at,
    entry_at,
    event_position,
    present_at,
    present_of,
)
from ..eventlog.reading import Readable
from ..eventlog.runs import NEWEST_REVISION, Lineage, Run, is_stand_in, lineage, name_id, run_at
from ..eventlog.schema import CHANGES, shown_name
from ..eventlog.schema_check import Declared, declared
from ..eventlog.text import read_text, stored_text
from ..eventlog.tuples import build
from .fold import fold, fold_runs

__all__ = [
    "EntriesProjection",
    "Held",
    "Row",
    "Stored",
    "read_birth",
    "read_entries",
    "read_entry",
    "rows_of",
]

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
_DELETE_RUN = "delete from entries where run = ?"
_MARK_IN_STEP = """
insert into projections (name, version) values (?, ?)
on conflict (name) do update set version = excluded.version, stale_from = null
"""

_INHERIT = "insert into entries (run, key, version, content, birth, created_at, expires_at_turn)"
_INHERIT_PRESENT = f"""
{_INHERIT} select ?, key, version, content, birth, created_at, expires_at_turn from entries where run = ?
"""  # noqa: S608 - constants only
_INHERIT_PAST = f"{_INHERIT} select :fork, * from ({POINTERS})"  # noqa: S608 - constants only
_NEWEST = "select max(revision) from events where run = ?"
_CHANGED = f"""
select 1 from events indexed by events_revision
where run = ? and revision > ? and revision <= ? and {CHANGES} limit 1
"""  # noqa: S608 - constants only

_NAME = "entries"
_VERSION = 2
# Whether the table may be read.
_IS_IN_STEP = f"projections.name = '{_NAME}' and projections.version = {_VERSION} and stale_from is null"
_IN_STEP = f"exists (select 1 from projections where {_IS_IN_STEP})"  # noqa: S608 - constants only
_STATE = f"""
select {_IN_STEP}, (
    select count(*) from sqlite_schema where name in ('entries', 'entries_order', 'current_entries')
)
"""  # noqa: S608 - constants only
_STRICT = "select 1 from pragma_table_list where schema = 'main' and name = 'entries' and strict"
# Instead of a text that has to be decoded, the position of its event.
_TEXT_OR_EVENT = f"""
case when typeof(events.value) = 'text' and {is_todays_write("events")} then events.value
    else entries.content end
"""
# The members of `Held`: a column takes as long as a third of the search for the row.
_COLUMNS = f"""
{_TEXT_OR_EVENT}, events.metadata, entries.created_at, entries.expires_at_turn, entries.version
"""
# Each asks in the same breath whether the table may be read, so that both are of one moment. If it may not,
# there is no row; else `_ONE` and `_BIRTH` give one in any case, `_ENDED` if nothing follows.
_ONE = f"""
select {_COLUMNS}
from projections
left join names on names.text = ? and names.family = ?
left join entries on entries.run = ? and entries.key = names.id
left join events on events.position = entries.content
where {_IS_IN_STEP}
"""  # noqa: S608 - constants only
_BIRTH = f"""
select entries.birth
from projections
left join names on names.text = ? and names.family = ?
left join entries on entries.run = ? and entries.key = names.id
where {_IS_IN_STEP}
"""  # noqa: S608 - constants only
_PAGE = f"""
select {_COLUMNS}, entries.birth, {shown_name("names")}
from entries
join names on names.id = entries.key
join events on events.position = entries.content
where {_IN_STEP} and entries.run = ? and entries.birth > ? order by entries.birth limit ?
"""  # noqa: S608 - constants only
_ENDED = f"""
select 1 where {_IN_STEP} and not exists (select 1 from entries where run = ? and birth > ?)
"""  # noqa: S608 - constants only

Row = tuple[int | None, ...]
"""A row of the table, column by column."""

PAGE = 512
"""Entries read with one query."""


class Held(NamedTuple):
    """What a key holds; see `turnlog.eventlog.Entry`. `metadata` is JSON text."""

    value: str
    metadata: str | None
    created_at: int
    expires_at_turn: int | None
    version: int


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

    def is_in_step(self, db: Connection) -> bool:
        """Whether the file says that the table holds the whole log, as this version of the code fills it."""
        return bool(db.execute(f"select {_IN_STEP}").fetchone()[0])

    def is_readable(self, db: Connection) -> bool:
        """Whether there is such a table, with its columns held to their classes."""
        return db.execute(_STRICT).fetchone() is not None

    def schema(self) -> list[Declared]:
        """What it declares beside the log's own tables."""
        with closing(driver().connect(":memory:", isolation_level=None)) as fresh:
            for statement in _TABLES:
                fresh.execute(statement)
            return declared(fresh)

    def prepare(self, db: Connection) -> None:
        """See `Projection.prepare`: make the tables, and fold the whole log again if they are behind it."""
        if not self._is_whole(db):
            self.rebuild(db)

    def rebuild(self, db: Connection) -> None:
        """Make the tables anew, whatever they were, and fill them with a fold of the whole log."""
        self.replace(db, (rows_of(db, past, entries.values()) for past, entries in fold_runs(db)))

    def replace(self, db: Connection, pages: Iterable[Sequence[Row]]) -> None:
        """Make the tables anew, whatever they were, and fill them with the rows of the whole log."""
        for statement in (*_DROPS, _TABLE):
            db.execute(statement)
        for page in pages:
            db.executemany(_UPSERT, page)
        for statement in (_ORDER, _VIEW):
            db.execute(statement)
        db.execute(_MARK_IN_STEP, (_NAME, _VERSION))

    def fill(self, db: Connection, runs: Sequence[int]) -> None:
        """See `FillsRuns.fill`."""
        if not self._is_whole(db):
            self.rebuild(db)
            return
        for ident in runs:
            past = lineage(db, run_at(db, ident))
            db.execute(_DELETE_RUN, (ident,))
            db.executemany(_UPSERT, rows_of(db, past, fold(db, past).values()))

    def apply(self, db: Connection, steps: Sequence[Step]) -> None:
        """See `Projection.apply`."""
        try:
            self._apply(db, steps)
        except driver().OperationalError:
            if self._is_whole(db):
                raise
            self.rebuild(db)  # somebody dropped the table while the log was open; the steps are in the log

    def _is_whole(self, db: Connection) -> bool:
        """Whether the tables are there and in step."""
        in_step, objects = db.execute(_STATE).fetchone()
        return bool(in_step) and objects == len(_TABLES)

    def _apply(self, db: Connection, steps: Sequence[Step]) -> None:
        if len(steps) == 1 and len(steps[0].entries) == 1 and self._overwrite(db, steps[0]):
            return
        for step in steps:
            if type(step.recorded[0].event) is RunForked:
                self._inherit(db, step.lineage, steps)
        anew: dict[tuple[int, int], Row | None] = {}  # rows to be made, or to go
        overwritten: dict[tuple[int, int], tuple[Step, Entry]] = {}  # rows that keep their place
        for step in steps:
            run, first = step.lineage.run.id, step.recorded[0].revision
            only_written = all(type(recorded.event) is EntryWritten for recorded in step.recorded)
            for key, entry in step.entries.items():
                place = (run, key)
                if only_written and entry is not None and entry.birth < first and place not in anew:
                    overwritten[place] = (step, entry)
                else:
                    overwritten.pop(place, None)
                    anew[place] = None if entry is None else _row(db, step, key, entry)
        if not self._overwrite_each(db, overwritten):
            anew |= {place: _row(db, step, place[1], entry) for place, (step, entry) in overwritten.items()}
        if anew:
            # Keys that end first: a new life may take the place in the order that another key just left.
            db.executemany(_DELETE, [place for place, row in anew.items() if row is None])
            db.executemany(_UPSERT, [row for row in anew.values() if row is not None])

    def _overwrite_each(
        self, db: Connection, overwritten: Mapping[tuple[int, int], tuple[Step, Entry]]
    ) -> bool:
        """Give living keys new values; whether every row was there."""
        if not overwritten:
            return True
        values = [
            _overwriting(entry.version, entry.expires_at_turn, *place)
            for place, (_, entry) in overwritten.items()
        ]
        return db.executemany(_OVERWRITE, values).rowcount == len(values)

    def _overwrite(self, db: Connection, step: Step) -> bool:
        """The commonest step, a living key given a new value, with the least work; whether that was all.

        A row that somebody deleted is not found; then the step is taken in as any other.
        """
        newest = step.recorded[-1]
        event = newest.event
        if type(event) is not EntryWritten or event.birth is None or len(step.recorded) != 1:
            return False
        ((key, _),) = step.entries.items()
        values = _overwriting(newest.position, event.expires_at_turn, step.lineage.run.id, key)
        return db.execute(_OVERWRITE, values).rowcount == 1

    def _inherit(self, db: Connection, past: Lineage, steps: Sequence[Step]) -> None:
        """A fork begins with its parent's living entries: pointers, no text.

        They are copied from the table where it has them as they were at the fork; else the history index
        tells them, by one statement where no older ancestor is concerned.
        """
        fork, parents = past.run, past.upto(past.run.fork_revision)
        if not parents:
            return
        parent = parents[0]
        # No step has been taken in yet, so the table has the parent as it was before its first one.
        known = [step.recorded[0].revision - 1 for step in steps if step.lineage.run.id == parent.run]
        revision = known[0] if known else db.execute(_NEWEST, (parent.run,)).fetchone()[0]
        changed = db.execute(_CHANGED, (parent.run, parent.upto, revision)).fetchone()
        if revision >= parent.upto and changed is None:
            db.execute(_INHERIT_PRESENT, (fork.id, parent.run))
        elif len(parents) == 1:
            db.execute(_INHERIT_PAST, {"fork": fork.id, "run": parent.run, "revision": parent.upto})
        else:
            inherited = entries_at(db, past, fork.fork_revision)
            db.executemany(_UPSERT, rows_of(db, past, inherited))


def _overwriting(position: int, expires_at_turn: int | None, run: int, key: int) -> tuple[int, ...]:
    """What `_OVERWRITE` takes for a value written at `position`."""
    return position, position, _NO_TURN if expires_at_turn is None else expires_at_turn, run, key


def read_entry(log: Readable, run: Run, key: str) -> Held | None:
    """What `key` of `run` holds now, expired or not; None if nothing."""
    try:
        rows = log.ask(_ONE, (stored_text(key), run.family, run.id))
    except StorageError as error:
        if not _tells_of_another_table(error.__cause__):
            raise
        rows = []
    if rows and type(rows[0][0]) is str:
        return build(Held, rows[0])
    alive = bool(rows) and rows[0][4] is not None
    if rows and not alive and not is_stand_in(key):
        return None
    with log.reading() as db:
        if alive:
            return _held(db, run, key, rows[0])
        present = present_of(db, lineage(db, run), key, NEWEST_REVISION)
    if present is None:
        return None
    return Held(present.value, present.metadata, present.created_at, present.expires_at_turn, present.version)


def read_entries(db: Connection, run: Run, after: int, limit: int) -> list[Stored]:
    """At most `limit` living entries born after revision `after`, in birth order; negative: all of them.

    Where the table is not to be read, all of them in any case, since the history index has no such order.
    """
    rows = _rows(db, _PAGE, (run.id, after, limit))
    if rows or not limit or _rows(db, _ENDED, (run.id, after)):
        return [_stored(db, run, row) for row in rows]
    found = present_at(db, lineage(db, run), NEWEST_REVISION)
    return [_looked_up(present) for present in found if present.birth > after]


def read_birth(db: Connection, run: Run, key: str) -> int | None:
    """The revision at which `key`'s present life began; None if it is not alive."""
    rows = [] if is_stand_in(key) else _rows(db, _BIRTH, (stored_text(key), run.family, run.id))
    if rows:
        return rows[0][0]
    entry = entry_at(db, lineage(db, run), key, NEWEST_REVISION)
    return None if entry is None else entry.birth


def _rows(db: Connection, query: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What `query` finds; nothing if the table is not as this build makes it."""
    try:
        return db.execute(query, parameters).fetchall()
    except driver().OperationalError as error:
        if not _tells_of_another_table(error):
            raise
        return []


def _tells_of_another_table(error: BaseException | None) -> bool:
    """Whether it says that a log opened to be read has no such table, or one with other columns."""
    return getattr(error, "sqlite_errorname", None) == "SQLITE_ERROR"


def _looked_up(present: Present) -> Stored:
    """What the history index says, which is right at any time, and slower."""
    key, version, _, birth, created_at, expires_at_turn, value, metadata = present
    return build(Stored, (key, version, birth, created_at, expires_at_turn, value, metadata))


def _stored(db: Connection, run: Run, row: tuple[Any, ...]) -> Stored:
    """The entry that a row of `_PAGE` tells."""
    birth, key = row[5], read_text(row[6])
    value, metadata, created_at, expires_at_turn, version = _held(db, run, key, row[:5])
    return build(Stored, (key, version, birth, created_at, expires_at_turn, value, metadata))


def _held(db: Connection, run: Run, key: str, row: tuple[Any, ...]) -> Held:
    """What a row of `_COLUMNS` says that `key` holds."""
    if type(row[0]) is not str:
        row = (*_written(db, run, key, row[0]), *row[2:])
    return build(Held, row)


def _written(db: Connection, run: Run, key: str, content: int) -> tuple[str, str | None]:
    """Value and metadata of the event at that position, decoded.

    Raises:
        Corrupt: it is none that has them, or cannot be read.
    """
    row = db.execute(f"{SELECT_RECORDED} where e.position = ?", (content,)).fetchone()
    event = None if row is None else decode(row).event
    if not isinstance(event, EntryWritten):
        raise Corrupt(f"run {run.name!r}: key {key!r} points to an event without a value")
    return event.value, event.metadata


def _row(db: Connection, step: Step, key: int, entry: Entry) -> Row:
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


def rows_of(db: Connection, past: Lineage, entries: Iterable[Entry]) -> list[Row]:
    """The rows of entries of a run, found by a fold or in an ancestor."""
    return [_inherited_row(db, past, entry) for entry in entries]


def _inherited_row(db: Connection, past: Lineage, entry: Entry) -> Row:
    key = name_id(db, past.run.family, entry.key)
    if key is None:
        raise Corrupt(f"run {past.run.name!r}: the name of key {entry.key!r} is missing")
    content = event_position(db, past, entry.content)
    return (past.run.id, key, entry.version, content, entry.birth, entry.created_at, entry.expires_at_turn)
