"""Commitments and the hash chain, as docs/format.md describes them byte by byte.

Every hash is SHA-256 over a tag that says what is hashed, then fields that say of themselves what they are:
a class byte, and a length where it varies. So NULL, "" and text that had to be stored as bytes all differ.
"""

from __future__ import annotations

import struct
from hashlib import sha256

from .text import stored_text

__all__ = [
    "NO_PARENT",
    "SALT_SIZE",
    "attempt_digest",
    "content_commitment",
    "event_hash",
    "genesis_hash",
    "name_commitment",
]

SALT_SIZE = 16
"""Random bytes in a salt: enough that a short secret cannot be guessed from its commitment."""

NO_PARENT = bytes(32)
"""What stands in the genesis of a run that is no fork, where a fork has its parent's hash."""

_NAME = b"turnlog.name.1\n"
_CONTENT = b"turnlog.content.1\n"
_ATTEMPT = b"turnlog.attempt.1\n"
_GENESIS = b"turnlog.genesis.1\n"
_EVENT = b"turnlog.event.1\n"

_ABSENT = b"\x00"
_INTEGER = struct.Struct(">Bq")
_TEXT = struct.Struct(">BQ")
_FIVE_INTEGERS = struct.Struct(">BqBqBqBqBq")


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
    return sha256(_CONTENT + salt + _field(value) + _field(metadata)).digest()


def attempt_digest(salt: bytes, text: str) -> bytes:
    """What a refusal keeps of the value that was not written: 32 bytes."""
    return sha256(_ATTEMPT + salt + _field(stored_text(text))).digest()


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


def event_hash(
    previous: bytes,
    revision: int,
    batch: int,
    turn: int,
    kind: int,
    payload: int,
    key: bytes | None,
    agent: bytes | None,
    activity: bytes | None,
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

    `key`, `agent` and `activity` are commitments of names, `content_hash` is the commitment of value and
    metadata; each is absent where the event has none.
    """
    return sha256(
        _EVENT
        + previous
        + _FIVE_INTEGERS.pack(1, revision, 1, batch, 1, turn, 1, kind, 1, payload)
        + _field(key)
        + _field(agent)
        + _field(activity)
        + _field(content_hash)
        + _field(encoding)
        + _field(content)
        + _field(expires_at_turn)
        + _field(birth)
        + _field(created_at)
        + _field(detail)
        + _field(recorded_at)
        + _field(idempotency_key)
    ).digest()
