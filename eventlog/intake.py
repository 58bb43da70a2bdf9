"""Runs into a log from an export, to the same hashes (docs/format.md, "Exports")."""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from .chain import (
    NO_PARENT,
    SALT_SIZE,
    content_commitment,
    event_hash,
    framed_commitment,
    genesis_hash,
    name_commitment,
)
from .codec import CODES
from .driver import Connection
from .errors import BadImport, RunExists
from .events import Redacted
from .export import EXPORT_COLUMNS, EXPORT_VERSION, NAME_COLUMNS
from .integrity import check_run, lost_names
from .limits import Limits
from .log import EventLog
from .pages import INSERT_EVENT, INSERT_NAME, INSERT_RUN
from .projection import fills_runs
from .run_integrity import FIRST_MS, LAST_MS, is_text
from .runs import find_run, genesis, hash_at, read_head
from .text import read_text

__all__ = ["import_lines"]

_PAGE = 512
_IN_MEMORY = 16 * 1024 * 1024  # characters of an export; more are kept in a temporary file
_MALFORMED = (
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    OverflowError,
    RecursionError,
    binascii.Error,
    struct.error,
)
_UID = re.compile("[0-9a-f]{32}")

_RUN_BY_UID = "select id, family from runs where uid = ?"
_NAME = "select id, commitment from names where text = ? and family = ?"
_ERASED_NAME = "select id, commitment from names where text is null and family = ? and commitment = ?"
_SAME_NAME = "select id, commitment from names where family = ? and commitment = ?"
_NEXT_RUN = "select coalesce(max(id), 0) + 1 from runs"
_NEXT_NAME = "select coalesce(max(id), 0) + 1 from names"
_MARK_STALE = """
update projections set stale_from = 0
where stale_from is null and name not in (select value from json_each(?))
"""
_REVISION = "select revision from events where position = ?"


def import_lines(log: EventLog, lines: Iterable[str], run: str | None = None) -> list[str]:
    """Take in an export, all or nothing, checking every hash and every rule that `verify` knows.

    A run that is here already must be the same as far as it goes; what the export knows more is appended.
    If that erases texts which are here still, the file is written anew afterwards (`EventLog.purge`), and a
    warning tells if somebody else kept that from being done.

    Args:
        log: the log to write to, whose limits hold; it must hold no run yet, unless `run` is given.
        lines: the export, line by line. They are read to their end before anybody is kept from writing.
        run: only this run of the export, with its ancestors.

    Returns:
        Names of the runs in question, oldest first.

    Raises:
        BadImport: malformed, incomplete, altered, not what a log can hold, or at odds with what this log
            holds; names the line.
        RunExists: another run of that name is here.
        Busy, StorageError: nothing was written.
    """

    with tempfile.SpooledTemporaryFile(
        _IN_MEMORY, "w+", encoding="utf-8", errors="surrogatepass", newline="\n"
    ) as spooled:
        for line in lines:
            spooled.write(line if line.endswith("\n") else f"{line}\n")
        spooled.seek(0)
        return _take_in(log, spooled, run)


def _take_in(log: EventLog, lines: IO[str], run: str | None) -> list[str]:
    erased = False

    def take_in(db: Connection) -> list[str]:
        nonlocal erased
        lines.seek(0)
        intake = _Intake(db, run, log.limits)
        for text in lines:
            intake.take(text)
        names = intake.finish()
        _project(log, db, intake.runs)
        erased = intake.erases
        return names

    names = log.transact(take_in)
    if erased and not log.purge():
        warnings.warn(
            f"{log.path}: the import erased texts here, but somebody else is reading, so that old copies "
            "stay in the file until the next redaction",
            stacklevel=3,
        )
    return names


def _project(log: EventLog, db: Connection, runs: Sequence[int]) -> None:
    """Let the projections take in what the import brought."""
    filling = [projection for projection in log.projections if fills_runs(projection)]
    db.execute(_MARK_STALE, (json.dumps([projection.name for projection in filling]),))
    for projection in log.projections:
        if fills_runs(projection):
            projection.fill(db, runs)
        else:
            projection.prepare(db)


class _Name(NamedTuple):
    """A name as the export brings it; without text and salt if it was erased."""

    text: str | bytes | None
    salt: bytes | None
    commitment: bytes

    @property
    def shown(self) -> str:
        """The name, for messages and limits."""
        return f"[redacted {self.commitment.hex()[:8]}]" if self.text is None else read_text(self.text)


