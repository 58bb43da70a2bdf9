"""Lists of 1,000 writes, durably: each list one transaction and one flush."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import turnlog

from .bare import Bare
from .bench import Bench
from .inturn import Contender, Taken, in_turn
from .logs import RUN, VALUE, write
from .measure import Probe, table

TITLE = "Lists of 1,000 writes, `disk`"
KEYS = 10_000
LIST = 1_000


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    probe = bench.probe()
    rows: list[tuple[str, ...]] = []
    rounds = bench.choose(30, 5)
    with bench.room() as room:
        rows += _rows("a new log", _measure(room / "new.db", room / "bare.db", rounds, probe))
    with bench.copy(bench.long, KEYS) as path:
        bare = path.with_name("bare.db")
        _fill(bare, bench.long)
        rows += _rows(f"a log of {bench.long:,} events", _measure(path, bare, rounds, probe))
    head = ("", "to", "events/s (80 % of the lists)", "time, bare = 1", "ms a list, p50 / p99")
    about = (
        f"Each list overwrites, or at first writes, {LIST:,} of {KEYS:,} keys with values of"
        f" {len(VALUE)} bytes; the {rounds} lists to a new log make it {rounds * LIST:,} events long."
        " `bare` is the same in one transaction by two `executemany`. The time includes making the"
        " commands, or the rows. In turn, list by list."
    )
    return [
        about,
        "",
        *table(head, rows),
        "",
        str(probe),
    ]


def _measure(path: Path, bare_path: Path, rounds: int, probe: Probe) -> list[Taken]:
    with turnlog.open(path) as log, closing(Bare(bare_path, "disk")) as bare:
        store = turnlog.EventSourcedStore(log, RUN)
        contenders = [
            Contender("turnlog `execute`", lambda first: store.execute(_commands(first))),
            Contender("bare", lambda first: bare.write(range(first, first + LIST), KEYS)),
        ]
        lists = [number * LIST for number in range(rounds)]
        return in_turn(contenders, lists, rounds=rounds, block=1, between=probe)


def _commands(first: int) -> list[turnlog.Write]:
    return [write(number, KEYS) for number in range(first, first + LIST)]


def _fill(path: Path, events: int) -> None:
    with closing(Bare(path, "os")) as bare:
        for first in range(0, events, 10_000):
            bare.write(range(first, first + 10_000), KEYS)


def _rows(to: str, taken: list[Taken]) -> list[tuple[str, ...]]:
    return [
        (
            each.name,
            to,
            _rates(each),
            "1" if each is taken[1] else str(each.medians_over(taken[1])),
            each.spread.ms,
        )
        for each in taken
    ]


def _rates(each: Taken) -> str:
    rates = sorted(LIST / block[0] * 1e9 for block in each.blocks)
    tenth = len(rates) // 10
    return f"{rates[len(rates) // 2]:,.0f} ({rates[tenth]:,.0f} to {rates[-1 - tenth]:,.0f})"
