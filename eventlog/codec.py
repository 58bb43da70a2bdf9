"""Events to columns and back: the one place that knows how each type is stored.

The numbers of the types and the members of `detail` are part of the file format (docs/format.md).
"""

from __future__ import annotations

from typing import Any, assert_never, cast

from .errors import Corrupt
from .events import (
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    Event,
    NothingChanged,
    Recorded,
    Redacted,
    Restored,
    RunForked,
    Seal,
    TurnAdvanced,
    TurnSet,
    WriteRefused,
)
from .schema import shown_name
from .text import json_text, read_json, read_text, stored_text
from .tuples import build
from .upcast import PAYLOAD_VERSIONS, upcast
from .upcast import Payload as Versioned

__all__ = [
    "CODES",
    "ENTRY_DELETED",
    "ENTRY_WRITTEN",
    "REDACTED",
    "REDACTED_METADATA",
    "SELECT_CHANGE",
    "SELECT_RECORDED",
    "Payload",
    "decode",
    "decode_change",
    "encode",
    "is_todays_write",
]

CODES: dict[type[Event], int] = {
    EntryWritten: 1,
    EntryDeleted: 2,
    EntryRestored: 3,
    RunForked: 10,
    TurnAdvanced: 11,
    TurnSet: 12,
    Restored: 13,
    WriteRefused: 20,
    NothingChanged: 21,
    Redacted: 22,
}
"""The number each type of event is stored as."""

_WRITTEN_VERSION = PAYLOAD_VERSIONS[1]
ENTRY_WRITTEN = CODES[EntryWritten]
ENTRY_DELETED = CODES[EntryDeleted]
REDACTED = "[redacted]"
"""What is shown in place of a value that was erased."""

REDACTED_METADATA = '{"redacted":true}'
"""What is shown in place of its metadata."""

SELECT_RECORDED = f"""
select e.position, {shown_name("run_name")}, e.revision, e.batch, e.turn, e.type, e.payload,
    {shown_name("key_name")}, {shown_name("agent_name")}, {shown_name("activity_name")},
    e.value, e.encoding, e.metadata, e.salt, e.content,
    e.expires_at_turn, e.birth, e.created_at, e.detail, e.recorded_at, e.idempotency_key, e.hash
from events e
left join runs on runs.id = e.run
left join names run_name on run_name.id = runs.name
left join names key_name on key_name.id = e.key
left join names agent_name on agent_name.id = e.agent
left join names activity_name on activity_name.id = e.activity
"""  # noqa: S608 - constants only
"""What `decode` reads; a `where` and an `order by` on `e` follow."""

SELECT_CHANGE = f"""
select e.position, e.revision, e.type, e.payload, {shown_name("key_name")}, e.content,
    e.expires_at_turn, e.birth, e.created_at, e.recorded_at, e.encoding
from events e left join names key_name on key_name.id = e.key
"""  # noqa: S608 - constants only
"""What `decode_change` reads; a `where` and an `order by` on `e` follow."""


Payload = tuple[
    int,  # type
    str | None,  # key, still a name
    str | bytes | None,  # value
    str | None,  # metadata
    bytes | None,  # salt
    int | None,  # content
    int | None,  # expires_at_turn
    int | None,  # birth
    int | None,  # created_at
    str | None,  # detail
    int | None,  # turn, where the event changes it
]
"""The columns of an event that depend on its type, in stored form."""


def encode(event: Event, salt: bytes | None) -> Payload:
    """The columns for `event`; `salt` is for the commitment of an `EntryWritten`."""
    if type(event) is EntryWritten:
        return (
            1,
            event.key,
            stored_text(event.value),
            event.metadata,
            salt,
            None,
            event.expires_at_turn,
            event.birth,
            event.created_at,
            None,
            None,
        )
    code = CODES[type(event)]
    key = content = expires_at_turn = birth = created_at = turn = None
    match event:
        case EntryDeleted(key):
            pass
        case EntryRestored(key, content, birth, created_at, expires_at_turn):
            pass
        case TurnAdvanced(turn) | TurnSet(turn) | RunForked(_, _, turn) | Restored(turn):
            pass
        case WriteRefused():
            key, salt = event.key, event.attempt.salt
        case NothingChanged() | Redacted():
            key = event.key if isinstance(event, Redacted) else None
        case _:
            assert_never(event)
    detail = _detail_of(event)
    text = None if detail is None else json_text(detail)
    return (code, key, None, None, salt, content, expires_at_turn, birth, created_at, text, turn)


def _detail_of(event: Event) -> dict[str, object] | None:
    """The members of `detail`: what no column is for."""
    match event:
        case RunForked(parent, revision):
            return {"parent": parent, "revision": revision}
        case Restored(_, to, by, reason):
            return _told(to=to, by=by, reason=reason)
        case WriteRefused(_, reason, found_version, attempt, expected_version):
            told = _told(reason=reason, found=found_version, expected=expected_version)
            return {**told, "length": attempt.length, "digest": attempt.digest.hex()}
        case Redacted(contents, names, _, reason):
            erased = {str(revision): commitment.hex() for revision, commitment in contents}
            return {"contents": erased, "names": [each.hex() for each in names], **_told(reason=reason)}
        case _:
            return None


