"""Checking one run's own events against docs/format.md: columns, chain, turns, lives, references.

Most events of a log are entries written, and there may be millions. Those about which there is nothing
unusual pass in one loop (`RunCheck.pass_usual`); all others, and whatever is wrong, `_check` judges.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import Any, cast

from .chain import SALT_SIZE, content_commitment, event_hash, framed_commitment, written_hash
from .driver import Connection, driver
from .errors import Corrupt
from .limits import MAX_TURN
from .runs import Lineage, genesis, run_at
from .schema import CHANGES, REDACTIONS
from .text import read_text, stored_text
from .upcast import PAYLOAD_VERSIONS

__all__ = ["FIRST_MS", "LAST_MS", "RunCheck", "WrongEvent", "erased_contents", "is_text"]

FIRST_MS = -62_135_596_800_000
"""The earliest time that is a date: 0001-01-01 UTC."""

LAST_MS = 253_402_300_799_999
"""The latest time that is a date: the end of 9999, UTC."""

_Row = tuple[Any, ...]  # what _ROWS reads

_PAGE = 512
_KEPT_METADATA = 10_000
_KEPT_NAMES = 20_000

_WRITTEN, _DELETED, _PUT_BACK = 1, 2, 3
_WRITTEN_PAYLOAD = PAYLOAD_VERSIONS[_WRITTEN]
_FORKED, _ADVANCED, _TURN_SET, _RESTORED = 10, 11, 12, 13
_REFUSED, _UNCHANGED, _REDACTED = 20, 21, 22
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
    _UNCHANGED: "---!----!!",
    _REDACTED: "?-------!-",
}
_ONCE = ("salt", "detail", "idempotency_key")  # what an event has in any case if it has an idempotency key
_ERASED = ("value", "metadata", "salt")

_ROWS = f"""
select revision, position, batch, turn, type, payload, key, agent, activity, value, encoding, metadata, salt,
    content, expires_at_turn, birth, created_at, detail, recorded_at, idempotency_key, hash
