"""Reading the log in pages: each page is one finished query, so no reader ever holds up a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from .codec import CODES, SELECT_RECORDED, decode
from .commands import exact_str
from .driver import Connection
from .events import Event, Recorded
from .runs import Segment, is_stand_in, read_head, revision_upto
from .schema import shown_name
from .text import stored_text

__all__ = ["PAGE", "Filter", "Readable", "read_events"]

PAGE = 512
"""Events read with one query."""


_FIRST = "select min(revision) from events where run = ?"
_NAME_IDS = "select id from names where text = ?"
_ERASED_NAME_IDS = f"""
select id from names where text = ? or text is null and {shown_name("names")} = ?
"""  # noqa: S608 - constants only


class Readable(Protocol):
    """Whatever lends connections for reading."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection until the block ends."""
        ...

    def ask(self, query: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """All rows of one query, in less time."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events, in which order; see `EventLog.read`.

    Raises:
        TypeError, ValueError: a filter that cannot be.
    """

    after: int = 0
    agent: str | None = None
    key: str | None = None
    type: type[Event] | None = None
    reverse: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        """Check types and bounds."""
        if type(self.after) is not int:
            raise TypeError(f"after must be an int, not {type(self.after).__name__}")
        if not 0 <= self.after < 2**63:
            raise ValueError(f"after must lie within 0 and 2**63 - 1, not {self.after}")
        if self.limit is not None and type(self.limit) is not int:
            raise TypeError(f"limit must be an int or None, not {type(self.limit).__name__}")
        if self.limit is not None and self.limit < 0:
            raise ValueError(f"limit must not be negative: {self.limit}")
        for what, name in (("agent", self.agent), ("key", self.key)):
            if name is not None:
                exact_str(what, name)
        if self.type is not None and self.type not in CODES:
            raise TypeError(f"type must be a class of event, as EntryWritten, not {self.type!r:.50}")


def read_events(log: Readable, run: int | None, wanted: Filter) -> Iterator[Recorded]:
    """The events that `wanted` describes, of the run with that id or of all."""
    after = wanted.after if run is None or not wanted.after else _revision_upto(log, run, wanted.after)
    conditions, parameters = _conditions(run, after, wanted)
    # Within a run, revisions rise with positions; asking by revision lets the run's own index do it.
    order = "e.position" if run is None else "e.revision"
    direction, beyond = ("desc", "<") if wanted.reverse else ("asc", ">")
    left = wanted.limit
    place: int | None = None
    while left is None or left > 0:
        page = PAGE if left is None else min(PAGE, left)
        where = [*conditions]
        values = [*parameters]
        if place is not None:
            where.append(f"{order} {beyond} ?")
            values.append(place)
        query = (
            f"{SELECT_RECORDED} where {' and '.join(where) or '1'} order by {order} {direction} limit {page}"
        )
        with log.reading() as db:
            rows = db.execute(query, values).fetchall()
        for row in rows:
            yield decode(row)
        if len(rows) < page:
            return
        place = rows[-1][0] if run is None else rows[-1][2]
        left = None if left is None else left - len(rows)


def _revision_upto(log: Readable, run: int, position: int) -> int:
    """The newest revision of the run at or before `position` of the file; before its first if none is."""
    with log.reading() as db:
        (first,) = db.execute(_FIRST, (run,)).fetchone()
        return revision_upto(db, Segment(run, first - 1, read_head(db, run).revision), position)


def _conditions(run: int | None, after: int, wanted: Filter) -> tuple[list[str], list[Any]]:
    conditions = [] if run is None else ["e.run = ?"]
    parameters: list[Any] = [] if run is None else [run]
    if after:
        conditions.append("e.position > ?" if run is None else "e.revision > ?")
        parameters.append(after)
    for column, name in (("agent", wanted.agent), ("key", wanted.key)):
        if name is not None:
            # The unary plus keeps the order of the log: an index on the key would have to be sorted.
            erased = is_stand_in(name)
            conditions.append(f"+e.{column} in ({_ERASED_NAME_IDS if erased else _NAME_IDS})")
            parameters += [stored_text(name)] * (2 if erased else 1)
    if wanted.type is not None:
        conditions.append("+e.type = ?")
        parameters.append(CODES[wanted.type])
    return conditions, parameters
