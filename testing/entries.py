"""The five verbs every store has, and that nothing is shared with the caller."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from ..memory import MemoryEntry
from .clocks import Clock, moment
from .rules import rules

__all__ = ["EntryRules"]


@rules
class EntryRules:
    """What entries are, and how long they live."""

    def test_an_empty_store_holds_nothing(self, store: Any) -> None:
        """A missing key is None, not an error, and an empty store lists nothing."""
        assert store.list() == [], "`open_store` must give an empty store in every test"
        assert store.get("a") is None

    def test_what_was_set_is_got(self, store: Any, clock: Clock) -> None:
        """An entry carries key, value, metadata and creation time, and no expiry."""
        store.set("a", "1", {"agent": "writer", "n": [1, {"x": None}]})
        entry = store.get("a")
        assert type(entry) is MemoryEntry, "`get` gives a turnlog.MemoryEntry"
        assert (entry.key, entry.value, entry.expires_at_turn) == ("a", "1", None)
        assert entry.metadata == {"agent": "writer", "n": [1, {"x": None}]}
        assert abs(entry.created_at - moment(clock())) <= timedelta(milliseconds=clock.slack_ms)

    def test_list_gives_what_get_gives(self, store: Any) -> None:
        """Both ways to an entry agree in every attribute."""
        store.set("a", "1", {"x": 1})
        store.set("b", "2")
        assert store.list() == [store.get("a"), store.get("b")]

    def test_created_at_is_aware_utc_in_whole_milliseconds(self, store: Any) -> None:
        """Creation times can be compared with any other aware time."""
        store.set("a", "1")
        created_at = store.get("a").created_at
        assert created_at.utcoffset() == timedelta(0), f"{created_at!r} is not aware, or not in UTC"
        assert created_at.microsecond % 1000 == 0, f"{created_at!r} has more than milliseconds"

    def test_set_replaces_value_and_metadata(self, store: Any) -> None:
        """A write replaces the whole entry: metadata is never merged, and leaving it out drops it."""
        store.set("a", "1", {"x": 1, "y": 2})
        store.set("a", "2", {"x": 3})
        assert (store.get("a").value, store.get("a").metadata) == ("2", {"x": 3})
        store.set("a", "3")
        assert (store.get("a").value, store.get("a").metadata) == ("3", None)

    def test_absent_and_empty_metadata_differ(self, store: Any) -> None:
        """Absent metadata is None, an empty dict stays one."""
        store.set("none", "1")
        store.set("empty", "1", {})
        assert store.get("none").metadata is None
        assert store.get("empty").metadata == {}

    def test_overwriting_keeps_created_at_and_place(self, store: Any, clock: Clock) -> None:
        """The time of first writing and the order of listing survive a new value."""
        store.set("a", "1")
        store.set("b", "1")
        before = store.get("a").created_at
        clock.pass_ms(5)
        store.set("a", "2")
        assert store.get("a").created_at == before, "created_at is the time of the first write"
        assert [entry.key for entry in store.list()] == ["a", "b"], "an overwritten key keeps its place"

    def test_deleting_and_setting_begins_a_new_life_at_the_end(self, store: Any, clock: Clock) -> None:
        """A key that was deleted comes back as a new one."""
        store.set("a", "1")
        store.set("b", "1")
        before = store.get("a").created_at
        store.delete("a")
        clock.pass_ms(5)
        store.set("a", "2")
        assert store.get("a").created_at >= before + timedelta(milliseconds=5), "it is a new life"
        assert [entry.key for entry in store.list()] == ["b", "a"]

    def test_order_does_not_come_from_the_clock(self, store: Any, clock: Clock) -> None:
        """Entries of one instant, or of a clock set back, are listed in the order in which they were born."""
        for number in range(20):
            clock.pass_ms(-(number % 3))
            store.set(f"k{19 - number}", "v")
        assert [entry.key for entry in store.list()] == [f"k{19 - number}" for number in range(20)]

    def test_delete_removes_one_key(self, store: Any) -> None:
        """The other keys stay."""
        store.set("a", "1")
        store.set("ab", "2")
        store.delete("a")
        assert store.get("a") is None
        assert [entry.key for entry in store.list()] == ["ab"]

    def test_deleting_a_missing_key_is_silent(self, store: Any) -> None:
        """Nothing is raised and nothing changes, twice over."""
        store.set("a", "1")
        store.delete("missing")
        store.delete("missing")
        assert [entry.key for entry in store.list()] == ["a"]

    def test_clear_removes_everything(self, store: Any) -> None:
        """Reserved keys go too; the store stays usable, and clearing an empty one is silent."""
        store.set("a", "1")
        store.set("__oma_checkpoint__/latest", "2")
        store.clear()
        store.clear()
        assert store.list() == []
        store.set("a", "3")
        assert store.get("a").value == "3"

    # -- nothing is shared with the caller

    def test_entries_are_frozen(self, store: Any) -> None:
        """An entry cannot be changed, so nobody can think that this would change the store."""
        store.set("a", "1")
        entry = store.get("a")
        for name in ("key", "value", "metadata", "created_at", "expires_at_turn", "version"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(entry, name, None)

    def test_metadata_is_copied_on_the_way_in(self, store: Any) -> None:
        """Changing the dict that was passed, at any depth, does not change the entry."""
        metadata: dict[str, Any] = {"list": [1], "dict": {"x": 1}}
        store.set("a", "1", metadata)
        metadata["list"].append(2)
        metadata["dict"]["x"] = 2
        metadata["new"] = True
        assert store.get("a").metadata == {"list": [1], "dict": {"x": 1}}

    def test_metadata_is_fresh_on_the_way_out(self, store: Any) -> None:
        """Changing what was got or listed does not change the store."""
        store.set("a", "1", {"list": [1]})
        store.get("a").metadata["list"].append(2)
        store.list()[0].metadata["list"].append(3)
        store.list().clear()
        assert store.get("a").metadata == {"list": [1]}
        assert len(store.list()) == 1

    def test_an_entry_keeps_what_it_held(self, store: Any) -> None:
        """What was got before a write still shows the old value."""
        store.set("a", "1", {"x": 1})
        before = store.get("a")
        store.set("a", "2", {"x": 2})
        assert (before.value, before.metadata) == ("1", {"x": 1})
