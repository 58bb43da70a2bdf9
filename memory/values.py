"""Structured values as the text a store keeps, and back."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn, cast

from ..eventlog.jsonvalue import encode_json
from .schemas import conform, dump_models

__all__ = ["ENCODING_MARK", "JSON_MARK", "Encoded", "decode_value", "encode_value", "spells"]

ENCODING_MARK = "sharedMemoryValueEncoding"
"""The member of an entry's metadata that says how its value is encoded."""

JSON_MARK = "json"
"""What `ENCODING_MARK` says of a structured value; the names are shared with other implementations."""


class Encoded(NamedTuple):
    """A value as text.

    Attributes:
        text: the str itself, or compact JSON.
        is_json: whether `text` is JSON; a str that merely looks like JSON is not.
    """

    text: str
    is_json: bool


def encode_value(value: object, *, schema: object = None) -> Encoded:
    """`value` as text that reads back equal.

    Accepted are `None, bool, int, float, str, list, tuple` (which reads back as the equal list), `dict` with
    str keys, and pydantic models (stored in their JSON form, by alias and without computed fields, so that
    their class reads them back).

    Args:
        value: what to encode.
        schema: any type pydantic can validate; then its validated, dumped form is encoded.

    Raises:
        TypeError: anything else, subclasses of these included; a non-finite number, a circular reference, a
            key that is not a str; the message names the path (`$.scores[2]`). Or the value does not fit the
            schema; the message has one `path: message` line each.
        ValueError: nested deeper than 100, or an integer of more than 4,000 digits.
    """
    if schema is not None:
        value = conform(value, schema)
    if type(value) is str:
        return Encoded(value, is_json=False)
    try:
        return Encoded(encode_json(value), is_json=True)
    except TypeError:
        dumped = dump_models(value)
        if dumped is value:
            raise
    return (
        Encoded(dumped, is_json=False) if type(dumped) is str else Encoded(encode_json(dumped), is_json=True)
    )


def decode_value(text: str, metadata: dict[str, Any] | None) -> Any:
    """The value that `text` stands for, by what the entry's metadata says.

    Only text marked as JSON is decoded; marked text that is not JSON (a redacted value, say) is given as it
    is.
    """
    if metadata is None or metadata.get(ENCODING_MARK) != JSON_MARK:
        return text
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return text


def spells(text: str, metadata: dict[str, Any] | None, value: Encoded) -> bool:
    """Whether a stored `text` stands for `value`, whatever its order of members and white space."""
    if text == value.text:
        return True
    found = decode_value(text, metadata)
    wanted = cast("object", _decode(value.text)) if value.is_json else value.text
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode
