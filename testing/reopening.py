"""A store that declares `durable`: what was written is there when it is opened again."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from .clocks import Clock
from .rules import rules

__all__ = ["ReopeningRules"]


@rules
class ReopeningRules:
    """Closing a store, or losing the object, loses nothing that it acknowledged."""

    durable: ClassVar[bool]

    @pytest.fixture
    def reopened(self, opened: Any) -> Any:
        """`opened`, for a store that is durable."""
        if not self.durable:
            pytest.skip("the store is not declared `durable`")
        return opened

    def test_entries_outlive_the_object(self, reopened: Any) -> None:
        """A store opened again gives the same entries, attribute by attribute, in the same order."""
        with reopened() as store:
            store.set("b", "1", {"x": [1, "\ud83d"]})
            store.set("", "\x00", {})
            store.set("a\udc88", "2")
            if hasattr(store, "set_with_expiry"):
                store.set_with_expiry("e", "3", 2**53 - 1)
            store.set("b", "4")
            before = store.list()
        with reopened() as store:
            assert store.list() == before
            assert [store.get(entry.key) for entry in before] == before

    def test_life_goes_on_after_reopening(self, reopened: Any, clock: Clock) -> None:
        """An overwritten key keeps its birth, a new one goes to the end, what was deleted stays gone."""
        with reopened() as store:
            for key in ("a", "b", "c"):
                store.set(key, "1")
            store.delete("b")
            born = store.get("a").created_at
        clock.pass_ms(5)
        with reopened() as store:
            store.set("a", "2")
            store.set("b", "2")
            assert store.get("a").created_at == born
            assert [entry.key for entry in store.list()] == ["a", "c", "b"]

    def test_a_cleared_store_is_empty_when_reopened(self, reopened: Any) -> None:
        """Clearing is as lasting as writing."""
        with reopened() as store:
            store.set("a", "1")
            store.clear()
        with reopened() as store:
            assert store.list() == []

    def test_the_turn_outlives_the_object(self, reopened: Any) -> None:
        """A store that keeps the turn keeps it, so that what had expired is not revived."""
        with reopened() as store:
            if not hasattr(store, "set_turn"):
                pytest.skip("the store has no set_turn")
            store.set_turn(7)
        with reopened() as store:
            assert store.get_turn() == 7
