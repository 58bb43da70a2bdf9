"""Tasks of one event loop that write as fast as they can."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import turnlog
from turnlog.eventlog import Write

from .bench import Bench
from .load import Rounds, by_threads
from .logs import RUN, VALUE, Asked, asked
from .loop import by_tasks, steps_timed
from .measure import Spread, table
from .plots import Line
from .recorders import EventSourcing, UmaDB

TITLE = "Tasks of one event loop"
STORE = "turnlog `AsyncEventSourcedStore.set`"
KEYS = 1_000
PAIRED = 64
"""Writers of the peers, and of turnlog beside them."""


@dataclass
class Kind:
    """One row: who writes, at which durability, how many at once, beside what; through a store or without."""

    name: str
    durability: str
    writers: int
    spinning: bool = False
    bare_log: bool = False
    late: list[int] = field(default_factory=list)
    rounds: Rounds = field(init=False)

    def __post_init__(self) -> None:
        """No round yet."""
        self.rounds = Rounds(self.name)


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    probe = bench.probe()
    seconds = bench.choose(1.0, 0.3)
    kinds, peers = _kinds(bench), {name: Kind(name, "disk", PAIRED) for name in ("pyeventsourcing", "UmaDB")}
    ours = _plain(kinds, PAIRED)
    for _ in range(bench.choose(3, 1)):
        with bench.room() as room, ExitStack() as stack:
            logs = {each: stack.enter_context(_log(room, each)) for each in ("disk", "os")}
            recorder = stack.enter_context(closing(EventSourcing(room / "eventsourcing.db", PAIRED)))
            server = stack.enter_context(closing(UmaDB(room / "uma.db")))
            for log in logs.values():
                _drive(log, Kind("warm-up", "", PAIRED), seconds)  # past the first births and checkpoints
            appends = {"pyeventsourcing": recorder.append, "UmaDB": server.append}
            for append in appends.values():
                by_threads(append, PAIRED, seconds / 2, asked(KEYS))
            for kind in kinds:
                _drive(logs[kind.durability], kind, seconds)
                if kind is ours:
                    for name, append in appends.items():
                        peers[name].rounds.loads.append(by_threads(append, PAIRED, seconds, asked(KEYS)))
                probe()
            steps = _steps(logs["disk"], seconds)
    return [*_report(kinds, list(peers.values()), steps), "", str(probe), *_plot(bench, kinds)]


def _kinds(bench: Bench) -> list[Kind]:
    counts = bench.choose((1, 4, 16, PAIRED, 256, 1_024), (1, PAIRED))
    found = [Kind(STORE, "disk", count) for count in counts]
    found += [Kind(STORE, "os", count) for count in counts if count in (1, PAIRED, 1_024)]
    found.append(Kind("turnlog, `EventLog.aexecute` without a store", "disk", PAIRED, bare_log=True))
    return [*found, Kind(f"{STORE} beside a task that spins", "disk", PAIRED, spinning=True)]


def _plain(kinds: list[Kind], writers: int) -> Kind:
    """The durable row of so many writers that is compared with the peers."""
    return next(kind for kind in kinds if (kind.durability, kind.writers) == ("disk", writers))


def _log(room: Path, durability: str) -> turnlog.EventLog:
    return turnlog.open(room / f"{durability}.db", durability=durability)  # pyright: ignore[reportArgumentType]


def _writes(log: turnlog.EventLog, *, bare_log: bool = False) -> Callable[[Asked], Awaitable[object]]:
    if bare_log:
        return lambda one: log.aexecute([Write(one[0], VALUE, one[1])], run=RUN)
    store = turnlog.AsyncEventSourcedStore(log, RUN)
    return lambda one: store.set(one[0], VALUE, one[1])


def _drive(log: turnlog.EventLog, kind: Kind, seconds: float) -> None:
    load, late = asyncio.run(
        by_tasks(
            _writes(log, bare_log=kind.bare_log), kind.writers, seconds, asked(KEYS), spinning=kind.spinning
        )
    )
    kind.rounds.loads.append(load)
    kind.late += late


def _steps(log: turnlog.EventLog, seconds: float) -> dict[int, Spread]:
    """The steps that turnlog takes on the loop while so many tasks write."""
    found: dict[int, Spread] = {}
    for writers in (PAIRED, 1_024):
        with steps_timed() as taken:
            asyncio.run(by_tasks(_writes(log), writers, seconds, asked(KEYS)))
        found[writers] = Spread.of(taken)
    return found


def _report(kinds: list[Kind], peers: list[Kind], steps: dict[int, Spread]) -> list[str]:
    ours = _plain(kinds, PAIRED)
    head = (
        "",
        "durability",
        "writers",
        "acknowledged/s (rounds)",
        "turnlog is faster, times",
        "ms p50 / p99",
        "ms longest",
        "a sleeper wakes late, ms p99 / longest",
    )
    rows = [
        (
            kind.name,
            kind.durability,
            f"{kind.writers:,}",
            kind.rounds.rates,
            str(ours.rounds.over(kind.rounds)) if kind in peers else "",
            kind.rounds.spread.ms,
            f"{kind.rounds.spread.longest / 1e3:,.1f}",
            "" if kind in peers else _lateness(kind.late),
        )
        for kind in [*kinds, *peers]
    ]
    held = "; ".join(
        f"{count:,} tasks {each.longest / 1e3:.1f} ms (p99 {each.p99 / 1e3:.1f})"
        for count, each in steps.items()
    )
    about = (
        f"Each task writes a value of {len(VALUE)} bytes again and again. Beside them a task sleeps 1 ms"
        " each time; how late it wakes up shows how long others on the loop are held up. The task that"
        f" spins computes for 1 ms whenever it gets its turn. The peers are driven by {PAIRED} threads,"
        " which suits them best."
    )
    return [
        about,
        "",
        *table(head, rows),
        "",
        f"Longest single step of turnlog's own on the loop (disk): {held}.",
    ]


def _lateness(late: list[int]) -> str:
    spread = Spread.of(late)
    return f"{spread.p99 / 1e3:.1f} / {spread.longest / 1e3:.1f}"


def _plot(bench: Bench, kinds: list[Kind]) -> list[str]:
    lines = [
        Line(
            f"{STORE}, {durability}",
            {
                kind.writers: kind.rounds.rate
                for kind in kinds
                if kind.durability == durability and not kind.spinning and not kind.bare_log
            },
        )
        for durability in ("disk", "os")
    ]
    return bench.plot("tasks", "Writes by tasks of one event loop", ("tasks", "acknowledged/s"), lines)
