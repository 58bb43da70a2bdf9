"""Threads of one process that write as fast as they can, durably."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import turnlog

from .bare import Bare
from .bench import Bench
from .load import Rounds, by_threads
from .logs import RUN, VALUE, Asked, asked
from .measure import table
from .peers import DiskCache
from .plots import Line
from .recorders import EventSourcing

TITLE = "Threads of one process, `disk`"
WRITERS = (1, 4, 16, 64)
KEYS = 1_000

Write = Callable[[int, Asked], object]


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    probe = bench.probe()
    counts = bench.choose(WRITERS, (1, 64))
    seconds = bench.choose(1.0, 0.3)
    with bench.room() as room, ExitStack() as stack:
        contenders = _contenders(stack, room)
        keys = asked(KEYS)
        for write in contenders.values():
            by_threads(write, 4, seconds, keys)  # past the first births and the first checkpoint
        found = {(name, count): Rounds(name) for name in contenders for count in counts}
        for _ in range(bench.choose(3, 1)):
            for count in counts:
                for name, write in contenders.items():
                    found[name, count].loads.append(by_threads(write, count, seconds, keys))
                probe()
    ours = next(iter(contenders))
    rows = [
        (
            each.name,
            str(count),
            each.rates,
            "" if name == ours else str(found[ours, count].over(each)),
            "" if name != ours else str(each.over(found[ours, counts[0]])),
            each.spread.ms,
            f"{each.share:.2f}",
        )
        for (name, count), each in found.items()
    ]
    head = (
        "",
        "threads",
        "writes/s (rounds)",
        "turnlog is faster, times",
        "one thread = 1",
        "ms p50 / p99",
        "least share",
    )
    lines = [Line(name, {count: found[name, count].rate for count in counts}) for name in contenders]
    about = (
        f"Each thread writes a value of {len(VALUE)} bytes again and again, {seconds:g} s a round; the"
        " least share is what the least successful thread got done as a part of what the most successful"
        " one did."
    )
    return [
        about,
        "",
        *table(head, rows),
        "",
        str(probe),
        *bench.plot("threads", "Durable writes by threads of one process", ("threads", "writes/s"), lines),
    ]


def _contenders(stack: ExitStack, room: Path) -> dict[str, Write]:
    log = stack.enter_context(turnlog.open(room / "turnlog.db"))
    store = turnlog.EventSourcedStore(log, RUN)
    bare = stack.enter_context(closing(Bare(room / "bare.db", "disk")))
    cache = stack.enter_context(closing(DiskCache(room / "diskcache", "disk")))
    recorder = stack.enter_context(closing(EventSourcing(room / "eventsourcing.db", WRITERS[-1])))
    return {
        "turnlog `EventSourcedStore.set`": lambda _, one: store.set(one[0], VALUE, one[1]),
        "bare, one connection under a lock": lambda _, one: bare.set_locked(one),
        "diskcache `Cache.set`": lambda _, one: cache.set(one),
        "pyeventsourcing `insert_events`": recorder.append,
    }
