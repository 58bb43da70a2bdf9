"""Checking a log against itself: every hash from genesis, every commitment, every reference.

What this cannot see: a tail that was cut off cleanly, a whole chain made anew by somebody who can write the
file, or an older copy put back. Against that, keep the heads elsewhere (`replay.anchors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from .chain import SALT_SIZE, name_commitment
from .driver import Connection
from .errors import Corrupt
from .positions import misplaced
from .run_integrity import FIRST_MS, LAST_MS, RunCheck, WrongEvent, is_text
from .runs import lineage, run_at
from .schema import REDACTIONS
from .text import read_text

__all__ = ["Problem", "check_log", "check_run", "count_erased", "lost_names"]

_PAGE = 512
_TABLES = ("runs", "names", "events", "projections")
_STRICT = "select name from pragma_table_list where schema = 'main' and type = 'table' and strict"
# As bytes, since the driver would fail at a TEXT that is not UTF-8.
_NAMES = f"""
select id, family, typeof(text), cast(text as blob), salt, commitment from names
where id > ? order by id limit {_PAGE}
"""  # noqa: S608 - constants only
_ERASED_NAMES = f"""
select runs.family, erased.value
from events e join runs on runs.id = e.run, json_each(e.detail, '$.names') erased
where {REDACTIONS.replace("type", "e.type")} and json_valid(e.detail)
"""  # noqa: S608 - constants only
_ERASED_CONTENTS = f"""
select count(*) from (
    select distinct e.run, erased.key from events e, json_each(e.detail, '$.contents') erased
    where {REDACTIONS.replace("type", "e.type")} and json_valid(e.detail)
)
"""  # noqa: S608 - constants only
_NAMELESS = "select id, family, commitment from names where text is null order by id"
# Each by itself is found without a look at every event.
_EXTENT = """
select (select count(*) from events), (select min(position) from events), (select max(position) from events)
"""
_FIRST_GAP = """
select position + 1 from events e
where not exists (select 1 from events where position = e.position + 1) order by position limit 1
"""
_STRAY = "select min(position) from events indexed by events_revision where run not in (select id from runs)"
_WRONG_RUNS = {
    "has a uid that is not 32 lower-case hex digits": """
        select id from runs where length(cast(uid as blob)) <> 32 or uid glob '*[^0-9a-f]*'
        order by id limit 1
    """,
    "has no name of its own family": """
        select runs.id from runs left join names on names.id = runs.name
        where names.family is not runs.family order by runs.id limit 1
    """,
    "has a name that was erased": """
        select runs.id from runs join names on names.id = runs.name where names.text is null limit 1
    """,
    "has the name of another run": """
        select max(runs.id) from runs join names on names.id = runs.name group by names.text
        having count(*) > 1 limit 1
    """,
    "was made at a time that is no date": f"""
        select id from runs where created_at not between {FIRST_MS} and {LAST_MS} order by id limit 1
    """,  # noqa: S608 - constants only
    "was forked from a run that did not exist yet": "select id from runs where parent >= id limit 1",
    "belongs to another family than its parent, or its parent is missing": """
        select runs.id from runs left join runs as parents on parents.id = runs.parent
        where runs.family is not case when runs.parent is null then runs.id else parents.family end
        order by runs.id limit 1
    """,
    "has a fork point without a parent, or a parent without one": """
        select id from runs where (parent is null) <> (fork_revision = 0) limit 1
    """,
    "was forked after an event that its parent does not have": """
        select id from runs where parent is not null and not exists
            (select 1 from events where run = runs.parent and revision = runs.fork_revision)
        order by id limit 1
    """,
    "has no events": """
        select id from runs where not exists (select 1 from events where run = runs.id) order by id limit 1
    """,
}


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


def check_log(db: Connection, progress: Callable[[int], None] | None = None) -> Iterator[Problem]:
    """What is wrong with the names, runs and events of a file: the first problem of each run.

    Args:
        db: a connection; hold a read transaction on it if others may be writing.
        progress: called now and then with the number of events checked so far.
    """
    found = False
    for problem in _check_tables(db):
        found = True
        yield problem
    if found:
        return
    for problem in chain(_check_names(db), _check_runs(db), _check_positions(db)):
        found = True
        yield problem
    if found:
        return  # what names and runs do not say reliably, their events cannot be held against
    parted = False
    for problem, has_parted in _check_events(db, progress):
        parted |= has_parted
        if problem is not None:
            found = True
            yield problem
    if not found:
        for position, what in misplaced(db, parted=parted):
            yield Problem(what, position)


def _check_events(
    db: Connection, progress: Callable[[int], None] | None
) -> Iterator[tuple[Problem | None, bool]]:
    """For each run the first problem of its own events, and whether one of its batches is parted."""
    checked = 0

    def count(more: int) -> None:
        nonlocal checked
        checked += more
        if progress is not None:
            progress(checked)

    for (ident,) in db.execute("select id from runs order by id").fetchall():
        yield _check_run(db, ident, count)


def check_run(db: Connection, ident: int, progress: Callable[[int], None] | None = None) -> Problem | None:
    """What is wrong with the own events of the run with that id, if anything.

    Args:
        db: as for `check_log`.
        ident: a run whose row, names and ancestors are in order.
        progress: called now and then with how many more events have been checked.
    """
    return _check_run(db, ident, progress)[0]


def _check_run(
    db: Connection, ident: int, progress: Callable[[int], None] | None
) -> tuple[Problem | None, bool]:
    """`check_run`, and whether a batch of the run does not lie in one piece."""
    try:
        past = lineage(db, run_at(db, ident))
        check = RunCheck(db, past)
    except Corrupt as error:
        return Problem(str(error)), False
    try:
        for more in check.pages():
            if progress is not None:
                progress(more)
    except WrongEvent as wrong:
        return Problem(wrong.what, wrong.position, past.run.name), check.parted
    return None, check.parted


def count_erased(db: Connection) -> int:
    """How many events of a file have lost their text to a redaction; names are not counted."""
    (count,) = db.execute(_ERASED_CONTENTS).fetchone()
    return count


def lost_names(db: Connection) -> Iterator[str]:
    """What is wrong with names that have no text: no redaction says that they were erased."""
    nameless = db.execute(_NAMELESS).fetchall()
    erased: set[tuple[int, str]] = set(db.execute(_ERASED_NAMES).fetchall() if nameless else ())
    runs = {name for (name,) in db.execute("select name from runs").fetchall() if nameless}
    for ident, family, commitment in nameless:
        if ident in runs:
            yield f"the name of a run, number {ident}, has no text"
        if (family, commitment.hex()) not in erased:
            yield f"name number {ident} has no text, and no redaction says so"


def _check_tables(db: Connection) -> Iterator[Problem]:
    """STRICT tables alone hold each column to its class."""
    (encoding,) = db.execute("pragma encoding").fetchone()
    if encoding != "UTF-8":
        yield Problem(f"the file's text encoding is {encoding} instead of UTF-8")
    present = {name for (name,) in db.execute(_STRICT).fetchall()}
    for name in _TABLES:
        if name not in present:
            yield Problem(f"the table {name} is missing or not STRICT")


def _check_names(db: Connection) -> Iterator[Problem]:
    after = -(2**63)
    erased: set[tuple[int, str]] | None = None
    while True:
        rows = db.execute(_NAMES, (after,)).fetchall()
        for ident, family, kind, text, salt, commitment in rows:
            if text is None and salt is None:
                if erased is None:
                    erased = set(db.execute(_ERASED_NAMES).fetchall())
                if (family, commitment.hex()) in erased:
                    continue
            what = _wrong_name(kind, text, salt, commitment)
            if what is not None:
                yield Problem(f"name number {ident} {what}")
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def _wrong_name(kind: str, raw: bytes | None, salt: bytes | None, commitment: bytes) -> str | None:
    if raw is None or salt is None:
        return "has lost its text or its salt"
    if len(salt) != SALT_SIZE:
        return f"has a salt of {len(salt)} bytes instead of {SALT_SIZE}"
    try:
        stored = raw.decode() if kind == "text" else raw
    except UnicodeDecodeError:
        return "has a text that is not UTF-8"
    if kind not in ("text", "blob") or not is_text(stored):
        return "is not stored as text"
    name = read_text(stored)
    if name_commitment(salt, name) != commitment:
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
    (stray,) = db.execute(_STRAY).fetchone()
    if stray is not None:
        yield Problem("the event belongs to no run", position=stray)
