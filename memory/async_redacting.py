"""A store around a store, which lets no credentials through, for asyncio."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..eventlog import Command
from .contract import AsyncMemoryStore, check_store, executes, sets_with_expiry
from .entry import MemoryEntry
from .redacting import PASSED_ON
from .scrubbing import Scrubber

__all__ = ["AsyncRedactingStore"]


class AsyncRedactingStore:
    """An `AsyncMemoryStore` around another: the twin of `RedactingStore`, which says what it scrubs.

    Args:
        inner: the store in which it is kept.
        patterns: regular expressions for what counts as a secret besides; see `RedactingStore`.

    Raises:
        TypeError: not an asynchronous store, or something that is no pattern.
        ValueError: a pattern that cannot be compiled.
    """

    def __init__(self, inner: AsyncMemoryStore, *, patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        check_store(inner, asynchronous=True, twin="RedactingStore")
        self._inner = inner
        self._scrubber = Scrubber(patterns)

    @property
    def inner(self) -> AsyncMemoryStore:
        """The store in which it is kept."""
        return self._inner

    async def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, as it was kept."""
        return await self._inner.get(key)

    async def list(self) -> builtins.list[MemoryEntry]:
        """Every entry, as it was kept."""
        return await self._inner.list()

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> object:
        """`set` of the inner store, scrubbed; gives and raises what that does."""
        return await self._inner.set(key, self._scrubber.value(value), self._scrubber.metadata(key, metadata))

    async def delete(self, key: str) -> object:
        """`delete` of the inner store."""
        return await self._inner.delete(key)

    async def clear(self) -> object:
        """`clear` of the inner store."""
        return await self._inner.clear()

    def __getattr__(self, name: str) -> Any:
        """An ability that the inner store has."""
        if name in PASSED_ON:
            return getattr(self._inner, name)
        if name == "set_with_expiry" and sets_with_expiry(self._inner):
            return self._set_with_expiry
        if name == "execute" and executes(self._inner):
            return self._execute
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    async def _set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> object:
        """`set_with_expiry` of the inner store, scrubbed."""
        inner: Any = self._inner
        scrubbed = self._scrubber.metadata(key, metadata)
        return await inner.set_with_expiry(key, self._scrubber.value(value), expires_at_turn, scrubbed)

    async def _execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> builtins.list[Any]:
        """`execute` of the inner store, with what the commands write scrubbed; see `RedactingStore`."""
        inner: Any = self._inner
        return await inner.execute(self._scrubber.commands(commands), agent=agent, activity=activity)
