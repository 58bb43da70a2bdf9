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

_Row = tuple[Any, ...]  # what _ROWS reads

_PAGE = 512
_KEPT_METADATA = 10_000

_WRITTEN, _DELETED, _PUT_BACK, _FORKED, _ADVANCED, _TURN_SET, _RESTORED, _REFUSED = (
    1,
    2,
    3,
    10,
    11,
    12,
    13,
    20,
)
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
_EARLY = "select position, revision from events where run = ? and revision <= ? order by revision limit 1"
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
        self._revision: int = self._run.fork_revision
        self._batch: int = -1
        self._position: int
        self._turn: int
        self._position, self._turn = self._fork_point()

    def pages(self) -> Iterator[int]:
        """Check page after page; the number of events in each.

        Raises:
            WrongEvent: the first that cannot be right.
        """
        early = self._db.execute(_EARLY, (self._run.id, self._run.fork_revision)).fetchone()
        if early is not None:  # no chain would come by it
            raise WrongEvent(early[0], f"has revision {early[1]}, before its run's first")
        while True:
            rows, readable = self._rows()
            for row in rows:
                self._check(row)
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

    def _rows(self) -> tuple[list[_Row], bool]:
        """The next page, and whether it could be read to its end."""
        rows: list[_Row] = []
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

    def _check(self, row: _Row) -> None:
        """Check an event, and go on from it."""
        self._check_columns(row)
        self._check_place(row)
        try:
            computed = self._computed(row)
        except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
            raise WrongEvent(row[1], f"a column has a value of the wrong type: {error}") from error
        if computed != row[-1]:
            raise WrongEvent(row[1], "the hash does not match: this event or one before it was altered")
        self._hash = computed
        self._revision, self._position, self._batch, self._turn = row[:4]

    def _check_columns(self, row: _Row) -> None:
        """What can be said of an event without its past."""
        _, position, _, _, kind, payload, key, _, _, _, lost, value, encoding, metadata, salt, *rest = row
        content, expiry, birth, created_at, detail, at, idempotency, _ = rest
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
        if shape not in self._shapes:
            self._check_shape(position, shape)
        if lost:
            raise WrongEvent(position, "names a key, agent or activity that its family lacks")
        if payload != PAYLOAD_VERSION or encoding != 0:
            raise WrongEvent(position, f"payload {payload} with encoding {encoding} is unknown")
        if salt is not None and len(salt) != SALT_SIZE:
            raise WrongEvent(position, f"the salt has {len(salt)} bytes instead of {SALT_SIZE}")
        if type(value) is not str and value is not None and not is_text(value):
            raise WrongEvent(position, "the value is not stored as text")
        if metadata is not None and metadata not in self._metadata:
            self._check_metadata(position, metadata)
        if not FIRST_MS <= at <= LAST_MS:
            raise WrongEvent(position, "was recorded at a time that is no date")
        if expiry is not None and not 0 <= expiry <= MAX_TURN:
            raise WrongEvent(position, f"expires at turn {expiry}, which no turn can be")
        if created_at is not None and not FIRST_MS <= created_at <= LAST_MS:
            raise WrongEvent(position, "tells of a life that began at a time that is no date")

    def _check_place(self, row: _Row) -> None:
        """What can be said of an event by those before it."""
        revision, position, batch, turn, kind, *_, detail, _, _, _ = row
        if revision != self._revision + 1:
            raise WrongEvent(position, f"revision {self._revision + 1} is missing; {revision} follows")
        if position <= self._position:
            raise WrongEvent(position, f"stands before revision {self._revision}, which precedes it")
        if batch != 0 and batch != self._batch + 1:
            raise WrongEvent(position, f"offset {batch} in its batch does not follow {self._batch}")
        if turn != self._turn or kind == _ADVANCED:
            self._check_turn(position, kind, turn)
        if detail is not None or revision == self._run.fork_revision + 1:
            self._check_detail(position, kind, revision, detail)
        if kind == _WRITTEN:
            self._check_written(row)
        elif kind == _DELETED:
            self._lives[row[6]] = None
        elif kind == _PUT_BACK:
            self._check_put_back(row)

    def _computed(self, row: _Row) -> bytes:
        """The hash that an event must have."""
        revision, _, batch, turn, kind, payload, _, key, agent, activity, _, value, encoding, *rest = row
        metadata, salt, content, expiry, birth, created_at, detail, at, idempotency, _ = rest
        return event_hash(
            self._hash,
            revision,
            batch,
            turn,
            kind,
            payload,
            framed_commitment(key),
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

    def _check_shape(self, position: int, shape: tuple[int | bool, ...]) -> None:
        """That an event has the columns of its type, and no other: no hash of its type would cover those."""
        kind, *absent = shape
        signs = _SHAPES.get(kind)
        if signs is None:
            raise WrongEvent(position, f"is of type {kind}, which is unknown")
        for column, sign, missing in zip(_OPTIONAL, signs, absent, strict=True):
            if sign == "!" and missing:
                raise WrongEvent(position, f"is of type {kind} and lacks its {column}")
            if sign == "-" and not missing:
                raise WrongEvent(position, f"has a {column}, which an event of type {kind} cannot have")
        self._shapes.add(shape)

    def _check_metadata(self, position: int, metadata: str) -> None:
        if _read_object(metadata) is None:
            raise WrongEvent(position, "the metadata is no JSON object")
        if len(self._metadata) >= _KEPT_METADATA:
            self._metadata.clear()
        self._metadata.add(metadata)

    def _check_turn(self, position: int, kind: int, turn: int) -> None:
        """A turn that is another than the one before."""
        if not 0 <= turn <= MAX_TURN:
            raise WrongEvent(position, f"is at turn {turn}, which no turn can be")
        if kind == _ADVANCED and turn != self._turn + 1:
            raise WrongEvent(position, f"advances the run from turn {self._turn} to turn {turn}")
        if kind not in (_FORKED, _ADVANCED, _TURN_SET, _RESTORED):
            raise WrongEvent(position, f"is at turn {turn}, though the run was at turn {self._turn}")

    def _check_written(self, row: _Row) -> None:
        """A value begins a life of its key, or goes on with the one the key has."""
        revision, key, birth, created_at = row[0], row[6], row[17], row[18]
        if birth is None:
            self._lives[key] = revision
        elif created_at is not None or (self._lives.get(key) != birth and self._birth(key) != birth):
            raise WrongEvent(
                row[1], f"goes on with a life from revision {birth}, which its key does not have"
            )

    def _check_put_back(self, row: _Row) -> None:
        """An entry that is put back held in the run's past what it is said to have held."""
        revision, position, key, content, birth, created_at = (
            row[0],
            row[1],
            row[6],
            row[15],
            row[17],
            row[18],
        )
        target = self._target(content) if content < revision else None
        if target is None or target[:2] != (_WRITTEN, key):
            raise WrongEvent(
                position, f"puts back the content of revision {content}, which is no earlier write of its key"
            )
        begun = target if target[2] is None else self._target(birth)
        if begun is None or (content if target[2] is None else target[2]) != birth or begun[3] != created_at:
            raise WrongEvent(position, f"puts back another life than that of revision {content}")
        self._lives[key] = birth

    def _target(self, revision: int) -> tuple[int, int | None, int | None, int] | None:
        """Type, key, birth and time of creation of the lineage's event at `revision`."""
        for segment in self._past.upto(revision)[:1]:
            return self._db.execute(_TARGET, (segment.run, revision)).fetchone()
        return None

    def _birth(self, key: int) -> int | None:
        """The birth of the key's present life; a fork begins with those of its past."""
        if key not in self._lives:
            self._lives[key] = None
            for run, _, upto in self._past.segments[1:]:
                row = self._db.execute(_LIFE, (run, key, upto)).fetchone()
                if row is not None:
                    self._lives[key] = None if row[0] == _DELETED else row[1]
                    break
        return self._lives[key]

    def _check_detail(self, position: int, kind: int, revision: int, detail: str | None) -> None:
        """The members of `detail`, and that a fork, and nothing else, begins with the one that says so."""
        first = revision == self._run.fork_revision + 1
        if (kind != _FORKED) if first and self._run.parent is not None else (kind == _FORKED and not first):
            raise WrongEvent(position, "a fork begins with its RunForked, and nothing else is one")
        if detail is None:
            return
        members = _read_object(detail)
        if members is None:
            raise WrongEvent(position, "the detail is no JSON object")
        if kind == _FORKED:
            right = type(members.get("parent")) is str and members.get("revision") == self._run.fork_revision
            if right and self._run.parent is not None:
                right = members["parent"] == run_at(self._db, self._run.parent).uid
        elif kind == _RESTORED:
            to, told = members.get("to"), (members.get("by"), members.get("reason"))
            right = all(text is None or type(text) is str for text in told)
            right &= "to" not in members or (type(to) is int and 0 <= to < revision)
        else:
            right = _is_refusal(members)
        if not right:
            raise WrongEvent(position, "the detail does not say what an event of its type must say")


def is_text(stored: object) -> bool:
    """Whether a value that SQLite gave is text in the one form it is stored in."""
    if not isinstance(stored, str | bytes):
        return False
    try:
        return stored_text(read_text(stored)) == stored
    except UnicodeDecodeError:
        return False


def _read_object(text: str) -> dict[str, Any] | None:
    """The JSON object, or None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _is_refusal(members: dict[str, Any]) -> bool:
    """Whether they are those of a WriteRefused."""
    numbers = (members.get("found"), members.get("length"))
    if not all(type(number) is int and number >= 0 for number in numbers):
        return False
    if type(members.get("expected", 0)) is not int:  # any that was stated, also what no version can be
        return False
    digest = members.get("digest")
    if type(members.get("reason")) is not str or type(digest) is not str:
        return False
    return len(digest) == 64 and not digest.strip("0123456789abcdef")