def _told(**facts: object) -> dict[str, object]:
    return {name: fact for name, fact in facts.items() if fact is not None}


def decode(row: tuple[Any, ...]) -> Recorded:
    """The event that `SELECT_RECORDED` read.

    Raises:
        Corrupt: a type, payload version or encoding this build does not know, or columns that do not fit the
            type; names the position.
    """
    position, run, revision, batch, turn, code, payload, key, agent, activity, value, encoding = row[:12]
    try:
        if code == 1 and payload == _WRITTEN_VERSION and encoding == 0 and type(key) is type(value) is str:
            event: Event = EntryWritten(key, value, row[12], row[15], row[16], row[17])  # most of them
        else:
            event = _event(turn, row)
        return Recorded(
            position,
            run if type(run) is str else _name(run),
            revision,
            batch,
            turn,
            agent if agent is None or type(agent) is str else read_text(agent),
            activity if activity is None or type(activity) is str else read_text(activity),
            row[19],
            event,
            row[21],
            None if row[20] is None else read_text(row[20]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(position, error) from error


def decode_change(row: tuple[Any, ...]) -> tuple[str, Recorded] | None:
    """Key and change that `SELECT_CHANGE` read, with all `evolve` looks at and no text; None for no change.

    Raises:
        Corrupt: as `decode`.
    """
    position, revision, code, payload, key, content, expires_at_turn, birth, created_at, at, encoding = row
    try:
        if encoding != 0:
            raise ValueError(f"encoding {encoding} is unknown")
        if payload != PAYLOAD_VERSIONS.get(code):
            older = Versioned(None, None, content, expires_at_turn, birth, created_at, None)
            _, _, content, expires_at_turn, birth, created_at, _ = upcast(code, payload, older)
        name = key if type(key) is str or code >= 10 else _name(key)
        if code == 1:
            event: Event = EntryWritten(name, "", None, expires_at_turn, birth, created_at)
        elif code == 2:
            event = EntryDeleted(name)
        elif code == 3:
            event = EntryRestored(name, _int(content), _int(birth), _int(created_at), expires_at_turn)
        else:
            return None
    except (TypeError, ValueError) as error:
        raise _unreadable(position, error) from error
    return name, build(Recorded, (position, "", revision, 0, 0, None, None, at, event, b"", None))


def is_todays_write(table: str) -> str:
    """The SQL that says whether a row is an `EntryWritten` whose columns mean what they do today."""
    return f"{table}.type = {ENTRY_WRITTEN} and {table}.payload = {_WRITTEN_VERSION} and {table}.encoding = 0"


def _unreadable(position: int, error: Exception) -> Corrupt:
    return Corrupt(
        f"the event at position {position} cannot be read: {error!r}. "
        "The file was altered, or written by a version of turnlog that this build does not know"
    )


def _event(turn: int, row: tuple[Any, ...]) -> Event:
    code, payload, key, value, encoding, metadata, salt = (
        row[5],
        row[6],
        row[7],
        row[10],
        row[11],
        row[12],
        row[13],
    )
    if encoding != 0:
        raise ValueError(f"encoding {encoding} is unknown")
    if payload != PAYLOAD_VERSIONS.get(code):
        newer = upcast(code, payload, Versioned(value, metadata, *row[14:19]))
        value, metadata = newer[:2]
        row = (*row[:14], *newer[2:], *row[19:])
    match code:
        case 1:
            if value is None and salt is None:
                value, metadata = REDACTED, REDACTED_METADATA
            return EntryWritten(_name(key), _name(value), metadata, row[15], row[16], row[17])
        case 2:
            return EntryDeleted(_name(key))
        case 3:
            return EntryRestored(_name(key), _int(row[14]), _int(row[16]), _int(row[17]), row[15])
        case 11:
            return TurnAdvanced(turn)
        case 12:
            return TurnSet(turn)
        case 21:
            return NothingChanged()
        case _:
            return _event_of_detail(code, turn, key, salt, row)


def _event_of_detail(
    code: int, turn: int, key: str | bytes | None, salt: bytes | None, row: tuple[Any, ...]
) -> Event:
    """An event of a type whose `detail` says something."""
    detail = cast("dict[str, Any]", read_json(row[18]))
    match code:
        case 10:
            return RunForked(detail["parent"], detail["revision"], turn)
        case 13:
            return Restored(turn, detail.get("to"), detail.get("by"), detail.get("reason"))
        case 20:
            attempt = Seal(detail["length"], bytes.fromhex(detail["digest"]), salt)
            return WriteRefused(
                _name(key), detail["reason"], detail["found"], attempt, detail.get("expected")
            )
        case 22:
            return _redacted(key, detail)
        case _:
            raise ValueError(f"event type {code} is unknown")


def _redacted(key: str | bytes | None, detail: dict[str, Any]) -> Redacted:
    return Redacted(
        tuple((int(revision), bytes.fromhex(digits)) for revision, digits in detail["contents"].items()),
        tuple(map(bytes.fromhex, detail["names"])),
        None if key is None else _name(key),
        detail.get("reason"),
    )


def _name(stored: str | bytes | None) -> str:
    if stored is None:
        raise ValueError("text that the event must have is missing")
    return read_text(stored)


def _int(stored: int | None) -> int:
    if stored is None:
        raise ValueError("a number that the event must have is missing")
    return stored
