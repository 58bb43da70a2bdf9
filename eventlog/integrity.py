"""Checking a log against itself: every hash from genesis, every commitment, every reference.

What this cannot see: a tail that was cut off cleanly, or a whole chain made anew by somebody who can write
the file. Against that, keep heads elsewhere (`EventLog.head`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from .chain import SALT_SIZE, content_commitment, event_hash, framed_commitment, name_commitment
from .codec import PAYLOAD_VERSION, SELECT_RECORDED, decode
from .driver import Connection
from .errors import Corrupt
from .events import EntryRestored, Recorded, RunForked
from .runs import Lineage, Run, genesis, lineage, run_at
from .text import read_text, stored_text

__all__ = ["Problem", "check_log"]

_PAGE = 512
_SALTED = (1, 20)  # types with something to commit to: an entry written, a refused attempt

_ROWS = f"""
select e.batch, e.turn, e.type, e.payload, k.commitment, a.commitment, c.commitment, e.value, e.encoding,
    e.metadata, e.salt, e.content, e.expires_at_turn, e.birth, e.created_at, e.detail, e.recorded_at,
    e.idempotency_key, e.hash, e.revision, e.position
from events e
left join names k on k.id = e.key
left join names a on a.id = e.agent
left join names c on c.id = e.activity
where e.run = ? and e.revision > ?
order by e.revision limit {_PAGE}
"""  # noqa: S608 - constants only
_NAMES = "select id, text, salt, commitment from names where id > ? order by id limit 512"
_EXTENT = "select count(*), min(position), max(position) from events"
_FIRST_GAP = """
select position + 1 from events e
where not exists (select 1 from events where position = e.position + 1) order by position limit 1
"""
_STRAY = "select position from events where run not in (select id from runs) order by position limit 1"
_DANGLING = """
select e.position from events e join runs on runs.id = e.run
left join names k on k.id = e.key
left join names a on a.id = e.agent
left join names c on c.id = e.activity
where (e.key is not null and k.family is not runs.family)
    or (e.agent is not null and a.family is not runs.family)
    or (e.activity is not null and c.family is not runs.family)
order by e.position limit 1
"""
_WRONG_RUNS = {
    "has no name of its own family": """
        select runs.id from runs left join names on names.id = runs.name
        where names.family is not runs.family limit 1
    """,
    "was forked from a run that did not exist yet": "select id from runs where parent >= id limit 1",
    "belongs to another family than its parent, or its parent is missing": """
        select runs.id from runs left join runs as parents on parents.id = runs.parent
        where runs.family is not coalesce(parents.family, runs.id) limit 1
    """,
    "has a fork point without a parent, or a parent without one": """
        select id from runs where (parent is null) <> (fork_revision = 0) limit 1
    """,
    "was forked after an event that its parent does not have": """
        select runs.id from runs where parent is not null and not exists
            (select 1 from events where run = runs.parent and revision = runs.fork_revision) limit 1
    """,
    "has no events": "select id from runs where id not in (select run from events) limit 1",
}
_TURN = "select turn from events where run = ? and revision = ?"
_WRITTEN = "select type, key from events where run = ? and revision = ?"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that cannot be right.

    Attributes:
        what: one sentence.
        position: of the first event concerned, where there is one.
        run: name of the run concerned, where there is one.
    """

    what: str
    position: int | None = None
    run: str | None = None

    def __str__(self) -> str:
        """One line."""
        run = "" if self.run is None else f"run {self.run!r}: "
        place = "" if self.position is None else f"position {self.position}: "
        return f"{run}{place}{self.what}"


class _Place(NamedTuple):
    """Where a check of one run's chain stands."""

    hash: bytes
    revision: int
    position: int
    batch: int
    turn: int


def check_log(db: Connection, progress: Callable[[int], None] | None = None) -> Iterator[Problem]:
    """What is wrong with the names, runs and events of a file: the first problem of each run.

    Args:
        db: a connection; hold a read transaction on it if others may be writing.
        progress: called now and then with the number of events checked so far.
    """
    found = False
    for problem in chain(_check_names(db), _check_runs(db), _check_positions(db)):
        found = True
        yield problem
    if found:
        return  # what names and runs do not say reliably, their events cannot be held against
    checked = 0
    for (ident,) in db.execute("select id from runs order by id").fetchall():
        past = lineage(db, run_at(db, ident))
        try:
            for count in _check_run(db, past):
                checked += count
                if progress is not None:
                    progress(checked)
        except _Found as problem:
            yield problem.problem


class _Found(Exception):  # noqa: N818
    """Ends the check of a run at its first problem."""

    def __init__(self, run: str, position: int | None, what: str) -> None:
        super().__init__(what)
        self.problem = Problem(what, position, run)


def _check_names(db: Connection) -> Iterator[Problem]:
    after = -(2**63)
    while True:
        rows = db.execute(_NAMES, (after,)).fetchall()
        for ident, text, salt, commitment in rows:
            what = _wrong_name(text, salt, commitment)
            if what is not None:
                yield Problem(f"name number {ident} {what}")
        if not rows:
            return
        after = rows[-1][0]


def _wrong_name(text: object, salt: object, commitment: bytes) -> str | None:
    if text is None or salt is None:
        return "has lost its text or its salt"
    if not isinstance(text, str | bytes) or not isinstance(salt, bytes) or len(salt) != SALT_SIZE:
        return f"has a text that is no text, or a salt that is not {SALT_SIZE} bytes"
    try:
        name = read_text(text)
    except UnicodeDecodeError:
        return "has a text that cannot be decoded"
    if stored_text(name) != text or name_commitment(salt, name) != commitment:
        return f"({name!r:.80}) does not match its commitment"
    return None


