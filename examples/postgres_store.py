"""A `MemoryStore` on PostgreSQL, for agents on several machines: five verbs, compare-and-set and expiry.

Needs `pip install 'psycopg[binary]'`. `docs/custom-stores.md` says why it is as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC
from typing import Any, LiteralString, Self

import psycopg

from turnlog import CompareAndSet, Limits, MemoryEntry, Write

# Keys and values are bytes: PostgreSQL's text holds neither NUL nor half an emoji, and how it compares
# depends on the collation. Metadata is JSON text and not jsonb, which knows no NUL either and would rewrite
# numbers. Keys are found by their digest, since an entry of an index may have 2,700 bytes only.
_TABLE = """
CREATE TABLE IF NOT EXISTS turnlog_entries (
    key bytea NOT NULL,
    value bytea NOT NULL,
    metadata text,
    expires_at_turn bigint,
    created_at timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    birth bigint GENERATED ALWAYS AS IDENTITY
);
CREATE UNIQUE INDEX IF NOT EXISTS turnlog_entries_key ON turnlog_entries (sha256(key));
CREATE INDEX IF NOT EXISTS turnlog_entries_birth ON turnlog_entries (birth);
"""
_MAKING_THE_TABLE = 0x7475726E  # the number of the lock: any, as long as nobody else uses it
_SET = """
INSERT INTO turnlog_entries (key, value, metadata, expires_at_turn)
VALUES (%(key)s, %(value)s, %(metadata)s, %(turn)s)
ON CONFLICT (sha256(key)) DO UPDATE
SET value = excluded.value, metadata = excluded.metadata, expires_at_turn = excluded.expires_at_turn
"""
_SET_IF_MISSING = """
INSERT INTO turnlog_entries (key, value, metadata)
VALUES (%(key)s, %(value)s, %(metadata)s)
ON CONFLICT (sha256(key)) DO NOTHING
"""
# Of two that wait for the row, the second compares with what the first wrote.
_SET_IF_EQUAL = """
UPDATE turnlog_entries SET value = %(value)s, metadata = %(metadata)s, expires_at_turn = NULL
WHERE sha256(key) = sha256(%(key)s) AND value = %(expected)s
"""
_GET = """
SELECT key, value, metadata, expires_at_turn, created_at FROM turnlog_entries
WHERE sha256(key) = sha256(%s)
"""
_LIST = "SELECT key, value, metadata, expires_at_turn, created_at FROM turnlog_entries ORDER BY birth"
_DELETE = "DELETE FROM turnlog_entries WHERE sha256(key) = sha256(%s)"
_CLEAR = "DELETE FROM turnlog_entries"


class PostgresStore(AbstractContextManager["PostgresStore"]):
    """A store that any number of processes share, in the table `turnlog_entries` of a database.

    Every verb is one statement, and so atomic. Errors of the client are passed on as they are. After a lost
    connection during a write nobody can tell whether it happened: look before you repeat it, and with a new
    store, since this one has a single connection and does not make another.

    Args:
        conninfo: of the database, for example `postgresql://localhost/team`. It says how long to wait as
            well, as in `?connect_timeout=5&options=-c%20statement_timeout%3D5s`.
    """

    def __init__(self, conninfo: str) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True)
        try:
            with self._connection.transaction():
                # Two processes that make a table at the same moment would fail, in spite of IF NOT EXISTS.
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MAKING_THE_TABLE])
                self._connection.execute(_TABLE)
        except BaseException:
            self._connection.close()
            raise

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`."""
        row = self._connection.execute(_GET, [_bytes(key)]).fetchone()
        return None if row is None else _entry(row)

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace value and metadata and clear the expiry."""
        self._send(_SET, Write(key, value, metadata))

    def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """`set`, with the turn at which the entry counts as expired."""
        _check_int(expires_at_turn)
        self._send(_SET, Write(key, value, metadata, expires_at_turn), turn=expires_at_turn)

    def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set `key` if it holds exactly `expected` (None: if it is missing); whether it did."""
        command = CompareAndSet(key, expected, value, metadata)
        if expected is None:
            return self._send(_SET_IF_MISSING, command)
        return self._send(_SET_IF_EQUAL, command, expected=_bytes(expected))

    def list(self) -> list[MemoryEntry]:
        """Every entry, in birth order, as of one moment."""
        return [_entry(row) for row in self._connection.execute(_LIST)]

    def delete(self, key: str) -> None:
        """Remove `key`; silent if it is missing."""
        self._connection.execute(_DELETE, [_bytes(key)])

    def clear(self) -> None:
        """Remove every entry."""
        self._connection.execute(_CLEAR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _send(
        self,
        statement: LiteralString,
        command: Write | CompareAndSet,
        turn: int | None = None,
        expected: bytes | None = None,
    ) -> bool:
        command.check(Limits())  # and the types were checked when it was made
        given = {
            "key": _bytes(command.key),
            "value": _bytes(command.value),
            "metadata": command.metadata_json,
            "turn": turn,
            "expected": expected,
        }
        return self._connection.execute(statement, given).rowcount == 1


def _bytes(text: str) -> bytes:
    """Text as the database keeps it. Half an emoji is no UTF-8, but has bytes all the same."""
    if type(text) is not str:
        raise TypeError(f"a key must be a str, not {type(text).__name__}")
    return text.encode("utf-8", "surrogatepass")


def _check_int(turn: object) -> None:
    if turn is None:  # which to a `Write` means: no expiry
        raise TypeError("expires_at_turn must be an int, not None")


def _entry(row: tuple[Any, ...]) -> MemoryEntry:
    key, value, metadata, expires_at_turn, created_at = row
    return MemoryEntry(
        key=key.decode("utf-8", "surrogatepass"),
        value=value.decode("utf-8", "surrogatepass"),
        metadata=None if metadata is None else json.loads(metadata),
        created_at=created_at.astimezone(UTC),
        expires_at_turn=expires_at_turn,
    )
