"""Every single bit of what a log holds: turned over, it is noticed, or makes no difference to anybody.

A flip is made in one column of one row of `events`, `names`, `runs` or `entries`, by another program that
drops the guards first and makes them again: an integer has 64 bits, a text and a blob those of their bytes,
NULL none. It is *refused* where SQLite lets no such row be, *detected* if `verify` reports a problem, and
*harmless* if verify reports none and every public read gives the same answers as before; see `answers`. There
is nothing else.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import turnlog
from turnlog import Delete, EventSourcedStore, SharedMemory, Timeline, Write
from turnlog.eventlog import AdvanceTurn, EventLog, SetTurn
from turnlog.eventlog.driver import driver
from turnlog.eventlog.export import export_lines
from turnlog.replay.verification import verify

KEYS = {"events": ("position",), "names": ("id",), "runs": ("id",), "entries": ("run", "key")}


class Flip(NamedTuple):
    """One bit of one value; `row` is what the primary key of its row holds."""

    table: str
    row: tuple[int, ...]
    column: str
    bit: int


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small log with every type of event, a fork, and what is odd: an expiry, half an emoji, metadata."""
    path = tmp_path_factory.mktemp("log") / "team.db"
    with turnlog.open(path, durability="os") as log:
        store = EventSourcedStore(log, "m")
        store.execute([Write("a", "v", {"x": 1}), Write("b", "\ud83d", None, 3), AdvanceTurn()], agent="w")
        store.execute([Delete("b")], activity="t")
        store.compare_and_set("a", "x", "y")
        Timeline(log, "m").restore(position=3, by="o", reason="r")
        log.fork("m", 3, run="f", turn=1)
        EventSourcedStore(log, "f").execute([Write("a", "u"), SetTurn(5)])
        log.execute([Write("writer/k", "[1]", {"sharedMemoryValueEncoding": "json"})], run="s")
    return path


def flips(path: Path) -> list[Flip]:
    """Every bit there is."""
    with closing(driver().connect(path)) as db:
        return [flip for table in KEYS for flip in _flips(db, table)]


def _flips(db: Any, table: str) -> Iterator[Flip]:
    columns = [name for (name,) in db.execute("select name from pragma_table_info(?)", (table,))]
    for column in columns:
        bytes_ = f"length(cast({column} as blob))"
        query = f"select typeof({column}), {bytes_}, {', '.join(KEYS[table])} from {table}"
        for kind, length, *row in db.execute(query).fetchall():
            bits = {"null": 0, "integer": 64}.get(kind, 8 * (length or 0))
            yield from (Flip(table, tuple(row), column, bit) for bit in range(bits))


class Editor:
    """Another program that edits the file; it drops the guards and makes them again at once."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self._guards = db.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall()
        db.execute("pragma synchronous = off")
        db.execute("pragma foreign_keys = off")

    def turn(self, flip: Flip) -> bool:
        """Turn the bit over; whether SQLite let it."""
        db, (table, row, column, bit) = self._db, flip
        here = " and ".join(f"{name} = ?" for name in KEYS[table])
        query = f"select typeof({column}), cast({column} as blob), {column} + 0 from {table} where {here}"
        kind, content, number = db.execute(query, row).fetchone()
        turned = bytearray(content)
        if kind != "integer":
            turned[bit // 8] ^= 1 << bit % 8
        new = {"integer": "?", "text": "cast(? as text)", "blob": "?"}[kind]
        given = turn_number(number, bit) if kind == "integer" else turned
        db.execute("begin immediate")
        for name, _ in self._guards:
            db.execute(f"drop trigger {name}")
        try:
            db.execute(f"update {table} set {column} = {new} where {here}", (given, *row))
        except driver().IntegrityError:
            db.execute("rollback")
            return False
        for _, guard in self._guards:
            db.execute(guard)
        db.execute("commit")
        return True

    def turn_back(self, flip: Flip) -> None:
        """Put the bit back, wherever its row is now."""
        row = [
            turn_number(held, flip.bit) if name == flip.column else held
            for name, held in zip(KEYS[flip.table], flip.row, strict=True)
        ]
        assert self.turn(flip._replace(row=tuple(row)))


def turn_number(number: int, bit: int) -> int:
    """An integer of 64 bits with one of them turned over."""
    return int.from_bytes((number & (2**64 - 1) ^ 1 << bit).to_bytes(8, "big"), "big", signed=True)


def answers(path: Path) -> list[Any]:
    """What every public read says: events, runs, heads, exports, live entries, turns, every past state."""
    with turnlog.open(path, read_only=True) as log, log.reading() as db:
        found: list[Any] = [
            list(log.read()),
            log.runs(),
            list(export_lines(log)),
            db.execute("select * from event_log").fetchall(),
            db.execute("select * from current_entries").fetchall(),
            verify(log),
        ]
        for info in log.runs():
            found += _of_run(log, info.run.name)
    return found


def _of_run(log: EventLog, run: str) -> list[Any]:
    store, timeline = EventSourcedStore(log, run), Timeline(log, run)
    memory = SharedMemory(store)
    entries = store.list()
    found: list[Any] = [log.head(run), entries, list(store.scan()), store.get_turn(), timeline.lineage]
    found += [memory.list_all(), memory.turn, memory.snapshot(), memory.get_summary()]
    found += [(store.get(entry.key), memory.read(entry.key)) for entry in entries]
    found += [list(timeline.history(key)) for key in ("a", "b") if any(each.key == key for each in entries)]
    found += [timeline.turns(), timeline.blame(), list(timeline.folded().values())]
    for recorded in log.read(run=run):
        state = timeline.state(position=recorded.position, all=True)
        found.append([state.point, list(state.values()), state.expired, state.reserved])
        found.append(timeline.diff(f"@{recorded.position}", "head"))
        found.append(timeline.original(recorded.revision))
    return found


def check(path: Path, chosen: list[Flip]) -> Counter[str]:
    """Make each flip and undo it; how many were refused, detected and harmless."""
    before = answers(path)
    became: Counter[str] = Counter()
    with (
        closing(driver().connect(path, isolation_level=None)) as db,
        turnlog.open(path, read_only=True) as log,
    ):
        editor = Editor(db)
        for flip in chosen:
            if not editor.turn(flip):
                became["refused"] += 1
                continue
            if verify(log).problems:
                became["detected"] += 1
            else:
                assert answers(path) == before, flip
                became["harmless"] += 1
            editor.turn_back(flip)
    assert answers(path) == before
    return became


def test_some_flipped_bits(path: Path) -> None:
    """Of a sample from every column of every table, each is refused, detected or harmless."""
    rng = random.Random(1)
    by_column: dict[tuple[str, str], list[Flip]] = {}
    for flip in flips(path):
        by_column.setdefault(flip[:3:2], []).append(flip)
    chosen = [flip for found in by_column.values() for flip in rng.sample(found, min(2, len(found)))]
    became = check(path, chosen)
    assert became["detected"] > len(chosen) // 2


@pytest.mark.long
@pytest.mark.parametrize("table", KEYS)
def test_every_flipped_bit(path: Path, table: str) -> None:
    """Of all there are, each is refused, detected or harmless."""
    chosen = [flip for flip in flips(path) if flip.table == table]
    became = check(path, chosen)
    print(f"{table}: {len(chosen):,} bits: {dict(became)}")
    assert became.total() == len(chosen)
