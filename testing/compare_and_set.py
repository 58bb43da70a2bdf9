"""A store with `compare_and_set`."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .clocks import Clock
from .names_and_types import WRONG_TEXTS
from .rules import needs, rules

__all__ = ["CompareAndSetRules"]


@rules
class CompareAndSetRules:
    """Comparing and setting is exact, and one step for everybody who writes."""

    @needs("compare_and_set")
    @pytest.mark.parametrize(
        ("held", "expected", "won"),
        [
            pytest.param("1", "1", True, id="equal"),
            pytest.param("1", "2", False, id="another"),
            pytest.param("1", "1 ", False, id="only begins so"),
            pytest.param("1", None, False, id="exists"),
            pytest.param("", "", True, id="empty"),
            pytest.param("", None, False, id="empty is not missing"),
            pytest.param(None, "", False, id="missing is not empty"),
            pytest.param(None, None, True, id="missing"),
            pytest.param("é", "e\u0301", False, id="NFC is not NFD"),
            pytest.param("1", "1.0", False, id="no numbers"),
            pytest.param("a", "A", False, id="case"),
            pytest.param("\ud83d", "\ud83d", True, id="half an emoji"),
            pytest.param("a\x00b", "a\x00c", False, id="behind a NUL"),
        ],
    )
    def test_compare_and_set_compares_the_whole_text(
        self, store: Any, held: str | None, expected: str | None, won: bool
    ) -> None:
        """It writes when the key holds exactly what was expected, and else changes nothing."""
        if held is not None:
            store.set("k", held, {"x": 1})
        before = store.get("k")
        answer = store.compare_and_set("k", expected, "new", {"x": 2})
        assert answer is won, f"the key held {held!r}, and {expected!r} was expected"
        if won:
            assert (store.get("k").value, store.get("k").metadata) == ("new", {"x": 2})
        else:
            assert store.get("k") == before

    @needs("compare_and_set")
    def test_compare_and_set_to_the_same_value_succeeds(self, store: Any) -> None:
        """Equal is equal, even where nothing would change; the metadata is replaced."""
        store.set("k", "1", {"x": 1})
        assert store.compare_and_set("k", "1", "1") is True
        assert store.get("k").metadata is None

    @needs("compare_and_set")
    def test_compare_and_set_keeps_life_and_place(self, store: Any, clock: Clock) -> None:
        """It overwrites like `set` does."""
        store.set("a", "1")
        store.set("b", "1")
        before = store.get("a").created_at
        clock.pass_ms(5)
        assert store.compare_and_set("a", "1", "2")
        assert store.get("a").created_at == before
        assert [entry.key for entry in store.list()] == ["a", "b"]

    @needs("compare_and_set")
    def test_compare_and_set_after_delete(self, store: Any) -> None:
        """A deleted key is a missing key, for a value as for None."""
        store.set("k", "1")
        store.delete("k")
        assert store.compare_and_set("k", "1", "2") is False
        assert store.compare_and_set("k", None, "2") is True
        assert store.compare_and_set("k", None, "3") is False
        assert store.get("k").value == "2"

    @needs("compare_and_set")
    @pytest.mark.parametrize("wrong", WRONG_TEXTS[1:])
    def test_compare_and_set_takes_text_only(self, store: Any, wrong: Any) -> None:
        """A wrong type is a TypeError, not a refused write."""
        store.set("k", "1")
        for arguments in ((wrong, "1", "2"), ("k", wrong, "2"), ("k", "1", wrong)):
            with pytest.raises(TypeError):
                store.compare_and_set(*arguments)
        with pytest.raises(TypeError):
            store.compare_and_set("k", "1", "2", {"x": {1}})
        assert store.get("k").value == "1"

    @needs("compare_and_set")
    def test_compare_and_set_is_atomic_between_threads(self, store: Any) -> None:
        """Of many increments by several threads with retry, none is lost."""
        store.set("n", "0")
        deadline = time.monotonic() + 60

        def count() -> None:
            for _ in range(25):
                while True:
                    held = store.get("n").value
                    if store.compare_and_set("n", held, str(int(held) + 1)):
                        break
                    assert time.monotonic() < deadline, "100 increments by four threads took over a minute"

        with ThreadPoolExecutor(4) as threads:
            for counted in [threads.submit(count) for _ in range(4)]:
                counted.result()
        assert store.get("n").value == "100", "increments were lost between comparing and setting"
