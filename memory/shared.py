"""`SharedMemory`: what a team of agents shares, over any store."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from ..eventlog import Busy, Delete, Write
from ..eventlog.commands import check_turn, exact_str
from .acting import current_actor
from .agent import AgentMemory
from .contract import (
    MemoryStore,
    check_store,
    compares_and_sets,
    executes,
    keeps_turn,
    scans,
    sets_with_expiry,
)
from .entry import MemoryEntry
from .in_memory import InMemoryStore
from .keys import full_key, owned
from .reserved import is_reserved
from .shared_entry import SharedEntry, shared_entry
from .snapshot import RestoreSnapshot, Snapshot, restore_piecemeal, take_snapshot
from .summary import render_summary, results_of
from .values import encode_value, spells
from .writing import WriteExpiring, check_ttl, prepare

__all__ = ["SharedMemory"]

T = TypeVar("T")

_SNAPSHOT_ATTEMPTS = 100


class SharedMemory:
    """Namespaced, structured memory of a team, with expiry by turns. As safe to share as its store is.

    Every key is `<agent>/<key>`, so agents never collide; any agent may read any key. Entries whose turn of
    expiry has come, and records under reserved prefixes, are hidden from everything here.

    Args:
        store: where it is kept; None for a new `InMemoryStore`.

    Raises:
        TypeError: not a synchronous `MemoryStore`; names the missing methods.
    """

    def __init__(self, store: MemoryStore | None = None) -> None:
        self._store: MemoryStore = InMemoryStore() if store is None else store
        check_store(self._store, asynchronous=False, twin="AsyncSharedMemory")
        self._executes = self._store if executes(self._store) else None
        self._turns = self._store if keeps_turn(self._store) else None
        self._own_turn = 0
        self._own_turn_lock = threading.Lock()

    @property
    def store(self) -> MemoryStore:
        """The store, as it was given."""
        return self._store

    def agent(self, name: str, *, activity: str | None = None) -> AgentMemory:
        """This memory in the hands of one agent; see `AgentMemory`.

        Args:
            name: the agent.
            activity: an id for this stretch of its work; None for a new one.

        Raises:
            TypeError, ValueError: a name that no agent can have.
        """
        return AgentMemory(self, name, activity)

    # -- writing

    def write(
        self,
        agent: str,
        key: str,
        value: object,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
        expected_version: int | None = None,
    ) -> int | None:
        """Give `<agent>/<key>` a value, replacing value and metadata and clearing the expiry.

        Args:
            agent: who writes and owns the key: not empty, without `/` and control characters, not reserved.
            key: the agent's own key, not empty; may contain `/`.
            value: a str, a structured value or a pydantic model; see `encode_value`.
            metadata: a dict of JSON values; `agent` and the mark of the encoding are added and cannot be set.
            schema: any type that pydantic can validate; what is stored is its validated, dumped form.
            expected_version: the version the key must have; 0 = must not exist, expired or not; None = no
                condition.

        Returns:
            The entry's new version; None on a store without `execute`, which has no versions.

        Raises:
            TypeError: something of the wrong type, a value that is not JSON (names the path), a value that
                does not fit the schema, or an `expected_version` that the store cannot check.
            ValueError: a name, size or number out of bounds.
            Conflict: the key is at another version; read it again, merge, and retry.
            Busy, StorageError: nothing was written; as with all of these.
        """
        whole, text, marked = prepare(agent, key, value, metadata, schema)
        if self._executes is not None:
            return self._executes.execute([Write(whole, text, marked, None, expected_version)])[0]
        if expected_version is not None:
            raise TypeError(
                f"{type(self._store).__name__} has no execute(), so expected_version cannot be checked; "
                "nothing was written"
            )
        self._store.set(whole, text, marked)
        return None

    def write_expiring(
        self,
        agent: str,
        key: str,
        value: object,
        ttl_turns: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
    ) -> int | None:
        """`write`, to be hidden from `ttl_turns` turns after the present one on.

        Expired entries are hidden, not deleted; they stay in the history, and `write` makes them permanent.
        On a store with neither `execute` nor `set_with_expiry` this is a plain write, which never expires.

        Args:
            ttl_turns: an integer of at least 1.

        Returns:
            The entry's new version; None on a store without `execute`.

        Raises:
            ValueError: a `ttl_turns` that cannot be, or that leads beyond the highest turn (2**53 - 1).
            TypeError, ValueError, Busy, StorageError: as `write`.
        """
        check_ttl(ttl_turns)
        whole, text, marked = prepare(agent, key, value, metadata, schema)
        if self._executes is not None:
            return self._executes.execute([WriteExpiring(Write(whole, text, marked), ttl_turns)])[0]
        expires_at_turn = check_turn("the turn of expiry", self.turn + ttl_turns)
        if sets_with_expiry(self._store):
            self._store.set_with_expiry(whole, text, expires_at_turn, marked)
        else:
            self._store.set(whole, text, marked)
        return None

    def compare_and_set(
        self,
        agent: str,
        key: str,
        expected: object,
        value: object,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
    ) -> bool:
        """`write`, if `<agent>/<key>` holds `expected`; whether it did.

        The comparison and the write are one step for every writer the store supports. `expected` is a value
        as `read` gives it; None means that `read` gives nothing: the key is missing, or expired. (To replace
        a stored null, or to exclude that the value changed and changed back, use `expected_version`.) A str
        and the number it spells count as equal.

        Raises:
            TypeError: the store has no `compare_and_set`.
            TypeError, ValueError, Busy, StorageError: as `write`.
        """
        if not compares_and_sets(self._store):
            raise TypeError(
                f"{type(self._store).__name__} has no compare_and_set(), so nothing can be compared and set "
                "atomically; nothing was written"
            )
        whole, text, marked = prepare(agent, key, value, metadata, schema)
        wanted = self._text_to_replace(whole, expected)
        return self._store.compare_and_set(whole, wanted, text, marked)

    def delete(self, agent: str, key: str) -> None:
        """Remove `<agent>/<key>`; silent if it is missing.

        Raises:
            TypeError, ValueError: a name that cannot be.
        """
        whole = full_key(agent, key)
        if self._executes is not None:
            self._executes.execute([Delete(whole, owned(whole).agent)])
        else:
            self._store.delete(whole)

    # -- reading

    @overload
    def read(self, key: str) -> SharedEntry[Any] | None: ...
    @overload
    def read(self, key: str, *, schema: type[T]) -> SharedEntry[T] | None: ...
    @overload
    def read(self, key: str, *, schema: object) -> SharedEntry[Any] | None: ...
    def read(self, key: str, *, schema: object = None) -> SharedEntry[Any] | None:
        """The entry of a whole key, `<agent>/<key>`; None if it is missing, expired or reserved.

        Args:
            key: the whole key; any text.
            schema: any type that pydantic can validate; then the entry's value is what it makes of it, for
                example the model.

        Raises:
            TypeError: the key is not a str, or the value does not fit the schema.
        """
        if is_reserved(exact_str("key", key)):
            return None
        entry = self._store.get(key)
        if entry is None or self._is_expired(entry):
            return None
        return shared_entry(entry, schema)

    def list_all(self) -> list[SharedEntry[Any]]:
        """Every visible entry, in birth order."""
        return [shared_entry(entry) for entry in self._visible(self._store.list())]

    def list_by_agent(self, agent: str) -> list[SharedEntry[Any]]:
        """The visible entries whose key begins with `<agent>/`, in birth order.

        On a store without `scan` all entries are read to find them.
        """
        prefix = f"{exact_str('agent', agent)}/"
        if scans(self._store):
            return [shared_entry(entry) for entry in self._visible(self._store.scan(prefix))]
        found = (entry for entry in self._store.list() if entry.key.startswith(prefix))
        return [shared_entry(entry) for entry in self._visible(found)]

    def get_summary(self, task_ids: Iterable[str] | None = None) -> str:
        r"""The visible entries as markdown, grouped by agent; `""` if there are none.

        A value of more than 200 code points is cut to 197 and an ellipsis; structured values are shown as
        JSON. Line breaks in keys and values are shown as `\n`.

        Args:
            task_ids: only the results of these tasks (`<agent>/task:<id>:result`); None or none for all.

        Raises:
            TypeError: `task_ids` is one str.
        """
        if isinstance(task_ids, str):
            raise TypeError("task_ids must be several ids, for example a list; not one str")
        wanted = list(task_ids or ())
        entries = self.list_all()
        return render_summary(results_of(entries, wanted) if wanted else entries)

    # -- turns

    @property
    def turn(self) -> int:
        """The turn; 0 at first. It lives in the store if that keeps turns, else in this object."""
        return self._own_turn if self._turns is None else self._turns.get_turn()

    def advance_turn(self) -> int:
        """Count the turn up by one; the new turn.

        Where the store keeps no turn, a new `SharedMemory` begins at 0 again and shows what had expired.
        """
        if self._turns is not None:
            return self._turns.advance_turn()
        with self._own_turn_lock:
            self._own_turn = check_turn("turn", self._own_turn + 1)
            return self._own_turn

    def set_turn(self, turn: int) -> None:
        """Set the turn (0 … 2**53 - 1), up or down; going down shows again what had expired.

        Raises:
            TypeError, ValueError: not an integer, or out of range.
        """
        check_turn("turn", turn)
        if self._turns is not None:
            self._turns.set_turn(turn)
            return
        with self._own_turn_lock:
            self._own_turn = turn

    # -- snapshots

    def snapshot(self) -> Snapshot:
        """The visible entries and the turn as plain JSON data: version 1 of the shared format.

        Raises:
            Busy: the turn changed all the time, so that entries and turn never belonged together.
        """
        for _ in range(_SNAPSHOT_ATTEMPTS):
            turn = self.turn
            entries = self._store.list()
            if self.turn == turn:
                return take_snapshot(self._visible(entries, turn), turn)
        raise Busy(f"the turn changed during each of {_SNAPSHOT_ATTEMPTS} attempts to take a snapshot")

    def restore(self, snapshot: object, *, by: str | None = None) -> None:
        """Bring entries and turn to what `snapshot` says; entries under reserved prefixes stay.

        `created_at`, expiry, metadata and order come back too. All or nothing, and recorded as a restore. On
        a store without `execute` it is neither: entries are deleted and set one by one, so that a failure
        leaves them in between, `created_at` is the time of the restore, and expiries are lost where the store
        lacks `set_with_expiry`.

        Args:
            snapshot: what `snapshot()` gave, or the same shape from another implementation. Reserved entries
                in it are ignored.
            by: who asks, for the history; None for the ambient agent (see `acting_as`).

        Raises:
            TypeError, ValueError: not a snapshot of version 1; nothing was changed.
            Busy, StorageError: nothing was changed.
        """
        command = RestoreSnapshot(snapshot, current_actor().agent if by is None else by)
        if self._executes is not None:
            self._executes.execute([command])
        else:
            restore_piecemeal(self._store, command)
        if self._turns is None or self._executes is None:
            self.set_turn(command.turn)

    # -- inside

    def _text_to_replace(self, key: str, expected: object) -> str | None:
        """The stored text that stands for `expected`, which may be spelled otherwise than we would."""
        entry = self._store.get(key)
        if expected is None:
            return entry.value if entry is not None and self._is_expired(entry) else None
        text = encode_value(expected)
        if entry is not None and spells(entry.value, entry.metadata, text):
            return entry.value
        return text.text

    def _is_expired(self, entry: MemoryEntry) -> bool:
        # The turn is asked for only where it matters: a log has to be read for it.
        return entry.expires_at_turn is not None and self.turn >= entry.expires_at_turn

    def _visible(self, entries: Iterable[MemoryEntry], turn: int | None = None) -> Iterator[MemoryEntry]:
        for entry in entries:
            if is_reserved(entry.key):
                continue
            if entry.expires_at_turn is not None:
                turn = self.turn if turn is None else turn
                if turn >= entry.expires_at_turn:
                    continue
            yield entry
