"""Commitments and the hash chain, as docs/format.md describes them byte by byte.

Every hash is SHA-256 over a tag that says what is hashed, then fields that say of themselves what they are:
a class byte, and a length where it varies. So NULL, "" and text that had to be stored as bytes all differ.
"""

from __future__ import annotations

import struct
from hashlib import sha256

from .text import stored_text
from .upcast import PAYLOAD_VERSIONS

__all__ = [
    "NO_PARENT",
    "SALT_SIZE",
    "attempt_digest",
    "command_digest",
    "content_commitment",
    "event_hash",
    "framed_commitment",
    "genesis_hash",
    "name_commitment",
    "written_hash",
]

SALT_SIZE = 16
"""Random bytes in a salt: enough that a short secret cannot be guessed from its commitment."""

NO_PARENT = bytes(32)
"""What stands in the genesis of a run that is no fork, where a fork has its parent's hash."""

_NAME = b"turnlog.name.1\n"
_CONTENT = b"turnlog.content.1\n"
_ATTEMPT = b"turnlog.attempt.1\n"
_COMMAND = b"turnlog.command.1\n"
_GENESIS = b"turnlog.genesis.1\n"
_EVENT = b"turnlog.event.1\n"

_ABSENT = b"\x00"
_INTEGER = struct.Struct(">Bq")
_TEXT = struct.Struct(">BQ")
_ENCODING_0 = _INTEGER.pack(1, 0)
_FRAMED_32 = _TEXT.pack(3, 32)
_FIVE_INTEGERS = struct.Struct(">BqBqBqBqBq")
_LENGTHS = [_TEXT.pack(2, size) for size in range(1025)]

# Of an `EntryWritten` with nothing unusual about it: what lies between the fields that differ.
_THREE_INTEGERS = struct.Struct(">BqBqBq")
_WRITTEN = _INTEGER.pack(1, 1) + _INTEGER.pack(1, PAYLOAD_VERSIONS[1])  # type and payload
_PLAIN = _ENCODING_0 + _ABSENT * 2  # encoding 0; no content, no expires_at_turn
_BORN_NOW = struct.Struct(">3sBqB")  # no birth, created_at or detail; recorded_at; no idempotency_key
_BORN_BEFORE = struct.Struct(">Bq2sBqB")
_TWO_ABSENT, _THREE_ABSENT = _ABSENT * 2, _ABSENT * 3


def _field(value: int | str | bytes | None) -> bytes:
    if value is None:
        return _ABSENT
    if isinstance(value, int):
        return _INTEGER.pack(1, value)
    if isinstance(value, str):
        raw = value.encode()
        return _TEXT.pack(2, len(raw)) + raw
    return _TEXT.pack(3, len(value)) + value


def name_commitment(salt: bytes, name: str) -> bytes:
    """What a chain holds instead of a key's or an agent's name: 32 bytes."""
    return sha256(_NAME + salt + _field(stored_text(name))).digest()


def content_commitment(salt: bytes, value: str | bytes | None, metadata: str | None) -> bytes:
    """What a chain holds instead of value and metadata, as stored: 32 bytes."""
    if type(value) is not str or metadata is None:
        return sha256(_CONTENT + salt + _field(value) + _field(metadata)).digest()
    text, more = value.encode(), metadata.encode()
    size, further = len(text), len(more)
    length = _LENGTHS[size] if size <= 1024 else _TEXT.pack(2, size)
    further_length = _LENGTHS[further] if further <= 1024 else _TEXT.pack(2, further)
    return sha256(b"".join((_CONTENT, salt, length, text, further_length, more))).digest()


def attempt_digest(salt: bytes, text: str) -> bytes:
    """What a refusal keeps of the value that was not written: 32 bytes."""
    return sha256(_ATTEMPT + salt + _field(stored_text(text))).digest()


def command_digest(salt: bytes, command: str) -> bytes:
    """What an event with an idempotency key keeps of the command it came from: 32 bytes."""
    return sha256(_COMMAND + salt + _field(command)).digest()


def genesis_hash(uid: str, run_name: bytes, created_at: int, parent: bytes) -> bytes:
    """The hash that a run's first event follows.

    Args:
        uid: the run's uid.
        run_name: commitment of the run's name.
        created_at: milliseconds since 1970 UTC.
        parent: hash of the event forked from, or `NO_PARENT`.
    """
    fields = (uid, run_name, created_at, parent)
    return sha256(_GENESIS + b"".join(map(_field, fields))).digest()


def framed_commitment(commitment: bytes | None) -> bytes:
    """A commitment as a field of the frame, ready to be hashed again and again."""
    return _ABSENT if commitment is None else _FRAMED_32 + commitment


def event_hash(
    previous: bytes,
    revision: int,
    batch: int,
    turn: int,
    kind: int,
    payload: int,
    key: bytes,
    agent: bytes,
    activity: bytes,
    content_hash: bytes | None,
    encoding: int,
    content: int | None,
    expires_at_turn: int | None,
    birth: int | None,
    created_at: int | None,
    detail: str | None,
    recorded_at: int,
    idempotency_key: str | bytes | None,
) -> bytes:
    """The hash of one event: its tag, the hash before it, and every column but position, run and hash.

    `key`, `agent` and `activity` are `framed_commitment`s of names; `content_hash` is the commitment of value
    and metadata. Written out field by field, since every append and every check runs through it.
    """
    return sha256(
        b"".join(
            (
                _EVENT,
                previous,
                _FIVE_INTEGERS.pack(1, revision, 1, batch, 1, turn, 1, kind, 1, payload),
                key,
                agent,
                activity,
                _ABSENT if content_hash is None else _FRAMED_32 + content_hash,
                _ENCODING_0 if encoding == 0 else _INTEGER.pack(1, encoding),
                _ABSENT if content is None else _INTEGER.pack(1, content),
                _ABSENT if expires_at_turn is None else _INTEGER.pack(1, expires_at_turn),
                _ABSENT if birth is None else _INTEGER.pack(1, birth),
                _ABSENT if created_at is None else _INTEGER.pack(1, created_at),
                _ABSENT if detail is None else _field(detail),
                _INTEGER.pack(1, recorded_at),
                _ABSENT if idempotency_key is None else _field(idempotency_key),
            )
        )
    ).digest()


def written_hash(
    previous: bytes,
    revision: int,
    batch: int,
    turn: int,
    key: bytes,
    agent: bytes,
    activity: bytes,
    content_hash: bytes,
    birth: int | None,
    recorded_at: int,
) -> bytes:
    """`event_hash` of the commonest event, with three quarters of the work.

    That is an `EntryWritten` of today's payload, encoding 0, without content reference, expiry, time of
    creation, detail and idempotency key.
    """
    return sha256(
        b"".join(
            (
                _EVENT,
                previous,
                _THREE_INTEGERS.pack(1, revision, 1, batch, 1, turn),
                _WRITTEN,
                key,
                agent,
                activity,
                _FRAMED_32,
                content_hash,
                _PLAIN,
                _BORN_NOW.pack(_THREE_ABSENT, 1, recorded_at, 0)
                if birth is None
                else _BORN_BEFORE.pack(1, birth, _TWO_ABSENT, 1, recorded_at, 0),
            )
        )
    ).digest()
