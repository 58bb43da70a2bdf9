"""Many writers at once for a given time: how much they get done together, and how long each of them waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .inturn import Ratio
from .logs import Asked
from .measure import Spread

__all__ = ["Load", "Rounds", "by_threads"]


@dataclass(frozen=True, slots=True)
class Load:
    """What writers did in one stretch of time.

    Attributes:
        seconds: how long they were at it.
        spent: nanoseconds of every write, by writer.
    """

    seconds: float
    spent: Sequence[Sequence[int]]

    @property
    def rate(self) -> float:
        """Writes acknowledged each second, by all together."""
        return sum(map(len, self.spent)) / self.seconds

    @property
    def share(self) -> float:
        """What the least successful writer got done, as a part of what the most successful one did."""
        return min(map(len, self.spent)) / max(1, max(map(len, self.spent)))


@dataclass(slots=True)
class Rounds:
    """One contender's loads, a round each."""

    name: str
    loads: list[Load] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Writes each second: the median of the rounds."""
        return sorted(load.rate for load in self.loads)[len(self.loads) // 2]

    @property
    def rates(self) -> str:
        """The median, and in brackets the slowest and the fastest round."""
        rates = [load.rate for load in self.loads]
        return f"{self.rate:,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"

    @property
    def share(self) -> float:
        """The least of any round."""
        return min(load.share for load in self.loads)

    @property
    def spread(self) -> Spread:
        """Of all writes of all rounds."""
        return Spread.of([spent for load in self.loads for writer in load.spent for spent in writer])

    def over(self, other: Rounds) -> Ratio:
        """How many times the other's rate, round by round."""
        return Ratio.of([mine.rate / its.rate for mine, its in zip(self.loads, other.loads, strict=True)])


def by_threads(
    write: Callable[[int, Asked], object], writers: int, seconds: float, keys: list[Asked]
) -> Load:
    """Let so many threads write for so long, each beginning with another key."""
    spent: list[list[int]] = [[] for _ in range(writers)]
    errors: list[BaseException] = []
    ready = threading.Barrier(writers + 1)

    def work(writer: int) -> None:
        clock, mine = time.perf_counter_ns, spent[writer]
        number = writer * 101
        ready.wait(30)
        deadline = clock() + int(seconds * 1e9)
        try:
            while (begin := clock()) < deadline:
                write(writer, keys[number % len(keys)])
                mine.append(clock() - begin)
                number += 1
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that asked
            errors.append(error)

    threads = [threading.Thread(target=work, args=(writer,), daemon=True) for writer in range(writers)]
    for thread in threads:
        thread.start()
    ready.wait(30)
    begin = time.perf_counter()
    for thread in threads:
        thread.join(seconds + 60)
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise TimeoutError("a thread did not end within a minute of its time")
    return Load(time.perf_counter() - begin, spent)
