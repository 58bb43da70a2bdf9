"""The one place that appends: a list of commands becomes one batch of events.

Everything is decided before anything is written: commands see the present through an overlay of what the
commands before them decided, and events get their positions, names and hashes in memory. So a list that
fails half-way leaves nothing to undo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .chain import (
    NO_PARENT,
    SALT_SIZE,
    attempt_digest,
    content_commitment,
    event_hash,
    genesis_hash,
    name_commitment,
)
from .codec import PAYLOAD_VERSION, Payload, encode
from .commands import Command
from .driver import Connection
from .entry import Content, Entry
from .events import EntryDeleted, EntryRestored, EntryWritten, Event, Recorded, Seal
from .evolve import evolve
from .history import content_at, entries_at, entry_at
from .projection import Step
from .runs import NEWEST_REVISION, Lineage, Run, Segment, find_run, hash_at, lineage, read_head
from .text import stored_text, utf8_size

__all__ = ["INSERT_EVENT", "INSERT_NAME", "INSERT_RUN", "Actor", "Batch", "ForkPoint", "Sources"]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where time, identities and salts come from; passed in, so that tests can be exact.

    Attributes:
        clock: milliseconds since 1970 UTC.
        new_uid: a fresh run uid, 32 hex digits.
        random_bytes: that many random bytes.
    """

    clock: Callable[[], int]
    new_uid: Callable[[], str]
    random_bytes: Callable[[int], bytes]


class Actor(NamedTuple):
    """Who acts, as claimed, and in which stretch of work; either may be unknown."""

    agent: str | None = None
    activity: str | None = None


class ForkPoint(NamedTuple):
    """Where a fork leaves its parent: after `revision` of `source`, at `turn`."""

    source: Lineage
    revision: int
    turn: int


class _Name(NamedTuple):
    id: int
    commitment: bytes


