"""Secrets in a JSON document: found by the names of its members, masked in place, and JSON afterwards.

Nothing but what is masked changes: white space, the spelling of numbers, repeated members and the order of
all of them are those of the text. It is read without recursion, so that any depth will do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from ..eventlog.text import json_text
from .secret_names import is_sensitive_name
from .secret_text import MASK

__all__ = ["mask_json"]

_SYMBOL = re.compile(
    r'[\t\n\r ]*+(?P<symbol>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
    r"|[{}\[\],:]|true|false|null|-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
)
_BLANK = re.compile(r"[\t\n\r ]*\Z")
_MASKED = f'"{MASK}"'


class _Value(NamedTuple):
    """What may have to be masked: a str, names among them, or whatever bears a sensitive name."""

    start: int
    end: int
    is_sensitive: bool


def mask_json(text: str, mask: Callable[[str], str]) -> str | None:
    """The JSON document `text` with its secrets masked; the same object where there is none.

    A member with a sensitive name becomes the string `[redacted]`, whatever it was; every other string
    becomes what `mask` makes of it, names of members too.

    Returns:
        None where `text` is not JSON.
    """
    values = _Reader(text).values()
    if values is None:
        return None
    pieces: list[str] = []
    done = 0
    for start, end, is_sensitive in values:
        spelled = text[start:end]
        if is_sensitive:
            masked = _MASKED
        else:
            old = json.loads(spelled)
            new = mask(old)
            masked = spelled if new == old else json_text(new)
        if masked != spelled:
            pieces += (text[done:start], masked)
            done = end
    return text if not pieces else "".join([*pieces, text[done:]])


class _Reader:
    """Reads one document from front to back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[_Value] = []
        self._open: list[str] = []  # the brackets that would close what is open, innermost last
        self._hidden: tuple[int, int] | None = None  # how many were open, and where a secret began

    def values(self) -> list[_Value] | None:
        """What may have to be masked, in order and apart from each other; None if it is not JSON."""
        place, awaited = 0, "value"
        sensitive = False
        while awaited != "end" or self._open:
            match = _SYMBOL.match(self._text, place)
            if match is None:
                return None
            symbol, start, place = match["symbol"], match.start("symbol"), match.end()
            kind = symbol if symbol in "{}[],:" else "string" if symbol[0] == '"' else "scalar"
            step = self._step(kind, awaited)
            if step is None:
                return None
            if awaited.startswith("name") and kind == "string":
                sensitive = is_sensitive_name(json.loads(symbol))
                self._value(kind, start, place, is_sensitive=False)
            elif awaited.startswith("value") and kind != "]":
                self._value(kind, start, place, is_sensitive=sensitive)
                sensitive = False
            elif kind in ("}", "]"):
                self._closed(place)
            awaited = step
        return self._found if _BLANK.match(self._text, place) else None

    def _step(self, kind: str, awaited: str) -> str | None:
        """What is awaited behind a symbol of that kind; None if it may not stand there."""
        if awaited.startswith("value") and kind in ("string", "scalar"):
            return "end"
        if awaited.startswith("value") and kind in ("{", "["):
            self._open.append("}" if kind == "{" else "]")
            return "name or end" if kind == "{" else "value or end"
        if awaited.startswith("name") and kind == "string":
            return "colon"
        if awaited == "colon" and kind == ":":
            return "value"
        if awaited == "end" and kind == "," and self._open:
            return "name" if self._open[-1] == "}" else "value"
        if awaited.endswith("end") and self._open and kind == self._open[-1]:
            self._open.pop()
            return "end"
        return None

    def _value(self, kind: str, start: int, end: int, *, is_sensitive: bool) -> None:
        if self._hidden is not None:
            return
        if kind in ("{", "["):
            if is_sensitive:
                self._hidden = len(self._open) - 1, start
        elif is_sensitive or kind == "string":
            self._found.append(_Value(start, end, is_sensitive))

    def _closed(self, end: int) -> None:
        if self._hidden is not None and self._hidden[0] == len(self._open):
            self._found.append(_Value(self._hidden[1], end, is_sensitive=True))
            self._hidden = None
