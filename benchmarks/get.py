"""One caller, one read after the other."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import turnlog

from .bare import Bare
from .bench import Bench
from .inturn import Contender, in_turn, ratio_table
from .logs import RUN, VALUE, asked
from .peers import DiskCache, LangGraph

TITLE = "`get`, one caller"
KEYS = 1_000


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    with bench.room() as room, ExitStack() as stack:
        contenders = _contenders(stack, room)
        names = [name for name, _ in asked(KEYS)]
        for contender in contenders:
            for name in names:
                contender.call(name)
        taken = in_turn(contenders, names, rounds=bench.choose(40, 6), block=bench.choose(500, 100))
    ours, bare = taken[:2]
    others = "; ".join(f"{other.name} {other.medians_over(ours)} times" for other in taken[1:])
    about = (
        f"Each call reads one of {KEYS:,} keys, with its metadata; `bare` is one select by the key's"
        " text, and leaves the metadata as JSON text. Blocks of calls, in turn."
    )
    return [
        about,
        "",
        *ratio_table(taken, bare),
        "",
        f"Against turnlog: {others}.",
    ]


def _contenders(stack: ExitStack, room: Path) -> list[Contender]:
    log = stack.enter_context(turnlog.open(room / "turnlog.db", durability="os"))
    store = turnlog.EventSourcedStore(log, RUN)
    bare = stack.enter_context(closing(Bare(room / "bare.db", "os")))
    cache = stack.enter_context(closing(DiskCache(room / "diskcache", "os")))
    graph = stack.enter_context(closing(LangGraph(room / "langgraph.db", "os")))
    for one in asked(KEYS):
        store.set(one[0], VALUE, one[1])
        for peer in (bare, cache, graph):
            peer.set(one)
    return [
        Contender("turnlog `EventSourcedStore.get`", store.get),
        Contender("bare", bare.get),
        Contender("diskcache `Cache.get`", cache.get),
        Contender("LangGraph `SqliteStore.get`", graph.get),
    ]
