"""The store on a log, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ..eventlog import Command, EventLog
from .acting import actor
from .entry import MemoryEntry
from .live import LiveEntries
from .verbs import AsyncCommandVerbs

__all__ = ["AsyncEventSourcedStore"]


class AsyncEventSourcedStore(AsyncCommandVerbs):
    """An `AsyncMemoryStore` on one run of a log: the twin of `EventSourcedStore`.

    Tasks that write at the same time share one commit and one flush; each is answered when its own write is
    durable. A task that is cancelled has written wholly or not at all. Reads are done at once, on the loop:
    they take some microseconds each (`list` some for every entry) and do not give control to other tasks.

    One log may be used by this store and its twin, from several threads and loops. Close it after the tasks.

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

    async def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none."""
        return self._live.get(key)

    async def list(self) -> list[MemoryEntry]:
        """Every entry, expired ones included, in birth order, as of one moment."""
        return self._live.list()

    async def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[MemoryEntry]:
        """`EventSourcedStore.scan`; other tasks get their turn after each page.

        Raises (at the first step):
            LookupError: there is no entry `after`.
            TypeError, ValueError: bad arguments.
        """
        from asyncio import sleep

        for page in self._live.pages(prefix, after, limit):
            for entry in page:
                yield entry
            await sleep(0)

    async def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Carry out `commands` as one batch, all or nothing; one outcome each. See `EventLog.aexecute`."""
        acting = actor(agent, activity)
        return await self._live.log.aexecute(
            commands, run=self._live.run, agent=acting.agent, activity=acting.activity
        )

    async def get_turn(self) -> int:
        """The run's turn; 0 at first. It lives in the log and survives a restart."""
        return self._live.turn()
