"""Text on its way into and out of SQLite and JSON, exactly.

Any Python `str` is kept, half an emoji (a lone surrogate) included: text that is valid UTF-8 is stored as
TEXT, any other as a BLOB of its `surrogatepass` bytes (semantics 1.6). Nothing is normalised.
"""

from __future__ import annotations

import json
import re
from typing import cast

__all__ = ["json_text", "read_json", "read_text", "stored_text", "utf8_size"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def stored_text(text: str) -> str | bytes:
    """The value to bind for `text`: itself if it is valid UTF-8, else its `surrogatepass` bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def read_text(stored: str | bytes) -> str:
    """The text that `stored_text` stored."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def utf8_size(text: str) -> int:
    """Bytes of UTF-8 that `text` takes, a lone surrogate counting three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def json_text(value: object) -> str:
    """Compact JSON, always valid UTF-8: a lone surrogate is written as its `\\udXXX` escape.

    `value` must consist of JSON types already (`None, bool, int, float, str, list, dict` with str keys).

    Raises:
        ValueError: a non-finite number, a circular reference, or text in which a surrogate pair is spelled as
            two separate code points, which JSON cannot tell from the one character they would make.
    """
    text = _encode_json(value)
    if text.isascii() or isinstance(stored_text(text), str):
        return text
    escaped = _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    # Compared with what was meant as JSON, not with `value`: a tuple reads back as the equal list.
    if json.loads(escaped) != json.loads(text):
        raise ValueError("text that spells a surrogate pair as two code points has no JSON form")
    return escaped


def read_json(text: str) -> object:
    """The value that `json_text` wrote."""
    return cast("object", json.loads(text))
