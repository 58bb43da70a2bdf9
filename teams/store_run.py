"""Whether a store keeps its entries in a run of a log: records then have a history, and a place in it."""

from __future__ import annotations

from typing import NamedTuple

from ..eventlog import EventLog
from ..memory.async_redacting import AsyncRedactingStore
from ..memory.redacting import RedactingStore

__all__ = ["StoreRun", "same_run", "store_run"]


class StoreRun(NamedTuple):
    """The run of a log that a store writes to."""

    log: EventLog
    run: str

    def is_inherited(self, version: int | None) -> bool:
        """Whether an entry of that version, which the run has, was written before the run was forked off."""
        if version is None or self.log.lineage(self.run).run.parent is None:
            return False
        first = next(self.log.read(run=self.run, limit=1))
        return version < first.position


def store_run(store: object) -> StoreRun | None:
    """The run that `store` writes to, if it says so by `log` and `run`, as the stores on a log do.

    A redacting store writes where the store within it does. What others call `inner` need not be where they
    write, so they must say it themselves.
    """
    while isinstance(store, RedactingStore | AsyncRedactingStore):
        store = store.inner
    log, run = getattr(store, "log", None), getattr(store, "run", None)
    return StoreRun(log, run) if isinstance(log, EventLog) and isinstance(run, str) else None


def same_run(one: StoreRun | None, other: StoreRun | None) -> bool:
    """Whether two stores, though two objects, write to one run of one file."""
    return one is not None and other is not None and (one.log.path, one.run) == (other.log.path, other.run)
