"""The store without a file: the same commands and the same fold as the store on a log, over a dict."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..eventlog import Command, Conflict, Content, Entry, KeyReused, Limits, NotFound, Once, Seal, evolve
from ..eventlog.chain import SALT_SIZE, attempt_digest
from ..eventlog.commands import check_name, exact_str
from ..eventlog.events import Change, EntryWritten, Event, Recorded, TurnMark
from ..eventlog.once import check_keys, fingerprint, in_part
from ..eventlog.text import utf8_size
from .acting import Acting, actor
from .contract import check_limit
from .entry import MemoryEntry, entry_of
from .verbs import CommandVerbs

__all__ = ["InMemoryStore"]


class InMemoryStore(CommandVerbs):
    """A `MemoryStore` that dies with the process: the twin of `EventSourcedStore`, without history.

    Safe to use from several threads; every operation is atomic. Versions are positions that this object
    counts up, refused writes included, as a log with this one run would.

    Args:
        limits: sizes above which a command is refused; see `Limits`.
        clock: milliseconds since 1970 UTC; to be replaced in tests only.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._limits = limits or Limits()
        self._clock = clock
        self._lock = threading.Lock()
        self._cells: dict[str, _Cell | None] = {}
        self._done: dict[str, _Done] = {}  # by idempotency key
        self._position = 0
        self._turn = 0

    @property
    def limits(self) -> Limits:
        """Sizes above which a command is refused."""
        return self._limits

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none."""
        key = exact_str("key", key)
        with self._lock:
            cell = self._cells.get(key)
        return None if cell is None else _memory_entry(cell)

    def list(self) -> list[MemoryEntry]:
        """Every entry, expired ones included, in birth order, as of one moment."""
        return [_memory_entry(cell) for cell in self._in_birth_order()]

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> Iterator[MemoryEntry]:
        """Entries whose key begins with `prefix` (literally), in birth order, as of the call.

        Args:
            prefix: `""` means every key.
            after: begin behind the entry of this key, which must exist.
            limit: at most so many.

        Raises:
            LookupError: there is no entry `after`.
            TypeError, ValueError: bad arguments.
        """
        prefix = exact_str("prefix", prefix)
        check_limit(limit)
        cells = self._in_birth_order()
        if after is not None:
            after = exact_str("after", after)
            places = [place for place, cell in enumerate(cells) if cell.entry.key == after]
            if not places:
                raise LookupError(f"there is no entry {after!r} to begin behind")
            cells = cells[places[0] + 1 :]
        found = [cell for cell in cells if cell.entry.key.startswith(prefix)]
        return map(_memory_entry, found[:limit])

    def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Carry out `commands` as one batch, all or nothing; one outcome each. See `EventLog.execute`.

        Raises:
            TypeError, ValueError: a command or name that cannot be; nothing was written.
            Conflict: a command's `expected_version` is not the one found; nothing was written, and the
                refusal took a position.
            KeyReused: an idempotency key stands for another command, or for a part of the list.
            NotFound: a command wants back what only a log still has; nothing was written.
        """
        commands = tuple(commands)
        acting = self._actor(agent, activity)
        check_keys(commands)
        for command in commands:
            command.check(self._limits)
            if command.agent is not None:
                check_name(self._limits, "agent", command.agent)
        if not commands:
            return []
        with self._lock:
            draft = _Draft(self._cells, self._done, self._position, self._turn, self._clock())
            try:
                outcomes = draft.execute(commands, acting)
            except Conflict as error:
                if error.key is None:
                    raise
                if error.key in draft.changed:
                    raise ValueError(
                        f"key {error.key!r} is changed earlier in the same list, so that the "
                        "condition on its version can never hold; nothing was written"
                    ) from None
                self._position += 1
                raise
            self._take(draft)
        return outcomes

    def get_turn(self) -> int:
        """The turn; 0 at first."""
        with self._lock:
            return self._turn

    def _actor(self, agent: str | None, activity: str | None) -> Acting:
        acting = actor(agent, activity)
        for what, name in (("agent", acting.agent), ("activity", acting.activity)):
            if name is not None:
                check_name(self._limits, what, name)
        return acting

    def _take(self, draft: _Draft) -> None:
        # The update is the last call that an interrupt could follow: a batch is never taken in part.
        changed = draft.changed
        self._done.update(draft.done)
        self._position, self._turn = draft.position, draft.turn
        self._cells.update(changed)
        for key, cell in changed.items():
            if cell is None:
                self._cells.pop(key, None)

    def _in_birth_order(self) -> list[_Cell]:
        with self._lock:
            cells = [cell for cell in self._cells.values() if cell is not None]
        cells.sort(key=lambda cell: cell.entry.birth)
        return cells


