"""The store on a log: what it holds is a fold of events that are never lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from ..eventlog import Command, EventLog
from .acting import actor
from .entry import MemoryEntry
from .live import LiveEntries
from .verbs import CommandVerbs

__all__ = ["EventSourcedStore"]


class EventSourcedStore(CommandVerbs):
    """A `MemoryStore` on one run of a log.

    Several stores, threads and processes may use one run; every operation is atomic across all of them. The
    run begins with its first event. Keys are compared exactly, values are kept exactly. What was overwritten,
    deleted or refused stays in the history (see `Timeline`).

    Args:
        log: an open log, from `turnlog.open`.
        run: the run's name.

    Raises:
        TypeError: not a log, a log without the projection that stores read, or a name that is no str.
        ValueError: an empty or over-long name.
    """

    def __init__(self, log: EventLog, run: str = "main") -> None:
        self._live = LiveEntries(log, run)

    @property
    def log(self) -> EventLog:
        """The log."""
        return self._live.log

    @property
    def run(self) -> str:
        """The run's name."""
        return self._live.run

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none."""
        return self._live.get(key)

    def list(self) -> list[MemoryEntry]:
        """Every entry, expired ones included, in birth order, as of one moment."""
        return self._live.list()

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> Iterator[MemoryEntry]:
        """Entries whose key begins with `prefix` (literally), in birth order, a page at a time.

        Entries that exist throughout are neither skipped nor repeated, whatever is written meanwhile.

        Args:
            prefix: `""` means every key.
            after: begin behind the entry of this key, which must exist.
            limit: at most so many.

        Raises:
            LookupError: there is no entry `after`.
            TypeError, ValueError: bad arguments.
        """
        return chain.from_iterable(self._live.pages(prefix, after, limit))

    def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Carry out `commands` as one batch, all or nothing; one outcome each. See `EventLog.execute`."""
        acting = actor(agent, activity)
        return self._live.log.execute(
            commands, run=self._live.run, agent=acting.agent, activity=acting.activity
        )

    def get_turn(self) -> int:
        """The run's turn; 0 at first. It lives in the log and survives a restart."""
        return self._live.turn()
