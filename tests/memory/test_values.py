"""Structured values: what is accepted reads back equal, anything else is refused with the path."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
import subprocess
import sys
import uuid
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given

from turnlog.memory import InMemoryStore, SharedMemory

TEXT = st.text(st.characters(exclude_categories=[]), max_size=12)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
# JSON cannot tell the two halves of a surrogate pair from the one character they would make.
JSON_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["\ud83d", "x\udc88"]
)
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, JSON_TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(JSON_TEXT, inner, max_size=4),
    ),
    max_leaves=12,
)


def as_read(value: Any) -> Any:
    """`value` with its tuples as lists."""
    if isinstance(value, list | tuple):
        return [as_read(item) for item in value]
    if isinstance(value, dict):
        return {name: as_read(item) for name, item in value.items()}
    return value


def same(one: Any, other: Any) -> bool:
    """Equality that tells True from 1, 1 from 1.0 and 0.0 from -0.0, and sees the order of members."""
    return repr(one) == repr(other)


@given(JSON_VALUES)
def test_any_json_value_reads_back_equal(value: Any) -> None:
    """Types, signs and the order of members included; a tuple reads back as the equal list."""
    memory = SharedMemory()
    memory.write("a", "k", value)
    assert same(memory.read("a/k").value, as_read(value))


@given(TEXT)
def test_any_text_reads_back_as_it_is(text: str) -> None:
    """Text that looks like JSON stays text."""
    memory = SharedMemory()
    memory.write("a", "k", text)
    assert memory.read("a/k").value == text


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 2**53 + 1, 10**3999, 0.1, -0.0, 1e308, 5e-324, 1.0, 1e21, [], {}, [[]],
     "", "null", '{"a": 1}', {"": None}, {"a": {"b": [1, "x", None]}}, "\ud83d", ["\ud83d"],
     {"\ud83d": "\udc88"}, ("\ud83d", 1), "a\x00b"],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_values_are_kept_by_both_stores(memory: SharedMemory, value: Any) -> None:
    """Reads and listings give the value back with its type."""
    memory.write("a", "k", value)
    assert same(memory.read("a/k").value, as_read(value))
    assert same(memory.list_all()[0].value, as_read(value))


def test_structured_values_are_compact_json_in_the_store(memory: SharedMemory) -> None:
    """The store's boundary stays text, and a mark in the metadata says that it is JSON."""
    memory.write("a", "k", {"claim": "é", "scores": (1, 2.5)})
    stored = memory.store.get("a/k")
    assert stored.value == '{"claim":"é","scores":[1,2.5]}'
    assert stored.metadata == {"sharedMemoryValueEncoding": "json", "agent": "a"}


# -- refused, with the path


class Color(enum.Enum):
    """An enum."""

    RED = "red"


class Word(enum.StrEnum):
    """An enum that is text."""

    YES = "yes"


class Level(enum.IntEnum):
    """An enum that is a number."""

    HIGH = 3


class Text(str):
    """Text of a class of its own."""

    __slots__ = ()


class Point(NamedTuple):
    """A tuple with names."""

    x: int
    y: int


@dataclasses.dataclass
class Data:
    """A dataclass."""

    x: int = 1


LOOP: list[Any] = [1]
LOOP.append({"again": LOOP})

NOT_JSON = [
    pytest.param({1: "a"}, r"key 1 at \$ is a int", id="int key"),
    pytest.param({1.5: "a"}, r"at \$", id="float key"),
    pytest.param({None: "a"}, r"at \$", id="None key"),
    pytest.param({True: "a"}, r"at \$", id="bool key"),
    pytest.param({"x": {(1, 2): "a"}}, r"at \$\.x", id="tuple key"),
    pytest.param({"x": {1, 2}}, r"\$\.x is a builtins\.set", id="set"),
    pytest.param([frozenset()], r"\$\[0\]", id="frozenset"),
    pytest.param(b"x", r"\$ is a builtins\.bytes", id="bytes"),
    pytest.param({"when": dt.datetime(2026, 1, 1)}, r"\$\.when", id="datetime"),
    pytest.param(decimal.Decimal("0.1"), r"Decimal", id="Decimal"),
    pytest.param([Color.RED], r"\$\[0\]", id="enum"),
    pytest.param(Word.YES, r"at \$ is", id="text enum"),
    pytest.param({"level": Level.HIGH}, r"\$\.level", id="number enum"),
    pytest.param(uuid.UUID(int=1), r"UUID", id="UUID"),
    pytest.param(Data(), r"Data", id="dataclass"),
    pytest.param(Point(1, 2), r"Point", id="namedtuple"),
    pytest.param(Text("x"), r"Text", id="str subclass"),
    pytest.param(collections.OrderedDict(a=1), r"OrderedDict", id="OrderedDict"),
    pytest.param({"a": [1, 2, object()]}, r"\$\.a\[2\]", id="object"),
    pytest.param(print, r"builtin", id="function"),
    pytest.param(int, r"type", id="class"),
    pytest.param(LOOP, r"\$\[1\]\.again contains a circular reference", id="circular"),
    pytest.param(math.nan, r"number at \$ is nan", id="NaN"),
    pytest.param({"scores": [1.0, 2.0, math.inf]}, r"\$\.scores\[2\]", id="infinity in a list"),
    pytest.param({"a": {"b": {"c": {"d": -math.inf}}}}, r"\$\.a\.b\.c\.d", id="infinity four levels deep"),
    pytest.param(["\ud83d\ude00"], r"\$\[0\].*surrogate pair", id="both halves of an emoji, apart"),
]


