"""Contenders in turn: a block of calls each, again and again, so that all meet the same minute."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .measure import Spread, table, timed

__all__ = ["Contender", "Ratio", "Taken", "in_turn", "ratio_table"]


class Contender(NamedTuple):
    """Somebody who takes part: a name, and one call of what is measured, given one of the arguments."""

    name: str
    call: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Ratio:
    """One contender's blocks divided by another's of the same round: the median, and most of them."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Ratio:
        """Of one ratio per round; `low` and `high` enclose the middle 80 %."""
        if len(ratios) < 2:
            return cls(ratios[0], ratios[0], ratios[0])
        tenths = statistics.quantiles(ratios, n=10, method="inclusive")
        return cls(statistics.median(ratios), tenths[0], tenths[-1])

    def __str__(self) -> str:
        """Median, and in brackets where 80 % of the rounds lie."""
        digits = 2 if self.middle < 10 else 1
        return f"{self.middle:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


@dataclass(slots=True)
class Taken:
    """What one contender took: nanoseconds of each call, block by block."""

    name: str
    blocks: list[list[int]] = field(default_factory=list)

    @property
    def spread(self) -> Spread:
        """Of all calls."""
        return Spread.of([spent for block in self.blocks for spent in block])

    def medians_over(self, other: Taken) -> Ratio:
        """Of the medians of the blocks."""
        return self._over(other, statistics.median)

    def means_over(self, other: Taken) -> Ratio:
        """Of the means of the blocks: what seldom happens, as a checkpoint, counts too."""
        return self._over(other, statistics.fmean)

    def _over(self, other: Taken, figure: Callable[[Sequence[int]], float]) -> Ratio:
        pairs = zip(self.blocks, other.blocks, strict=True)
        return Ratio.of([figure(mine) / figure(theirs) for mine, theirs in pairs])


def in_turn(
    contenders: Sequence[Contender],
    arguments: Sequence[Any],
    *,
    rounds: int,
    block: int,
    seconds: float = 30,
    between: Callable[[], object] | None = None,
) -> list[Taken]:
    """Let everybody call once for each of `block` arguments, `rounds` times, another one first each time.

    Args:
        arguments: taken round robin, the same ones by everybody.
        seconds: after which no further round is begun, since a disk may be slow; three there are always.
        between: called once in every round.
    """
    taken = [Taken(contender.name) for contender in contenders]
    end = time.monotonic() + seconds
    for number in range(rounds):
        if number > 2 and time.monotonic() > end:
            break
        first = number * block
        asked = [arguments[index % len(arguments)] for index in range(first, first + block)]
        for turn in range(len(contenders)):
            index = (number + turn) % len(contenders)
            taken[index].blocks.append(timed(contenders[index].call, asked))
        if between is not None:
            between()
    return taken


def ratio_table(taken: Sequence[Taken], over: Taken) -> list[str]:
    """Everybody's times, and what they are relative to `over`."""
    rows = [
        (
            each.name,
            each.spread.us,
            f"{each.spread.mean:,.1f}",
            "1" if each is over else str(each.medians_over(over)),
            "1" if each is over else str(each.means_over(over)),
        )
        for each in taken
    ]
    head = (
        "",
        "µs p50 / p99",
        "µs mean",
        f"medians, {over.name} = 1 (80 % of the blocks)",
        f"means, {over.name} = 1 (80 % of the blocks)",
    )
    return table(head, rows)
