"""The shape of records that came from elsewhere: each check says where, what belongs there, and what is.

An absent member is `ABSENT`, which is never the same as null.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final, cast

__all__ = [
    "ABSENT",
    "Malformed",
    "Members",
    "a_bool",
    "a_choice",
    "a_match",
    "a_text",
    "an_amount",
    "an_array",
    "an_instant",
    "an_integer",
    "an_object",
    "is_number",
    "optional_text",
    "shown",
]


class _Absent:
    """What a member is that does not exist."""


ABSENT: Final = _Absent()

Members = dict[str, object]

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d([.]\d{1,9})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Malformed(ValueError):  # noqa: N818 - reads as a state, as the public errors do
    """A record does not have the shape it must have.

    Attributes:
        path: where, as in `$.queue.tasks`.
        expected: what belongs there.
        found: what is there, cut where it is long.
    """

    def __init__(self, path: str, expected: str, value: object) -> None:
        self.path = path
        self.expected = expected
        self.found = shown(value)
        super().__init__(f"{path} must be {expected}, found {self.found}")


def shown(value: object) -> str:
    """A value of a record as an error shows it: its JSON type, and what it is where that is short."""
    if value is ABSENT:
        return "nothing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value!r:.40}"
    if isinstance(value, str):
        return f"the string {value!r:.40}"
    if isinstance(value, dict):
        return f"an object of {len(cast('Members', value))} members"
    return (
        f"an array of {len(cast('list[object]', value))}" if isinstance(value, list) else type(value).__name__
    )


def an_object(value: object, path: str) -> Members:
    """`value`, which must be an object."""
    if type(value) is not dict:
        raise Malformed(path, "an object", value)
    return cast("Members", value)


def an_array(value: object, path: str) -> list[object]:
    """`value`, which must be an array."""
    if type(value) is not list:
        raise Malformed(path, "an array", value)
    return cast("list[object]", value)


def a_text(value: object, path: str, *, empty: bool = True) -> str:
    """`value`, which must be a string, and without `empty` one that says something."""
    if type(value) is not str or (not value and not empty):
        raise Malformed(path, "a string" if empty else "a non-empty string", value)
    return value


def optional_text(value: object, path: str) -> str | None:
    """`value`, which must be a string or absent."""
    return None if value is ABSENT else a_text(value, path)


def a_match(value: object, path: str, pattern: re.Pattern[str], expected: str) -> str:
    """`value`, which must be a string that `pattern` describes whole."""
    if type(value) is not str or pattern.fullmatch(value) is None:
        raise Malformed(path, expected, value)
    return value


def a_choice(value: object, path: str, choices: Collection[str]) -> str:
    """`value`, which must be one of `choices`."""
    if type(value) is not str or value not in choices:
        raise Malformed(path, f"one of {', '.join(choices)}", value)
    return value


def a_bool(value: object, path: str) -> bool:
    """`value`, which must be true or false."""
    if type(value) is not bool:
        raise Malformed(path, "true or false", value)
    return value


def an_amount(value: object, path: str) -> float:
    """`value`, which must be a finite number of at least 0."""
    if type(value) not in (int, float) or not math.isfinite(cast("float", value)) or cast("float", value) < 0:
        raise Malformed(path, "a finite number of at least 0", value)
    return cast("float", value)


def an_integer(value: object, path: str, minimum: int | None = None) -> int:
    """`value`, which must be a whole number (`2.0` is one), of at least `minimum`."""
    whole = type(value) is int or (type(value) is float and value.is_integer())
    if not whole or (minimum is not None and cast("float", value) < minimum):
        raise Malformed(path, "an integer" + ("" if minimum is None else f" of at least {minimum}"), value)
    return int(cast("float", value))


def is_number(value: object, number: int) -> bool:
    """Whether `value` is that number (`1.0` is 1, but true is not)."""
    return type(value) in (int, float) and value == number


def an_instant(value: object, path: str) -> datetime:
    """`value`, which must be a point in time in ISO 8601 with a zone; in whole milliseconds of UTC."""
    if type(value) is str and _INSTANT.fullmatch(value):
        try:
            when = datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        else:
            return when.replace(microsecond=when.microsecond // 1000 * 1000)
    raise Malformed(path, "a time like 2026-11-30T02:13:00.123Z", value)
