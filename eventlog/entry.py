"""What a key holds now, as the log knows it: pointers into the log, not the text itself."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Content", "Entry"]


class Entry(NamedTuple):
    """One living key of a run at one point.

    Attributes:
        key: the key.
        version: position of the event that last changed the key in the run's lineage.
        content: revision of the event that holds its value and metadata.
        birth: revision that began its present life; entries are listed in this order.
        created_at: when that life began, milliseconds since 1970 UTC.
        expires_at_turn: the first turn at which it counts as expired, or None.
    """

    key: str
    version: int
    content: int
    birth: int
    created_at: int
    expires_at_turn: int | None


class Content(NamedTuple):
    """The text an entry points to.

    Attributes:
        value: the value.
        metadata: JSON text of an object, or None.
        agent: who wrote it, as claimed.
    """

    value: str
    metadata: str | None
    agent: str | None
