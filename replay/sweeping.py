"""Deleting what has expired: agents see it no more, and a long run need not carry it along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..eventlog import EntryDeleted, EventLog, Limits, Recorded, View
from ..eventlog.commands import exact_str
from .state import is_expired

__all__ = ["Sweep", "sweep"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Delete every entry that has expired at the run's present turn. The outcome is how many there were.

    Reserved entries are treated like any other: those whose expiry has come are deleted, the rest stays.

    Attributes:
        agent: who asks.

    Raises:
        TypeError: `agent` is no text.
    """

    agent: str | None = None

    def __post_init__(self) -> None:
        """Check the type."""
        if self.agent is not None:
            exact_str("agent", self.agent)

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: View) -> Sequence[EntryDeleted]:
        """One `EntryDeleted` for each, in birth order."""
        turn = view.turn
        return [EntryDeleted(entry.key) for entry in view.entries() if is_expired(entry, turn)]

    def outcome(self, recorded: Sequence[Recorded]) -> int:
        """How many entries were deleted."""
        return len(recorded)


def sweep(log: EventLog, run: str | None = None, *, agent: str | None = None) -> dict[str, int]:
    """Delete the entries that have expired, run by run, each run's in one batch.

    Shared memory showed them to nobody any more, so it shows what it showed before; what they held stays in
    the history. But where a turn is set back later, what was swept is not seen again, as it would have been.
    Sweeping again deletes nothing, and appends nothing. From asyncio, carry out the command itself:
    `await log.aexecute([Sweep(agent)], run=run)`.

    Args:
        log: an open log.
        run: only this run; None for all.
        agent: who asks, for the history.

    Returns:
        For each run by name, how many entries were deleted.

    Raises:
        NotFound: there is no such run.
        Busy, StorageError, Closed: as `EventLog.execute`; runs that were swept before stay so.
    """
    names = [info.run.name for info in log.runs()] if run is None else [log.lineage(run).run.name]
    return {name: log.execute([Sweep(agent)], run=name)[0] for name in names}
