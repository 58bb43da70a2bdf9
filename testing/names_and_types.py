"""What a store refuses at the door: anything it could not give back as it came."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from .rules import rules

WRONG_TEXTS = [
    pytest.param(None, id="None"),
    pytest.param(1, id="int"),
    pytest.param(b"a", id="bytes"),
    pytest.param(["a"], id="list"),
]

WRONG_METADATA = [
    pytest.param("agent", id="str"),
    pytest.param([("a", 1)], id="pairs"),
    pytest.param({1: "a"}, id="int key"),
    pytest.param({"a": {1}}, id="set"),
    pytest.param({"a": b"x"}, id="bytes"),
    pytest.param({"a": datetime(2026, 1, 1)}, id="datetime"),
    pytest.param({"a": float("nan")}, id="NaN"),
    pytest.param({"a": [1.0, float("inf")]}, id="infinity inside"),
]

__all__ = ["WRONG_TEXTS", "TypeRules"]


@rules
class TypeRules:
    """Wrong types are a TypeError, before anything is written."""

    @pytest.mark.parametrize("wrong", WRONG_TEXTS)
    def test_keys_and_values_must_be_text(self, store: Any, wrong: Any) -> None:
        """Anything but a str is a TypeError, and nothing is written."""
        attempts: list[tuple[str, Callable[[], object]]] = [
            (f"get({wrong!r})", lambda: store.get(wrong)),
            (f"set({wrong!r}, 'v')", lambda: store.set(wrong, "v")),
            (f"set('k', {wrong!r})", lambda: store.set("k", wrong)),
            (f"delete({wrong!r})", lambda: store.delete(wrong)),
        ]
        for call, attempt in attempts:
            assert _raised(attempt) is TypeError, f"{call} must raise TypeError"
        assert store.list() == []

    @pytest.mark.parametrize("wrong", WRONG_METADATA)
    def test_metadata_must_be_a_dict_of_json(self, store: Any, wrong: Any) -> None:
        """Metadata that would not come back equal is a TypeError, and the old entry stays."""
        store.set("k", "old", {"x": 1})
        with pytest.raises(TypeError):
            store.set("k", "new", wrong)
        assert (store.get("k").value, store.get("k").metadata) == ("old", {"x": 1})

    def test_circular_metadata_is_refused(self, store: Any) -> None:
        """A dict that contains itself has no JSON form."""
        loop: dict[str, Any] = {}
        loop["self"] = loop
        with pytest.raises(TypeError):
            store.set("k", "v", loop)
        assert store.get("k") is None


def _raised(attempt: Callable[[], object]) -> type[Exception] | None:
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - which one it is, is the question
        return type(error)
    return None
