"""What shared memory decides: every operation, for `SharedMemory` and `AsyncSharedMemory` alike.

Whatever is said to callers about an operation is said at the class that offers it, in `shared`; this is how.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ..eventlog import Busy, Command, Conflict, Delete, Once, Write
from ..eventlog.commands import check_turn, exact_str
from .acting import current_actor
from .contract import (
    AsyncMemoryStore,
    MemoryStore,
    compares_and_sets,
    executes,
    keeps_turn,
    scans,
    sets_with_expiry,
)
from .entry import MemoryEntry
from .keys import full_key, owned
from .reserved import is_reserved
from .shared_entry import SharedEntry, shared_entry
from .snapshot import RestoreSnapshot, Snapshot, put_back, take_snapshot
from .steps import Steps, gathered
from .summary import render_summary, results_of
from .values import encode_value, spells
from .writing import WriteExpiring, check_ttl, prepare

__all__ = ["Operations"]

_SNAPSHOT_ATTEMPTS = 100


class Operations:
    """The operations on one store of either kind; see `steps` for how they are carried out.

    Args:
        store: a store that has passed `check_store`.
    """

    def __init__(self, store: MemoryStore | AsyncMemoryStore) -> None:
        self._store = store
        self._executes = store if executes(store) else None
        self._turns = store if keeps_turn(store) else None
        self._own_turn = 0
        self._own_turn_lock = threading.Lock()

    # -- writing

    def write(
        self,
        agent: str,
        key: str,
        value: object,
        metadata: Mapping[str, Any] | None,
        schema: object,
        expected_version: int | None,
        idempotency_key: str | None,
    ) -> Steps[int | None]:
        """See `SharedMemory.write`."""
        whole, text, marked = prepare(agent, key, value, metadata, schema)
        if self._executes is not None:
            command: Command[int] = Write(whole, text, marked, None, expected_version)
            if idempotency_key is not None:
                command = Once(idempotency_key, command)
            outcomes = yield self._executes.execute([command])
            return outcomes[0]
        for what, asked in (("expected_version", expected_version), ("idempotency_key", idempotency_key)):
            if asked is not None:
                raise TypeError(
                    f"{type(self._store).__name__} has no execute(), so {what} cannot be checked; "
                    "nothing was written"
                )
        yield self._store.set(whole, text, marked)
        return None

    def write_expiring(
        self,
        agent: str,
        key: str,
        value: object,
        ttl_turns: int,
        metadata: Mapping[str, Any] | None,
        schema: object,
    ) -> Steps[int | None]:
        """See `SharedMemory.write_expiring`."""
        check_ttl(ttl_turns)
        whole, text, marked = prepare(agent, key, value, metadata, schema)
        if self._executes is not None:
            command = WriteExpiring(Write(whole, text, marked), ttl_turns)
            outcomes = yield self._executes.execute([command])
            return outcomes[0]
        turn = yield from self.turn()
        expires_at_turn = check_turn("the turn of expiry", turn + ttl_turns)
        if sets_with_expiry(self._store):
            yield self._store.set_with_expiry(whole, text, expires_at_turn, marked)
        else:
            yield self._store.set(whole, text, marked)
        return None

    def compare_and_set(
        self,
        agent: str,
        key: str,
        expected: object,
        value: object,
        metadata: Mapping[str, Any] | None,
        schema: object,
    ) -> Steps[bool]:
        """See `SharedMemory.compare_and_set`."""
        store = self._store
        if not compares_and_sets(self._store):
            raise TypeError(
                f"{type(self._store).__name__} has no compare_and_set(), so nothing can be compared and set "
                "atomically; nothing was written"
            )
        whole, text, marked = prepare(agent, key, value, metadata, schema)
        entry: MemoryEntry | None = yield store.get(whole)
        if entry is None or not (yield from self._is_expired(entry)):
            wanted = self._text_to_replace(entry, expected)
            return (yield self._store.compare_and_set(whole, wanted, text, marked))
        if expected is not None:
            return False  # there is nothing that anybody could read
        if self._executes is not None and entry.version is not None:
            return (yield from self._replace_version(Write(whole, text, marked, None, entry.version)))
        # Without versions, others who claim the key with this very text could win as well.
        return (yield self._store.compare_and_set(whole, entry.value, text, marked))

    def delete(self, agent: str, key: str) -> Steps[None]:
        """See `SharedMemory.delete`."""
        whole = full_key(agent, key)
        if self._executes is not None:
            yield self._executes.execute([Delete(whole, owned(whole).agent)])
        else:
            yield self._store.delete(whole)

    # -- reading

    def read(self, key: str, schema: object) -> Steps[SharedEntry[Any] | None]:
        """See `SharedMemory.read`."""
        if is_reserved(exact_str("key", key)):
            return None
        entry: MemoryEntry | None = yield self._store.get(key)
        if entry is None or (yield from self._is_expired(entry)):
            return None
        return shared_entry(entry, schema)

    def list_all(self) -> Steps[list[SharedEntry[Any]]]:
        """See `SharedMemory.list_all`."""
        entries: list[MemoryEntry] = yield self._store.list()
        visible = yield from self._visible(entries)
        return [shared_entry(entry) for entry in visible]

    def list_by_agent(self, agent: str) -> Steps[list[SharedEntry[Any]]]:
        """See `SharedMemory.list_by_agent`."""
        prefix = f"{exact_str('agent', agent)}/"
        entries: Iterable[MemoryEntry]
        if scans(self._store):
            entries = yield gathered(self._store.scan(prefix))
        else:
            entries = yield self._store.list()
        visible = yield from self._visible(entry for entry in entries if entry.key.startswith(prefix))
        return [shared_entry(entry) for entry in visible]

    def get_summary(self, task_ids: Iterable[str] | None) -> Steps[str]:
        """See `SharedMemory.get_summary`."""
        if isinstance(task_ids, str):
            raise TypeError("task_ids must be several ids, for example a list; not one str")
        wanted = list(task_ids or ())
        entries = yield from self.list_all()
        return render_summary(results_of(entries, wanted) if wanted else entries)

    # -- turns

    def turn(self) -> Steps[int]:
        """See `SharedMemory.turn`."""
        if self._turns is None:
            return self._own_turn
        return (yield self._turns.get_turn())

    def advance_turn(self) -> Steps[int]:
        """See `SharedMemory.advance_turn`."""
        if self._turns is not None:
            return (yield self._turns.advance_turn())
        with self._own_turn_lock:
            self._own_turn = check_turn("turn", self._own_turn + 1)
            return self._own_turn

    def set_turn(self, turn: int) -> Steps[None]:
        """See `SharedMemory.set_turn`."""
        check_turn("turn", turn)
        if self._turns is not None:
            yield self._turns.set_turn(turn)
            return
        with self._own_turn_lock:
            self._own_turn = turn

    # -- snapshots

    def snapshot(self) -> Steps[Snapshot]:
        """See `SharedMemory.snapshot`."""
        for _ in range(_SNAPSHOT_ATTEMPTS):
            turn = yield from self.turn()
            entries: list[MemoryEntry] = yield self._store.list()
            if (yield from self.turn()) == turn:
                return take_snapshot((yield from self._visible(entries, turn)), turn)
        raise Busy(f"the turn changed during each of {_SNAPSHOT_ATTEMPTS} attempts to take a snapshot")

    def restore(self, snapshot: object, by: str | None) -> Steps[None]:
        """See `SharedMemory.restore`."""
        command = RestoreSnapshot(snapshot, current_actor().agent if by is None else by)
        if self._executes is not None:
            yield self._executes.execute([command])
        else:
            yield from put_back(self._store, command)
        if self._turns is None or self._executes is None:
            yield from self.set_turn(command.turn)

    # -- inside

    def _replace_version(self, write: Write) -> Steps[bool]:
        """Carry out a write that names a version; whether that was still the version."""
        assert self._executes is not None
        try:
            yield self._executes.execute([write])
        except Conflict:
            return False
        return True

    def _text_to_replace(self, entry: MemoryEntry | None, expected: object) -> str | None:
        """The stored text that stands for `expected`, which may be spelled otherwise than we would."""
        if expected is None:
            return None
        text = encode_value(expected)
        if entry is not None and spells(entry.value, entry.metadata, text):
            return entry.value
        return text.text

    def _is_expired(self, entry: MemoryEntry) -> Steps[bool]:
        # The turn is asked for only where it matters: a log has to be read for it.
        return entry.expires_at_turn is not None and (yield from self.turn()) >= entry.expires_at_turn

    def _visible(self, entries: Iterable[MemoryEntry], turn: int | None = None) -> Steps[list[MemoryEntry]]:
        visible: list[MemoryEntry] = []
        for entry in entries:
            if is_reserved(entry.key):
                continue
            if entry.expires_at_turn is not None:
                turn = (yield from self.turn()) if turn is None else turn
                if turn >= entry.expires_at_turn:
                    continue
            visible.append(entry)
        return visible
