"""What the tests of shared memory have in common: stores with every ability, and one with the five verbs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.memory import EventSourcedStore, InMemoryStore, MemoryEntry, SharedMemory


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


@pytest.fixture
def log(tmp_path: Path) -> Iterator[turnlog.EventLog]:
    """A fresh log."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        yield log


@pytest.fixture(params=["in memory", "event-sourced"])
def store(request: pytest.FixtureRequest) -> Any:
    """An empty store with every ability."""
    if request.param == "in memory":
        return InMemoryStore()
    return EventSourcedStore(request.getfixturevalue("log"))


@pytest.fixture(params=["in memory", "event-sourced", "in memory, async", "event-sourced, async"])
def memory(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Shared memory, or its twin used as if it were synchronous, over a store with every ability."""
    log = request.getfixturevalue("log") if request.param.startswith("event-sourced") else None
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


@pytest.fixture
def plain(plain_store: PlainStore) -> SharedMemory:
    """Shared memory over a store with the five verbs only."""
    return SharedMemory(plain_store)
