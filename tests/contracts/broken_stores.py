"""A store that keeps the contract, and some that break one rule each; run by `test_contract_can_fail`."""

from __future__ import annotations

import json
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import pytest

from turnlog import Limits, MemoryEntry, Write
from turnlog.testing import AsyncStoreContract, StoreContract

Metadata = Mapping[str, Any] | None


class DictStore:
    """A store that keeps every rule, over a dict."""

    def __init__(self) -> None:
        self.entries: dict[str, MemoryEntry] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`."""
        if type(key) is not str:
            raise TypeError("key must be a str")
        return self._fresh(self.entries[key]) if key in self.entries else None

    def set(self, key: str, value: str, metadata: Metadata = None) -> None:
        """Set `key`."""
        self._keep(Write(key, value, metadata))

    def set_with_expiry(self, key: str, value: str, expires_at_turn: int, metadata: Metadata = None) -> None:
        """Set `key`, with an expiry."""
        if expires_at_turn is None:
            raise TypeError("expires_at_turn must be an int")
        self._keep(Write(key, value, metadata, expires_at_turn))

    def compare_and_set(self, key: str, expected: str | None, value: str, metadata: Metadata = None) -> bool:
        """Set `key` if it holds `expected`."""
        write = Write(key, value, metadata)
        if expected is not None and type(expected) is not str:
            raise TypeError("expected must be a str or None")
        with self._lock:
            held = self.entries.get(key)
            if (None if held is None else held.value) != expected:
                return False
            self._keep(write)
        return True

    def list(self) -> list[MemoryEntry]:
        """Every entry."""
        return [self._fresh(entry) for entry in self.entries.values()]

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> Iterator[MemoryEntry]:
        """Entries whose key begins with `prefix`."""
        if type(prefix) is not str or not (after is None or type(after) is str) or type(limit) is bool:
            raise TypeError("prefix and after must be str, limit an int")
        if limit is not None and limit < 0:
            raise ValueError("limit must not be negative")
        found = self.list()
        if after is not None:
            keys = [entry.key for entry in found]
            if after not in keys:
                raise LookupError(f"there is no entry {after!r}")
            found = found[keys.index(after) + 1 :]
        return iter([entry for entry in found if self.begins(entry.key, prefix)][:limit])

    def delete(self, key: str) -> None:
        """Remove `key`."""
        if type(key) is not str:
            raise TypeError("key must be a str")
        self.entries.pop(key, None)

    def clear(self) -> None:
        """Remove everything."""
        self.entries.clear()

    def begins(self, key: str, prefix: str) -> bool:
        """Whether `key` begins with `prefix`."""
        return key.startswith(prefix)

    def _keep(self, write: Write) -> None:
        write.check(Limits())
        metadata = None if write.metadata_json is None else json.loads(write.metadata_json)
        held = self.entries.get(write.key)
        created_at = held.created_at if held else datetime.fromtimestamp(time.time_ns() // 10**6 / 1000, UTC)
        entry = MemoryEntry(write.key, write.value, metadata, created_at, write.expires_at_turn)
        self.entries[write.key] = entry

    def _fresh(self, entry: MemoryEntry) -> MemoryEntry:
        return replace(entry, metadata=json.loads(json.dumps(entry.metadata)))


class Merging(DictStore):
    """Merges metadata."""

    def _keep(self, write: Write) -> None:
        held = self.entries.get(write.key)
        super()._keep(write)
        if held and held.metadata:
            entry = self.entries[write.key]
            self.entries[write.key] = replace(entry, metadata={**held.metadata, **(entry.metadata or {})})


class LikePrefix(DictStore):
    """Compares prefixes as SQL's LIKE does."""

    def begins(self, key: str, prefix: str) -> bool:
        pattern = prefix.replace("[", "[[]").replace("*", "[*]").replace("_", "?").replace("%", "*")
        return fnmatchcase(key.lower(), pattern.lower() + "*")


class ByLastChange(DictStore):
    """Lists in the order of last change."""

    def _keep(self, write: Write) -> None:
        super()._keep(write)
        self.entries[write.key] = self.entries.pop(write.key)


class Reborn(DictStore):
    """Loses the time of creation with every write."""

    def _keep(self, write: Write) -> None:
        entry = self.entries.get(write.key)
        super()._keep(write)
        if entry:
            now = datetime.now(UTC)
            now = now.replace(microsecond=now.microsecond // 1000 * 1000)
            self.entries[write.key] = replace(self.entries[write.key], created_at=now)


class Normalising(DictStore):
    """Compares by normal form."""

    def compare_and_set(self, key: str, expected: str | None, value: str, metadata: Metadata = None) -> bool:
        held = self.get(key)
        if held and expected and unicodedata.normalize("NFC", expected) == held.value:
            expected = held.value
        return super().compare_and_set(key, expected, value, metadata)


class EmptyIsMissing(DictStore):
    """Takes an empty value for a missing one."""

    def compare_and_set(self, key: str, expected: str | None, value: str, metadata: Metadata = None) -> bool:
        held = self.get(key)
        if (held.value if held else "") == (expected or ""):
            expected = held.value if held else None
        return super().compare_and_set(key, expected, value, metadata)


class TwoSteps(DictStore):
    """Compares, and sets some time later."""

    def compare_and_set(self, key: str, expected: str | None, value: str, metadata: Metadata = None) -> bool:
        held = self.get(key)
        if (held.value if held else None) != expected:
            return False
        time.sleep(0.0001)  # where another program would ask a server
        self.set(key, value, metadata)
        return True


class Folding(DictStore):
    """Folds the case of keys."""

    def get(self, key: str) -> MemoryEntry | None:
        return super().get(key.lower() if type(key) is str else key)

    def _keep(self, write: Write) -> None:
        super()._keep(replace(write, key=write.key.lower(), metadata=_metadata(write)))


class Replacing(DictStore):
    """Writes half an emoji as a question mark."""

    def _keep(self, write: Write) -> None:
        value = write.value.encode("utf-8", "replace").decode()
        super()._keep(replace(write, value=value, metadata=_metadata(write)))


class Live(DictStore):
    """Hands out the metadata it holds."""

    def _fresh(self, entry: MemoryEntry) -> MemoryEntry:
        return entry


class Keeping(DictStore):
    """Holds on to the metadata it was given."""

    def set(self, key: str, value: str, metadata: Metadata = None) -> None:
        super().set(key, value, metadata)
        self.entries[key] = replace(self.entries[key], metadata=metadata)  # type: ignore[arg-type]


class NoneIsEmpty(DictStore):
    """Takes no metadata for an empty dict."""

    def _keep(self, write: Write) -> None:
        super()._keep(replace(write, metadata=_metadata(write) or {}))


class KeepsExpiry(DictStore):
    """Keeps the expiry when a plain write comes."""

    def _keep(self, write: Write) -> None:
        held = self.entries.get(write.key)
        turn = (
            write.expires_at_turn if write.expires_at_turn is not None or not held else held.expires_at_turn
        )
        super()._keep(replace(write, expires_at_turn=turn, metadata=_metadata(write)))


class Judging(DictStore):
    """Hides what expired at the turn it believes to be the present one."""

    def list(self) -> list[MemoryEntry]:
        return [entry for entry in super().list() if entry.expires_at_turn != 0]


class Lenient(DictStore):
    """Writes metadata as `json.dumps` would."""

    def set(self, key: str, value: str, metadata: Metadata = None) -> None:
        super().set(key, value, json.loads(json.dumps(metadata, default=str)))


class NotThere(DictStore):
    """Raises for a key that is missing."""

    def get(self, key: str) -> MemoryEntry | None:
        return self._fresh(self.entries[key])


class HalfATurn(DictStore):
    """Can tell the turn, and cannot set it."""

    def get_turn(self) -> int:
        return 0


class Forgetting(DictStore):
    """Declared durable, and is not."""


class AsyncReborn:
    """`Reborn`, with coroutines."""

    def __init__(self) -> None:
        self._twin = Reborn()

    async def get(self, key: str) -> MemoryEntry | None:
        return self._twin.get(key)

    async def set(self, key: str, value: str, metadata: Metadata = None) -> None:
        self._twin.set(key, value, metadata)

    async def list(self) -> list[MemoryEntry]:
        return self._twin.list()

    async def delete(self, key: str) -> None:
        self._twin.delete(key)

    async def clear(self) -> None:
        self._twin.clear()


def _metadata(write: Write) -> Metadata:
    return None if write.metadata_json is None else json.loads(write.metadata_json)


def _suite(store: type, contract: type = StoreContract, *, durable: bool = False) -> type:
    @pytest.fixture
    def open_store(_: object) -> Callable[[], Any]:
        return store

    return type(f"Test{store.__name__}", (contract,), {"open_store": open_store, "durable": durable})


TestDictStore = _suite(DictStore)
TestMerging = _suite(Merging)
TestLikePrefix = _suite(LikePrefix)
TestByLastChange = _suite(ByLastChange)
TestReborn = _suite(Reborn)
TestNormalising = _suite(Normalising)
TestEmptyIsMissing = _suite(EmptyIsMissing)
TestTwoSteps = _suite(TwoSteps)
TestFolding = _suite(Folding)
TestReplacing = _suite(Replacing)
TestLive = _suite(Live)
TestKeeping = _suite(Keeping)
TestNoneIsEmpty = _suite(NoneIsEmpty)
TestKeepsExpiry = _suite(KeepsExpiry)
TestJudging = _suite(Judging)
TestLenient = _suite(Lenient)
TestNotThere = _suite(NotThere)
TestHalfATurn = _suite(HalfATurn)
TestForgetting = _suite(Forgetting, durable=True)
TestAsyncReborn = _suite(AsyncReborn, AsyncStoreContract)
TestWrongColour = _suite(AsyncReborn)


class TestNothingGiven(StoreContract):
    """Forgets to say how a store is opened."""