_MAX_POSITION = "select coalesce(max(position), 0) from events"
_MAX_NAME = "select coalesce(max(id), 0) from names"
_MAX_RUN = "select coalesce(max(id), 0) from runs"
_NAME = "select id, commitment from names where text = ? and family = ?"
INSERT_NAME = "insert into names (id, family, text, salt, commitment) values (?, ?, ?, ?, ?)"
INSERT_RUN = """
insert into runs (id, uid, name, family, parent, fork_revision, created_at) values (?, ?, ?, ?, ?, ?, ?)
"""
INSERT_EVENT = """
insert into events (position, run, revision, batch, turn, type, payload, key, agent, activity, value,
    encoding, metadata, salt, content, expires_at_turn, birth, created_at, detail, recorded_at,
    idempotency_key, hash)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Batch:
    """The next batch of one run, being decided; a `View` for the commands that decide it.

    Made and used inside a write transaction. `execute` and `append` collect; `flush` writes.

    Args:
        db: the connection whose transaction it is.
        run_name: the run to append to; it begins with this batch if it does not exist.
        sources: clock, uids and salts.
        fork: where the run begins, if it is to be a fork; then it must not exist yet.
    """

    def __init__(
        self, db: Connection, run_name: str, sources: Sources, fork: ForkPoint | None = None
    ) -> None:
        self._db = db
        self._sources = sources
        self._now = sources.clock()
        self._new_names: list[tuple[int, int, str | bytes, bytes, bytes]] = []
        self._names: dict[str, _Name] = {}
        self._next_name = 0
        self._entries: dict[str, Entry | None] = {}
        self._contents: dict[int, Content] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._recorded: list[Recorded] = []
        self._position = int(db.execute(_MAX_POSITION).fetchone()[0])
        run = find_run(db, run_name)
        self._new_run: Run | None = None
        if run is None:
            self._begin(run_name, fork)
        else:
            head = read_head(db, run.id)
            self._run, self._lineage = run, lineage(db, run)
            self._revision, self._turn, self._hash = head.revision, head.turn, head.hash

    # -- the view of the present

    @property
    def turn(self) -> int:
        """The run's turn after what has been decided so far."""
        return self._turn

    def entry(self, key: str) -> Entry | None:
        """What `key` holds after what has been decided so far."""
        if key not in self._entries:
            self._entries[key] = entry_at(self._db, self._lineage, key, self._stored_revision)
        return self._entries[key]

    def entries(self) -> list[Entry]:
        """Every living entry after what has been decided so far, in birth order."""
        stored = {entry.key: entry for entry in entries_at(self._db, self._lineage, self._stored_revision)}
        present = [entry for entry in (stored | self._entries).values() if entry is not None]
        present.sort(key=lambda entry: entry.birth)
        return present

    def content(self, entry: Entry) -> Content:
        """The text that `entry` points to."""
        pending = self._contents.get(entry.content)
        return pending if pending is not None else content_at(self._db, self._lineage, entry.content)

    def seal(self, text: str) -> Seal:
        """Length and salted digest of `text`."""
        salt = self._sources.random_bytes(SALT_SIZE)
        return Seal(utf8_size(text), attempt_digest(salt, text), salt)

    # -- deciding

    def changes(self, key: str) -> bool:
        """Whether what has been decided so far changes `key`."""
        return any(
            isinstance(recorded.event, EntryWritten | EntryDeleted | EntryRestored)
            and recorded.event.key == key
            for recorded in self._recorded
        )

    def execute(self, commands: Sequence[Command[Any]], actor: Actor) -> list[Any]:
        """Decide `commands` in order; one outcome each.

        Raises:
            Conflict: a command's condition does not hold. Then this batch must be dropped.
        """
        outcomes: list[Any] = []
        for command in commands:
            before = len(self._recorded)
            acting = actor if command.agent is None else actor._replace(agent=command.agent)
            for event in command.decide(self):
                self.append(event, acting)
            outcomes.append(command.outcome(self._recorded[before:]))
        return outcomes

    def append(self, event: Event, actor: Actor) -> Recorded:
        """Give `event` its place at the end of the batch."""
        salt = self._sources.random_bytes(SALT_SIZE) if type(event) is EntryWritten else b""
        payload = encode(event, salt)
        if payload.turn is not None:
            self._turn = payload.turn
        key = None if payload.key is None else self._name(payload.key)
        agent = None if actor.agent is None else self._name(actor.agent)
        activity = None if actor.activity is None else self._name(actor.activity)
        self._position += 1
        self._revision += 1
        offset = len(self._rows)
        self._hash = self._hash_of(payload, offset, key, agent, activity)
        recorded = Recorded(
            self._position,
            self._run.name,
            self._revision,
            offset,
            self._turn,
            actor.agent,
            actor.activity,
            self._now,
            event,
            self._hash,
        )
        self._rows.append(
            (
                self._position,
                self._run.id,
                self._revision,
                offset,
                self._turn,
                payload.type,
                PAYLOAD_VERSION,
                key and key.id,
                agent and agent.id,
                activity and activity.id,
                payload.value,
                0,
                payload.metadata,
                payload.salt,
                payload.content,
                payload.expires_at_turn,
                payload.birth,
                payload.created_at,
                payload.detail,
                self._now,
                None,
                self._hash,
            )
        )
        self._recorded.append(recorded)
        self._evolve(recorded)
        return recorded

    def flush(self) -> Step | None:
        """Write what was decided into the transaction; None if that is nothing."""
        if not self._rows:
            return None
        self._db.executemany(INSERT_NAME, self._new_names)
        if self._new_run is not None:
            run = self._new_run
            name = self._names[run.name]
            self._db.execute(
                INSERT_RUN,
                (run.id, run.uid, name.id, run.family, run.parent, run.fork_revision, run.created_at),
            )
        self._db.executemany(INSERT_EVENT, self._rows)
        changed = {
            self._names[event.key].id: self._entries[event.key]
            for event in (recorded.event for recorded in self._recorded)
            if isinstance(event, EntryWritten | EntryDeleted | EntryRestored)
        }
        return Step(self._lineage, self._recorded, changed)

    # -- inside

    @property
    def _stored_revision(self) -> int:
        """The newest revision that is in the table already."""
        return self._revision - len(self._rows)

    def _begin(self, name: str, fork: ForkPoint | None) -> None:
        ident = int(self._db.execute(_MAX_RUN).fetchone()[0]) + 1
        uid = self._sources.new_uid()
        source = None if fork is None else fork.source.upto(fork.revision)
        if fork is None or not source:  # a fork of the empty beginning shares no event with anybody
            family, parent, revision, before = ident, None, 0, NO_PARENT
        else:
            family, parent, revision = fork.source.run.family, source[0].run, fork.revision
            before = hash_at(self._db, parent, revision)
        self._run = self._new_run = Run(ident, uid, name, family, parent, revision, self._now)
        self._lineage = Lineage(self._run, (Segment(ident, revision, NEWEST_REVISION), *(source or ())))
        self._revision, self._turn = revision, 0 if fork is None else fork.turn
        self._hash = genesis_hash(uid, self._name(name).commitment, self._now, before)

    def _name(self, name: str) -> _Name:
        known = self._names.get(name)
        if known is None:
            stored = stored_text(name)
            row = self._db.execute(_NAME, (stored, self._run.family)).fetchone()
            known = self._new_name(name, stored) if row is None else _Name(*row)
            self._names[name] = known
        return known

    def _new_name(self, name: str, stored: str | bytes) -> _Name:
        if not self._next_name:
            self._next_name = int(self._db.execute(_MAX_NAME).fetchone()[0]) + 1
        salt = self._sources.random_bytes(SALT_SIZE)
        new = _Name(self._next_name, name_commitment(salt, name))
        self._new_names.append((new.id, self._run.family, stored, salt, new.commitment))
        self._next_name += 1
        return new

    def _hash_of(
        self, payload: Payload, offset: int, key: _Name | None, agent: _Name | None, activity: _Name | None
    ) -> bytes:
        committed = (
            None
            if payload.salt is None
            else content_commitment(payload.salt, payload.value, payload.metadata)
        )
        return event_hash(
            self._hash,
            self._revision,
            offset,
            self._turn,
            payload.type,
            PAYLOAD_VERSION,
            key and key.commitment,
            agent and agent.commitment,
            activity and activity.commitment,
            committed,
            0,
            payload.content,
            payload.expires_at_turn,
            payload.birth,
            payload.created_at,
            payload.detail,
            self._now,
            None,
        )

    def _evolve(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, EntryWritten | EntryDeleted | EntryRestored):
            self._entries[event.key] = evolve(self.entry(event.key), recorded)
        if isinstance(event, EntryWritten):
            self._contents[recorded.revision] = Content(event.value, event.metadata, recorded.agent)
