"""Taking a run back to an earlier point: events that point, and copy nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..eventlog import Entry, EntryDeleted, EntryRestored, Event, Limits, Recorded, Restored, View
from ..eventlog.commands import exact_str
from ..eventlog.driver import Connection
from ..eventlog.history import entries_at, entry_at
from ..eventlog.runs import NEWEST_REVISION, Lineage
from ..memory.reserved import CHECKPOINT_PREFIX, is_reserved
from .address import Point
from .changes import known_keys

__all__ = ["Restore", "back_to", "later_checkpoint"]


@dataclass(frozen=True, slots=True)
class Restore:
    """Make a run's entries and turn again what they were at a point of its past.

    Reserved entries are left as they are. The outcome is the `Restored` event as recorded.

    Attributes:
        point: where to.
        entries: what lived there, by key; the past cannot change, so it is read before the lock is taken.
        by, reason: who asked and why, as told.

    Raises:
        TypeError: `by` or `reason` is no text.
    """

    point: Point
    entries: Mapping[str, Entry]
    by: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """Check the types."""
        for name, told in (("by", self.by), ("reason", self.reason)):
            if told is not None:
                exact_str(name, told)

    @property
    def agent(self) -> str | None:
        """Who acts: whoever asked."""
        return self.by

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        if self.reason is not None:
            limits.check_name("the reason", self.reason)

    def decide(self, view: View) -> Sequence[Event]:
        """One `Restored`, then one event for each key that is not as it was."""
        events: list[Event] = [Restored(self.point.turn, self.point.revision, self.by, self.reason)]
        present = {entry.key: entry for entry in view.entries() if not is_reserved(entry.key)}
        events += [EntryDeleted(key) for key in present if key not in self.entries]
        events += [
            EntryRestored(key, entry.content, entry.birth, entry.created_at, entry.expires_at_turn)
            for key, entry in self.entries.items()
            if not is_reserved(key) and not _same(present.get(key), entry)
        ]
        return events

    def outcome(self, recorded: Sequence[Recorded]) -> Recorded:
        """The `Restored` event."""
        return recorded[0]


def back_to(db: Connection, lineage: Lineage, point: Point, by: str | None, reason: str | None) -> Restore:
    """The command that takes a run back to a point."""
    entries = {entry.key: entry for entry in entries_at(db, lineage, point.revision)}
    return Restore(point, entries, by, reason)


def later_checkpoint(db: Connection, lineage: Lineage, point: Point) -> Entry | None:
    """The latest checkpoint of a team that the run holds, if it was saved after a point.

    A restore leaves it as it is, so a team that goes on from it takes for done what memory knows nothing of.
    """
    keys = [key for key in known_keys(db, lineage, NEWEST_REVISION) if key.startswith(CHECKPOINT_PREFIX)]
    held = [entry_at(db, lineage, key, NEWEST_REVISION) for key in keys]
    later = [entry for entry in held if entry is not None and entry.version > point.position]
    return max(later, key=lambda entry: entry.version, default=None)


def _same(present: Entry | None, past: Entry) -> bool:
    """Whether they hold the same, whatever event made it so."""
    return present is not None and present._replace(version=0) == past._replace(version=0)
