"""The entry that a store gives."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime

import pytest

from turnlog.memory import MemoryEntry
from turnlog.memory.entry import entry_of


def test_an_entry_from_a_log_is_one_made_by_hand() -> None:
    """Equal, shown alike, and as frozen; its metadata is nobody else's."""
    made = MemoryEntry("k", "v", {"n": 1}, datetime(2025, 11, 30, 2, 13, 0, 7_000, UTC), 3, 12)
    found, again = (entry_of("k", "v", '{"n":1}', 1_764_468_780_007, 3, 12) for _ in range(2))
    assert found == made
    assert repr(found) == repr(made)
    with pytest.raises(FrozenInstanceError):
        found.value = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert found.metadata is not None
    found.metadata["n"] = 2
    assert again.metadata == {"n": 1}


def test_an_entry_may_have_neither_metadata_nor_expiry() -> None:
    """They are None, as in one made by hand."""
    made = MemoryEntry("k", "v", None, datetime(1970, 1, 1, tzinfo=UTC), None, 1)
    assert entry_of("k", "v", None, 0, None, 1) == made
