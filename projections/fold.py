"""The fold of the log from zero: the independent way to any state, which the live table is held against."""

from __future__ import annotations

from collections.abc import Iterator

from ..eventlog import Entry, Recorded, evolve
from ..eventlog.codec import SELECT_CHANGE, decode_change
from ..eventlog.driver import Connection
from ..eventlog.runs import NEWEST_REVISION, Lineage, Segment, lineage, run_at

__all__ = ["changes", "fold", "fold_runs"]

_PAGE = 512
_CHANGES = f"""
{SELECT_CHANGE}
where e.run = ? and e.revision > ? and e.revision <= ?
order by e.revision limit {_PAGE}
"""


def fold(db: Connection, past: Lineage, upto: int = NEWEST_REVISION) -> dict[str, Entry]:
    """The living entries of a run right after revision `upto`, by `evolve` alone, from the first event on."""
    living: dict[str, Entry] = {}
    get = living.get
    for segment in reversed(past.upto(upto)):
        for key, recorded in changes(db, segment):
            entry = evolve(get(key), recorded)
            if entry is None:
                living.pop(key, None)
            else:
                living[key] = entry
    return living


def fold_runs(db: Connection) -> Iterator[tuple[Lineage, dict[str, Entry]]]:
    """Each run of the file with the fold of its lineage."""
    for (ident,) in db.execute("select id from runs order by id").fetchall():
        past = lineage(db, run_at(db, ident))
        yield past, fold(db, past)


def changes(db: Connection, segment: Segment) -> Iterator[tuple[str, Recorded]]:
    """The changes of a segment, without their text: `evolve` does not look at it."""
    after = segment.after
    while True:
        rows = db.execute(_CHANGES, (segment.run, after, segment.upto)).fetchall()
        for row in rows:
            change = decode_change(row)
            if change is not None:
                yield change
        if len(rows) < _PAGE:
            return
        after = rows[-1][1]
