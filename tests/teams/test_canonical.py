"""Canonical JSON: one text for each value, the same as that of other implementations."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from turnlog.teams import ApprovalRequest
from turnlog.teams.canonical import canonical_json, parse_json, sha256_hex

HERE = Path(__file__).resolve().parent
VECTORS = json.loads((HERE / "approval_vectors.json").read_text("utf-8"))
NUMBERS = json.loads((HERE.parent / "memory" / "number_vectors.json").read_text("utf-8"))
SHARED = HERE.parents[2] / "shared" / "vectors" / "oma-vectors.json"

EXACT = 2**53
WHOLE_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-EXACT + 1, EXACT - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WHOLE_TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WHOLE_TEXT, inner, max_size=4),
    max_leaves=20,
)
HALVES = st.text(st.sampled_from("a\ud800\udbffé\ue000\U00010000\U0010ffff\uffff"), max_size=3)


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_requests_hash_as_in_the_original(vector: dict[str, Any]) -> None:
    """J2, J3, J4: hash and id of requests that the original implementation computed."""
    value = json.loads(vector["value"])
    request = ApprovalRequest.create(
        run_id=vector["run_id"],
        scope="tool_call",
        boundary=vector["boundary"],
        content={
            "kind": "tool_call",
            "toolName": "write",
            "rawInput": value,
            "input": value,
            "agentName": "writer",
            "taskId": "t",
            "toolCallId": "c",
            "consequential": vector["consequential"],
        },
    )
    assert (request.request_hash, request.id) == (vector["request_hash"], vector["id"])


@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_numbers_are_spelled_as_in_javascript(bits: str, text: str) -> None:
    """J2: doubles of every size."""
    assert canonical_json(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


@pytest.mark.skipif(not SHARED.exists(), reason="the shared vectors are not there")
def test_ids_follow_from_the_hash() -> None:
    """J4: the id of every shared vector follows from its run, boundary and hash."""
    for vector in json.loads(SHARED.read_text("utf-8"))["canonical"]:
        told = (vector["runId"], "tool_call", vector["boundary"], vector["requestHash"])
        assert "apr_" + sha256_hex("\n".join(told))[:32] == vector["id"]


@given(VALUES)
def test_it_is_what_the_reference_library_writes(value: Any) -> None:
    """J2: the same bytes as the `rfc8785` package, for everything that it accepts."""
    assert canonical_json(value).encode() == rfc8785.dumps(value)


@given(st.dictionaries(HALVES, HALVES, max_size=6))
def test_members_are_ordered_by_code_units(value: dict[str, str]) -> None:
    """J2: names are ordered as 16-bit numbers, halves of surrogate pairs included; the text is UTF-8."""
    try:
        text = canonical_json(value)
    except TypeError as error:
        assert "surrogate pair as two code points" in str(error)  # noqa: PT017 - most examples pass
        return
    text.encode()
    names = [
        struct.unpack(f">{len(raw) // 2}H", raw)
        for raw in (name.encode("utf-16-be", "surrogatepass") for name in json.loads(text))
    ]
    assert names == sorted(names)
    assert json.loads(text) == value


@given(VALUES)
def test_it_is_the_canonical_text_of_what_is_read_back(value: Any) -> None:
    """J2: a record hashes the same however often it was read and written."""
    text = canonical_json(value)
    assert canonical_json(parse_json(text)) == text


@given(st.floats(-EXACT, EXACT) | st.integers(-EXACT, EXACT))
def test_numbers_read_back_equal(value: float) -> None:
    """J2: every integer that JavaScript has exactly, and every double up to there, is read back equal."""
    assert parse_json(canonical_json(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"b": 1, "10": 2, "9": 3}, '{"10":2,"9":3,"b":1}', id="names are strings"),
        pytest.param((1, 2.0, -0.0), "[1,2,0]", id="a tuple; whole floats"),
        pytest.param(2**53, "9007199254740992", id="the last exact integer"),
        pytest.param(12345678901234567000, "12345678901234567000", id="as JavaScript spells it"),
        pytest.param("\ud83d", '"\\ud83d"', id="half an emoji"),
        pytest.param("\x7f\u2028/", '"\x7f\u2028/"', id="nothing else is escaped"),
        pytest.param("\x00\x1f\t", '"\\u0000\\u001f\\t"', id="control characters are"),
        pytest.param({"__proto__": 1}, '{"__proto__":1}', id="a name that is special elsewhere"),
    ],
)
def test_the_spelling_of(value: object, text: str) -> None:
    """J2: what the reference library refuses or leaves open, too."""
    assert canonical_json(value) == text


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        pytest.param({"a": [1, math.nan]}, TypeError, r"\$\.a\[1\] is nan", id="nan"),
        pytest.param(math.inf, TypeError, "finite", id="infinity"),
        pytest.param({"a": {1: 2}}, TypeError, "keys must be str", id="a key that is a number"),
        pytest.param({"a": b""}, TypeError, r"\$\.a is a builtins.bytes", id="bytes"),
        pytest.param({"a": {1, 2}}, TypeError, "builtins.set", id="a set"),
        pytest.param(CIRCLE, TypeError, "circular", id="a circle"),
        pytest.param([2**53 + 1], ValueError, r"\$\[0\] lies beyond", id="no double"),
        pytest.param(10**400, ValueError, "lies beyond", id="above every double"),
        pytest.param(10**21, ValueError, "lies beyond", id="spelled with an exponent there"),
    ],
)
def test_what_is_refused(value: object, error: type[Exception], said: str) -> None:
    """J2: what has no exact JSON in both worlds is refused, with the path."""
    with pytest.raises(error, match=said):
        canonical_json(value)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "{", "", "\ufeff1", "[" * 100_000, '"\x01"', "01"])
def test_json_is_read_strictly(text: str) -> None:
    """What JavaScript does not read as JSON is not read here either."""
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)


def test_half_an_emoji_is_hashed_as_a_replacement() -> None:
    """J4: the raw text of an id is hashed as Node does it, with U+FFFD for what has no UTF-8."""
    assert sha256_hex("a\ud83d") == hashlib.sha256("a\ufffd".encode()).hexdigest()
