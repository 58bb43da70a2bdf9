"""The memory of a run at a point, and the difference between two points."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..eventlog import Entry
from ..eventlog.history import Present
from ..memory.entry import MemoryEntry, entry_of, read_metadata
from ..memory.reserved import is_reserved
from .address import Point

__all__ = ["Difference", "State", "difference", "is_expired", "is_visible", "memory_entry"]


class State(dict[str, MemoryEntry]):
    """The entries of a run at a point, by key, in birth order; a plain dict otherwise.

    Attributes:
        point: the point.
        expired: keys in it that had expired by then (only with `all=True`).
        reserved: keys in it that belong to the framework (only with `all=True`).
    """

    def __init__(self, point: Point, entries: Iterable[MemoryEntry]) -> None:
        super().__init__((entry.key, entry) for entry in entries)
        self.point = point
        self.expired = frozenset(
            entry.key
            for entry in self.values()
            if entry.expires_at_turn is not None and point.turn >= entry.expires_at_turn
        )
        self.reserved = frozenset(filter(is_reserved, self))

    def visible(self) -> State:
        """Only what agents would have seen: neither expired nor reserved."""
        hidden = self.expired | self.reserved
        if not hidden:
            return self
        return State(self.point, [entry for key, entry in self.items() if key not in hidden])


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that is not the same at two points.

    Attributes:
        key: the key.
        change: `added`, `changed` or `removed` (deleted, or expired in between).
        before, after: the entry at either point; None where it was not visible.
    """

    key: str
    change: Literal["added", "changed", "removed"]
    before: MemoryEntry | None
    after: MemoryEntry | None


def difference(before: Present | None, after: Present | None) -> Difference | None:
    """How what one key held at two points differs, as agents would see it; None if it does not."""
    if before is None:
        return None if after is None else Difference(after.key, "added", None, memory_entry(after))
    if after is None:
        return Difference(before.key, "removed", memory_entry(before), None)
    if _same(before, after):
        return None
    return Difference(before.key, "changed", memory_entry(before), memory_entry(after))


def is_expired(entry: Entry | Present, turn: int) -> bool:
    """Whether `entry` counts as expired at `turn`."""
    return entry.expires_at_turn is not None and turn >= entry.expires_at_turn


def is_visible(entry: Entry | Present, turn: int) -> bool:
    """Whether agents would have seen `entry` at `turn`: neither expired nor reserved."""
    return not is_expired(entry, turn) and not is_reserved(entry.key)


def memory_entry(present: Present) -> MemoryEntry:
    """What a store would have given for it."""
    key, version, _, _, created_at, expires_at_turn, value, metadata = present
    return entry_of(key, value, metadata, created_at, expires_at_turn, version)


def _same(before: Present, after: Present) -> bool:
    """Whether agents would see no difference."""
    if before.value != after.value or before.expires_at_turn != after.expires_at_turn:
        return False
    if before.metadata == after.metadata:
        return True
    # As JSON, where True, 1 and 1.0 differ; the order of an object's members tells nothing.
    one, other = (json.dumps(read_metadata(each.metadata), sort_keys=True) for each in (before, after))
    return one == other
