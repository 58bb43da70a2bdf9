"""What the places of events in the file can tell, though no hash covers them.

Positions say how the events of different runs lay between each other. What the rules of docs/format.md leave
open, an anchor decides (`replay.anchors`).
"""

from __future__ import annotations

from collections.abc import Iterator

from .driver import Connection

__all__ = ["misplaced"]

# A run that was imported up to its fork may have been cut off there inside a batch, and gone on with later.
_TORN_BATCH = """
select e.position, e.batch from events e
where e.batch > 0
    and not exists (
        select 1 from events where position = e.position - 1 and run = e.run and revision = e.revision - 1
    )
    and not exists (select 1 from runs where parent = e.run and fork_revision = e.revision - 1)
order by e.position limit 1
"""
_FIRST = "select position from events where run = ? order by revision limit 1"


def misplaced(db: Connection, *, parted: bool) -> Iterator[tuple[int, str]]:
    """Position and fault of events that cannot stand where they do: of each rule the first that breaks it.

    Args:
        db: a connection to a file whose runs each have an event, and are in order each by itself.
        parted: whether any batch does not lie in one piece, as the check of the runs has found.
    """
    torn = db.execute(_TORN_BATCH).fetchone() if parted else None
    if torn is not None:
        position, batch = torn
        yield position, f"offset {batch} of its batch does not stand right behind the event before it"
    newest = 0
    for (ident,) in db.execute("select id from runs order by id").fetchall():
        (position,) = db.execute(_FIRST, (ident,)).fetchone()
        if position < newest:
            yield position, f"run number {ident} begins here, before a run that was there earlier"
            return
        newest = position
