"""The store in one JSON file, for asyncio."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..eventlog import Limits
from .entry import MemoryEntry
from .file_store import FileStore

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["AsyncFileStore"]

T = TypeVar("T")


class AsyncFileStore:
    """An `AsyncMemoryStore` in one JSON file: the twin of `FileStore`, which says what it promises.

    Opening reads the file at once, in the constructor. Writes are flushed in a thread, one after the other,
    in the order in which they were awaited; other tasks go on meanwhile. A task that is cancelled has written
    wholly or not at all. Reads come from memory and never wait. Close it (or leave its `with` block) after
    the tasks: what is in line is still written.

    Args:
        path: the file; see `FileStore`, for `limits` and `clock` too.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._twin = FileStore(path, limits=limits, clock=clock)
        self._worker: ThreadPoolExecutor | None = None

    @property
    def path(self) -> Path:
        """The file: absolute, without symbolic links."""
        return self._twin.path

    @property
    def limits(self) -> Limits:
        """Sizes above which an entry is refused."""
        return self._twin.limits

    def close(self) -> None:
        """Write what is in line, then let go of the file; again has no effect."""
        if self._worker is not None and self._twin.is_usable():
            self._worker.shutdown()
        self._twin.close()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    async def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none."""
        return self._twin.get(key)

    async def list(self) -> list[MemoryEntry]:
        """Every entry, expired ones included, in birth order, as of one moment."""
        return self._twin.list()

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace value and metadata and clear the expiry; see `FileStore.set`."""
        await self._in_line(lambda: self._twin.set(key, value, metadata))

    async def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """`set`, with the turn (0 … 2**53 - 1) from which on the entry counts as expired."""
        await self._in_line(lambda: self._twin.set_with_expiry(key, value, expires_at_turn, metadata))

    async def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """`set`, if `key` holds exactly `expected`; see `FileStore.compare_and_set`."""
        return await self._in_line(lambda: self._twin.compare_and_set(key, expected, value, metadata))

    async def delete(self, key: str) -> None:
        """Remove `key`; silent, and without a flush, if it is missing."""
        await self._in_line(lambda: self._twin.delete(key))

    async def clear(self) -> None:
        """Remove every entry, those under reserved prefixes included."""
        await self._in_line(self._twin.clear)

    async def _in_line(self, operation: Callable[[], T]) -> T:
        """Carry out a write behind those before it, in the one thread there is for that."""
        import asyncio

        if not self._twin.is_usable():
            return operation()  # which says why not; a child of `fork` has not got the thread
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor

            self._worker = ThreadPoolExecutor(1, "turnlog-file-store")
        return await asyncio.get_running_loop().run_in_executor(self._worker, operation)
