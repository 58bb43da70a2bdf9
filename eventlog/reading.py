"""Reading the log in pages: each page is one finished query, so no reader ever holds up a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from .codec import CODES, SELECT_RECORDED, decode
from .driver import Connection
from .events import Event, Recorded
from .text import stored_text

__all__ = ["PAGE", "Filter", "Readable", "read_events", "read_one"]

PAGE = 512
"""Events read with one query."""


_NAME_IDS = "select id from names where text = ?"


class Readable(Protocol):
    """Whatever lends connections for reading."""

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection until the block ends."""
        ...


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events, in which order; see `EventLog.read`."""

    after: int = 0
    agent: str | None = None
    key: str | None = None
    type: type[Event] | None = None
    reverse: bool = False
    limit: int | None = None


def read_events(log: Readable, run: int | None, wanted: Filter) -> Iterator[Recorded]:
    """The events that `wanted` describes, of the run with that id or of all."""
    if wanted.limit is not None and wanted.limit < 0:
        raise ValueError(f"limit must not be negative: {wanted.limit}")
    return _pages(log, run, wanted)


def read_one(db: Connection, position: int) -> Recorded | None:
    """The event at `position`, or None."""
    row = db.execute(f"{SELECT_RECORDED} where e.position = ?", (position,)).fetchone()
    return None if row is None else decode(row)


def _pages(log: Readable, run: int | None, wanted: Filter) -> Iterator[Recorded]:
    conditions, parameters = _conditions(run, wanted)
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


def _conditions(run: int | None, wanted: Filter) -> tuple[list[str], list[Any]]:
    conditions = ["e.position > ?"] if wanted.after else []
    parameters: list[Any] = [wanted.after] if wanted.after else []
    if run is not None:
        conditions.append("e.run = ?")
        parameters.append(run)
    for column, name in (("agent", wanted.agent), ("key", wanted.key)):
        if name is not None:
            # The unary plus keeps the order of the log: an index on the key would have to be sorted.
            conditions.append(f"+e.{column} in ({_NAME_IDS})")
            parameters.append(stored_text(name))
    if wanted.type is not None:
        conditions.append("+e.type = ?")
        parameters.append(CODES[wanted.type])
    return conditions, parameters
