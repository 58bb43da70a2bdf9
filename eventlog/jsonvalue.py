"""Which Python values have an exact JSON form: the check that metadata and structured values share."""

from __future__ import annotations

import math
from json.encoder import encode_basestring as _quoted
from typing import cast

from .text import json_text

__all__ = ["MAX_DEPTH", "MAX_INTEGER_DIGITS", "encode_json"]

MAX_DEPTH = 100
"""How deep values may nest: everything accepted is read back by every Python and SQLite we run on."""

MAX_INTEGER_DIGITS = 4000
"""Digits an integer may have; CPython reads back at most 4,300 by default."""

_MAX_INTEGER = 10**MAX_INTEGER_DIGITS


def encode_json(value: object) -> str:
    """`value` as compact JSON that reads back equal (a tuple as the equal list).

    Accepted are exactly `None, bool, int, float, str, list, tuple` and `dict` with str keys: no subclasses,
    because their own behaviour would be lost silently.

    Raises:
        TypeError: anything else, a key that is not a str, a non-finite number, a circular reference, text
            that has no JSON form; the message names the path (`$.scores[2]`).
        ValueError: nested deeper than 100, or an integer of more than 4,000 digits.
    """
    if type(value) is dict:
        members: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        if len(members) == 1:  # `{"agent": "researcher"}`, the metadata of most entries
            ((name, item),) = members.items()
            if type(name) is str and type(item) is str and name.isascii() and item.isascii():
                return f"{{{_quoted(name)}:{_quoted(item)}}}"
        value = members
    _check(value, "$", 0, set())
    return json_text(value)


def _check(value: object, path: str, depth: int, ancestors: set[int]) -> None:
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is str:
        _check_text(cast("str", value), path)
    elif kind is int:
        if abs(cast("int", value)) >= _MAX_INTEGER:
            raise ValueError(f"the integer at {_shown(path)} has more than {MAX_INTEGER_DIGITS:,} digits")
    elif kind is float:
        if not math.isfinite(cast("float", value)):
            raise TypeError(f"the number at {_shown(path)} is {value}; it must be finite")
    elif kind is list or kind is tuple or kind is dict:
        _check_container(value, path, depth, ancestors)
    else:
        raise TypeError(
            f"the value at {_shown(path)} is a {kind.__module__}.{kind.__qualname__}, which is not JSON: "
            "convert it to None, bool, int, float, str, list or dict first"
        )


def _check_container(value: object, path: str, depth: int, ancestors: set[int]) -> None:
    identity = id(value)  # pyright: ignore[reportUnknownArgumentType]
    if identity in ancestors:
        raise TypeError(f"the value at {_shown(path)} contains a circular reference")
    if depth >= MAX_DEPTH:
        raise ValueError(f"the value nests deeper than {MAX_DEPTH} at {_shown(path)}")
    ancestors.add(identity)
    if isinstance(value, dict):
        for name, item in cast("dict[object, object]", value).items():
            if type(name) is not str:
                raise TypeError(
                    f"the key {name!r:.80} at {_shown(path)} is a {type(name).__name__}; keys must be str"
                )
            _check_text(name, path)
            _check(item, f"{path}.{name}", depth + 1, ancestors)
    else:
        for index, item in enumerate(cast("list[object]", value)):
            _check(item, f"{path}[{index}]", depth + 1, ancestors)
    ancestors.discard(identity)


def _check_text(text: str, path: str) -> None:
    if text.isascii():
        return
    try:
        json_text(text)
    except ValueError as error:
        raise TypeError(f"at {_shown(path)}: {error}") from error


def _shown(path: str) -> str:
    return path if len(path) <= 200 else f"{path[:197]}…"
