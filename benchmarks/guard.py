"""A quick paired check against the bare loop: `python -m benchmarks guard` prints it, the tests judge it.

Everything runs with durability `os`, so that the disk has no say in it, and what is compared is time on the
processor, block by block in turn, so that other work on the machine hardly has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import turnlog
from turnlog.eventlog import Write
from turnlog.replay import Timeline

from .bare import Bare
from .bench import Bench
from .inturn import Ratio
from .logs import RUN, VALUE, Asked, asked, write
from .measure import table

__all__ = ["TITLE", "ratios", "run"]

TITLE = "Guard: turnlog against the bare loop"
KEYS = 200
TASKS = 64
EACH = 3
LIST = 1_000


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    with bench.room() as room:
        found = ratios(room)
    return table(("", "bare = 1 (80 % of the blocks)"), [(name, str(ratio)) for name, ratio in found.items()])


def ratios(folder: Path) -> dict[str, Ratio]:
    """How many times as long as the bare loop turnlog takes, case by case; a few seconds.

    Args:
        folder: for two small files.
    """
    path = folder / "turnlog.db"
    with turnlog.open(path, durability="os") as log, closing(Bare(folder / "bare.db", "os")) as bare:
        store = turnlog.EventSourcedStore(log, RUN)
        keys = asked(KEYS)
        for one in keys:
            store.set(one[0], VALUE, one[1])
            bare.set(one)
        found = {
            "set": _compare(
                lambda one: store.set(one[0], VALUE, one[1]), bare.set, keys, rounds=30, block=50
            ),
            "get": _compare(
                lambda one: store.get(one[0]), lambda one: bare.get(one[0]), keys, rounds=30, block=100
            ),
            f"{TASKS} tasks": _compare(_tasks(log), _as_many(bare), [keys], rounds=10, block=1),
            f"list of {LIST:,}": _compare(_list(store), _bare_list(bare), [0], rounds=10, block=1),
        }
        timeline = Timeline(log, RUN)
        middle = timeline.point().position // 2
        found["one key in the past"] = _compare(
            lambda one: timeline.entry(one[0], position=middle),
            lambda one: bare.get(one[0]),
            keys,
            rounds=30,
            block=50,
        )
    return found


def _compare(
    ours: Callable[[Any], object],
    bare: Callable[[Any], object],
    arguments: Sequence[Any],
    *,
    rounds: int,
    block: int,
) -> Ratio:
    found: list[float] = []
    for number in range(rounds):
        asked_for = [arguments[(number * block + each) % len(arguments)] for each in range(block)]
        found.append(_processor_time(ours, asked_for) / _processor_time(bare, asked_for))
    return Ratio.of(found)


def _processor_time(call: Callable[[Any], object], arguments: Sequence[Any]) -> int:
    begin = time.process_time_ns()
    for argument in arguments:
        call(argument)
    return time.process_time_ns() - begin


def _tasks(log: turnlog.EventLog) -> Callable[[list[Asked]], None]:
    async def work(mine: list[Asked]) -> None:
        for one in mine:
            await log.aexecute([Write(one[0], VALUE, one[1])], run=RUN)

    async def all_together(keys: list[Asked]) -> None:
        await asyncio.gather(*[work((keys * 2)[number : number + EACH]) for number in range(TASKS)])

    return lambda keys: asyncio.run(all_together(keys))


def _as_many(bare: Bare) -> Callable[[list[Asked]], None]:
    def all_in_turn(keys: list[Asked]) -> None:
        for number in range(TASKS * EACH):
            bare.set(keys[number % KEYS])

    return all_in_turn


def _list(store: turnlog.EventSourcedStore) -> Callable[[int], object]:
    return lambda _: store.execute([write(number, KEYS) for number in range(LIST)])


def _bare_list(bare: Bare) -> Callable[[int], object]:
    return lambda _: bare.write(range(LIST), KEYS)
