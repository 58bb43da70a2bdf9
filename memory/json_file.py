"""The JSON document a `FileStore` keeps: version 1, the one that open-multi-agent's `FileStore` keeps too.

`{"version":1,"entries":[{"key","value","metadata"?,"createdAt","expiresAtTurn"?}, …]}`, compact, in birth
order; absent members are left out. Half an emoji is written as its escape, so that the file is valid UTF-8.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import NoReturn, cast

from ..eventlog import Corrupt, NotOurs, TooNew
from ..eventlog.events import moment
from ..eventlog.limits import MAX_TURN
from ..eventlog.text import json_text
from .snapshot import SavedEntry, iso_time, milliseconds

__all__ = ["document_bytes", "entry_json", "read_document"]

_VERSION = 1


def entry_json(entry: SavedEntry) -> str:
    """One entry as the document spells it.

    Raises:
        ValueError: its key or value has no JSON form; see `json_text`.
    """
    members = [f'"key":{_quoted("key", entry.key)}', f'"value":{_quoted("value", entry.value)}']
    if entry.metadata is not None:
        members.append(f'"metadata":{entry.metadata}')
    members.append(f'"createdAt":"{iso_time(moment(entry.created_at))}"')
    if entry.expires_at_turn is not None:
        members.append(f'"expiresAtTurn":{entry.expires_at_turn}')
    return f"{{{','.join(members)}}}"


def document_bytes(entries: Iterable[str]) -> bytes:
    """The whole document, given each entry as `entry_json` spells it."""
    return f'{{"version":{_VERSION},"entries":[{",".join(entries)}]}}'.encode()


def read_document(content: bytes, where: str) -> dict[str, SavedEntry]:
    """The entries of a document, in order.

    Of a key that occurs twice the last entry counts, at the place of the first. Members that the format does
    not know are dropped, and so is an `expiresAtTurn` that is no number; one that is no whole number within
    0 … 2**53 - 1 becomes the next that hides the entry at the same turns.

    Args:
        content: all that the file holds.
        where: the file, for messages.

    Raises:
        Corrupt: it is not JSON, or an entry is malformed; the message names the entry.
        TooNew: a later version.
        NotOurs: JSON, but no such document.
    """
    document = _parsed(content, where)
    if type(document) is not dict:
        raise NotOurs(f"{where} is not a store object: its root is a {type(document).__name__}")
    members = cast("dict[str, object]", document)
    _check_version(members.get("version"), where)
    entries = members.get("entries")
    if type(entries) is not list:
        raise Corrupt(f"{where} has a malformed entry list: entries is a {type(entries).__name__}")
    found: dict[str, SavedEntry] = {}
    for index, given in enumerate(cast("list[object]", entries)):
        entry = _entry(given, f"{where}, entries[{index}]")
        found[entry.key] = entry
    return found


def _parsed(content: bytes, where: str) -> object:
    try:
        return json.loads(content.decode(), parse_constant=_refuse)
    except RecursionError:
        raise Corrupt(f"{where} nests too deeply to be read") from None
    except ValueError as error:
        raise Corrupt(
            f"{where} is not valid JSON ({error}); restore it from a copy, or move it away to begin anew"
        ) from error


def _check_version(version: object, where: str) -> None:
    if type(version) in (int, float) and version == _VERSION:
        return
    message = f"{where} has the unsupported state file version {version!r:.80}; this build reads {_VERSION}"
    newer = type(version) is int and version > _VERSION
    raise TooNew(message) if newer else NotOurs(message)


def _entry(given: object, where: str) -> SavedEntry:
    if type(given) is not dict:
        raise Corrupt(f"{where} is a malformed entry: a {type(given).__name__}, not an object")
    members = cast("dict[str, object]", given)
    texts: list[str] = []
    for name in ("key", "value", "createdAt"):
        text = members.get(name)
        if type(text) is not str:
            raise Corrupt(f"{where} is a malformed entry: {name} is not a string")
        texts.append(text)
    key, value, created_at = texts
    try:
        born = milliseconds(created_at, "createdAt")
        moment(born)
    except (ValueError, OverflowError) as error:
        raise Corrupt(f"{where} is a malformed entry: {error}") from error
    return SavedEntry(key, value, _metadata(members, where), born, _expiry(members.get("expiresAtTurn")))


def _metadata(members: dict[str, object], where: str) -> str | None:
    if "metadata" not in members:
        return None
    metadata = members["metadata"]
    if type(metadata) is not dict:
        raise Corrupt(f"{where} has non-object metadata: a {type(metadata).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    try:
        return json_text(cast("object", metadata))
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{where} is a malformed entry: its metadata cannot be kept: {error}") from error


def _expiry(given: object) -> int | None:
    if type(given) not in (int, float):
        return None
    number = cast("float", given)
    return int(min(max(number if math.isinf(number) else math.ceil(number), 0), MAX_TURN))


def _quoted(what: str, text: str) -> str:
    try:
        return json_text(text)
    except ValueError as error:
        raise ValueError(
            f"{what} {text!r:.80} cannot be kept in a JSON file: {error}; write the pair as one character"
        ) from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