from events where run = ? and revision > ? order by revision limit {_PAGE}
"""  # noqa: S608 - constants only
_KEY, _AGENT, _ACTIVITY = itemgetter(6), itemgetter(7), itemgetter(8)  # of a row
_COMMITMENTS = """
select id, commitment from names where id in (select value from json_each(?)) and family = ?
"""
_NEXT = "select position from events where run = ? and revision > ? order by revision limit 1"
_EARLY = "select position, revision from events where run = ? and revision <= ? order by revision limit 1"
_PLACE = "select position, turn from events where run = ? and revision = ?"
_LIFE = f"""
select type, coalesce(birth, revision) from events where run = ? and key = ? and revision <= ? and {CHANGES}
order by revision desc limit 1
"""  # noqa: S608 - constants only
_REDACTIONS = f"""
select revision, detail from events where run = ? and {REDACTIONS} order by revision
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

    Attributes:
        parted: whether a batch checked so far does not lie in one piece in the file.
    """

    def __init__(self, db: Connection, past: Lineage) -> None:
        self.parted = False
        self._db = db
        self._past = past
        self._run = past.run
        self._metadata: set[str] = set()  # those that were found right; most repeat
        self._names: dict[int | None, bytes] = {None: framed_commitment(None)}  # as fields of the frame
        self._erased = erased_contents(db, self._run.id)
        # Birth of each key's life; None for a key that is deleted.
        self._lives: dict[int | None, int | None] = {}
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
            self._learn_names(rows)
            checked = 0
            while checked < len(rows):
                self._check(rows[checked])
                checked = self.pass_usual(rows, checked + 1)
            if not readable:
                self._stop("holds text that is not UTF-8")
            yield len(rows)
            if len(rows) < _PAGE:
                break
        if self._revision == self._run.fork_revision:
            raise WrongEvent(None, "the run has no events")

    def pass_usual(self, rows: list[_Row], first: int) -> int:
        """Check `rows` from `first` on as long as there is nothing unusual about them; where it stopped.

        What passes, `_check` would let pass; whatever is not as most events are stops here, right or wrong.
        It is not to be the first event of a run.
        """
        known, seen, lives, erased = self._names, self._metadata, self._lives, self._erased
        previous, newest, place, offset, now = (
            self._hash, self._revision, self._position, self._batch, self._turn
        )  # fmt: skip
        for row in islice(rows, first, None):
            (
                revision, position, batch, turn, kind, payload, key, agent, activity, value, encoding,
                metadata, salt, content, expiry, birth, created_at, detail, at, idempotency, hash_,
            ) = row  # fmt: skip
            if not (
                revision == newest + 1
                and position > place
                and (batch == 0 or (batch == offset + 1 and position == place + 1))
                and turn == now
                and kind == _WRITTEN
                and payload == _WRITTEN_PAYLOAD
                and key is not None
                and key in known
                and agent in known
                and activity in known
                and type(value) is str
                and encoding == 0
                and (metadata is None or metadata in seen or self._is_metadata(metadata))
                and type(salt) is bytes
                and len(salt) == SALT_SIZE
                and content is expiry is created_at is detail is idempotency is None
                and (birth is None or lives.get(key) == birth)
                and FIRST_MS <= at <= LAST_MS
                and revision not in erased
            ):
                break
            committed = content_commitment(salt, value, metadata)
            whose, who, what_for = known[key], known[agent], known[activity]
            computed = written_hash(
                previous, revision, batch, turn, whose, who, what_for, committed, birth, at
            )
            if computed != hash_:
                break
            if birth is None:
                lives[key] = revision
            previous, newest, place, offset = hash_, revision, position, batch
        passed = newest - self._revision
        self._hash, self._revision, self._position, self._batch = previous, newest, place, offset
        return first + passed

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
        place = (self._run.id, self._revision)
        try:
            return self._db.execute(_ROWS, place).fetchall(), True
        except driver().OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) is not None:
                raise
        rows: list[_Row] = []
        with suppress(driver().OperationalError):  # the driver could not make a str of what SQLite gave
            for row in self._db.execute(_ROWS, place):
                rows.append(row)  # noqa: PERF402 - those before one that cannot be decoded count
        return rows, False

    def _learn_names(self, rows: list[_Row]) -> None:
        """Look up the commitments of the names that a page has."""
        wanted = {*map(_KEY, rows), *map(_AGENT, rows), *map(_ACTIVITY, rows)}
        if not wanted <= self._names.keys():
            if len(self._names) > _KEPT_NAMES:
                self._names = {None: self._names[None]}
            missing = json.dumps([each for each in wanted if type(each) is int and each not in self._names])
            found = self._db.execute(_COMMITMENTS, (missing, self._run.family)).fetchall()
            self._names.update((ident, framed_commitment(commitment)) for ident, commitment in found)

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
        revision, position, _, _, kind, payload, key, agent, activity, value, encoding, metadata, salt = row[
            :13
        ]
        erased = revision in self._erased
        content, expiry, birth, created_at, detail, at, idempotency, _ = row[13:]
        if (
            kind != _WRITTEN
            or not content is detail is idempotency is None
            or key is None
            or value is None
            or salt is None
            or erased
        ):  # all but an entry written that has the columns it must have
            given = (
                key, value, metadata, salt, content, expiry, birth, created_at, detail, idempotency
            )  # fmt: skip
            self._check_shape(position, kind, given, erased=erased)
        names = self._names
        if key not in names or agent not in names or activity not in names:
            raise WrongEvent(position, "names a key, agent or activity that its family lacks")
        if not 1 <= payload <= PAYLOAD_VERSIONS[kind] or encoding != 0:
            raise WrongEvent(position, f"payload {payload} with encoding {encoding} is unknown")
        if salt is not None and len(salt) != SALT_SIZE:
            raise WrongEvent(position, f"the salt has {len(salt)} bytes instead of {SALT_SIZE}")
        if type(value) is not str and value is not None and not is_text(value):
            raise WrongEvent(position, "the value is not stored as text")
        if metadata is not None and metadata not in self._metadata and not self._is_metadata(metadata):
            raise WrongEvent(position, "the metadata is no JSON object")
        if not FIRST_MS <= at <= LAST_MS:
            raise WrongEvent(position, "was recorded at a time that is no date")
        if expiry is not None and not 0 <= expiry <= MAX_TURN:
            raise WrongEvent(position, f"expires at turn {expiry}, which no turn can be")
        if created_at is not None and not FIRST_MS <= created_at <= LAST_MS:
            raise WrongEvent(position, "tells of a life that began at a time that is no date")

    def _check_place(self, row: _Row) -> None:
        """What can be said of an event by those before it."""
        revision, position, batch, turn, kind, detail = *row[:5], row[17]
        if revision != self._revision + 1:
            raise WrongEvent(position, f"revision {self._revision + 1} is missing; {revision} follows")
        if position <= self._position:
            raise WrongEvent(position, f"stands before revision {self._revision}, which precedes it")
        if batch != 0 and batch != self._batch + 1:
            raise WrongEvent(position, f"offset {batch} in its batch does not follow {self._batch}")
        if batch != 0 and position != self._position + 1:
            self.parted = True
        if turn != self._turn or kind == _ADVANCED:
            self._check_turn(position, kind, turn)
        if detail is not None or revision == self._run.fork_revision + 1:
            self._check_detail(position, kind, revision, detail)
        if kind == _WRITTEN:
            self._check_written(row)
        elif kind == _DELETED:
            self._check_deleted(position, row[6])
        elif kind == _PUT_BACK:
            self._check_put_back(row)

    def _computed(self, row: _Row) -> bytes:
        """The hash that an event must have."""
        revision, _, batch, turn, kind, payload, key, agent, activity, value, encoding, metadata = row[:12]
        salt, content, expiry, birth, created_at, detail, at, idempotency, _ = row[12:]
        names = self._names
        committed = self._erased.get(revision) if salt is None else content_commitment(salt, value, metadata)
        return event_hash(
            self._hash,
            revision,
            batch,
            turn,
            kind,
            payload,
            names[key],
            names[agent],
            names[activity],
            committed,
            encoding,
            content,
            expiry,
            birth,
            created_at,
            detail,
            at,
            idempotency,
        )

    def _check_shape(self, position: int, kind: int, given: tuple[object, ...], *, erased: bool) -> None:
        """That an event has the columns of its type, and no other: no hash of its type would cover those."""
        signs = _SHAPES.get(kind)
        if signs is None:
            raise WrongEvent(position, f"is of type {kind}, which is unknown")
        marked = given[-1] is not None
        for column, usual, value in zip(_OPTIONAL, signs, given, strict=True):
            sign = "!" if marked and column in _ONCE else usual
            if erased and column in _ERASED:
                if value is not None:
                    raise WrongEvent(
                        position, f"has a {column} still, though a later event says it was erased"
                    )
            elif sign == "!" and value is None:
                raise WrongEvent(position, f"is of type {kind} and lacks its {column}")
            elif sign == "-" and value is not None:
                raise WrongEvent(position, f"has a {column}, which an event of type {kind} cannot have")

    def _is_metadata(self, metadata: str) -> bool:
        """Whether it is a JSON object; remembered, since most repeat."""
        if _read_object(metadata) is None:
            return False
        if len(self._metadata) >= _KEPT_METADATA:
            self._metadata.clear()
        self._metadata.add(metadata)
        return True

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
        revision, key, birth, created_at = row[0], row[6], row[15], row[16]
        if birth is None:
            self._lives[key] = revision
        elif created_at is not None or (self._lives.get(key) != birth and self._birth(key) != birth):
            raise WrongEvent(
                row[1], f"goes on with a life from revision {birth}, which its key does not have"
            )

    def _check_deleted(self, position: int, key: int) -> None:
        """Only a key that is alive can be deleted."""
        if self._birth(key) is None:
            raise WrongEvent(position, "deletes a key that is not alive")
        self._lives[key] = None

    def _check_put_back(self, row: _Row) -> None:
        """An entry that is put back held in the run's past what it is said to have held."""
        revision, position, key = row[0], row[1], row[6]
        content, birth, created_at = row[13], row[15], row[16]
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
        right = "command" not in members or _is_mark(members)
        if kind == _FORKED:
            right &= type(members.get("parent")) is str and members.get("revision") == self._run.fork_revision
            if right and self._run.parent is not None:
                right = members["parent"] == run_at(self._db, self._run.parent).uid
        elif kind == _RESTORED:
            to, told = members.get("to"), (members.get("by"), members.get("reason"))
            right &= all(text is None or type(text) is str for text in told)
            right &= "to" not in members or (type(to) is int and 0 <= to < revision)
        elif kind == _REFUSED:
            right &= _is_refusal(members)
        elif kind == _REDACTED:
            right &= _is_redaction(members, self._run.fork_revision, revision)
            # A name is its whole family's; that it was erased must be known wherever the family is.
            right = right and (self._run.parent is None or not members["names"])
        else:
            right &= _is_mark(members)
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
    return type(members.get("reason")) is str and _is_digest(members.get("digest"))


