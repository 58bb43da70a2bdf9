"""A rebuild looks at the clock, the settings or the present, and so makes another past of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import turnlog
from turnlog import EventSourcedStore, SharedMemory, Timeline
from turnlog.projections import EntriesProjection

_REBUILD = """
import sys, turnlog
from turnlog.projections import EntriesProjection
with turnlog.open(sys.argv[1]) as log:
    log.transact(EntriesProjection().rebuild)
    rows = log.transact(lambda db: db.execute("select * from entries").fetchall())
    states = [repr(turnlog.Timeline(log).state(position=n, all=True).values()) for n in range(30)]
    print(repr([rows, states]))
"""


def live(store: EventSourcedStore) -> list[Any]:
    """What the store holds, its turn included."""
    return [*store.list(), store.get_turn()]


def test_every_past_is_what_it_was_when_it_was_the_present(path: Path, start: Callable[..., Any]) -> None:
    """Each state that was seen live is seen again, and a rebuild elsewhere gives the same rows."""
    rng = random.Random(27)
    seen: dict[int, list[Any]] = {}
    with turnlog.open(path) as log:
        store = EventSourcedStore(log)
        memory = SharedMemory(store)
        for number in range(40):
            key = f"k{rng.randrange(5)}"
            action = rng.randrange(7)
            if action < 3:
                memory.write("a", key, str(number))
            elif action == 3:
                memory.write_expiring("a", key, number, rng.randint(1, 3))
            elif action == 4:
                memory.advance_turn()
            elif action == 5 and number > 3:
                Timeline(log).restore(position=rng.choice([*seen]))
            else:
                memory.delete("a", key)
            head = log.head("main")
            if head is not None:
                seen[head.position] = live(store)
        timeline = Timeline(log)
        for position, then in seen.items():
            state = timeline.state(position=position, all=True)
            assert [*state.values(), state.point.turn] == then
            assert [*timeline.folded(position=position).values()] == then[:-1]
        rows = log.transact(lambda db: db.execute("select * from entries").fetchall())
    worlds = [
        {"TZ": "Asia/Tokyo", "PYTHONHASHSEED": "1", "LC_ALL": "C"},
        {"TZ": "America/Caracas", "PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8"},
    ]
    printed = [
        start(_REBUILD, path, env={**os.environ, **world}).communicate(timeout=60)[0] for world in worlds
    ]
    assert printed[0] == printed[1]
    assert printed[0].startswith(f"[{rows!r}, ")


def test_a_table_caught_up_at_any_point_is_the_same(path: Path) -> None:
    """Filled in one go or from wherever it was left behind, the rows are the same."""
    with turnlog.open(path) as log:
        store = EventSourcedStore(log)
        for number in range(12):
            store.set(f"k{number % 5}", str(number))
            store.delete(f"k{(number + 2) % 5}")
        whole = log.transact(lambda db: db.execute("select * from entries").fetchall())
        head = log.head("main")
        assert head is not None
        for position in range(1, head.position + 1):
            log.transact(lambda db, at=position: db.execute("update projections set stale_from = ?", (at,)))
            log.transact(EntriesProjection().prepare)
            assert log.transact(lambda db: db.execute("select * from entries").fetchall()) == whole
