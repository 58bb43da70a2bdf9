"""Checking one run's own events against docs/format.md: columns, chain, turns, lives, references.

Most events of a log are entries written, and there may be millions, so one loop sees every event, and what
only few of them have is looked at apart.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, cast

from .chain import SALT_SIZE, content_commitment, event_hash, framed_commitment
from .codec import PAYLOAD_VERSION
from .driver import Connection, driver
from .errors import Corrupt
from .limits import MAX_TURN
from .runs import Lineage, genesis, run_at
from .schema import CHANGES
from .text import read_text, stored_text

__all__ = ["FIRST_MS", "LAST_MS", "RunCheck", "WrongEvent", "is_text"]

FIRST_MS = -62_135_596_800_000
"""The earliest time that is a date: 0001-01-01 UTC."""

LAST_MS = 253_402_300_799_999
"""The latest time that is a date: the end of 9999, UTC."""

_PAGE = 512
_KEPT_METADATA = 10_000

_WRITTEN, _DELETED, _PUT_BACK, _FORKED, _ADVANCED, _TURN_SET, _RESTORED, _REFUSED = 1, 2, 3, 10, 11, 12, 13, 20
_OPTIONAL = (
    "key",
    "value",
    "metadata",
    "salt",
    "content",
    "expires_at_turn",
    "birth",
    "created_at",
    "detail",
    "idempotency_key",
)
# One sign for each optional column, in this order: ! it must be there, ? it may be, - it must not.
_SHAPES = {
    _WRITTEN: "!!?!-???--",
    _DELETED: "!---------",
    _PUT_BACK: "!---!?!!--",
    _FORKED: "--------!-",
    _ADVANCED: "----------",
    _TURN_SET: "----------",
    _RESTORED: "--------!-",
    _REFUSED: "!--!----!-",
}

# A name that is missing, or another family's, is NULL in the join; `lost` tells that from a column not given.
_ROWS = f"""
select e.revision, e.position, e.batch, e.turn, e.type, e.payload, e.key,
    k.commitment, a.commitment, c.commitment,
    (e.key is null) <> (k.id is null) or (e.agent is null) <> (a.id is null)
        or (e.activity is null) <> (c.id is null) as lost,
    e.value, e.encoding, e.metadata, e.salt, e.content, e.expires_at_turn, e.birth, e.created_at, e.detail,
    e.recorded_at, e.idempotency_key, e.hash