def _is_mark(members: dict[str, Any]) -> bool:
    """Whether they say which command an event with an idempotency key came from."""
    count = members.get("events")
    return _is_digest(members.get("command")) and type(count) is int and count >= 1


def _is_redaction(members: dict[str, Any], first: int, revision: int) -> bool:
    """Whether they are those of a Redacted at `revision`, of a run forked after `first`."""
    contents, names, reason = members.get("contents"), members.get("names"), members.get("reason")
    if not isinstance(contents, dict) or not isinstance(names, list) or not isinstance(reason, str | None):
        return False
    erased = cast("dict[str, Any]", contents)
    if not all(each.isdecimal() and str(int(each)) == each for each in erased):
        return False
    earlier = all(first < int(each) < revision for each in erased)
    return earlier and all(map(_is_digest, (*erased.values(), *cast("list[Any]", names))))


def erased_contents(db: Connection, run: int) -> dict[int, bytes]:
    """The commitments of what was erased of a run's events, by revision; what cannot be read is met later."""
    erased: dict[int, bytes] = {}
    for revision, detail in db.execute(_REDACTIONS, (run,)).fetchall():
        members = None if detail is None else _read_object(detail)
        if members is not None and _is_redaction(members, 0, revision):
            contents = cast("dict[str, str]", members["contents"])
            erased.update({int(each): bytes.fromhex(digits) for each, digits in contents.items()})
    return erased


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and not value.strip("0123456789abcdef")
