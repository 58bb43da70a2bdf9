"""Text for people and for programs: nothing that comes out of here can act on a terminal or break a line."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from datetime import UTC, datetime
from typing import cast

__all__ = ["counted", "cut", "escaped", "iso_time", "json_line", "short_time", "shown_value", "width_of"]

# C0, DEL, C1, soft hyphen, what steers direction or breaks lines, tags, and halves of surrogate pairs.
# The zero-width joiners stay: writing in some scripts, and many an emoji, needs them.
_UNSAFE = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff"
)
_ANY_UNSAFE = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_PROSE = re.compile(f"(?![\n\t])[{_UNSAFE}]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_to_ascii_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def escaped(text: str, *, prose: bool = False) -> str:
    """`text` with everything that a terminal might act on written as in Python: `\\n`, `\\x1b`, `\\ud83d`.

    Args:
        text: anything.
        prose: leave line breaks and tabs as they are.
    """
    return (_UNSAFE_IN_PROSE if prose else _ANY_UNSAFE).sub(_escape, text)


def json_line(value: object, *, ascii_only: bool = False) -> str:
    """One line of JSON, always valid UTF-8, and as harmless to a terminal as `escaped`.

    Half an emoji is written as its `\\udXXX` escape; a number that no float can hold, as a stored `1e400`, as
    the text "Infinity". `value` consists of JSON types.
    """
    encode = _to_ascii_json if ascii_only else _to_json
    try:
        line = encode(value)
    except ValueError:  # some float is not finite
        line = encode(_finite(value))
    return line if ascii_only else _ANY_UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], line)


def shown_value(value: str, metadata: dict[str, object] | None) -> str:
    """A stored value as people see it: compact JSON where it is structured; `""` for the empty text."""
    from ..memory.values import decode_value

    decoded = decode_value(value, metadata)
    if isinstance(decoded, str) and decoded == value:
        return value or '""'
    try:
        return _to_json(decoded)
    except ValueError:  # a number in it is too large to be read and written again
        return value


def counted(number: int, one: str, many: str) -> str:
    """`1 entry`, `no entries`, `1,234 entries`."""
    return f"1 {one}" if number == 1 else f"{number:,} {many}" if number else f"no {many}"


def iso_time(when: datetime) -> str:
    """UTC in milliseconds, in the form that an address takes: `2026-11-30T02:13:05.120Z`."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short_time(when: datetime, today: datetime) -> str:
    """UTC in seconds; without the date where it is today's."""
    form = "%H:%M:%S" if when.date() == today.date() else "%Y-%m-%d %H:%M:%S"
    return when.astimezone(UTC).strftime(form)


def width_of(text: str) -> int:
    """How many columns of a terminal `text`, which must be `escaped`, takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def cut(text: str, width: int, *, focus: int = 0, mark: str = "…") -> str:
    """`text` in at most `width` columns: what was left out is replaced by `mark`, and `focus` stays in sight.

    Args:
        text: escaped text.
        width: columns; at least that of the mark.
        focus: index of the character that matters most.
        mark: what stands for the rest.
    """
    if width_of(text) <= width:
        return text
    start = focus - width // 3 if focus > width * 2 // 3 else 0
    head = mark if start > 0 else ""
    room = width - width_of(head) - width_of(mark)
    body = ""
    for char in text[max(start, 0) :]:
        room -= width_of(char)
        if room < 0:
            break
        body += char
    else:
        return head + body
    return head + body + mark


def _finite(value: object) -> object:
    """`value` with text in the place of floats that JSON cannot spell."""
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity" if value < 0 else "NaN"
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_finite(each) for each in cast("list[object]", value)]
    return value


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
