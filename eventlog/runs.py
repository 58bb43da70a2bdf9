"""Runs, their lineages, and where each of them stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from .chain import NO_PARENT, genesis_hash
from .driver import Connection
from .errors import Corrupt
from .text import read_text, stored_text

__all__ = [
    "STAND_IN_BEGINS",
    "Head",
    "Lineage",
    "Run",
    "Segment",
    "find_run",
    "genesis",
    "hash_at",
    "lineage",
    "name_id",
    "read_head",
    "revision_upto",
    "run_at",
]


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the file knows it; none of this ever changes.

    Attributes:
        id: its number in this file.
        uid: its identity, 32 hex digits, the same in every file.
        name: its name in this file.
        family: id of the root of its lineage, whose interned names it shares.
        parent: id of the run that holds the event it was forked after, or None.
        fork_revision: the last revision it has in common with its parent; 0 without one.
        created_at: milliseconds since 1970 UTC.
    """

    id: int
    uid: str
    name: str
    family: int
    parent: int | None
    fork_revision: int
    created_at: int


class Segment(NamedTuple):
    """A stretch of a lineage: the events of `run` with `after < revision <= upto`."""

    run: int
    after: int
    upto: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """A run and its ancestors, each up to the fork: the events a run's past is made of.

    Attributes:
        run: the run itself.
        segments: newest first; together they hold each revision exactly once.
    """

    run: Run
    segments: tuple[Segment, ...]

    def upto(self, revision: int) -> tuple[Segment, ...]:
        """The segments that reach back from `revision`, newest first, cut off there."""
        return tuple(
            Segment(run, after, min(last, revision)) for run, after, last in self.segments if after < revision
        )


class Head(NamedTuple):
    """The newest event of a run.

    Attributes:
        position: its place in the file.
        revision: its place in the run's lineage.
        turn: the run's turn.
        hash: 32 bytes; whoever keeps them elsewhere can tell later whether the run's past was altered.
        recorded_at_ms: milliseconds since 1970 UTC.
    """

    position: int
    revision: int
    turn: int
    hash: bytes
    recorded_at_ms: int


NEWEST_REVISION = 2**63 - 1

_RUN = """
select runs.id, runs.uid, names.text, runs.family, runs.parent, runs.fork_revision, runs.created_at
from runs join names on names.id = runs.name
"""
_RUN_BY_NAME = f"{_RUN} where names.text = ?"
_RUN_BY_ID = f"{_RUN} where runs.id = ?"
_HEAD = """
select position, revision, turn, hash, recorded_at from events where run = ?
order by revision desc limit 1
"""
_GENESIS = """
select runs.uid, names.commitment, runs.created_at, runs.parent, runs.fork_revision
from runs join names on names.id = runs.name where runs.id = ?
"""
_POSITION_AT = "select position from events where run = ? and revision = ?"
_HASH_AT = "select hash from events where run = ? and revision = ?"
_NAME = "select id, commitment from names where text = ? and family = ?"
_ERASED_NAME = """
select id, commitment from names
where text is null and family = ? and lower(hex(substr(commitment, 1, 4))) = ? order by id limit 1
"""
STAND_IN_BEGINS = "[redacted "
"""With this begins what is shown for a name that was erased."""

_STAND_IN = re.compile(r"\[redacted ([0-9a-f]{8})\]")


def find_run(db: Connection, name: str) -> Run | None:
    """The run called `name`, or None."""
    row = db.execute(_RUN_BY_NAME, (stored_text(name),)).fetchone()
    return None if row is None else _run(row)


def run_at(db: Connection, run: int) -> Run:
    """The run whose id in this file is `run`.

    Raises:
        Corrupt: it or its name is missing, or its name is no text.
    """
    row = db.execute(_RUN_BY_ID, (run,)).fetchone()
    if row is None:
        raise Corrupt(f"run number {run}, or its name, is missing")
    return _run(row)


