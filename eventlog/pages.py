"""The rows of one transaction on their way into the tables of the log, and the statements that write them."""

from __future__ import annotations

from itertools import chain
from typing import Any

from .driver import Connection
from .projection import Step
from .tail import RunTail
from .upcast import PAYLOAD_VERSIONS

__all__ = [
    "INSERT_EVENT",
    "INSERT_NAME",
    "INSERT_RUN",
    "INSERT_WRITTEN",
    "LONG",
    "NO_NUMBER",
    "Pages",
    "Rows",
]

INSERT_NAME = "insert into names (id, family, text, salt, commitment) values (?, ?, ?, ?, ?)"
INSERT_RUN = """
insert into runs (id, uid, name, family, parent, fork_revision, created_at) values (?, ?, ?, ?, ?, ?, ?)
"""
# To bind a None or bytes costs the driver a microsecond each, an integer or a bytearray next to nothing, and
# most columns of most events are NULL; so NULL travels as NO_NUMBER, "" or an empty blob, which never occur.
NO_NUMBER = -(2**63)
INSERT_EVENT = f"""
insert into events (position, run, revision, batch, turn, type, payload, key, agent, activity, value,
    encoding, metadata, salt, content, expires_at_turn, birth, created_at, detail, recorded_at,
    idempotency_key, hash)
values (?, ?, ?, ?, ?, ?, ?, nullif(?, {NO_NUMBER}), nullif(?, {NO_NUMBER}), nullif(?, {NO_NUMBER}), ?,
    ?, nullif(?, ''), nullif(?, x''), nullif(?, {NO_NUMBER}), nullif(?, {NO_NUMBER}), nullif(?, {NO_NUMBER}),
    nullif(?, {NO_NUMBER}), nullif(?, ''), ?, nullif(?, x''), ?)
"""  # noqa: S608 - a constant only


# The commonest event, without the columns that are the same in all of them: see `_append_written`. Several
# with one statement take a quarter less time than one by one, and let go of the interpreter lock once.
_WRITTEN_COLUMNS = """
insert into events (position, run, revision, batch, turn, type, payload, key, agent, activity, value,
    encoding, metadata, salt, birth, recorded_at, hash)
values
"""
_WRITTEN_VALUES = f"""
(?, ?, ?, ?, ?, 1, {PAYLOAD_VERSIONS[1]}, ?, nullif(?, {NO_NUMBER}), nullif(?, {NO_NUMBER}), ?,
    0, nullif(?, ''), ?, nullif(?, {NO_NUMBER}), ?, ?)
"""
_TOGETHER = 16
INSERT_WRITTEN = _WRITTEN_COLUMNS + _WRITTEN_VALUES
_INSERT_TOGETHER = _WRITTEN_COLUMNS + ",".join([_WRITTEN_VALUES] * _TOGETHER)

LONG = 1_024
"""Bytes, or characters, above which a value, or metadata, is counted for itself."""

Rows = tuple[str, list[tuple[Any, ...]]]
"""Rows of events that follow each other, and the statement that writes them."""


class Pages:
    """What the batches of one transaction decided, about to be written to the tables."""

    def __init__(self) -> None:
        self.names: list[tuple[Any, ...]] = []
        self.runs: list[tuple[Any, ...]] = []
        self.events: list[Rows] = []
        self.steps: list[Step] = []
        self.ends: dict[str, RunTail] = {}
        self.count = 0  # of the events
        self.long = 0  # bytes, about, in values and metadata that are longer than `LONG`

    def write(self, db: Connection) -> None:
        """Write names, runs and events, in this order."""
        if self.names:
            db.executemany(INSERT_NAME, self.names)
        if self.runs:
            db.executemany(INSERT_RUN, self.runs)
        for statement, rows in self.events:
            together = len(rows) // _TOGETHER * _TOGETHER if statement is INSERT_WRITTEN else 0
            for first in range(0, together, _TOGETHER):
                db.execute(_INSERT_TOGETHER, [*chain.from_iterable(rows[first : first + _TOGETHER])])
            rest = rows[together:] if together else rows
            if len(rest) == 1:
                db.execute(statement, rest[0])
            elif rest:
                db.executemany(statement, rest)
