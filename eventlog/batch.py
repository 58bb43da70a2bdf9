"""The one place that appends: a list of commands becomes one batch of events.

Everything is decided before anything is written: commands see the present through an overlay of what the
commands before them decided, and events get their positions, names and hashes in memory. So a list that
fails half-way leaves nothing to undo, and several batches can be written together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from .chain import (
    NO_PARENT,
    attempt_digest,
    command_digest,
    content_commitment,
    event_hash,
    framed_commitment,
    genesis_hash,
    name_commitment,
    written_hash,
)
from .codec import CODES, encode
from .commands import Command
from .driver import Connection
from .entry import Content, Entry
from .errors import KeyReused
from .events import (
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    Event,
    NothingChanged,
    Recorded,
    Redacted,
    RunForked,
    Seal,
    TurnAdvanced,
)
from .evolve import evolve
from .once import Once, earlier, fingerprint, in_part
from .pages import INSERT_EVENT, INSERT_WRITTEN, LONG, NO_NUMBER, Pages, Rows
from .projection import Step
from .runs import NEWEST_REVISION, Lineage, Run, Segment, hash_at
from .sources import Sources
from .tail import Name, RunTail, Tail, written_content
from .text import json_text, read_json, stored_text, utf8_size
from .tuples import build
from .upcast import PAYLOAD_VERSIONS

__all__ = ["Actor", "Batch", "ForkPoint"]


class Actor(NamedTuple):
    """Who acts, as claimed, and in which stretch of work; either may be unknown."""

    agent: str | None = None
    activity: str | None = None


class ForkPoint(NamedTuple):
    """Where a fork leaves its parent: after `revision` of `source`, at `turn`."""

    source: Lineage
    revision: int
    turn: int


_ERASED_KEY_OF = """
select key from events e join names on names.id = e.key where run = ? and revision = ? and names.text is null
"""
_ABSENT = (NO_NUMBER, framed_commitment(None))
_NO_BYTES = bytearray()
_RESTORED = CODES[EntryRestored]
_NOT_A_COMMANDS = frozenset({RunForked, Redacted, NothingChanged})
_FIRST_NO_CHANGE = 10  # types below it change an entry


class _Mark(NamedTuple):
    """What the first event of a command that is carried out once carries."""

    key: str
    command: str
    events: int


class Batch:
    """The next batch of one run, being decided; a `View` for the commands that decide it.

    It changes nothing but itself until `keep` gives what it decided to a `Pages`, and to the tail it began
    from, so that the next batch of the same transaction goes on from there. One that failed is just dropped.

    Args:
        db: the connection whose transaction it is.
        tail: the end of the log.
        run_name: the run to append to; it begins with this batch if it does not exist.
        sources: clock, uids and salts.
        fork: where the run begins, if it is to be a fork; then it must not exist yet.
    """

    __slots__ = (
        "_changed",
        "_db",
        "_end",
        "_entries",
        "_first",
        "_hash",
        "_last_name",
        "_long",
        "_names",
        "_new_names",
        "_new_run",
        "_now",
        "_open_rows",
        "_recorded",
        "_rows",
        "_run",
        "_sources",
        "_tail",
        "_turn",
    )

    def __init__(
        self, db: Connection, tail: Tail, run_name: str, sources: Sources, fork: ForkPoint | None = None
    ) -> None:
        self._db = db
        self._tail = tail
        self._sources = sources
        self._now = sources.clock()
        self._last_name = tail.last_name
        self._long = 0  # bytes, about, in long values and metadata
        self._names: dict[str, Name] = {}
        self._new_names: list[tuple[Any, ...]] = []
        self._new_run: tuple[Any, ...] | None = None
        self._entries: dict[str, Entry | None] = {}
        self._changed: dict[int, Entry | None] = {}  # the same, by the number of the key's name
        self._rows: list[Rows] = []
        # The last of them, while INSERT_WRITTEN writes it.
        self._open_rows: list[tuple[Any, ...]] | None = None
        self._recorded: list[Recorded] = []
        end = self._end = tail.run(db, run_name) or self._begin(run_name, fork)
        self._run = end.lineage.run
        self._first = tail.position + 1, end.revision + 1  # of the first event: position, revision
        self._turn, self._hash = end.turn, end.hash

    @property
    def lineage(self) -> Lineage:
        """The run appended to, and its ancestors."""
        return self._end.lineage

    # -- the view of the present

    @property
    def turn(self) -> int:
        """The run's turn after what has been decided so far."""
        return self._turn

    def entry(self, key: str) -> Entry | None:
        """What `key` holds after what has been decided so far."""
        if key in self._entries:
            return self._entries[key]
        return self._end.entry(self._db, key)

    def entries(self) -> list[Entry]:
        """Every living entry after what has been decided so far, in birth order."""
        present = self._end.living(self._db) | self._entries
        living = [entry for entry in present.values() if entry is not None]
        living.sort(key=lambda entry: entry.birth)
        return living

    def content(self, entry: Entry) -> Content:
        """The text that `entry` points to."""
        offset = entry.content - self._first[1]
        if offset < 0:
            return self._end.content(self._db, entry)
        return written_content(self._recorded[offset])

    def seal(self, text: str) -> Seal:
        """Length and salted digest of `text`."""
        salt = self._sources.salt()
        return Seal(utf8_size(text), attempt_digest(salt, text), salt)

    # -- deciding

    def changes(self, key: str) -> bool:
        """Whether what has been decided so far changes `key`."""
        return key in self._entries

    def execute(self, commands: Sequence[Command[Any]], actor: Actor) -> list[Any]:
        """Decide `commands` in order; one outcome each.

        Raises:
            Conflict: a command's condition does not hold. Then this batch must be dropped.
        """
        outcomes: list[Any] = []
        repeated: str | None = None
        acting, recorded = actor, self._recorded
        for command in commands:
            before = len(recorded)
            agent = actor.agent if command.agent is None else command.agent
            if agent != acting.agent:
                acting = build(Actor, (agent, actor.activity))
            if type(command) is Once:
                known = self._repeat(command, acting)
                if known is not None:
                    repeated = command.idempotency_key
                    outcomes.append(command.outcome(known))
                    continue
            else:
                for event in self._decided(command):
                    if type(event) is EntryWritten and event.expires_at_turn is event.created_at is None:
                        self._append_written(event, acting)
                    else:
                        self.append(event, acting)
            outcomes.append(command.outcome(recorded[before:]))
        if repeated is not None and recorded:
            raise in_part(repeated)
        return outcomes

    def _repeat(self, once: Once[Any], actor: Actor) -> Sequence[Recorded] | None:
        """What `once` recorded when it was carried out earlier; else it is carried out now.

        Raises:
            KeyReused: its key stands for another command.
        """
        key = once.idempotency_key
        known = earlier(self._db, self._end.lineage, key, self._end.recorded_upto)
        if known is None:
            events = self._decided(once.command) or (NothingChanged(),)
            mark = _Mark(key, fingerprint(once.command), len(events))
            for event in events:
                self.append(event, actor, mark)
                mark = None
            return None
        if not known.came_from(once.command):
            first = known.recorded[0]
            raise KeyReused(
                f"idempotency key {key!r} stands for another command, recorded at position "
                f"{first.position}; nothing was written",
                key,
            )
        return known.recorded

    def _decided(self, command: Command[Any]) -> Sequence[Event]:
        """What `command` decides, if it is what commands may record."""
        events = command.decide(self)
        for event in events:
            if type(event) in _NOT_A_COMMANDS:
                raise TypeError(f"{type(command).__name__} cannot record a {type(event).__name__}")
        return events

    def append(self, event: Event, actor: Actor, mark: _Mark | None = None) -> Recorded:
        """Give `event` its place at the end of the batch."""
        salt = self._sources.salt() if type(event) is EntryWritten else None
        kind, name, value, metadata, salt, content, expires_at_turn, birth, created_at, detail, turn = encode(
            event, salt
        )
        if value is not None and len(value) > LONG:
            self._long += len(value)
        if metadata is not None and len(metadata) > LONG:
            self._long += len(metadata)
        if mark is not None:
            salt, detail = self._marked(mark, salt, detail)
        if kind == _RESTORED:
            self._check_restored(name or "", content or 0, birth or 0)
        else:
            self._check_true(event)
        if turn is not None:
            self._turn = turn
        key, key_frame = _ABSENT if name is None else self._name(name)
        agent, agent_frame = _ABSENT if actor.agent is None else self._name(actor.agent)
        activity, activity_frame = _ABSENT if actor.activity is None else self._name(actor.activity)
        offset, now, turn, version = len(self._recorded), self._now, self._turn, PAYLOAD_VERSIONS[kind]
        position, revision = self._first[0] + offset, self._first[1] + offset
        newest = self._hash = event_hash(
            self._hash,
            revision,
            offset,
            turn,
            kind,
            version,
            key_frame,
            agent_frame,
            activity_frame,
            None if salt is None else content_commitment(salt, value, metadata),
            0,
            content,
            expires_at_turn,
            birth,
            created_at,
            detail,
            now,
            None if mark is None else stored_text(mark.key),
        )
        self._rows_of(INSERT_EVENT).append(
            (
                position,
                self._run.id,
                revision,
                offset,
                turn,
                kind,
                version,
                key,
                agent,
                activity,
                value,
                0,
                metadata or "",
                _NO_BYTES if salt is None else bytearray(salt),
                NO_NUMBER if content is None else content,
                NO_NUMBER if expires_at_turn is None else expires_at_turn,
                NO_NUMBER if birth is None else birth,
                NO_NUMBER if created_at is None else created_at,
                detail or "",
                now,
                _NO_BYTES if mark is None else stored_text(mark.key),
                bytearray(newest),
            )
        )
        recorded = Recorded(
            position,
            self._run.name,
            revision,
            offset,
            turn,
            actor.agent,
            actor.activity,
            now,
            event,
            newest,
            None if mark is None else mark.key,
        )
        self._recorded.append(recorded)
        if name is not None and kind < _FIRST_NO_CHANGE:
            self._changed[key] = self._entries[name] = evolve(self.entry(name), recorded)
        return recorded

    def keep(self, pages: Pages) -> None:
        """Let what was decided stand: hand it to `pages` to be written, and go on from it."""
        recorded, end, tail = self._recorded, self._end, self._tail
        if not recorded:
            return
        if self._new_names:
            pages.names += self._new_names
            end.names.update(self._names)
        for statement, rows in self._rows:
            if pages.events and pages.events[-1][0] is statement:
                pages.events[-1][1].extend(rows)
            else:
                pages.events.append((statement, rows))
        if self._new_run is not None:
            pages.runs.append(self._new_run)
            tail.last_run = self._run.id
            tail.add(end)
        newest = recorded[-1]
        tail.position, tail.last_name = newest.position, self._last_name
        end.revision, end.turn, end.hash = newest.revision, self._turn, self._hash
        end.entries.update(self._entries)
        end.pending += recorded
        pages.ends[self._run.name] = end
        pages.count += len(recorded)
        pages.long += self._long
        pages.steps.append(build(Step, (end.lineage, recorded, self._changed)))

    # -- inside

    def _append_written(self, event: EntryWritten, actor: Actor) -> None:
        """`append` of the commonest event, with the least work: a write without expiry and the like."""
        recorded, run, end = self._recorded, self._run, self._end
        names, entries, now, turn = end.names, self._entries, self._now, self._turn
        key, value, metadata, birth = event.key, event.value, event.metadata, event.birth
        # Most commands have asked for it, so that it is known by now.
        entry = self.entry(key) if key in entries or end.news else end.entries.get(key)
        if birth is not None and (entry is None or entry.birth != birth):
            self._check_true(event)
            entry = self.entry(key)
        by, activity = actor
        salt = self._sources.salt()
        stored = value if value.isascii() else stored_text(value)
        if len(stored) > LONG:
            self._long += len(stored)
        if metadata is not None and len(metadata) > LONG:
            self._long += len(metadata)
        key_id, key_frame = names.get(key) or self._name(key)
        agent_id, agent_frame = _ABSENT if by is None else names.get(by) or self._name(by)
        during_id, during_frame = _ABSENT if activity is None else names.get(activity) or self._name(activity)
        offset = len(recorded)
        position, revision = self._first
        position += offset
        revision += offset
        committed = content_commitment(salt, stored, metadata)
        newest = self._hash = written_hash(
            self._hash, revision, offset, turn, key_frame, agent_frame, during_frame, committed, birth, now
        )
        (self._open_rows or self._rows_of(INSERT_WRITTEN)).append(
            (
                position,
                run.id,
                revision,
                offset,
                turn,
                key_id,
                agent_id,
                during_id,
                stored,
                metadata or "",
                bytearray(salt),
                NO_NUMBER if birth is None else birth,
                now,
                bytearray(newest),
            )
        )
        place = (position, run.name, revision, offset, turn, by, activity, now, event, newest, None)
        here = build(Recorded, place)
        recorded.append(here)
        self._changed[key_id] = entries[key] = evolve(entry, here)

    def _rows_of(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows that `statement` writes after all those so far."""
        if not self._rows or self._rows[-1][0] is not statement:
            self._rows.append((statement, []))
        rows = self._rows[-1][1]
        self._open_rows = rows if statement is INSERT_WRITTEN else None
        return rows

    def _check_true(self, event: Event) -> None:
        """That what an event says of the present is so: commands of upper layers decide it as well.

        Raises:
            ValueError: it is not.
        """
        match event:
            case EntryWritten(key, _, _, _, birth, created_at) if birth is not None:
                entry = self.entry(key)
                right = entry is not None and entry.birth == birth and created_at is None
            case EntryDeleted(key):
                right = self.entry(key) is not None
            case TurnAdvanced(turn):
                right = turn == self._turn + 1
            case _:
                right = True
        if not right:
            raise ValueError(f"run {self._run.name!r}: {event!r:.200} does not follow from its present")

    def _check_restored(self, key: str, content: int, birth: int) -> None:
        """Whoever restores has read the past before the lock was taken; since then its name may be erased."""
        if not max(birth, 1) <= content < self._first[1] + len(self._recorded):
            raise ValueError(f"revision {content} of run {self._run.name!r} is not in its past")
        if content <= self._end.recorded_upto:
            segment = self._end.lineage.upto(content)[0]
            erased = self._db.execute(_ERASED_KEY_OF, (segment.run, content)).fetchone()
            if erased is not None and erased[0] != self._name(key).id:
                raise ValueError(f"the name of key {key!r:.80} was erased meanwhile; read its past anew")

    def _marked(self, mark: _Mark, salt: bytes | None, detail: str | None) -> tuple[bytes, str]:
        """Salt and detail of an event that carries `mark`."""
        salt = self._sources.salt() if salt is None else salt
        members = {} if detail is None else cast("dict[str, object]", read_json(detail))
        members |= {"command": command_digest(salt, mark.command).hex(), "events": mark.events}
        return salt, json_text(members)

    def _begin(self, name: str, fork: ForkPoint | None) -> RunTail:
        ident = self._tail.last_run + 1
        uid = self._sources.new_uid()
        source = None if fork is None else fork.source.upto(fork.revision)
        if fork is None or not source:  # a fork of the empty beginning shares no event with anybody
            family, parent, revision, before = ident, None, 0, NO_PARENT
        else:
            family, parent, revision = fork.source.run.family, source[0].run, fork.revision
            before = hash_at(self._db, parent, revision)
        run = Run(ident, uid, name, family, parent, revision, self._now)
        past = Lineage(run, (Segment(ident, revision, NEWEST_REVISION), *(source or ())))
        names = self._tail.names(family)
        turn = 0 if fork is None else fork.turn
        self._end = RunTail(past, revision, turn, b"", names, self._tail.missing)
        interned = self._name(name)
        self._end.hash = genesis_hash(uid, interned.commitment, self._now, before)
        self._new_run = (ident, uid, interned.id, family, parent, revision, self._now)
        return self._end

    def _name(self, text: str) -> Name:
        known = self._end.names.get(text) or self._names.get(text) or self._end.name(self._db, text)
        if known is None:
            salt = self._sources.salt()
            commitment = name_commitment(salt, text)
            self._last_name += 1
            known = self._names[text] = Name(self._last_name, framed_commitment(commitment))
            family = self._end.run.family
            row = (self._last_name, family, stored_text(text), bytearray(salt), bytearray(commitment))
            self._new_names.append(row)
        return known
