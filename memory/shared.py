"""`SharedMemory`: what a team of agents shares, over any store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, overload

from .agent import AgentMemory
from .contract import MemoryStore, check_store
from .in_memory import InMemoryStore
from .operations import Operations
from .shared_entry import SharedEntry
from .snapshot import Snapshot
from .steps import carry_out

__all__ = ["SharedMemory"]

T = TypeVar("T")


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
        self._operations = Operations(self._store)

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
        idempotency_key: str | None = None,
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
            idempotency_key: a name for this write, for callers who may have to repeat it: under one name the
                same write is carried out once, and gives its first version again. See `Once`.

        Returns:
            The entry's new version; None on a store without `execute`, which has no versions.

        Raises:
            TypeError: something of the wrong type, a value that is not JSON (names the path), a value that
                does not fit the schema, or an `expected_version` or `idempotency_key` that the store cannot
                check.
            ValueError: a name, size or number out of bounds.
            Conflict: the key is at another version; read it again, merge, and retry. `KeyReused`, if the
                idempotency key stands for another write.
            Busy, StorageError: nothing was written; as with all of these.
        """
        return carry_out(
            self._operations.write(agent, key, value, metadata, schema, expected_version, idempotency_key)
        )

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
        return carry_out(self._operations.write_expiring(agent, key, value, ttl_turns, metadata, schema))

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
        return carry_out(self._operations.compare_and_set(agent, key, expected, value, metadata, schema))

    def delete(self, agent: str, key: str) -> None:
        """Remove `<agent>/<key>`; silent if it is missing.

        Raises:
            TypeError, ValueError: a name that cannot be.
        """
        carry_out(self._operations.delete(agent, key))

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
        return carry_out(self._operations.read(key, schema))

    def list_all(self) -> list[SharedEntry[Any]]:
        """Every visible entry, in birth order."""
        return carry_out(self._operations.list_all())

    def list_by_agent(self, agent: str) -> list[SharedEntry[Any]]:
        """The visible entries whose key begins with `<agent>/`, in birth order.

        On a store without `scan` all entries are read to find them.
        """
        return carry_out(self._operations.list_by_agent(agent))

    def get_summary(self, task_ids: Iterable[str] | None = None) -> str:
        r"""The visible entries as markdown, grouped by agent; `""` if there are none.

        A value of more than 200 code points is cut to 197 and an ellipsis; structured values are shown as
        JSON. Line breaks in keys and values are shown as `\n`.

        Args:
            task_ids: only the results of these tasks (`<agent>/task:<id>:result`); None or none for all.

        Raises:
            TypeError: `task_ids` is one str.
        """
        return carry_out(self._operations.get_summary(task_ids))

    # -- turns

    @property
    def turn(self) -> int:
        """The turn; 0 at first. It lives in the store if that keeps turns, else in this object."""
        return carry_out(self._operations.turn())

    def advance_turn(self) -> int:
        """Count the turn up by one; the new turn.

        Where the store keeps no turn, a new `SharedMemory` begins at 0 again and shows what had expired.
        """
        return carry_out(self._operations.advance_turn())

    def set_turn(self, turn: int) -> None:
        """Set the turn (0 … 2**53 - 1), up or down; going down shows again what had expired.

        Raises:
            TypeError, ValueError: not an integer, or out of range.
        """
        carry_out(self._operations.set_turn(turn))

    # -- snapshots

    def snapshot(self) -> Snapshot:
        """The visible entries and the turn as plain JSON data: version 1 of the shared format.

        Raises:
            Busy: the turn changed all the time, so that entries and turn never belonged together.
        """
        return carry_out(self._operations.snapshot())

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
        carry_out(self._operations.restore(snapshot, by))
