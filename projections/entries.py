"""The live key-value state of every run, as a table: what stores read.

A row points to the events that hold the text; it copies none. The table is filled inside the append
transaction and can be dropped and rebuilt at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..eventlog import Corrupt, Entry, RunForked, Step
from ..eventlog.driver import Connection
from ..eventlog.history import entries_at, event_position
from ..eventlog.runs import Lineage, Run, name_id
from ..eventlog.text import read_text
from .fold import fold_runs

__all__ = ["EntriesProjection", "Stored", "read_birth", "read_entries", "read_entry"]

_TABLE = """
create table if not exists entries (
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
_ORDER = "create unique index if not exists entries_order on entries (run, birth)"
_VIEW = """
create view if not exists current_entries as
select
    run_name.text as run,
    key_name.text as key,
    content.value,
    content.metadata,
    agent_name.text as agent,
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
"""

_UPSERT = """
insert into entries (run, key, version, content, birth, created_at, expires_at_turn)
values (?, ?, ?, ?, ?, ?, ?)
on conflict (run, key) do update set version = excluded.version, content = excluded.content,
    birth = excluded.birth, created_at = excluded.created_at, expires_at_turn = excluded.expires_at_turn
"""
_DELETE = "delete from entries where run = ? and key = ?"

_SELECT = """
select names.text, entries.version, entries.birth, entries.created_at, entries.expires_at_turn,
    events.value, events.metadata
from entries
join names on names.id = entries.key
join events on events.position = entries.content
"""
_ONE = f"{_SELECT} where entries.run = ? and entries.key = ?"
_PAGE = f"{_SELECT} where entries.run = ? and entries.birth > ? order by entries.birth limit ?"
_BIRTH = "select birth from entries where run = ? and key = ?"

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


@dataclass(frozen=True, slots=True)
class EntriesProjection:
    """Keeps the table `entries`; implements `turnlog.eventlog.Projection`."""

    name: str = "entries"
    version: int = 1

    def prepare(self, db: Connection) -> None:
        """See `Projection.prepare`: make the tables, and fold the whole log again if they are behind it."""
        for statement in (_TABLE, _ORDER, _VIEW):
            db.execute(statement)
        state = db.execute(
            "select version, stale_from from projections where name = ?", (self.name,)
        ).fetchone()
        if state != (self.version, None):
            self.rebuild(db)

    def rebuild(self, db: Connection) -> None:
        """Empty the table and fill it with a fold of the whole log."""
        db.execute("delete from entries")
        for lineage, entries in fold_runs(db):
            rows = [_row(db, lineage, _key_id(db, lineage, entry.key), entry) for entry in entries.values()]
            db.executemany(_UPSERT, rows)
        db.execute(
            "insert into projections (name, version) values (?, ?)"
            " on conflict (name) do update set version = excluded.version, stale_from = null",
            (self.name, self.version),
        )

    def apply(self, db: Connection, step: Step) -> None:
        """See `Projection.apply`."""
        run = step.lineage.run
        if isinstance(step.recorded[0].event, RunForked):
            inherited = entries_at(db, step.lineage, run.fork_revision)
            rows = [
                _row(db, step.lineage, _key_id(db, step.lineage, entry.key), entry) for entry in inherited
            ]
            db.executemany(_UPSERT, rows)
        positions = {recorded.revision: recorded.position for recorded in step.recorded}
        living = [
            _row(db, step.lineage, key, entry, positions)
            for key, entry in step.entries.items()
            if entry is not None
        ]
        # Keys that end first: a new life may take the place in the order that another key just left.
        db.executemany(_DELETE, [(run.id, key) for key, entry in step.entries.items() if entry is None])
        db.executemany(_UPSERT, living)


def read_entry(db: Connection, run: Run, key: str) -> Stored | None:
    """What `key` of `run` holds now, expired or not; None if nothing."""
    ident = name_id(db, run.family, key)
    row = None if ident is None else db.execute(_ONE, (run.id, ident)).fetchone()
    return None if row is None else _stored(run, row)


def read_entries(db: Connection, run: Run, after: int, limit: int) -> list[Stored]:
    """At most `limit` living entries born after revision `after`, in birth order."""
    return [_stored(run, row) for row in db.execute(_PAGE, (run.id, after, limit)).fetchall()]


def read_birth(db: Connection, run: Run, key: str) -> int | None:
    """The revision at which `key`'s present life began; None if it is not alive."""
    ident = name_id(db, run.family, key)
    row = None if ident is None else db.execute(_BIRTH, (run.id, ident)).fetchone()
    return None if row is None else row[0]


def _stored(run: Run, row: tuple[Any, ...]) -> Stored:
    key, version, birth, created_at, expires_at_turn, value, metadata = row
    if value is None:
        raise Corrupt(f"run {run.name!r}: key {read_text(key)!r} points to an event without a value")
    return Stored(read_text(key), version, birth, created_at, expires_at_turn, read_text(value), metadata)


def _row(
    db: Connection, lineage: Lineage, key: int, entry: Entry, positions: Mapping[int, int] | None = None
) -> tuple[int | None, ...]:
    content = (positions or {}).get(entry.content)
    if content is None:
        content = event_position(db, lineage, entry.content)
    return (
        lineage.run.id,
        key,
        entry.version,
        content,
        entry.birth,
        entry.created_at,
        entry.expires_at_turn,
    )


def _key_id(db: Connection, lineage: Lineage, key: str) -> int:
    ident = name_id(db, lineage.run.family, key)
    if ident is None:
        raise Corrupt(f"run {lineage.run.name!r}: the name of key {key!r} is missing")
    return ident
