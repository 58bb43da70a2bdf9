"""What the write side knows of projections: that it calls them inside its transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeGuard

from .driver import Connection
from .entry import Entry
from .events import Recorded
from .runs import Lineage

__all__ = ["FillsRuns", "Projection", "Step", "fills_runs"]


class Step(NamedTuple):
    """Events of one run that have just been appended, and what they led to.

    Attributes:
        lineage: the run and its ancestors.
        recorded: the events, in order.
        entries: for each key they changed, by the number of its interned name: what it holds after them, as
            `evolve` has it.
    """

    lineage: Lineage
    recorded: Sequence[Recorded]
    entries: Mapping[int, Entry | None]


class Projection(Protocol):
    """Tables that are a fold of the log and can be thrown away and rebuilt.

    The log calls both methods inside a write transaction. Whatever they raise makes the transaction fail, so
    tables and log cannot part.
    """

    @property
    def name(self) -> str:
        """Names its row in the table `projections`."""
        ...

    def prepare(self, db: Connection) -> None:
        """Make the tables if they are missing, and bring them up to the log if they are behind or older."""
        ...

    def apply(self, db: Connection, steps: Sequence[Step]) -> None:
        """Take in the steps that were just appended, in order."""
        ...


class FillsRuns(Projection, Protocol):
    """A projection whose tables can be filled run by run, so that an import need not fill all of them."""

    def fill(self, db: Connection, runs: Sequence[int]) -> None:
        """Take in events that these runs, by their ids, were given in another way than `Projection.apply`."""
        ...


def fills_runs(projection: object) -> TypeGuard[FillsRuns]:
    """Whether `projection` has the method of `FillsRuns`."""
    return callable(getattr(projection, "fill", None))
