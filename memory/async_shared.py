"""`AsyncSharedMemory`: what a team of agents shares, for asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, overload

from .async_agent import AsyncAgentMemory
from .async_in_memory import AsyncInMemoryStore
from .contract import AsyncMemoryStore, check_store
from .operations import Operations
from .shared_entry import SharedEntry
from .snapshot import Snapshot
from .steps import acarry_out

__all__ = ["AsyncSharedMemory"]

T = TypeVar("T")


class AsyncSharedMemory:
    """The twin of `SharedMemory`: the same operations, with coroutines, on an asynchronous store.

    What is said there of arguments, results and errors holds here. A task that is cancelled during one of the
    operations has written wholly or not at all, if that is true of the store (`restore` on a store without
    `execute` stops half-way). The turn is read with `get_turn()`, since reading it may have to wait.

    Args:
        store: where it is kept; None for a new `AsyncInMemoryStore`.

    Raises:
        TypeError: not an `AsyncMemoryStore`; names the missing methods.
    """

    def __init__(self, store: AsyncMemoryStore | None = None) -> None:
        self._store: AsyncMemoryStore = AsyncInMemoryStore() if store is None else store
        check_store(self._store, asynchronous=True, twin="SharedMemory")
        self._operations = Operations(self._store)

    @property
    def store(self) -> AsyncMemoryStore:
        """The store, as it was given."""
        return self._store

    def agent(self, name: str, *, activity: str | None = None) -> AsyncAgentMemory:
        """This memory in the hands of one agent; see `SharedMemory.agent`."""
        return AsyncAgentMemory(self, name, activity)

    # -- writing

    async def write(
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
        """Give `<agent>/<key>` a value; see `SharedMemory.write`."""
        return await acarry_out(
            self._operations.write(agent, key, value, metadata, schema, expected_version, idempotency_key)
        )

    async def write_expiring(
        self,
        agent: str,
        key: str,
        value: object,
        ttl_turns: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
    ) -> int | None:
        """`write`, to be hidden after some turns; see `SharedMemory.write_expiring`."""
        return await acarry_out(
            self._operations.write_expiring(agent, key, value, ttl_turns, metadata, schema)
        )

    async def compare_and_set(
        self,
        agent: str,
        key: str,
        expected: object,
        value: object,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
    ) -> bool:
        """`write`, if `<agent>/<key>` holds `expected`; see `SharedMemory.compare_and_set`."""
        return await acarry_out(
            self._operations.compare_and_set(agent, key, expected, value, metadata, schema)
        )

    async def delete(self, agent: str, key: str) -> None:
        """Remove `<agent>/<key>`; silent if it is missing."""
        await acarry_out(self._operations.delete(agent, key))

    # -- reading

    @overload
    async def read(self, key: str) -> SharedEntry[Any] | None: ...
    @overload
    async def read(self, key: str, *, schema: type[T]) -> SharedEntry[T] | None: ...
    @overload
    async def read(self, key: str, *, schema: object) -> SharedEntry[Any] | None: ...
    async def read(self, key: str, *, schema: object = None) -> SharedEntry[Any] | None:
        """The entry of a whole key, `<agent>/<key>`; see `SharedMemory.read`."""
        return await acarry_out(self._operations.read(key, schema))

    async def list_all(self) -> list[SharedEntry[Any]]:
        """Every visible entry, in birth order."""
        return await acarry_out(self._operations.list_all())

    async def list_by_agent(self, agent: str) -> list[SharedEntry[Any]]:
        """The visible entries whose key begins with `<agent>/`; see `SharedMemory.list_by_agent`."""
        return await acarry_out(self._operations.list_by_agent(agent))

    async def get_summary(self, task_ids: Iterable[str] | None = None) -> str:
        """The visible entries as markdown, grouped by agent; see `SharedMemory.get_summary`."""
        return await acarry_out(self._operations.get_summary(task_ids))

    # -- turns

    async def get_turn(self) -> int:
        """The turn; see `SharedMemory.turn`."""
        return await acarry_out(self._operations.turn())

    async def advance_turn(self) -> int:
        """Count the turn up by one; see `SharedMemory.advance_turn`."""
        return await acarry_out(self._operations.advance_turn())

    async def set_turn(self, turn: int) -> None:
        """Set the turn, up or down; see `SharedMemory.set_turn`."""
        await acarry_out(self._operations.set_turn(turn))

    # -- snapshots

    async def snapshot(self) -> Snapshot:
        """The visible entries and the turn as plain JSON data; see `SharedMemory.snapshot`."""
        return await acarry_out(self._operations.snapshot())

    async def restore(self, snapshot: object, *, by: str | None = None) -> None:
        """Bring entries and turn to what `snapshot` says; see `SharedMemory.restore`."""
        await acarry_out(self._operations.restore(snapshot, by))
