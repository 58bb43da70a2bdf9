"""A restore adds to what is there instead of replacing it, or ends half-way and loses both."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

from turnlog import EventSourcedStore, SharedMemory, Timeline, Write
from turnlog.eventlog import EventLog, Restored

RESERVED = "__oma_checkpoint__/one"


@pytest.fixture
def saved(memory: SharedMemory, store: EventSourcedStore) -> Any:
    """A snapshot of sixty entries; afterwards a lot has changed."""
    for number in range(60):
        memory.write("a", f"k{number}", {"n": number}, {"note": str(number)})
    memory.write_expiring("a", "brief", "v", 5)
    memory.set_turn(3)
    store.set(RESERVED, "checkpoint")
    snapshot = memory.snapshot()
    memory.write("a", "later", "v")
    memory.write("a", "k1", "changed")
    memory.delete("a", "k2")
    memory.advance_turn()
    store.set(RESERVED, "later checkpoint")
    return snapshot


def visible(memory: SharedMemory) -> list[Any]:
    """What agents see, but for versions."""
    return [
        (entry.key, entry.value, entry.metadata, entry.created_at, entry.expires_at_turn)
        for entry in memory.list_all()
    ] + [memory.turn]


def test_the_state_is_the_snapshots(
    memory: SharedMemory, store: EventSourcedStore, log: EventLog, saved: Any
) -> None:
    """Nothing more and nothing less; a second time changes nothing; reserved entries stay; it is recorded."""
    memory.restore(saved, by="ops")
    assert memory.snapshot()["turnCount"] == saved["turnCount"] == 3
    by_key = {entry["key"]: entry for entry in memory.snapshot()["entries"]}
    assert by_key == {entry["key"]: entry for entry in saved["entries"]}
    once = visible(memory)
    memory.restore(saved, by="ops")
    assert visible(memory) == once
    entry = store.get(RESERVED)
    assert entry is not None
    assert entry.value == "later checkpoint"
    restores = [each for each in log.read() if isinstance(each.event, Restored)]
    assert [each.agent for each in restores] == ["ops", "ops"]


@pytest.mark.parametrize(
    "damage",
    [{"value": 7}, {"createdAt": "yesterday"}, {"key": None}, {"expiresAtTurn": -1}, {"metadata": []}],
    ids=lambda damage: next(iter(damage)),
)
def test_one_bad_entry_stops_all_of_it(memory: SharedMemory, log: EventLog, saved: Any, damage: Any) -> None:
    """With the fiftieth entry wrong, nothing is as the snapshot says, and nothing was recorded."""
    before, head = visible(memory), log.head("main")
    broken = copy.deepcopy(saved)
    broken["entries"][49].update(damage)
    with pytest.raises((TypeError, ValueError)):
        memory.restore(broken)
    assert visible(memory) == before
    assert log.head("main") == head


def test_others_write_meanwhile(log: EventLog, memory: SharedMemory, saved: Any) -> None:
    """Right after the restore's batch the state is the snapshot's, whoever wrote before and behind it."""
    stop = threading.Event()

    def write() -> None:
        other = EventSourcedStore(log)
        while not stop.is_set():
            other.execute([Write("a/k3", "other"), Write("a/other", "other")])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            memory.restore(saved, by="ops")
    finally:
        stop.set()
        writer.join(30)
    wanted = {entry["key"]: entry["value"] for entry in saved["entries"]}
    events = list(log.read())
    for index, each in enumerate(events):
        if isinstance(each.event, Restored):
            end = next((n for n in range(index + 1, len(events)) if events[n].batch == 0), len(events)) - 1
            state = Timeline(log).state(position=events[end].position)
            assert {key: entry.value for key, entry in state.items()} == wanted