class _Cell(NamedTuple):
    """A living entry and its text."""

    entry: Entry
    content: Content


class _Done(NamedTuple):
    """A command that is carried out once, and its outcome."""

    fingerprint: str
    outcome: Any


class _Draft:
    """A batch being decided over the present, which it leaves alone; a `View` for its commands."""

    def __init__(
        self,
        present: dict[str, _Cell | None],
        known: dict[str, _Done],
        position: int,
        turn: int,
        now: int,
    ) -> None:
        self._present = present
        self._known = known
        self.done: dict[str, _Done] = {}
        self._now = now
        self._began_after = position
        self.changed: dict[str, _Cell | None] = {}
        self.position = position
        self.turn = turn

    def entry(self, key: str) -> Entry | None:
        """See `View.entry`."""
        cell = self.changed[key] if key in self.changed else self._present.get(key)
        return None if cell is None else cell.entry

    def entries(self) -> list[Entry]:
        """See `View.entries`."""
        cells = (self._present | self.changed).values()
        return sorted((cell.entry for cell in cells if cell is not None), key=lambda entry: entry.birth)

    def content(self, entry: Entry) -> Content:
        """See `View.content`."""
        return self._content(entry.key, entry.content)

    def seal(self, text: str) -> Seal:
        """See `View.seal`."""
        salt = os.urandom(SALT_SIZE)
        return Seal(utf8_size(text), attempt_digest(salt, text), salt)

    def execute(self, commands: Sequence[Command[Any]], acting: Acting) -> list[Any]:
        """Decide `commands` in order; one outcome each."""
        outcomes: list[Any] = []
        repeated: str | None = None
        for command in commands:
            known = self._earlier(command)
            if known is not None:
                repeated = known
                outcomes.append(self._known[known].outcome)
                continue
            agent = acting.agent if command.agent is None else command.agent
            recorded = [self._append(event, agent, acting.activity) for event in command.decide(self)]
            outcomes.append(command.outcome(recorded))
            if type(command) is Once:
                self.done[command.idempotency_key] = _Done(fingerprint(command.command), outcomes[-1])
        if repeated is not None and self.position != self._began_after:
            raise in_part(repeated)
        return outcomes

    def _earlier(self, command: Command[Any]) -> str | None:
        """The idempotency key of a command that was carried out before."""
        if type(command) is not Once or command.idempotency_key not in self._known:
            return None
        if self._known[command.idempotency_key].fingerprint != fingerprint(command.command):
            raise KeyReused(
                f"idempotency key {command.idempotency_key!r} stands for another command; nothing was done",
                command.idempotency_key,
            )
        return command.idempotency_key

    def _append(self, event: Event, agent: str | None, activity: str | None) -> Recorded:
        offset = self.position - self._began_after
        self.position += 1
        if isinstance(event, TurnMark):
            self.turn = event.turn
        recorded = Recorded(
            position=self.position,
            run="main",
            revision=self.position,
            batch=offset,
            turn=self.turn,
            agent=agent,
            activity=activity,
            recorded_at_ms=self._now,
            event=event,
            hash=b"",  # nothing is kept that a chain could hold together
        )
        if isinstance(event, Change):
            entry = evolve(self.entry(event.key), recorded)
            self.changed[event.key] = None if entry is None else _Cell(entry, self._text(entry, recorded))
        return recorded

    def _text(self, entry: Entry, recorded: Recorded) -> Content:
        event = recorded.event
        if isinstance(event, EntryWritten):
            return Content(event.value, event.metadata, recorded.agent)
        return self._content(entry.key, entry.content)

    def _content(self, key: str, revision: int) -> Content:
        for cell in (self.changed.get(key), self._present.get(key)):
            if cell is not None and cell.entry.content == revision:
                return cell.content
        raise NotFound(
            f"key {key!r}: an in-memory store keeps no history, so what revision {revision} held is gone; "
            "nothing was written"
        )


def _memory_entry(cell: _Cell) -> MemoryEntry:
    entry, content = cell
    return entry_of(
        entry.key, content.value, content.metadata, entry.created_at, entry.expires_at_turn, entry.version
    )
