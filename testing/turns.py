"""A store that keeps the turn."""

from __future__ import annotations

from typing import Any

import pytest

from .rules import needs, rules

__all__ = ["TurnRules"]


@rules
class TurnRules:
    """The turn is a counter that can be set."""

    def test_the_turn_is_kept_with_all_three_methods(self, store: Any) -> None:
        """A store has `get_turn`, `advance_turn` and `set_turn`, or none of them."""
        found = [name for name in ("get_turn", "advance_turn", "set_turn") if hasattr(store, name)]
        assert len(found) in (0, 3), f"it has only {', '.join(found)}"

    @needs("get_turn", "advance_turn", "set_turn")
    def test_the_turn_counts_up_and_can_be_set(self, store: Any) -> None:
        """It begins at 0 and goes both ways."""
        assert store.get_turn() == 0
        assert store.advance_turn() == 1
        assert store.advance_turn() == 2
        store.set_turn(9)
        assert store.get_turn() == 9
        store.set_turn(0)
        assert store.get_turn() == 0
        assert store.list() == []

    @needs("get_turn", "advance_turn", "set_turn")
    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            pytest.param(-1, ValueError, id="negative"),
            pytest.param(2**53, ValueError, id="too high"),
            pytest.param(True, TypeError, id="bool"),
            pytest.param(1.0, TypeError, id="float"),
        ],
    )
    def test_a_turn_is_an_integer_within_bounds(self, store: Any, wrong: Any, error: type[Exception]) -> None:
        """A turn that cannot be is refused, and so is counting beyond the last one."""
        with pytest.raises(error):
            store.set_turn(wrong)
        store.set_turn(2**53 - 1)
        with pytest.raises(ValueError, match="2\\*\\*53"):
            store.advance_turn()
        assert store.get_turn() == 2**53 - 1
