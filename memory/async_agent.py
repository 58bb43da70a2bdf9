"""Shared memory in the hands of one agent, for asyncio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from .agent import AgentView
from .keys import full_key
from .shared_entry import SharedEntry

if TYPE_CHECKING:
    from .async_shared import AsyncSharedMemory

__all__ = ["AsyncAgentMemory"]

T = TypeVar("T")


class AsyncAgentMemory(AgentView):
    """The twin of `AgentMemory`: an `AsyncSharedMemory` as one agent uses it; made by its method `agent`.

    Writes go to the agent's own keys and are recorded with the activity, from whatever task they come. `async
    with` also attributes what is written to the store directly, in the block and in tasks begun inside it.

    Raises:
        TypeError, ValueError: a name that no agent can have.
    """

    def __init__(self, memory: AsyncSharedMemory, name: str, activity: str | None = None) -> None:
        super().__init__(name, activity)
        self._memory = memory

    @property
    def memory(self) -> AsyncSharedMemory:
        """The memory all agents share."""
        return self._memory

    async def write(
        self,
        key: str,
        value: object,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> int | None:
        """Write the agent's own `key`; see `SharedMemory.write`."""
        with self._acting():
            return await self._memory.write(
                self._name,
                key,
                value,
                metadata,
                schema=schema,
                expected_version=expected_version,
                idempotency_key=idempotency_key,
            )

    async def write_expiring(
        self,
        key: str,
        value: object,
        ttl_turns: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
    ) -> int | None:
        """Write the agent's own `key` for some turns; see `SharedMemory.write_expiring`."""
        with self._acting():
            return await self._memory.write_expiring(
                self._name, key, value, ttl_turns, metadata, schema=schema
            )

    async def compare_and_set(
        self,
        key: str,
        expected: object,
        value: object,
        metadata: Mapping[str, Any] | None = None,
        *,
        schema: object = None,
    ) -> bool:
        """Write the agent's own `key` if it holds `expected`; see `SharedMemory.compare_and_set`."""
        with self._acting():
            return await self._memory.compare_and_set(
                self._name, key, expected, value, metadata, schema=schema
            )

    async def delete(self, key: str) -> None:
        """Remove the agent's own `key`; silent if it is missing."""
        with self._acting():
            await self._memory.delete(self._name, key)

    @overload
    async def read(self, key: str) -> SharedEntry[Any] | None: ...
    @overload
    async def read(self, key: str, *, schema: type[T]) -> SharedEntry[T] | None: ...
    @overload
    async def read(self, key: str, *, schema: object) -> SharedEntry[Any] | None: ...
    async def read(self, key: str, *, schema: object = None) -> SharedEntry[Any] | None:
        """The entry of a whole key, `<agent>/<key>`, whoever owns it; see `SharedMemory.read`."""
        return await self._memory.read(key, schema=schema)

    @overload
    async def read_own(self, key: str) -> SharedEntry[Any] | None: ...
    @overload
    async def read_own(self, key: str, *, schema: type[T]) -> SharedEntry[T] | None: ...
    @overload
    async def read_own(self, key: str, *, schema: object) -> SharedEntry[Any] | None: ...
    async def read_own(self, key: str, *, schema: object = None) -> SharedEntry[Any] | None:
        """The entry of the agent's own `key`: what its `write(key, …)` wrote."""
        return await self._memory.read(full_key(self._name, key), schema=schema)

    async def list_all(self) -> list[SharedEntry[Any]]:
        """Every visible entry of the team, in birth order."""
        return await self._memory.list_all()

    async def list_own(self) -> list[SharedEntry[Any]]:
        """The agent's own visible entries, in birth order."""
        return await self._memory.list_by_agent(self._name)

    async def get_summary(self, task_ids: Iterable[str] | None = None) -> str:
        """The team's memory as markdown; see `SharedMemory.get_summary`."""
        return await self._memory.get_summary(task_ids)

    async def __aenter__(self) -> Self:
        """Act as the agent until the block ends.

        Raises:
            RuntimeError: in such a block already; each block needs a view of its own.
        """
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Act as whoever acted before."""
        self._leave()
