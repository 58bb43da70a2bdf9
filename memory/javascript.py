"""JSON text and white space as JavaScript has them, where both sides are to see the same characters."""

from __future__ import annotations

import math
from typing import cast

from ..eventlog.text import json_text

__all__ = ["JAVASCRIPT_SPACES", "javascript_json"]

JAVASCRIPT_SPACES = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript trims, and what `\\s` matches there."""


def javascript_json(value: object) -> str:
    """Compact JSON of decoded JSON, with floats as `JSON.stringify` spells them: `1`, `1e-7`, `null` for NaN.

    Integers keep all their digits, and members their order, where JavaScript would round the one beyond 2**53
    and move members with integer names to the front of the other.
    """
    if type(value) is float:
        return _number(value)
    if type(value) is list:
        items = cast("list[object]", value)
        return f"[{','.join(map(javascript_json, items))}]"
    if type(value) is dict:
        members = cast("dict[str, object]", value)
        return f"{{{','.join(f'{_text(name)}:{javascript_json(item)}' for name, item in members.items())}}}"
    return _text(value) if type(value) is str else json_text(value)


def _text(text: str) -> str:
    try:
        return json_text(text)
    except ValueError:  # the halves of a surrogate pair, apart: JavaScript cannot tell them from the whole
        return json_text(text.encode("utf-16", "surrogatepass").decode("utf-16"))


def _number(number: float) -> str:
    """ECMA-262, Number::toString: the shortest digits that read back, plain from 1e-6 to below 1e21."""
    if not math.isfinite(number):
        return "null"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # How many digits stand before the decimal point; negative for zeros behind it.
    point = len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{digits.rjust(len(digits) - point, '0')}"
    behind = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{behind}e{point - 1:+d}"
