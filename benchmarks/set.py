"""One caller, one write after the other."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import turnlog

from .bare import Bare
from .bench import Bench
from .inturn import Contender, Taken, in_turn, ratio_table
from .logs import RUN, VALUE, Asked, asked
from .peers import DiskCache, LangGraph

TITLE = "`set`, one caller"
KEYS = 1_000
WARM_UP = 1_100
"""Writes before the first block: every key lives, and every WAL has been moved into its file once."""


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    about = (
        f"Each call overwrites one of {KEYS:,} keys with a value of {len(VALUE)} bytes and its agent;"
        " `bare` is a loop on the same SQLite that writes an event and an entry in one transaction."
        " Blocks of calls, in turn."
    )
    lines = [about]
    for durability in ("os", "disk"):
        with bench.room() as room:
            lines += ["", f"### durability {durability}", "", *_measure(bench, room, durability)]
    return lines


def _measure(bench: Bench, room: Path, durability: str) -> list[str]:
    probe = bench.probe()
    arguments = asked(KEYS)
    with ExitStack() as stack:
        contenders = _contenders(stack, room, durability)
        warm_up = bench.choose(WARM_UP, 50)
        for contender in contenders:
            for number in range(warm_up):
                contender.call(arguments[number % KEYS])
        taken = in_turn(
            contenders,
            arguments,
            rounds=bench.choose(40, 4),
            block=bench.choose(250, 50),
            between=probe if durability == "disk" else None,
        )
    ours, bare = taken[:2]
    lines = ratio_table(taken, bare)
    lines += ["", f"Against turnlog: {_quotients(ours, taken[1:])}."]
    return [*lines, "", str(probe)] if durability == "disk" else lines


def _contenders(stack: ExitStack, room: Path, durability: str) -> list[Contender]:
    log = stack.enter_context(turnlog.open(room / "turnlog.db", durability=durability))  # pyright: ignore[reportArgumentType]
    store = turnlog.EventSourcedStore(log, RUN)

    def set_(one: Asked) -> None:
        store.set(one[0], VALUE, one[1])

    bare = stack.enter_context(closing(Bare(room / "bare.db", durability)))
    standard = stack.enter_context(closing(Bare(room / "standard.db", durability, module=sqlite3)))
    found = [
        Contender("turnlog `EventSourcedStore.set`", set_),
        Contender("bare", bare.set),
        Contender("bare, `sqlite3` of the standard library", standard.set),
    ]
    if durability == "disk":
        flushing = stack.enter_context(closing(Bare(room / "flushing.db", durability, flushes=True)))
        found.append(Contender("bare, NORMAL and its own fdatasync, as turnlog does it", flushing.set))
    cache = stack.enter_context(closing(DiskCache(room / "diskcache", durability)))
    graph = stack.enter_context(closing(LangGraph(room / "langgraph.db", durability)))
    found.append(Contender("diskcache `Cache.set`", cache.set))
    found.append(Contender("LangGraph `SqliteStore.put`", graph.set))
    if durability == "disk":
        usual = stack.enter_context(closing(LangGraph(room / "usual.db", None)))
        found.append(Contender("LangGraph `SqliteStore.put`, as `from_conn_string` opens it", usual.set))
    return found


def _quotients(ours: Taken, others: list[Taken]) -> str:
    return "; ".join(f"{other.name} {other.medians_over(ours)} times" for other in others)
