"""The fold of the log from zero: the independent way to any state, which the live table is held against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..eventlog import Entry, EntryDeleted, EntryRestored, EntryWritten, Recorded, evolve
from ..eventlog.codec import SELECT_RECORDED, decode
from ..eventlog.driver import Connection
from ..eventlog.runs import NEWEST_REVISION, Lineage, Segment, lineage, run_at

__all__ = ["fold", "fold_runs", "lineage_events"]

_PAGE = 512
_EVENTS = f"""
{SELECT_RECORDED}
where e.run = ? and e.revision > ? and e.revision <= ?
order by e.revision limit {_PAGE}
"""


def lineage_events(db: Connection, past: Lineage, upto: int = NEWEST_REVISION) -> Iterator[Recorded]:
    """Every event of a run and its ancestors, oldest first, up to revision `upto`; a page at a time."""
    for segment in reversed(past.upto(upto)):
        yield from _segment_events(db, segment)


def fold(events: Iterable[Recorded]) -> dict[str, Entry]:
    """The living entries after `events`, which must begin with the first of a lineage."""
    living: dict[str, Entry] = {}
    for recorded in events:
        event = recorded.event
        if isinstance(event, EntryWritten | EntryDeleted | EntryRestored):
            entry = evolve(living.get(event.key), recorded)
            if entry is None:
                living.pop(event.key, None)
            else:
                living[event.key] = entry
    return living


def fold_runs(db: Connection) -> Iterator[tuple[Lineage, dict[str, Entry]]]:
    """Each run of the file with the fold of its lineage."""
    for (ident,) in db.execute("select id from runs order by id").fetchall():
        past = lineage(db, run_at(db, ident))
        yield past, fold(lineage_events(db, past))


def _segment_events(db: Connection, segment: Segment) -> Iterator[Recorded]:
    after = segment.after
    while True:
        rows = db.execute(_EVENTS, (segment.run, after, segment.upto)).fetchall()
        for row in rows:
            yield decode(row)
        if len(rows) < _PAGE:
            return
        after = rows[-1][2]
