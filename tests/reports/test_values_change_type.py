"""A value comes back as another type: keys as text, tuples as lists, enums as words."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import uuid
from collections import namedtuple
from typing import Any

import pytest
from pydantic import BaseModel

from turnlog import SharedMemory


class Colour(enum.Enum):
    """An enum."""

    RED = "red"


class Text(str):
    """Text of a class of its own."""

    __slots__ = ()


@dataclasses.dataclass
class Data:
    """A dataclass."""

    x: int = 1


class Score(BaseModel):
    """A model."""

    name: str
    value: float


Point = namedtuple("Point", "x y")  # noqa: PYI024 - the plain one, which has no types
circular: list[Any] = []
circular.append(circular)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({1: "a"}, id="int key"),
        pytest.param({1.5: "a"}, id="float key"),
        pytest.param({None: "a"}, id="None key"),
        pytest.param({True: "a"}, id="bool key"),
        pytest.param({1, 2}, id="set"),
        pytest.param(b"x", id="bytes"),
        pytest.param(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), id="datetime"),
        pytest.param(decimal.Decimal("1.10"), id="Decimal"),
        pytest.param(Colour.RED, id="Enum"),
        pytest.param(uuid.UUID(int=1), id="UUID"),
        pytest.param(Data(), id="dataclass"),
        pytest.param(Point(1, 2), id="namedtuple"),
        pytest.param(Text("x"), id="a subclass of str"),
        pytest.param(circular, id="circular"),
        pytest.param(object(), id="anything"),
    ],
)
def test_what_would_change_is_refused(memory: SharedMemory, value: Any) -> None:
    """A TypeError that names the path, and nothing is stored."""
    with pytest.raises(TypeError):
        memory.write("a", "k", value)
    with pytest.raises(TypeError, match=r"\$\.in\[1\]"):
        memory.write("a", "k", {"in": [0, value]})
    assert memory.list_all() == []


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 2**70, 1.0, "", "7", "007", [], {}, [[1], {"a": None}], {"": [1.5, "x"]}],
    ids=repr,
)
def test_what_is_accepted_comes_back_equal_and_of_its_type(memory: SharedMemory, value: Any) -> None:
    """Exactly: also 1.0 as a float and True as a bool."""
    memory.write("a", "k", value)
    entry = memory.read("a/k")
    assert entry is not None
    assert repr(entry.value) == repr(value)


def test_what_does_not_fit_its_schema_is_not_stored(memory: SharedMemory) -> None:
    """A failure of the schema is told by path; a model comes back as a model."""
    with pytest.raises(TypeError, match=r"value"):
        memory.write("a", "k", {"name": "x", "value": "much"}, schema=Score)
    assert memory.list_all() == []
    memory.write("a", "k", Score(name="x", value=0.5))
    entry = memory.read("a/k", schema=Score)
    assert entry is not None
    assert entry.value == Score(name="x", value=0.5)


def test_json_with_a_key_twice_stays_text(memory: SharedMemory) -> None:
    """Text that looks like JSON is text; nobody parses it."""
    text = '{"a": 1, "a": 2}'
    memory.write("a", "k", text)
    entry = memory.read("a/k")
    assert entry is not None
    assert entry.value == text
    assert json.loads(text) == {"a": 2}
