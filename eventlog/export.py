"""Runs out of a log as JSON lines (docs/format.md, "Exports").

An export is a header, the runs, the events in order with each name before its first use, and an end line with
the heads, so that a truncated one is noticed. One page is in memory at a time.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from .codec import CODES
from .driver import Connection
from .errors import Busy, Corrupt
from .events import EntryWritten, WriteRefused
from .log import EventLog
from .run_integrity import erased_contents, is_text
from .runs import NEWEST_REVISION, Lineage
from .schema import REDACTIONS
from .text import json_text

__all__ = ["EXPORT_COLUMNS", "EXPORT_VERSION", "NAME_COLUMNS", "export_lines"]

EXPORT_VERSION = 1

_PAGE = 512

EXPORT_COLUMNS = (
    "revision",
    "batch",
    "turn",
    "type",
    "payload",
    "key",
    "agent",
    "activity",
    "value",
    "encoding",
    "metadata",
    "salt",
    "content",
    "expires_at_turn",
    "birth",
    "created_at",
    "detail",
    "recorded_at",
    "idempotency_key",
    "hash",
)
NAME_COLUMNS = ("key", "agent", "activity")
_SALTED = {CODES[EntryWritten], CODES[WriteRefused]}

_EVENTS_BY_POSITION = f"""
select position, run, {", ".join(EXPORT_COLUMNS)} from events
where position > ? and position <= ? order by position limit {_PAGE}
"""  # noqa: S608 - constants only
_EVENTS_OF_RUN = f"""
select revision, run, {", ".join(EXPORT_COLUMNS)} from events
where revision > ? and revision <= ? and run = ? order by revision limit {_PAGE}
"""  # noqa: S608 - constants only
_RUNS = "select id, uid, name, family, parent, fork_revision, created_at from runs order by id"
# An erased event cannot be told from a damaged one without the Redacted that has its commitment.
_ERASURES = f"""
select coalesce(max(revision), 0) from events where run = :run and {REDACTIONS} and position <= :last and (
    json_array_length(detail, '$.names') > 0
    or exists (select 1 from json_each(detail, '$.contents') where cast(key as integer) <= :upto)
)
"""  # noqa: S608 - constants only
_NEXT_BATCH = """
select revision from events where run = ? and revision > ? and batch = 0 order by revision limit 1
"""
_NEWEST = "select max(revision) from events where run = ?"
_ERASED_SINCE = f"select 1 from events where {REDACTIONS} and position > ? limit 1"  # noqa: S608 - constants only
_NAME = "select family, text, salt, commitment from names where id = ?"


def export_lines(log: EventLog, run: str | None = None) -> Iterator[str]:
    """The log, or one run with its ancestors up to the fork, as JSON lines without line ends.

    Where a text of an ancestor was erased after the fork, the ancestor is exported up to that redaction.

    Everything that was committed when the first line is asked for, and nothing later.

    Raises:
        NotFound: there is no such run.
        Busy: a text was erased meanwhile; at the end.
        Corrupt: the log is damaged.
    """
    past = None if run is None else log.lineage(run)
    return _Export(log, past).lines()


class _Export:
    """One export under way."""

    def __init__(self, log: EventLog, past: Lineage | None) -> None:
        self._log = log
        self._past = past
        self._uids: dict[int, str] = {}
        self._named: set[int] = set()
        self._erased: dict[int, dict[int, bytes]] = {}  # commitments by run and revision

    def lines(self) -> Iterator[str]:
        last, beginning = self._beginning()
        yield from beginning
        heads: dict[str, str] = {}
        count = 0
        for table in self._pages(last):
            with self._log.reading() as db:
                lines = [line for _, ident, *event in table for line in self._event(db, ident, event)]
            yield from lines
            count += len(table)
            heads.update({self._uids[row[1]]: row[-1].hex() for row in table})
        if self._erased:
            with self._log.reading() as db:
                if db.execute(_ERASED_SINCE, (last,)).fetchone():
                    raise Busy(f"{self._log.path}: a text was erased meanwhile; export again")
        yield json_text({"kind": "end", "events": count, "heads": heads})

    def _beginning(self) -> tuple[int, list[str]]:
        """The last position to export, and the lines before the first event: all from one moment."""
        wanted = None if self._past is None else {segment.run for segment in self._past.segments}
        lines = [json_text({"kind": "turnlog-export", "version": EXPORT_VERSION})]
        with self._log.reading() as db:
            db.execute("begin")
            try:
                (last,) = db.execute("select coalesce(max(position), 0) from events").fetchone()
                runs = db.execute(_RUNS).fetchall()
                self._uids = {ident: uid for ident, uid, *_ in runs}
                for row in runs:
                    if wanted is None or row[0] in wanted:
                        lines += self._run(db, row)
            finally:
                db.execute("rollback")
        return last, lines

    def _pages(self, last: int) -> Iterator[list[tuple[Any, ...]]]:
        """The events as rows, page by page: in the order of the file, or of the lineage."""
        if self._past is None:
            yield from self._read(_EVENTS_BY_POSITION, 0, last, ())
            return
        for segment in reversed(self._past.segments):
            upto = segment.upto
            with self._log.reading() as db:
                if upto == NEWEST_REVISION:
                    query = "select max(revision) from events where run = ? and position <= ?"
                    (upto,) = db.execute(query, (segment.run, last)).fetchone()
                else:
                    upto = _with_erasures(db, segment.run, upto, last)
            yield from self._read(_EVENTS_OF_RUN, segment.after, upto, (segment.run,))

    def _read(
        self, query: str, after: int, upto: int, more: tuple[int, ...]
    ) -> Iterator[list[tuple[Any, ...]]]:
        while True:
            with self._log.reading() as db:
                rows = db.execute(query, (after, upto, *more)).fetchall()
            if rows:
                yield rows
                after = rows[-1][0]
            if len(rows) < _PAGE:
                return

    def _run(self, db: Connection, row: tuple[Any, ...]) -> Iterator[str]:
        _, uid, name, family, parent, fork_revision, created_at = row
        yield from self._name(db, name)
        facts = {
            "kind": "run",
            "uid": uid,
            "name": name,
            "family": self._uids[family],
            "parent": None if parent is None else self._uids[parent],
            "fork_revision": fork_revision,
            "created_at": created_at,
        }
        yield json_text(facts)

    def _event(self, db: Connection, run: int, values: list[Any]) -> Iterator[str]:
        event = {name: value for name, value in zip(EXPORT_COLUMNS, values, strict=True) if value is not None}
        for column in NAME_COLUMNS:
            if column in event:
                yield from self._name(db, event[column])
        salted = event["type"] in _SALTED or "idempotency_key" in event
        if salted and "salt" not in event:
            event["commitment"] = self._commitment(db, run, event["revision"])
        for column in ("salt", "hash"):
            if column in event:
                event[column] = event[column].hex()
        for column in ("value", "idempotency_key"):
            if column in event:
                event[column] = _portable(event[column])
        if run not in self._uids:
            raise Corrupt(f"run number {run} is missing; `turnlog verify` says more")
        yield json_text({"kind": "event", "run": self._uids[run], **event})

    def _name(self, db: Connection, ident: int) -> Iterator[str]:
        if ident in self._named:
            return
        self._named.add(ident)
        row = db.execute(_NAME, (ident,)).fetchone()
        family, text, salt, commitment = row or (0, None, b"", b"")
        facts = {"kind": "name", "id": ident, "family": self._uids.get(family)}
        if family not in self._uids or (text is None) != (salt is None):
            raise Corrupt(f"name number {ident} is missing or damaged; `turnlog verify` says more")
        if text is None:
            yield json_text({**facts, "commitment": commitment.hex()})
        elif is_text(text):
            yield json_text({**facts, "text": _portable(text), "salt": salt.hex()})
        else:
            raise Corrupt(f"name number {ident} is not stored as text; `turnlog verify` says more")

    def _commitment(self, db: Connection, run: int, revision: int) -> str:
        """The commitment of a content that was erased, or may have been erased since the export began."""
        if revision not in self._erased.get(run, {}):
            self._erased[run] = erased_contents(db, run)
        try:
            return self._erased[run][revision].hex()
        except KeyError:
            raise Corrupt(
                f"revision {revision} of run number {run} has lost its text, and no redaction says so; "
                "`turnlog verify` says more"
            ) from None


def _with_erasures(db: Connection, run: int, upto: int, last: int) -> int:
    """How much of an ancestor is exported: up to the fork, or to the batch that erased something of it."""
    while True:
        (erasure,) = db.execute(_ERASURES, {"run": run, "upto": upto, "last": last}).fetchone()
        if erasure <= upto:
            return upto
        after = db.execute(_NEXT_BATCH, (run, erasure)).fetchone()
        upto = after[0] - 1 if after is not None else db.execute(_NEWEST, (run,)).fetchone()[0]


def _portable(stored: str | bytes) -> str | dict[str, str]:
    return stored if isinstance(stored, str) else {"base64": base64.b64encode(stored).decode()}