from events e
left join names k on k.id = e.key and k.family = ?1
left join names a on a.id = e.agent and a.family = ?1
left join names c on c.id = e.activity and c.family = ?1
where e.run = ?2 and e.revision > ?3
order by e.revision limit {_PAGE}
"""  # noqa: S608 - constants only
_NEXT = "select position from events where run = ? and revision > ? order by revision limit 1"
_PLACE = "select position, turn from events where run = ? and revision = ?"
_LIFE = f"""
select type, coalesce(birth, revision) from events where run = ? and key = ? and revision <= ? and {CHANGES}
order by revision desc limit 1
"""  # noqa: S608 - constants only
_TARGET = """
select type, key, birth, coalesce(created_at, recorded_at) from events where run = ? and revision = ?
"""


class WrongEvent(Exception):  # noqa: N818
    """Ends the check of a run at its first event that cannot be right."""

    def __init__(self, position: int | None, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.what = what


class RunCheck:
    """The check of one run under way.

    Args:
        db: a connection; nobody else may change the run meanwhile.
        past: the run and its ancestors, which have been checked before.

    Raises:
        Corrupt: rows that the run begins from are missing.
    """

    def __init__(self, db: Connection, past: Lineage) -> None:
        self._db = db
        self._past = past
        self._run = past.run
        self._shapes: set[tuple[int | bool, ...]] = set()  # those that were found right
        self._metadata: set[str] = set()  # likewise; most repeat
        self._lives: dict[int, int | None] = {}  # birth of each key's life; None for a key that is deleted
        self._hash = genesis(db, self._run.id)
        self._revision = self._run.fork_revision
        self._position, self._turn = self._fork_point()
        self._batch = -1

    def pages(self) -> Iterator[int]:
        """Check page after page; the number of events in each.

        Raises:
            WrongEvent: the first that cannot be right.
        """
        while True:
            rows, readable = self._rows()
            self._check(rows)
            if not readable:
                self._stop("holds text that is not UTF-8")
            yield len(rows)
            if len(rows) < _PAGE:
                break
        if self._revision == self._run.fork_revision:
            raise WrongEvent(None, "the run has no events")

    def _fork_point(self) -> tuple[int, int]:
        """Position and turn of the event that the run goes on from."""
        if self._run.parent is None:
            return 0, 0
        row = self._db.execute(_PLACE, (self._run.parent, self._run.fork_revision)).fetchone()
        if row is None:
            raise Corrupt(f"run number {self._run.id} was forked after an event that is missing")
        return row

    def _rows(self) -> tuple[list[tuple[Any, ...]], bool]:
        """The next page, and whether it could be read to its end."""
        rows: list[tuple[Any, ...]] = []
        try:
            for row in self._db.execute(_ROWS, (self._run.family, self._run.id, self._revision)):
                rows.append(row)  # noqa: PERF402 - those before one that cannot be decoded count
        except driver().OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) is not None:
                raise
            return rows, False  # the driver could not make a str of what SQLite gave
        return rows, True

    def _stop(self, what: str) -> None:
        """The event that follows those checked is wrong."""
        (position,) = self._db.execute(_NEXT, (self._run.id, self._revision)).fetchone()
        raise WrongEvent(position, what)

    def _check(self, rows: list[tuple[Any, ...]]) -> None:
        """Check a page."""
        shapes, known_metadata, lives = self._shapes, self._metadata, self._lives
        for row in rows:
            revision, position, batch, turn, kind, payload, key, named, agent, activity, lost, value, *rest = row
            encoding, metadata, salt, content, expiry, birth, created_at, detail, at, idempotency, stored = rest
            shape = (
                kind,
                key is None,
                value is None,
                metadata is None,
                salt is None,
                content is None,
                expiry is None,
                birth is None,
                created_at is None,
                detail is None,
                idempotency is None,
            )
            if shape not in shapes:
                self._check_shape(position, shape)
            if revision != self._revision + 1:
                raise WrongEvent(position, f"revision {self._revision + 1} is missing; {revision} follows")
            if position <= self._position:
                raise WrongEvent(position, f"stands before revision {self._revision}, which precedes it")
            if batch != 0 and batch != self._batch + 1:
                raise WrongEvent(position, f"offset {batch} in its batch does not follow {self._batch}")
            if lost:
                raise WrongEvent(position, "names a key, agent or activity that its family lacks")
            if payload != PAYLOAD_VERSION or encoding != 0:
                raise WrongEvent(position, f"payload {payload} with encoding {encoding} is unknown")
            if salt is not None and len(salt) != SALT_SIZE:
                raise WrongEvent(position, f"the salt has {len(salt)} bytes instead of {SALT_SIZE}")
            if type(value) is not str and value is not None and not is_text(value):
                raise WrongEvent(position, "the value is not stored as text")
            if metadata is not None and metadata not in known_metadata:
                self._check_metadata(position, metadata)
            if expiry is not None and not 0 <= expiry <= MAX_TURN:
                raise WrongEvent(position, f"expires at turn {expiry}, which no turn can be")
            if not FIRST_MS <= at <= LAST_MS:
                raise WrongEvent(position, "was recorded at a time that is no date")
            if kind == _WRITTEN and birth is None:
                lives[key] = revision
            elif kind != _WRITTEN or created_at is not None or self._birth(key) != birth:
                self._check_life(position, kind, revision, key, content, birth, created_at)
            if turn != self._turn:
                self._check_turn(position, kind, turn)
            elif kind == _ADVANCED:
                raise WrongEvent(position, f"leaves the run at turn {turn}, though it advances it")
            if detail is not None or revision == self._run.fork_revision + 1:
                self._check_detail(position, kind, revision, detail)
            try:
                computed = event_hash(
                    self._hash,
                    revision,
                    batch,
                    turn,
                    kind,
                    payload,
                    framed_commitment(named),
                    framed_commitment(agent),
                    framed_commitment(activity),
                    None if salt is None else content_commitment(salt, value, metadata),
                    encoding,
                    content,
                    expiry,
                    birth,
                    created_at,
                    detail,
                    at,
                    idempotency,
                )
            except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
                raise WrongEvent(position, f"a column has a value of the wrong type: {error}") from error
            if computed != stored:
                raise WrongEvent(
                    position, "the hash does not match: this event or one before it was altered"
                )
            self._hash, self._revision, self._position = computed, revision, position
            self._batch, self._turn = batch, turn
