"""What shared memory gives for a key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from .entry import MemoryEntry
from .schemas import revive
from .values import decode_value

__all__ = ["SharedEntry", "shared_entry"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SharedEntry(Generic[T]):
    """One entry of shared memory; a copy, never live.

    Attributes:
        key: the whole key, `<agent>/<key>`.
        value: the value as it was written: a str, or what a structured value decodes to; the model where a
            schema was asked for.
        metadata: a fresh dict, or None when the entry has none. `agent` in it says who wrote.
        created_at: when the key's present life began: aware UTC, whole milliseconds. Survives overwriting.
        expires_at_turn: the first turn at which it is hidden, or None.
        version: changes with every write of the key; None from a store without versions.
    """

    key: str
    value: T
    metadata: dict[str, Any] | None
    created_at: datetime
    expires_at_turn: int | None = None
    version: int | None = None


def shared_entry(entry: MemoryEntry, schema: object = None) -> SharedEntry[Any]:
    """A store's `entry` with its value decoded, and validated by `schema` if one is given.

    Raises:
        TypeError: the value does not fit the schema.
    """
    value = decode_value(entry.value, entry.metadata)
    return SharedEntry(
        key=entry.key,
        value=value if schema is None else revive(value, schema, entry.key),
        metadata=entry.metadata,
        created_at=entry.created_at,
        expires_at_turn=entry.expires_at_turn,
        version=entry.version,
    )
