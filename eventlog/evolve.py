"""The meaning of the events: what one key holds after one more of them.

This is the only definition. The live projection, replay, the check of a log and the in-memory store all fold
with it. It is pure and total: no clock, no id, no randomness, no I/O.
"""

from __future__ import annotations

from typing import assert_never

from .entry import Entry
from .events import (
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    Recorded,
    Restored,
    RunForked,
    TurnAdvanced,
    TurnSet,
    WriteRefused,
)
from .tuples import build

__all__ = ["evolve"]


def evolve(entry: Entry | None, recorded: Recorded) -> Entry | None:
    """What a key holds after `recorded`, when before it held `entry` (None: nothing).

    `recorded` must concern the entry's key if it concerns one at all.
    """
    event = recorded.event
    match event:
        case EntryWritten():
            born = recorded.recorded_at_ms if event.created_at is None else event.created_at
            if event.birth is not None and entry is not None:
                born = entry.created_at
            revision = recorded.revision
            birth = revision if event.birth is None else event.birth
            return build(Entry, (event.key, recorded.position, revision, birth, born, event.expires_at_turn))
        case EntryRestored():
            return Entry(
                key=event.key,
                version=recorded.position,
                content=event.content,
                birth=event.birth,
                created_at=event.created_at,
                expires_at_turn=event.expires_at_turn,
            )
        case EntryDeleted():
            return None
        case WriteRefused() | TurnAdvanced() | TurnSet() | Restored() | RunForked():
            return entry
        case _:
            assert_never(event)