class _Interned(NamedTuple):
    """A name as this log has it."""

    id: int
    commitment: bytes


class _Arrival:
    """A run on its way in: where it stands."""

    def __init__(self, ident: int, name: str, family: int, revision: int, start: bytes, known: int) -> None:
        self.id = ident
        self.name = name
        self.family = family
        self.revision = revision
        self.hash = start
        self.known_upto = known  # the newest revision that was here before
        self.batch = -1


class _Intake:
    """One import under way, inside a write transaction."""

    def __init__(self, db: Connection, wanted: str | None, limits: Limits) -> None:
        self._db = db
        self._limits = limits
        self._wanted = wanted
        self._line = 0
        self._count = 0
        self._ended = False
        self.erases = False  # a text that was here before
        self._names: dict[int, _Name] = {}
        self._interned: dict[tuple[int, int], _Interned] = {}
        self._offered: dict[str, Mapping[str, Any]] = {}
        self._chosen: set[str] = set()
        self._arrivals: dict[str, _Arrival] = {}
        self._fork_hashes: dict[tuple[str, int], bytes] = {}
        self._pending: list[tuple[Any, ...]] = []
        (self._position,) = db.execute("select coalesce(max(position), 0) from events").fetchone()

    def take(self, text: str) -> None:
        """Take in one line."""
        self._line += 1
        if not text.strip():
            return
        try:
            facts: Any = json.loads(text)
            kind = facts.get("kind")
            if (self._line == 1) != (kind == "turnlog-export"):
                raise self._bad("is no export of turnlog: its first line, and no other, must be the header")
            if self._ended:
                raise self._bad("something follows the end line")
            self._take(kind, facts)
        except (BadImport, RunExists):
            raise
        except _MALFORMED as error:
            raise self._bad(f"the line is malformed: {error!r}") from error

    def finish(self) -> list[str]:
        """Every line has been taken; names of the runs."""
        if not self._ended:
            raise self._bad("the export stops without its end line: it is incomplete")
        self._flush()
        for arrival in self._arrivals.values():
            if arrival.revision > arrival.known_upto:
                self._check(arrival)
        for what in lost_names(self._db):
            raise self._bad(what)
        return [arrival.name for arrival in self._arrivals.values()]

    @property
    def runs(self) -> list[int]:
        """Ids of the runs that were given events."""
        return [each.id for each in self._arrivals.values() if each.revision > each.known_upto]

    def _check(self, arrival: _Arrival) -> None:
        """That the run, as it is now stored, is one that `verify` finds nothing wrong with."""
        problem = check_run(self._db, arrival.id)
        if problem is None:
            return
        row = self._db.execute(_REVISION, (problem.position,)).fetchone()
        place = "" if row is None else f"revision {row[0]}: "
        raise BadImport(f"run {arrival.name!r}: {place}{problem.what}; nothing was imported")

    def _take(self, kind: str, facts: dict[str, Any]) -> None:
        match kind:
            case "turnlog-export":
                if facts["version"] != EXPORT_VERSION:
                    raise self._bad(f"export version {facts['version']} is not known; upgrade turnlog")
            case "name":
                if facts["id"] in self._names:
                    raise self._bad(f"name {facts['id']} is there twice")
                self._names[facts["id"]] = _name(facts)
            case "run":
                self._offer(facts)
            case "event":
                self._count += 1
                self._event(facts)
            case "end":
                self._end(facts)
            case _:
                raise self._bad(f"a line of kind {kind!r} is unknown")

    def _offer(self, facts: dict[str, Any]) -> None:
        """Take in a run's own line, which says where it begins."""
        uid, parent, fork_revision = facts["uid"], facts["parent"], facts["fork_revision"]
        name = self._name_of(facts)
        if self._count or uid in self._offered or not _UID.fullmatch(uid):
            raise self._bad(f"run {name!r} comes after an event, or a second time, or has a uid that is none")
        # Parents come first, so that nobody can be his own ancestor.
        if parent is not None and parent not in self._offered:
            raise self._bad(f"run {name!r} comes before its parent")
        family = uid if parent is None else self._offered[parent]["family"]
        if type(fork_revision) is not int or (fork_revision != 0 if parent is None else fork_revision < 1):
            raise self._bad(f"run {name!r} cannot begin after revision {fork_revision!r:.50}")
        if facts["family"] != family or not FIRST_MS <= facts["created_at"] <= LAST_MS:
            raise self._bad(f"run {name!r} has another family than its parent, or a time that is no date")
        self._check_name("the run's name", name)
        self._offered[uid] = facts

    def _event(self, facts: dict[str, Any]) -> None:
        uid = facts["run"]
        self._choose()
        if uid not in self._chosen:
            return
        arrival = self._arrivals.get(uid) or self._open(uid)
        revision, batch = facts["revision"], facts["batch"]
        if revision != arrival.revision + 1:
            raise self._bad(f"run {arrival.name!r}: revision {arrival.revision + 1} is missing")
        if batch not in (0, arrival.batch + 1):
            raise self._bad(f"run {arrival.name!r}: revision {revision} is out of its batch")
        columns = self._columns(arrival, facts)
        arrival.hash = columns["hash"]
        arrival.revision, arrival.batch = revision, batch
        if (uid, revision) in self._fork_hashes:
            self._fork_hashes[uid, revision] = arrival.hash
        if revision > arrival.known_upto:
            self._position += 1
            stored = (columns.get(column) for column in EXPORT_COLUMNS)
            self._pending.append((self._position, arrival.id, *stored))
            self.erases |= arrival.known_upto > 0 and columns["type"] == CODES[Redacted]
            if len(self._pending) >= _PAGE:
                self._flush()
        elif hash_at(self._db, arrival.id, revision) != arrival.hash:
            raise self._bad(f"run {arrival.name!r} is here with another history from revision {revision} on")

    def _columns(self, arrival: _Arrival, facts: dict[str, Any]) -> dict[str, Any]:
        """The event's columns as this log stores them, its hash computed and compared."""
        columns = {column: facts[column] for column in EXPORT_COLUMNS if facts.get(column) is not None}
        names = {
            column: self._intern(arrival, columns[column]) for column in NAME_COLUMNS if column in columns
        }
        columns.update({column: name.id for column, name in names.items()})
        for column in ("value", "idempotency_key"):
            if column in columns:
                columns[column] = _stored(columns[column])
        if facts["revision"] > arrival.known_upto:
            self._check_texts(columns, facts)
        value, metadata = columns.get("value"), columns.get("metadata")
        committed = None
        if "salt" in columns:
            columns["salt"] = _salt(columns["salt"])
            committed = content_commitment(columns["salt"], value, metadata)
        elif "commitment" in facts:
            committed = bytes.fromhex(facts["commitment"])
        framed = EXPORT_COLUMNS[EXPORT_COLUMNS.index("content") : EXPORT_COLUMNS.index("hash")]
        frame: list[Any] = [columns[column] for column in EXPORT_COLUMNS[: EXPORT_COLUMNS.index("key")]]
        frame += [
            framed_commitment(names[column].commitment if column in names else None)
            for column in NAME_COLUMNS
        ]
        frame += [committed, columns["encoding"], *(columns.get(column) for column in framed)]
        computed = event_hash(arrival.hash, *frame)
        if computed.hex() != columns["hash"]:
            raise self._bad(f"run {arrival.name!r}: revision {facts['revision']} does not match its hash")
        columns["hash"] = computed
        return columns

    def _check_texts(self, columns: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """That they are texts, and none that this log would refuse to be told."""
        metadata = columns.get("metadata")
        if not isinstance(metadata, str | None) or not isinstance(columns.get("detail"), str | None):
            raise self._bad("metadata or detail is no text")
        key = self._names[facts["key"]].shown if "key" in columns else ""
        try:
            self._limits.check_value(key, read_text(columns.get("value", "")))
            self._limits.check_metadata(key, metadata)
        except ValueError as error:
            raise self._bad(str(error)) from error

    def _check_name(self, what: str, name: str) -> None:
        try:
            self._limits.check_name(what, name)
        except ValueError as error:
            raise self._bad(str(error)) from error

    def _choose(self) -> None:
        """Which runs are wanted; all of them are known when the first event comes."""
        if self._chosen:
            return
        if self._wanted is None:
            if self._db.execute("select 1 from runs limit 1").fetchone():
                raise self._bad("this log holds runs already; name the one to take in with run= (--run)")
            self._chosen.update(self._offered)
        else:
            named = {self._name_of(facts): uid for uid, facts in self._offered.items()}
            uid = named.get(self._wanted)
            if uid is None:
                raise self._bad(
                    f"the export has no run {self._wanted!r}; it has {', '.join(map(repr, named))}"
                )
            while uid is not None:
                self._chosen.add(uid)
                uid = self._offered[uid]["parent"]
        for facts in map(self._offered.__getitem__, self._chosen):
            if facts["parent"] is not None:
                self._fork_hashes[facts["parent"], facts["fork_revision"]] = b""

    def _open(self, uid: str) -> _Arrival:
        """Find or begin the run `uid`, whose first event has come."""
        facts = self._offered[uid]
        name = self._name_of(facts)
        origin: str | None = facts["parent"]
        parent = None if origin is None else self._arrivals[origin]
        before = NO_PARENT if origin is None else self._fork_hashes[origin, facts["fork_revision"]]
        if not before:
            raise self._bad(f"run {name!r} begins before the event of its parent that it forked after")
        commitment = self._names[facts["name"]].commitment
        start = genesis_hash(uid, commitment, facts["created_at"], before)
        revision = facts["fork_revision"]
        here = self._db.execute(_RUN_BY_UID, (uid,)).fetchone()
        if here is not None:
            if genesis(self._db, here[0]) != start:
                raise self._bad(f"run {name!r} is here with another beginning")
            known = read_head(self._db, here[0]).revision
            arrival = _Arrival(here[0], name, here[1], revision, start, known)
        else:
            if find_run(self._db, name) is not None:
                raise RunExists(f"line {self._line}: another run called {name!r} is in this log already")
            (ident,) = self._db.execute(_NEXT_RUN).fetchone()
            family = ident if parent is None else parent.family
            arrival = _Arrival(ident, name, family, revision, start, 0)
            interned = self._intern(arrival, facts["name"])
            ancestor = None if parent is None else parent.id
            row = (ident, uid, interned.id, family, ancestor, revision, facts["created_at"])
            self._db.execute(INSERT_RUN, row)
        self._arrivals[uid] = arrival
        return arrival

    def _intern(self, arrival: _Arrival, ident: int) -> _Interned:
        """The export's name number `ident`, as this log has it or from now on has it."""
        known = self._interned.get((arrival.family, ident))
        if known is not None:
            return known
        name = self._names[ident]
        commitment = name.commitment
        row = None
        if name.text is not None:
            row = self._db.execute(_NAME, (name.text, arrival.family)).fetchone()
        if row is None:  # erased there or here, or not here yet
            query = _SAME_NAME if name.text is None else _ERASED_NAME
            row = self._db.execute(query, (arrival.family, commitment)).fetchone()
        if row is None:
            self._check_name("a name", name.shown)
            (number,) = self._db.execute(_NEXT_NAME).fetchone()
            values = (number, arrival.family, name.text, name.salt, commitment)
            self._db.execute(INSERT_NAME, values)
            known = _Interned(number, commitment)
        elif row[1] == commitment:
            known = _Interned(*row)
        else:
            raise self._bad(
                f"run {arrival.name!r}: the name {name.shown!r:.80} has another salt in this log: "
                "both copies of the run went on by themselves; import into a new file instead"
            )
        self._interned[arrival.family, ident] = known
        return known

    def _end(self, facts: dict[str, Any]) -> None:
        self._choose()
        if facts["events"] != self._count:
            raise self._bad(f"the export says it has {facts['events']} events, but has {self._count}")
        for uid, arrival in self._arrivals.items():
            if facts["heads"][uid] != arrival.hash.hex():
                raise self._bad(f"run {arrival.name!r} does not end at the head the export states")
        self._ended = True

    def _name_of(self, facts: Mapping[str, Any]) -> str:
        return self._names[facts["name"]].shown

    def _flush(self) -> None:
        self._db.executemany(INSERT_EVENT, self._pending)
        self._pending.clear()

    def _bad(self, what: str) -> BadImport:
        return BadImport(f"line {self._line}: {what}; nothing was imported")


def _name(facts: Mapping[str, Any]) -> _Name:
    if "text" not in facts:
        return _Name(None, None, bytes.fromhex(facts["commitment"]))
    text, salt = _stored(facts["text"]), _salt(facts["salt"])
    return _Name(text, salt, name_commitment(salt, read_text(text)))


def _salt(digits: str) -> bytes:
    """A salt; of another length it could take in a part of what it is to salt."""
    salt = bytes.fromhex(digits)
    if len(salt) != SALT_SIZE:
        raise ValueError(f"a salt has {len(salt)} bytes instead of {SALT_SIZE}")
    return salt


def _stored(portable: str | dict[str, str]) -> str | bytes:
    """Text as it is stored, in the one form that it has."""
    stored = portable if isinstance(portable, str) else base64.b64decode(portable["base64"], validate=True)
    if not is_text(stored):
        raise ValueError("what should be text is not in the form of text")
    return stored