@pytest.mark.parametrize(("value", "path"), NOT_JSON)
def test_what_is_not_json_is_refused_with_its_path(memory: SharedMemory, value: Any, path: str) -> None:
    """Nothing is guessed and nothing is written, by any verb."""
    memory.write("a", "k", "old")
    before = memory.store.list()
    for attempt in (
        lambda: memory.write("a", "k", value),
        lambda: memory.write_expiring("a", "k", value, 1),
        lambda: memory.compare_and_set("a", "k", "old", value),
        lambda: memory.write("a", "k", "v", {"x": value}),
    ):
        with pytest.raises(TypeError):
            attempt()
    with pytest.raises(TypeError, match=path):
        memory.write("a", "k", value)
    assert memory.store.list() == before


def nested(depth: int) -> Any:
    """Lists within lists, `depth` of them."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [10, 100])
def test_values_nest_up_to_a_hundred_levels(memory: SharedMemory, depth: int) -> None:
    """What is accepted is read back by the same build."""
    memory.write("a", "k", nested(depth))
    assert memory.read("a/k").value == nested(depth)


@pytest.mark.parametrize("depth", [101, 200, 254, 255, 1_000, 10_000])
def test_deeper_values_are_refused(memory: SharedMemory, depth: int) -> None:
    """A ValueError, not a crash of the interpreter's stack; nothing is written."""
    with pytest.raises(ValueError, match="deeper than 100"):
        memory.write("a", "k", nested(depth))
    assert memory.store.list() == []


def test_integers_have_a_limit_of_digits(memory: SharedMemory) -> None:
    """4,000 digits are kept, 4,001 and 4,301 are a ValueError."""
    memory.write("a", "k", -(10**3999))
    assert memory.read("a/k").value == -(10**3999)
    for digits in (4_001, 4_301):
        with pytest.raises(ValueError, match="4,000 digits"):
            memory.write("a", "k", [10 ** (digits - 1)])
    assert memory.read("a/k").value == -(10**3999)


def test_large_values_are_kept(memory: SharedMemory) -> None:
    """Ten megabytes of text, and a dict of 100,000 members."""
    memory.write("a", "text", "0123456789" * 1_000_000)
    memory.write("a", "dict", {f"k{number}": number for number in range(100_000)})
    assert len(memory.read("a/text").value) == 10_000_000
    assert memory.read("a/dict").value["k99999"] == 99_999


def test_one_object_twice_is_no_circle(memory: SharedMemory) -> None:
    """It is stored twice."""
    shared = {"x": [1]}
    memory.write("a", "k", {"one": shared, "other": [shared, shared]})
    assert memory.read("a/k").value == {"one": {"x": [1]}, "other": [{"x": [1]}, {"x": [1]}]}


# -- what other software left in a store

MARKED = {"sharedMemoryValueEncoding": "json"}


@pytest.mark.parametrize(
    ("text", "metadata", "value"),
    [
        pytest.param('{"a": 1}', None, '{"a": 1}', id="no metadata"),
        pytest.param('{"a": 1}', {"agent": "a"}, '{"a": 1}', id="no mark"),
        pytest.param('{"a": 1}', {"sharedMemoryValueEncoding": "JSON"}, '{"a": 1}', id="another mark"),
        pytest.param('{"a": 1}', {"sharedMemoryValueEncoding": True}, '{"a": 1}', id="mark that is no text"),
        pytest.param(' {"a" : 1}\n', MARKED, {"a": 1}, id="white space"),
        pytest.param('{"a":1,"a":2}', MARKED, {"a": 2}, id="a member twice"),
        pytest.param('"x"', MARKED, "x", id="JSON text"),
        pytest.param(
            '{"password":[redacted]}', MARKED, '{"password":[redacted]}', id="broken"
        ),
        pytest.param("[NaN]", MARKED, "[NaN]", id="NaN is not JSON"),
        pytest.param("", MARKED, "", id="empty"),
        pytest.param("\ufeff1", MARKED, "\ufeff1", id="byte order mark"),
        pytest.param("[" * 100_000, MARKED, "[" * 100_000, id="far too deep"),
    ],
)  # fmt: skip
def test_only_marked_json_is_decoded(
    memory: SharedMemory, text: str, metadata: dict[str, Any] | None, value: Any
) -> None:
    """Marked text that is not JSON is given as it is; reading never fails."""
    memory.store.set("a/k", text, metadata)
    assert memory.read("a/k").value == value
    assert [entry.value for entry in memory.list_all()] == [value]


def test_values_pass_through_a_store_that_keeps_text_only(plain: SharedMemory) -> None:
    """The five verbs are enough for structured values."""
    plain.write("a", "k", {"x": [1, None]})
    assert plain.read("a/k").value == {"x": [1, None]}


def test_half_an_emoji_from_json_is_kept() -> None:
    """Tool output with an escaped lone surrogate goes in, comes out, and is shown."""
    memory = SharedMemory(InMemoryStore())
    value = json.loads('{"out": "\\udc88"}')
    memory.write("a", "k", value)
    assert memory.read("a/k").value == {"out": "\udc88"}
    assert "\\udc88" in memory.get_summary()


def test_pydantic_is_not_imported_until_it_is_used() -> None:
    """Importing turnlog and sharing structured values does without it."""
    script = (
        "import sys, turnlog, turnlog.memory as m\n"
        "memory = m.SharedMemory()\n"
        "memory.write('a', 'k', {'x': [1]}); memory.read('a/k'); memory.get_summary()\n"
        "assert 'pydantic' not in sys.modules\n"
        "try:\n    memory.write('a', 'k', {1})\nexcept TypeError: pass\n"
        "assert 'pydantic' not in sys.modules\n"
        "memory.write('a', 'k', [1], schema=list[int])\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
