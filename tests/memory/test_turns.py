"""Turns and expiry: when an entry is hidden, what makes it permanent, and where the turn is kept."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import EntryWritten, EventLog
from turnlog.memory import EventSourcedStore, InMemoryStore, SharedMemory

from .conftest import ExpiringStore, PlainStore


def test_the_turn_counts_up_and_can_be_set(memory: SharedMemory) -> None:
    """It begins at 0 and goes both ways."""
    assert memory.turn == 0
    assert memory.advance_turn() == 1
    assert memory.turn == 1
    memory.set_turn(7)
    assert memory.advance_turn() == 8
    memory.set_turn(0)
    assert memory.turn == 0


@pytest.mark.parametrize(
    ("wrong", "error"),
    [(-1, ValueError), (2**53, ValueError), (True, TypeError), (1.0, TypeError), ("1", TypeError)],
)
def test_a_turn_is_an_integer_within_bounds(
    memory: SharedMemory, plain: SharedMemory, wrong: Any, error: type[Exception]
) -> None:
    """Anything else is refused, wherever the turn is kept."""
    for shared in (memory, plain):
        with pytest.raises(error):
            shared.set_turn(wrong)
        assert shared.turn == 0
        shared.set_turn(2**53 - 1)
        with pytest.raises(ValueError, match=r"2\*\*53"):
            shared.advance_turn()
        assert shared.turn == 2**53 - 1


def test_an_entry_is_hidden_from_its_turn_on(memory: SharedMemory) -> None:
    """Visible the turn before, hidden in reads, listings, summary and snapshot at it and after it."""
    memory.set_turn(3)
    memory.write_expiring("a", "k", {"x": 1}, 2, {"m": 1})
    memory.write("b", "k", "stays")
    assert memory.read("a/k").expires_at_turn == 5
    assert memory.read("a/k").value == {"x": 1}
    for turn, visible in ((4, True), (5, False), (6, False), (4, True)):
        memory.set_turn(turn)
        assert (memory.read("a/k") is not None) is visible
        assert len(memory.list_all()) == 1 + visible
        assert len(memory.list_by_agent("a")) == visible
        assert ("- k: {" in memory.get_summary()) is visible
        assert len(memory.snapshot()["entries"]) == 1 + visible


def test_an_expired_entry_is_hidden_not_deleted(memory: SharedMemory) -> None:
    """The store still holds it, and setting the turn back shows it again."""
    memory.write_expiring("a", "k", "v", 1)
    memory.advance_turn()
    assert memory.read("a/k") is None
    assert memory.store.get("a/k").value == "v"
    memory.set_turn(0)
    assert memory.read("a/k").value == "v"


def test_an_expired_entry_stays_in_the_history(log: EventLog) -> None:
    """The event is there, with its expiry."""
    memory = SharedMemory(EventSourcedStore(log))
    memory.write_expiring("a", "k", "v", 1)
    memory.advance_turn()
    written = next(log.read(key="a/k"))
    assert isinstance(written.event, EntryWritten)
    assert (written.event.value, written.event.expires_at_turn) == ("v", 1)


def test_a_write_makes_an_entry_permanent(memory: SharedMemory) -> None:
    """The expiry goes with the old value, `created_at` stays, an expired entry comes back in its place."""
    memory.write_expiring("a", "k", "1", 1)
    memory.write("b", "k", "2")
    created_at = memory.read("a/k").created_at
    memory.set_turn(5)
    memory.write("a", "k", "3")
    entry = memory.read("a/k")
    assert (entry.value, entry.expires_at_turn, entry.created_at) == ("3", None, created_at)
    assert [entry.key for entry in memory.list_all()] == ["a/k", "b/k"]


def test_a_ttl_counts_from_the_present_turn(memory: SharedMemory) -> None:
    """Writing again moves the expiry."""
    memory.write_expiring("a", "k", "1", 1)
    memory.advance_turn()
    memory.write_expiring("a", "k", "2", 1)
    assert memory.read("a/k").expires_at_turn == 2


@pytest.mark.parametrize("wrong", [0, -1, 1.5, 1.0, True, "3", None, float("nan"), 2**53, 10**18])
def test_a_ttl_is_an_integer_of_at_least_one(
    memory: SharedMemory, plain: SharedMemory, expiring_store: ExpiringStore, wrong: Any
) -> None:
    """Anything else, and what leads beyond the last turn, is a ValueError; nothing is written."""
    for shared in (memory, plain, SharedMemory(expiring_store)):
        with pytest.raises(ValueError, match=r"ttl_turns|turn of expiry"):
            shared.write_expiring("a", "k", "v", wrong)
        assert shared.store.list() == []


def test_a_wrong_ttl_is_told_before_a_wrong_value(memory: SharedMemory) -> None:
    """The number is checked first."""
    with pytest.raises(ValueError, match="ttl_turns"):
        memory.write_expiring("a", "k", {1}, 0)


def test_the_turn_survives_a_restart(tmp_path: Path) -> None:
    """On a log, opening again does not revive what had expired."""
    file = tmp_path / "team.db"
    with turnlog.open(file) as log:
        memory = SharedMemory(EventSourcedStore(log))
        memory.write_expiring("a", "k", "v", 1)
        memory.advance_turn()
    with turnlog.open(file) as log:
        memory = SharedMemory(EventSourcedStore(log))
        assert memory.turn == 1
        assert memory.read("a/k") is None
        assert memory.list_all() == []


def test_the_expiry_counts_from_the_turn_at_which_it_is_written(store: Any) -> None:
    """While others advance the turn, an entry lives its full number of turns, counted inside the write."""
    memory, other = SharedMemory(store), SharedMemory(store)
    stop = threading.Event()

    def advance() -> None:
        while not stop.is_set():
            other.advance_turn()

    thread = threading.Thread(target=advance)
    thread.start()
    try:
        before = memory.turn
        for _ in range(20):
            memory.write_expiring("a", "k", "v", 1)
            expires = store.get("a/k").expires_at_turn
            assert before < expires <= memory.turn + 1
            before = expires - 1
    finally:
        stop.set()
        thread.join()


def test_reading_asks_for_the_turn_only_where_it_matters() -> None:
    """A store is not asked for the turn while nothing that is read expires, and once for a listing."""

    class Counting(InMemoryStore):
        asked = 0

        def get_turn(self) -> int:
            self.asked += 1
            return super().get_turn()

    store = Counting()
    memory = SharedMemory(store)
    memory.write("a", "k", "v")
    memory.read("a/k")
    memory.list_all()
    assert store.asked == 0
    memory.write_expiring("a", "x", "v", 1)
    memory.write_expiring("a", "y", "v", 1)
    assert store.asked == 0
    memory.list_all()
    assert store.asked == 1


# -- stores that can do less


def test_a_store_without_expiry_keeps_the_entry_for_good(
    plain: SharedMemory, plain_store: PlainStore
) -> None:
    """There the write is a plain one, as its description says."""
    assert plain.write_expiring("a", "k", [1], 1) is None
    plain.set_turn(9)
    assert plain.read("a/k").value == [1]
    assert plain.read("a/k").expires_at_turn is None


def test_a_store_that_keeps_expiries_needs_no_turns(expiring_store: ExpiringStore) -> None:
    """The turn is then kept in the memory, and a new memory begins at 0 and shows the entry again."""
    memory = SharedMemory(expiring_store)
    memory.set_turn(4)
    memory.write_expiring("a", "k", {"x": 1}, 2, {"m": 1})
    entry = memory.read("a/k")
    assert (entry.value, entry.expires_at_turn) == ({"x": 1}, 6)
    assert entry.metadata == {"m": 1, "sharedMemoryValueEncoding": "json", "agent": "a"}
    assert memory.advance_turn() == 5
    assert memory.advance_turn() == 6
    assert memory.read("a/k") is None
    assert SharedMemory(expiring_store).read("a/k").value == {"x": 1}


def test_a_turn_kept_in_the_memory_counts_every_thread(plain: SharedMemory) -> None:
    """No advance is lost."""
    threads = [threading.Thread(target=lambda: [plain.advance_turn() for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert plain.turn == 2000
