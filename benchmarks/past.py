"""What it costs to look into the past of a run, and to work on it, as the run grows.

One key at a past turn and blame must not grow with the log, nor with refused writes; the whole state must
grow with the number of distinct keys only.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import turnlog
from turnlog.replay import Timeline

from .bench import PER_TURN, Bench
from .inturn import Contender, in_turn, ratio_table
from .logs import RUN, VALUE, asked, build, key, refuse
from .measure import Spread, table, timed
from .plots import Line

TITLE = "The past, against the length of the log"
KEYS = 10_000
FEW = 100
WIDE = 50


@dataclass(frozen=True, slots=True)
class Looks:
    """What looking into one log took."""

    title: str
    entry: Spread
    blame: Spread
    diff: Spread
    wide_diff: Spread
    state: Spread
    versions: Spread

    def row(self) -> tuple[str, ...]:
        """As a row of the report."""
        looks = (self.entry, self.blame, self.diff, self.wide_diff)
        return self.title, *(each.us for each in looks), self.state.ms, self.versions.ms


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    sizes = bench.choose((10_000, 100_000, 1_000_000), (10_000, 50_000))
    many = {size: _look(bench.log(size, KEYS), f"{size:,} events, {KEYS:,} keys", KEYS) for size in sizes}
    few = [_look(bench.log(size, FEW), f"{size:,} events, {FEW} keys", FEW) for size in (sizes[0], sizes[-1])]
    head = (
        "",
        "one key at a turn, µs p50 / p99",
        "blame of one key, µs",
        f"diff of adjacent turns, {PER_TURN} writes, µs",
        f"diff of turns apart, {WIDE * PER_TURN:,} writes, µs",
        "whole state, ms",
        "... keys and versions only, ms",
    )
    return [
        f"{PER_TURN} writes to a turn, values of {len(VALUE)} bytes; keys and turns at random.",
        "",
        *table(head, [each.row() for each in (*many.values(), *few, _refused(bench))]),
        *bench.plot(
            "past", "The past against length of the log, 10,000 keys", ("events", "µs, p50"), _lines(many)
        ),
        "",
        *_handling(bench),
        "",
        *_growing(bench, sizes),
        "",
        _bytes(bench),
    ]


def _lines(many: dict[int, Looks]) -> list[Line]:
    return [
        Line("one key at a turn", {size: each.entry.p50 for size, each in many.items()}),
        Line("blame of one key", {size: each.blame.p50 for size, each in many.items()}),
        Line("diff of adjacent turns", {size: each.diff.p50 for size, each in many.items()}),
        Line("whole state", {size: each.state.p50 for size, each in many.items()}),
    ]


def _look(path: Path, title: str, keys: int, only: str | None = None) -> Looks:
    rng = random.Random(1)
    with turnlog.open(path) as log:
        timeline = Timeline(log, RUN)
        last = timeline.point().turn
        turns = [rng.randrange(last) for _ in range(2_000)]
        picks = [(only or key(rng.randrange(keys)), turn) for turn in turns]
        starts = [rng.randrange(last - WIDE) for _ in range(10)]
        ends = [rng.randrange(1, last + 1) for _ in range(10)]
        return Looks(
            title,
            entry=Spread.of(timed(lambda pick: timeline.entry(pick[0], turn=pick[1]), picks)),
            blame=Spread.of(timed(lambda pick: timeline.blame(pick[0]), picks)),
            diff=Spread.of(timed(lambda turn: timeline.diff(str(turn), str(turn + 1)), turns[:200])),
            wide_diff=Spread.of(timed(lambda turn: timeline.diff(str(turn), str(turn + WIDE)), starts)),
            state=Spread.of(timed(lambda turn: timeline.state(turn=turn), ends)),
            versions=Spread.of(timed(lambda turn: timeline.versions(turn=turn), ends)),
        )


def _refused(bench: Bench) -> Looks:
    times = bench.choose(100_000, 10_000)
    with bench.room() as room:
        path = room / "refused.db"
        with build(path, events=10_000, keys=FEW, turns=10_000 // PER_TURN) as log:
            refuse(log, key(7), times)
        return _look(path, f"10,000 events, then {times:,} refusals of the key asked for", FEW, only=key(7))


def _handling(bench: Bench) -> list[str]:
    """Opening and forking a long log."""
    with bench.copy(bench.long, KEYS) as path:
        opened = Spread.of(timed(lambda _: turnlog.open(path).close(), range(20)))
        with turnlog.open(path) as log:
            timeline = Timeline(log, RUN)
            forked = Spread.of(timed(lambda number: timeline.fork(run=f"fork-{number}"), range(10)))
            middle = timeline.point().turn // 2
            earlier = Spread.of(
                timed(lambda number: timeline.fork(run=f"earlier-{number}", turn=middle), range(10))
            )
    size = f"{bench.long:,} events"
    rows = [
        (f"open and close a log of {size}", opened.ms),
        (f"fork a run of {size} with {KEYS:,} live keys (disk)", forked.ms),
        ("... half-way back", earlier.ms),
    ]
    return table(("", "ms p50 / p99"), rows)


def _growing(bench: Bench, sizes: tuple[int, ...]) -> list[str]:
    """Writing and reading beside a short log."""
    lines: list[str] = []
    with bench.copy(sizes[0], KEYS) as small, bench.copy(sizes[-1], KEYS) as large:
        for verb in ("set", "get"):
            with turnlog.open(small, durability="os") as short, turnlog.open(large, durability="os") as long:
                contenders = [
                    Contender(f"{verb}, {size:,} events", _verb(verb, log))
                    for size, log in ((sizes[0], short), (sizes[-1], long))
                ]
                arguments = asked(KEYS)
                for contender in contenders:
                    for one in arguments[: bench.choose(KEYS, 1_000)]:
                        contender.call(one)
                taken = in_turn(
                    contenders, arguments, rounds=bench.choose(40, 5), block=bench.choose(500, 100)
                )
                lines += [*ratio_table(taken, taken[0]), ""]
    return [f"A short and a long log of {KEYS:,} keys in turn (os):", "", *lines[:-1]]


def _verb(verb: str, log: turnlog.EventLog):
    store = turnlog.EventSourcedStore(log, RUN)
    if verb == "set":
        return lambda one: store.set(one[0], VALUE, one[1])
    return lambda one: store.get(one[0])


def _bytes(bench: Bench) -> str:
    events = bench.choose(100_000, 20_000)
    with bench.room() as room:
        path = room / "bytes.db"
        build(path, events=events, keys=KEYS, value="x" * 200).close()
        size = path.stat().st_size / events
    return f"Size of a file of {events:,} events, values of 200 bytes: {size:.0f} bytes an event."
