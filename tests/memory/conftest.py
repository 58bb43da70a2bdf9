"""What the tests of shared memory have in common: stores with every ability, and one with the five verbs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog.driver import driver
from turnlog.memory import (
    AsyncEventSourcedStore,
    AsyncSharedMemory,
    EventSourcedStore,
    InMemoryStore,
    MemoryEntry,
    SharedMemory,
)

from ..blocking import Blocking, Loop


class PlainStore:
    """A store such as a user would write: the five verbs over a dict, and nothing else."""

    def __init__(self) -> None:
        self.entries: dict[str, MemoryEntry] = {}
        self.fail_at: str | None = None

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`."""
        return self.entries.get(key)

    def set(self, key: str, value: str, metadata: Any = None) -> None:
        """Set `key`, or fail if a test said so."""
        self._keep(key, value, metadata, None)

    def list(self) -> list[MemoryEntry]:
        """Every entry."""
        return [*self.entries.values()]

    def delete(self, key: str) -> None:
        """Remove `key`."""
        self.entries.pop(key, None)

    def clear(self) -> None:
        """Remove everything."""
        self.entries.clear()

    def _keep(self, key: str, value: str, metadata: Any, expires_at_turn: int | None) -> None:
        if key == self.fail_at:
            raise OSError(f"cannot write {key}")
        before = self.entries.get(key)
        created_at = before.created_at if before else datetime.now(UTC).replace(microsecond=0)
        self.entries[key] = MemoryEntry(key, value, metadata, created_at, expires_at_turn)


class ExpiringStore(PlainStore):
    """A plain store that keeps an expiry as well."""

    def set_with_expiry(self, key: str, value: str, expires_at_turn: int, metadata: Any = None) -> None:
        """Set `key` with an expiry."""
        self._keep(key, value, metadata, expires_at_turn)


class AsyncPlainStore:
    """The five verbs of a plain store as coroutines, each of which waits before it does anything."""

    def __init__(self, twin: PlainStore) -> None:
        self.twin = twin

    async def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`."""
        await asyncio.sleep(0)
        return self.twin.get(key)

    async def set(self, key: str, value: str, metadata: Any = None) -> None:
        """Set `key`, or fail if a test said so."""
        await asyncio.sleep(0)
        self.twin.set(key, value, metadata)

    async def list(self) -> list[MemoryEntry]:
        """Every entry."""
        await asyncio.sleep(0)
        return self.twin.list()

    async def delete(self, key: str) -> None:
        """Remove `key`."""
        await asyncio.sleep(0)
        self.twin.delete(key)

    async def clear(self) -> None:
        """Remove everything."""
        await asyncio.sleep(0)
        self.twin.clear()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[turnlog.EventLog]:
    """A fresh log."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        yield log


@pytest.fixture
def disk_log(tmp_path: Path) -> Iterator[turnlog.EventLog]:
    """A fresh log whose writes are flushed."""
    with turnlog.open(tmp_path / "team.db") as log:
        yield log


@pytest.fixture
def outsider(tmp_path: Path) -> Iterator[Any]:
    """A connection to the log's file as another program would have one, which never waits for a lock."""
    with closing(driver().connect(tmp_path / "team.db", isolation_level=None, timeout=0)) as db:
        yield db


@pytest.fixture(params=["in memory", "on a log"])
def store(request: pytest.FixtureRequest) -> Any:
    """An empty store with every ability."""
    if request.param == "in memory":
        return InMemoryStore()
    return EventSourcedStore(request.getfixturevalue("log"))


@pytest.fixture(params=["in memory", "on a log", "in memory, async", "on a log, async"])
def memory(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Shared memory, or its twin used as if it were synchronous, over a store with every ability."""
    log = request.getfixturevalue("log") if request.param.startswith("on a log") else None
    if not request.param.endswith("async"):
        yield SharedMemory(None if log is None else EventSourcedStore(log))
        return
    with Loop() as loop:
        yield Blocking(AsyncSharedMemory(None if log is None else AsyncEventSourcedStore(log)), loop)


@pytest.fixture
def plain_store() -> PlainStore:
    """An empty store with the five verbs only."""
    return PlainStore()


@pytest.fixture
def expiring_store() -> ExpiringStore:
    """An empty store with the five verbs that keeps an expiry."""
    return ExpiringStore()


@pytest.fixture(params=["sync", "async"])
def plain(request: pytest.FixtureRequest, plain_store: PlainStore) -> Iterator[Any]:
    """Shared memory, or its twin used as if it were synchronous, over a store with the five verbs only."""
    if request.param == "sync":
        yield SharedMemory(plain_store)
        return
    with Loop() as loop:
        yield Blocking(AsyncSharedMemory(AsyncPlainStore(plain_store)), loop)
