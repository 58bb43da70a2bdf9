"""A slow read, change and write erases what somebody else wrote meanwhile, and nobody is told."""

from __future__ import annotations

import pytest

import turnlog
from turnlog import Conflict, EventSourcedStore, SharedMemory, Timeline, acting_as
from turnlog.eventlog import EntryWritten, EventLog, WriteRefused


def test_a_stale_compare_and_set_changes_nothing(log: EventLog, store: EventSourcedStore) -> None:
    """Who read before the other wrote is told no, and the attempt is kept."""
    store.set("plan", "old")
    read = store.get("plan")
    assert read is not None
    store.set("plan", "old + b")
    assert store.compare_and_set("plan", read.value, "old + a") is False
    with pytest.raises(Conflict) as caught:
        SharedMemory(store).write("team", "plan", "x", expected_version=1)
    assert (caught.value.expected, caught.value.found) == (1, 0)
    entry = store.get("plan")
    assert entry is not None
    assert entry.value == "old + b"
    assert [type(each.event) for each in Timeline(log).history("plan")] == [
        EntryWritten,
        EntryWritten,
        WriteRefused,
    ]


def test_a_plain_set_is_the_last_writers_and_both_stay_visible(
    log: EventLog, store: EventSourcedStore
) -> None:
    """A set overwrites whatever it had read, says so, and the history has both with writer and position."""
    for name in ("a", "b"):
        with acting_as(name):
            store.set("plan", f"by {name}")
    found = [
        (each.position, each.agent, each.event.value)
        for each in Timeline(log).history("plan")
        if isinstance(each.event, EntryWritten)
    ]
    assert found == [(1, "a", "by a"), (2, "b", "by b")]
    assert "last writer wins" in (turnlog.EventSourcedStore.set.__doc__ or "")
