"""Canonical JSON, the text that is hashed: one spelling for each value, in every language.

It is that of RFC 8785 (no spaces, members ordered by the UTF-16 code units of their names, numbers as
JavaScript spells them), and goes on where the RFC ends: half an emoji is written as its `\\udXXX` escape.
"""

from __future__ import annotations

import hashlib
import json
from typing import cast

from ..eventlog.jsonvalue import encode_json
from ..memory.javascript import javascript_json

__all__ = ["canonical_json", "parse_json", "sha256_hex"]

_EXACT = 2**53
"""Up to here every integer is a double, which is all that JavaScript has."""


def canonical_json(value: object) -> str:
    """The canonical JSON of `value`; a tuple counts as the equal list, `-0.0` as `0`, `1.0` as `1`.

    Raises:
        TypeError: not JSON (see `turnlog.eventlog.jsonvalue.encode_json`); names the path.
        ValueError: nested deeper than 100, or an integer beyond 2**53 that JavaScript would spell otherwise.
    """
    encode_json(value)
    return javascript_json(_ordered(value, "$"))


def parse_json(text: str) -> object:
    """The value of a JSON text, as strict as JavaScript reads it.

    Raises:
        ValueError: it is not JSON, nests too deep to be read, or holds an integer too long to be read.
    """
    try:
        return cast("object", json.loads(text, parse_constant=_refuse_constant))
    except RecursionError as error:
        raise ValueError("it nests too deep") from error


def sha256_hex(text: str) -> str:
    """SHA-256 of the UTF-8 of `text`, in lower-case hex; half an emoji counts as U+FFFD."""
    # Through UTF-16 first, so that halves which belong together are one character.
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return hashlib.sha256(whole.encode()).hexdigest()


def _ordered(value: object, path: str) -> object:
    if type(value) is dict:
        members = cast("dict[str, object]", value)
        return {name: _ordered(members[name], f"{path}.{name}") for name in sorted(members, key=_code_units)}
    if type(value) is list or type(value) is tuple:
        items = cast("list[object]", value)
        return [_ordered(item, f"{path}[{index}]") for index, item in enumerate(items)]
    if type(value) is int and abs(value) > _EXACT:
        return _double(value, path)
    return value


def _code_units(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")


def _double(number: int, path: str) -> float:
    """`number` as a double, if JavaScript spells that double with the very same digits."""
    try:
        double = float(number)
    except OverflowError:
        double = 0.0
    if javascript_json(double) != str(number):
        raise ValueError(
            f"the integer at {path[:200]} lies beyond 2**53 and has no exact JavaScript number; "
            "give it as a str"
        )
    return double


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
