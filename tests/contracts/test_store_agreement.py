"""The store on a log and its twin in memory answer alike, whatever they are asked."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from turnlog.eventlog import AdvanceTurn, Clear, CompareAndSet, Delete, EventLog, SetTurn, Write
from turnlog.memory import (
    EventSourcedStore,
    InMemoryStore,
    RedactingStore,
    RestoreSnapshot,
    WriteExpiring,
)
from turnlog.projections import EntriesProjection, first_difference
from turnlog.testing import StandingClock

KEYS = st.sampled_from(["a", "b", "w/c", "\ud83d", "__turnlog__/d"])
VALUES = st.sampled_from(["", "1", "2", "\ud83d", "\x00"])
METADATA = st.sampled_from([None, {}, {"agent": "w", "x": [1]}])
TURNS = st.sampled_from([0, 1, 2, 2**53 - 1])
AGENTS: Any = st.sampled_from([None, "w", "", "\ud83d", "x" * 4097, 5])
VERSIONS = st.one_of(st.none(), st.integers(0, 12))
TIMES = st.sampled_from(["2023-11-14T22:13:20.123Z", "2020-02-29T00:00:00.000Z", "1969-12-31T23:59:59.999Z"])


@st.composite
def snapshots(draw: st.DrawFn) -> dict[str, Any]:
    """A snapshot of version 1."""
    entries: list[dict[str, Any]] = []
    for key in draw(st.lists(KEYS, unique=True, max_size=4)):
        entry = {"key": key, "value": draw(VALUES), "createdAt": draw(TIMES)}
        if draw(st.booleans()):
            entry["expiresAtTurn"] = draw(TURNS)
        metadata = draw(METADATA)
        if metadata is not None:
            entry["metadata"] = metadata
        entries.append(entry)
    return {"version": 1, "turnCount": draw(TURNS), "entries": entries}


WRITES = st.builds(Write, KEYS, VALUES, METADATA, st.one_of(st.none(), TURNS), VERSIONS)
COMMANDS = st.one_of(
    WRITES,
    WRITES,
    st.builds(WriteExpiring, WRITES, st.integers(1, 3)),
    st.builds(CompareAndSet, KEYS, st.one_of(st.none(), VALUES), VALUES, METADATA),
    st.builds(Delete, KEYS, AGENTS),
    st.builds(Clear, AGENTS),
    st.builds(AdvanceTurn, AGENTS),
    st.builds(SetTurn, TURNS, AGENTS),
    st.builds(RestoreSnapshot, snapshots(), st.sampled_from([None, "operator"])),
)


def answer(store: Any, commands: Sequence[Any]) -> Any:
    """The outcomes, or what was raised."""
    try:
        return store.execute(commands)
    except (TypeError, ValueError) as error:
        return type(error), str(error)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(COMMANDS, min_size=1, max_size=4), max_size=12))
def test_both_stores_answer_alike(batches: list[list[Any]]) -> None:
    """Outcomes, errors, versions, order, times and turn are the same after every batch."""
    clock = StandingClock()
    with tempfile.TemporaryDirectory() as folder:
        projections = (EntriesProjection(),)
        file = Path(folder) / "twin.db"
        with EventLog(file, projections=projections, durability="os", clock=clock) as log:
            on_disk, in_memory = EventSourcedStore(log), InMemoryStore(clock=clock)
            for batch in batches:
                clock.now += 1
                assert answer(on_disk, batch) == answer(in_memory, batch)
                assert on_disk.list() == in_memory.list()
                assert on_disk.get_turn() == in_memory.get_turn()
            for entry in in_memory.list():
                assert on_disk.get(entry.key) == in_memory.get(entry.key) == entry
                behind = list(in_memory.scan(after=entry.key, limit=2))
                assert list(on_disk.scan(after=entry.key, limit=2)) == behind
            with log.reading() as db:
                assert first_difference(db) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(COMMANDS, min_size=1, max_size=4), max_size=8))
def test_a_redacting_store_answers_alike_where_nothing_is_secret(batches: list[list[Any]]) -> None:
    """Whatever is asked of it, but for a compare-and-set, is answered as without it."""
    clock = StandingClock()
    inner, plain = InMemoryStore(clock=clock), InMemoryStore(clock=clock)
    redacting: Any = RedactingStore(inner)
    for batch in batches:
        clock.now += 1
        if any(isinstance(command, CompareAndSet) for command in batch):
            assert answer(redacting, batch)[0] is TypeError
        else:
            assert answer(redacting, batch) == answer(plain, batch)
        assert redacting.list() == inner.list() == plain.list()
        assert redacting.get_turn() == plain.get_turn()
