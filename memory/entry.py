"""What a store gives for a key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from ..eventlog.events import moment
from ..eventlog.text import read_json

__all__ = ["MemoryEntry", "entry_of", "read_metadata"]


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One entry of a store; a copy, never live.

    Attributes:
        key: the key, whole.
        value: the value; always text at this boundary.
        metadata: a fresh dict of JSON values, or None when the entry has none.
        created_at: when the key's present life began: aware UTC, whole milliseconds. Survives overwriting.
        expires_at_turn: the first turn at which it counts as expired, or None.
        version: position of the event that last changed the key; None from a store without versions.
    """

    key: str
    value: str
    metadata: dict[str, Any] | None
    created_at: datetime
    expires_at_turn: int | None = None
    version: int | None = None


_moment = lru_cache(maxsize=4096)(moment)  # entries are read again and again, and many were made together


class _Draft:
    """An entry before it is frozen; it has the members of one, in the same places.

    A frozen dataclass sets its members by a detour, which takes longer than all the rest.
    """

    __slots__ = ("created_at", "expires_at_turn", "key", "metadata", "value", "version")


_new = object.__new__


def entry_of(
    key: str, value: str, metadata: str | None, created_at: int, expires_at_turn: int | None, version: int
) -> MemoryEntry:
    """The entry that a log holds; `metadata` is the JSON text it stores, `created_at` is in milliseconds."""
    entry: Any = _new(_Draft)
    entry.key = key
    entry.value = value
    entry.metadata = None if metadata is None else read_metadata(metadata)
    entry.created_at = _moment(created_at)
    entry.expires_at_turn = expires_at_turn
    entry.version = version
    entry.__class__ = MemoryEntry
    return entry


def read_metadata(stored: str | None) -> dict[str, Any] | None:
    """Metadata as a fresh dict, from the JSON text a log stores."""
    if stored is None:
        return None
    if len(stored) <= _SHORT:
        flat = _flat(stored)
        if flat is not None:
            return flat.copy()
    return cast("dict[str, Any]", read_json(stored))


_SHORT = 200


@lru_cache(maxsize=4096)
def _flat(stored: str) -> dict[str, Any] | None:
    """What `stored` reads as, if a shallow copy of it is a whole one: most entries share a few texts."""
    metadata = cast("dict[str, Any]", read_json(stored))
    return None if any(isinstance(item, dict | list) for item in metadata.values()) else metadata