def _check_runs(db: Connection) -> Iterator[Problem]:
    """What is wrong with the rows of `runs` themselves; the hash of a run's genesis shows the rest."""
    for what, query in _WRONG_RUNS.items():
        row = db.execute(query).fetchone()
        if row is not None:
            yield Problem(f"run number {row[0]} {what}")


def _check_positions(db: Connection) -> Iterator[Problem]:
    """Positions are given without a gap, so one that is missing was taken out."""
    count, first, last = db.execute(_EXTENT).fetchone()
    if count and (first != 1 or last != count):
        missing = 1 if first != 1 else db.execute(_FIRST_GAP).fetchone()[0]
        yield Problem("there is no event here, though there are later ones", position=missing)
    stray = db.execute(_STRAY).fetchone()
    if stray is not None:
        yield Problem("the event belongs to no run", position=stray[0])
    dangling = db.execute(_DANGLING).fetchone()
    if dangling is not None:
        yield Problem("the event names a key, agent or activity that its family lacks", position=dangling[0])


def _check_run(db: Connection, past: Lineage) -> Iterator[int]:
    """Check one run's own events; yields how many, page by page."""
    run = past.run
    place = _Place(genesis(db, run.id), run.fork_revision, 0, -1, _turn_before(db, past))
    while True:
        rows = db.execute(_ROWS, (run.id, place.revision)).fetchall()
        for row in rows:
            place = _check_event(run.name, place, row)
        for recorded in _recorded(db, run, rows):
            _check_references(db, past, recorded)
        yield len(rows)
        if len(rows) < _PAGE:
            break
    if place.revision == run.fork_revision:
        raise _Found(run.name, None, "the run has no events")


def _turn_before(db: Connection, past: Lineage) -> int:
    """The turn that a run begins at."""
    for segment in past.upto(past.run.fork_revision)[:1]:
        return db.execute(_TURN, (segment.run, past.run.fork_revision)).fetchone()[0]
    return 0


def _check_event(run: str, place: _Place, row: tuple[Any, ...]) -> _Place:
    batch, turn, value, metadata, salt, stored, revision, position = (
        row[0],
        row[1],
        row[7],
        row[9],
        row[10],
        row[18],
        row[19],
        row[20],
    )
    if revision != place.revision + 1:
        raise _Found(run, position, f"revision {place.revision + 1} is missing; {revision} follows")
    if position <= place.position:
        raise _Found(run, position, f"comes before revision {place.revision}, which precedes it")
    if batch not in (0, place.batch + 1):
        raise _Found(run, position, f"offset {batch} in its batch does not follow {place.batch}")
    kind = row[2]
    if not 10 <= kind < 20 and turn != place.turn:
        raise _Found(run, position, f"is at turn {turn}, though the run was at turn {place.turn}")
    if (salt is None) != (kind not in _SALTED) or (salt is not None and len(salt) != SALT_SIZE):
        raise _Found(run, position, f"has a salt where there is none, or one that is not {SALT_SIZE} bytes")
    if kind != 1 and not (value is None and metadata is None):
        raise _Found(run, position, "has a value or metadata, which no hash of its type covers")
    try:
        committed = None if salt is None else content_commitment(salt, value, metadata)
        computed = event_hash(
            place.hash,
            revision,
            batch,
            turn,
            row[2],
            row[3],
            framed_commitment(row[4]),
            framed_commitment(row[5]),
            framed_commitment(row[6]),
            committed,
            row[8],
            *row[11:18],
        )
    except (AttributeError, TypeError, ValueError, OverflowError, struct.error) as error:
        raise _Found(run, position, f"a column has a value of the wrong type: {error}") from error
    if computed != stored:
        raise _Found(run, position, "the hash does not match: this event or one before it was altered")
    return _Place(computed, revision, position, batch, turn)


def _recorded(db: Connection, run: Run, rows: list[tuple[Any, ...]]) -> Iterator[Recorded]:
    """Those of the page that are more than an entry written or deleted, which have nothing to decode."""
    for row in rows:
        if row[2] in (1, 2) and row[3] == PAYLOAD_VERSION and row[8] == 0:
            continue
        try:
            yield decode(db.execute(f"{SELECT_RECORDED} where e.position = ?", (row[20],)).fetchone())
        except Corrupt as error:
            raise _Found(run.name, row[20], str(error)) from error


def _check_references(db: Connection, past: Lineage, recorded: Recorded) -> None:
    event = recorded.event
    if isinstance(event, RunForked) and event.revision != past.run.fork_revision:
        raise _Found(
            recorded.run, recorded.position, f"forks at {event.revision}, the run at {past.run.fork_revision}"
        )
    if not isinstance(event, EntryRestored):
        return
    if event.content >= recorded.revision or event.birth >= recorded.revision:
        raise _Found(recorded.run, recorded.position, "points to a revision that is not in its past")
    for segment in past.upto(event.content)[:1]:
        target = db.execute(_WRITTEN, (segment.run, event.content)).fetchone()
        if target is None or target[0] != 1:
            raise _Found(
                recorded.run, recorded.position, f"points to revision {event.content}, which wrote no value"
            )
