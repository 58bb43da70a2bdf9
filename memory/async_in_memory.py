"""The store without a file, for asyncio."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from ..eventlog import Command, Limits
from .entry import MemoryEntry
from .in_memory import InMemoryStore
from .verbs import AsyncCommandVerbs

__all__ = ["AsyncInMemoryStore"]


class AsyncInMemoryStore(AsyncCommandVerbs):
    """An `AsyncMemoryStore` that dies with the process: `InMemoryStore` with coroutines, which never wait.

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
        self._twin = InMemoryStore(limits=limits, clock=clock)

    @property
    def limits(self) -> Limits:
        """Sizes above which a command is refused."""
        return self._twin.limits

    async def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none."""
        return self._twin.get(key)

    async def list(self) -> list[MemoryEntry]:
        """Every entry, expired ones included, in birth order, as of one moment."""
        return self._twin.list()

    async def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[MemoryEntry]:
        """`InMemoryStore.scan`, as of the first step.

        Raises (at the first step):
            LookupError: there is no entry `after`.
            TypeError, ValueError: bad arguments.
        """
        for entry in self._twin.scan(prefix, after, limit):
            yield entry

    async def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Carry out `commands` as one batch, all or nothing; see `InMemoryStore.execute`."""
        return self._twin.execute(commands, agent=agent, activity=activity)

    async def get_turn(self) -> int:
        """The turn; 0 at first."""
        return self._twin.get_turn()