def lineage(db: Connection, run: Run) -> Lineage:
    """`run` and its ancestors.

    Raises:
        Corrupt: an ancestor is missing, or was not there before its fork.
    """
    segments = [Segment(run.id, run.fork_revision, NEWEST_REVISION)]
    first, parent = run.fork_revision, run.parent
    while parent is not None:
        ancestor = run_at(db, parent)
        if parent >= segments[-1].run:  # else a circle would never end
            raise Corrupt(f"run number {segments[-1].run} was forked from run number {parent}, a later one")
        segments.append(Segment(ancestor.id, ancestor.fork_revision, first))
        first, parent = ancestor.fork_revision, ancestor.parent
    return Lineage(run, tuple(segments))


def read_head(db: Connection, run: int) -> Head:
    """The newest event of the run with that id.

    Raises:
        Corrupt: it has none.
    """
    row = db.execute(_HEAD, (run,)).fetchone()
    if row is None:
        raise Corrupt(f"run number {run} has no events")
    return Head(*row)


def revision_upto(db: Connection, segment: Segment, position: int) -> int:
    """The newest revision of `segment` at or before `position` in the file; `segment.after` if there is none.

    The event at `segment.upto` must exist. Positions rise with revisions, so the place is found by halving.

    Raises:
        Corrupt: a revision is missing.
    """
    run, low, high = segment
    while low < high:
        middle = (low + high + 1) // 2
        row = db.execute(_POSITION_AT, (run, middle)).fetchone()
        if row is None:
            raise Corrupt(f"revision {middle} of run number {run} is missing")
        if row[0] <= position:
            low = middle
        else:
            high = middle - 1
    return low


def genesis(db: Connection, run: int) -> bytes:
    """The hash that the first event of the run with that id follows.

    Raises:
        Corrupt: the run, its name, or the event it was forked after is missing.
    """
    row = db.execute(_GENESIS, (run,)).fetchone()
    if row is None:
        raise Corrupt(f"run number {run}, or its name, is missing")
    uid, commitment, created_at, parent, fork_revision = row
    before = NO_PARENT if parent is None else hash_at(db, parent, fork_revision)
    return genesis_hash(uid, commitment, created_at, before)


def hash_at(db: Connection, run: int, revision: int) -> bytes:
    """The hash of the run's own event at `revision`.

    Raises:
        Corrupt: there is none.
    """
    row = db.execute(_HASH_AT, (run, revision)).fetchone()
    if row is None:
        raise Corrupt(f"revision {revision} of run number {run} is missing")
    return row[0]


def is_stand_in(name: str) -> bool:
    """Whether `name` has the form of what is shown for a name that was erased."""
    return name.startswith(STAND_IN_BEGINS) and _STAND_IN.fullmatch(name) is not None


def find_name(db: Connection, family: int, name: str) -> tuple[int, bytes] | None:
    """Number and commitment of `name` in `family`, or None; what is shown for an erased name finds that one.

    So whatever is read of an erased key can be asked for, restored, deleted and forked like any other.
    """
    row = db.execute(_NAME, (stored_text(name), family)).fetchone()
    if row is None and is_stand_in(name):
        return db.execute(_ERASED_NAME, (family, name[10:-1])).fetchone()
    return row


def name_id(db: Connection, family: int, name: str) -> int | None:
    """The number under which `family` has interned `name`, or None if it never did; see `find_name`."""
    found = find_name(db, family, name)
    return None if found is None else found[0]


def _run(row: tuple[int, str, object, int, int | None, int, int]) -> Run:
    ident, uid, name, family, parent, fork_revision, created_at = row
    if not isinstance(name, str | bytes):
        raise Corrupt(f"the name of run number {ident} is no text")
    try:
        text = read_text(name)
    except UnicodeDecodeError as error:
        raise Corrupt(f"the name of run number {ident} is no text") from error
    return Run(ident, uid, text, family, parent, fork_revision, created_at)
