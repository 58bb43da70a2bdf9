"""Shared memory in the hands of one agent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from ..eventlog.commands import exact_str
from .acting import acting_as
from .keys import check_agent, full_key
from .shared_entry import SharedEntry

if TYPE_CHECKING:
    from .shared import SharedMemory

__all__ = ["AgentMemory", "AgentView"]

T = TypeVar("T")


class AgentView:
    """One agent during one activity: what `AgentMemory` and `AsyncAgentMemory` have in common."""

    def __init__(self, name: str, activity: str | None) -> None:
        self._name = check_agent(name)
        self._activity = os.urandom(8).hex() if activity is None else exact_str("activity", activity)
        self._block: AbstractContextManager[None] | None = None

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._name

    @property
    def activity(self) -> str:
        """The id of this stretch of the agent's work; the events it leads to name it."""
        return self._activity

    def _acting(self) -> AbstractContextManager[None]:
        return acting_as(self._name, activity=self._activity)

    def _enter(self) -> None:
        if self._block is not None:
            raise RuntimeError(
                f"this view of agent {self._name!r} is in a with block already; take another one with "
                "memory.agent(name)"
            )
        block = self._acting()
        block.__enter__()
        self._block = block

    def _leave(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)


class AgentMemory(AgentView):
    """A `SharedMemory` as one agent uses it during one activity; made by `SharedMemory.agent`.

    Writes go to the agent's own keys and are recorded with the activity, from whatever thread they come. As a
    context manager it also attributes what is written to the store directly in the block.

    Raises:
        TypeError, ValueError: a name that no agent can have.
    """

    def __init__(self, memory: SharedMemory, name: str, activity: str | None = None) -> None:
        super().__init__(name, activity)
        self._memory = memory

    @property
    def memory(self) -> SharedMemory:
        """The memory all agents share."""
        return self._memory

    def write(
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
            return self._memory.write(
                self._name,
                key,
                value,
                metadata,
                schema=schema,
                expected_version=expected_version,
                idempotency_key=idempotency_key,
            )

    def write_expiring(
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
            return self._memory.write_expiring(self._name, key, value, ttl_turns, metadata, schema=schema)

    def compare_and_set(
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
            return self._memory.compare_and_set(self._name, key, expected, value, metadata, schema=schema)

    def delete(self, key: str) -> None:
        """Remove the agent's own `key`; silent if it is missing."""
        with self._acting():
            self._memory.delete(self._name, key)

    @overload
    def read(self, key: str) -> SharedEntry[Any] | None: ...
    @overload
    def read(self, key: str, *, schema: type[T]) -> SharedEntry[T] | None: ...
    @overload
    def read(self, key: str, *, schema: object) -> SharedEntry[Any] | None: ...
    def read(self, key: str, *, schema: object = None) -> SharedEntry[Any] | None:
        """The entry of a whole key, `<agent>/<key>`, whoever owns it; see `SharedMemory.read`."""
        return self._memory.read(key, schema=schema)

    @overload
    def read_own(self, key: str) -> SharedEntry[Any] | None: ...
    @overload
    def read_own(self, key: str, *, schema: type[T]) -> SharedEntry[T] | None: ...
    @overload
    def read_own(self, key: str, *, schema: object) -> SharedEntry[Any] | None: ...
    def read_own(self, key: str, *, schema: object = None) -> SharedEntry[Any] | None:
        """The entry of the agent's own `key`: what its `write(key, …)` wrote."""
        return self._memory.read(full_key(self._name, key), schema=schema)

    def list_all(self) -> list[SharedEntry[Any]]:
        """Every visible entry of the team, in birth order."""
        return self._memory.list_all()

    def list_own(self) -> list[SharedEntry[Any]]:
        """The agent's own visible entries, in birth order."""
        return self._memory.list_by_agent(self._name)

    def get_summary(self, task_ids: Iterable[str] | None = None) -> str:
        """The team's memory as markdown; see `SharedMemory.get_summary`."""
        return self._memory.get_summary(task_ids)

    def __enter__(self) -> Self:
        """Act as the agent until the block ends.

        Raises:
            RuntimeError: in such a block already; each block needs a view of its own.
        """
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Act as whoever acted before."""
        self._leave()
