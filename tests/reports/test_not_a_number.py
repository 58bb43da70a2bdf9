"""A score of NaN is stored without complaint and comes back as null, or as what no other tool can read."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

from turnlog import EventSourcedStore, SharedMemory


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize(
    ("wrap", "where"),
    [
        pytest.param(lambda x: x, r"\$", id="bare"),
        pytest.param(lambda x: [1.0, x], r"\$\[1\]", id="in a list"),
        pytest.param(lambda x: {"score": x}, r"\$\.score", id="in a dict"),
        pytest.param(lambda x: {"a": [{"b": [0, x]}]}, r"\$\.a\[0\]\.b\[1\]", id="four deep"),
    ],
)
def test_what_is_not_finite_is_refused(
    memory: SharedMemory, store: EventSourcedStore, number: float, wrap: Any, where: str
) -> None:
    """A TypeError names the path, and nothing is stored, as a value or as metadata."""
    with pytest.raises(TypeError, match=where):
        memory.write("a", "scores", wrap(number))
    with pytest.raises(TypeError):
        store.set("k", "v", {"x": wrap(number)})
    assert store.list() == []


@pytest.mark.parametrize("number", [-0.0, 1e308, 5e-324, 0.1, 1.7976931348623157e308], ids=repr)
def test_what_is_finite_comes_back_to_the_bit(memory: SharedMemory, number: float) -> None:
    """Signed zero, the largest and the smallest number are what they were."""
    memory.write("a", "k", {"x": [number]})
    entry = memory.read("a/k")
    assert entry is not None
    assert struct.pack(">d", entry.value["x"][0]) == struct.pack(">d", number)
