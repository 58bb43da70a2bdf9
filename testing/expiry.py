"""A store with `set_with_expiry`."""

from __future__ import annotations

from typing import Any

import pytest

from .clocks import Clock
from .rules import needs, rules

__all__ = ["ExpiryRules"]


@rules
class ExpiryRules:
    """An expiry is a number that is kept for whoever counts turns."""

    @needs("set_with_expiry")
    @pytest.mark.parametrize("turn", [0, 1, 2**53 - 1])
    def test_an_expiry_is_kept_and_never_judged(self, store: Any, turn: int) -> None:
        """The store hands the number back and shows the entry whatever the turn is."""
        store.set_with_expiry("k", "v", turn, {"x": 1})
        entry = store.get("k")
        assert (entry.value, entry.expires_at_turn, entry.metadata) == ("v", turn, {"x": 1})
        assert store.list() == [entry]

    @needs("set_with_expiry")
    def test_set_clears_the_expiry(self, store: Any, clock: Clock) -> None:
        """A plain write makes an entry permanent, and keeps its life; the reverse holds too."""
        store.set_with_expiry("k", "1", 3)
        created_at = store.get("k").created_at
        clock.pass_ms(5)
        store.set("k", "2")
        assert store.get("k").expires_at_turn is None
        store.set_with_expiry("k", "3", 4)
        assert (store.get("k").expires_at_turn, store.get("k").created_at) == (4, created_at)

    @needs("set_with_expiry")
    def test_set_with_expiry_drops_metadata_that_is_left_out(self, store: Any) -> None:
        """It replaces the whole entry."""
        store.set("k", "1", {"x": 1})
        store.set_with_expiry("k", "2", 3)
        assert store.get("k").metadata is None

    @needs("set_with_expiry", "compare_and_set")
    def test_expiry_neither_hides_nor_blocks_a_compare_and_set(self, store: Any) -> None:
        """It sees an expired value, and success clears the expiry."""
        store.set_with_expiry("k", "1", 0)
        assert store.compare_and_set("k", None, "2") is False
        assert store.get("k").expires_at_turn == 0
        assert store.compare_and_set("k", "1", "2") is True
        assert store.get("k").expires_at_turn is None

    @needs("set_with_expiry")
    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            pytest.param(-1, ValueError, id="negative"),
            pytest.param(2**53, ValueError, id="too high"),
            pytest.param(True, TypeError, id="bool"),
            pytest.param(1.0, TypeError, id="float"),
            pytest.param("1", TypeError, id="str"),
            pytest.param(None, TypeError, id="None"),
        ],
    )
    def test_an_expiry_is_an_integer_within_bounds(
        self, store: Any, wrong: Any, error: type[Exception]
    ) -> None:
        """Anything but an int from 0 to 2**53 - 1 is refused, and nothing is written."""
        with pytest.raises(error):
            store.set_with_expiry("k", "v", wrong)
        assert store.get("k") is None
