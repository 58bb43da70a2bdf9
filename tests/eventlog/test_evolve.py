"""`evolve`: what a key holds after one more event, told event by event."""

from __future__ import annotations

import pytest

from turnlog.eventlog import (
    Entry,
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    Event,
    NothingChanged,
    Recorded,
    Redacted,
    Restored,
    RunForked,
    Seal,
    TurnAdvanced,
    TurnSet,
    WriteRefused,
    evolve,
)
from turnlog.eventlog.codec import CODES

BEFORE = Entry(key="k", version=4, content=3, birth=2, created_at=1000, expires_at_turn=9)


def recorded(event: Event) -> Recorded:
    """The event at position 20, revision 10, at 5000 milliseconds."""
    return Recorded(20, "main", 10, 0, 7, None, None, 5000, event, bytes(32))


_CHANGES = [
    pytest.param(EntryWritten("k", "v"), Entry("k", 20, 10, 10, 5000, None), id="a new life"),
    pytest.param(
        EntryWritten("k", "v", expires_at_turn=8, birth=2),
        Entry("k", 20, 10, 2, 1000, 8),
        id="a life goes on",
    ),
    pytest.param(
        EntryWritten("k", "v", created_at=3), Entry("k", 20, 10, 10, 3, None), id="a life put back by value"
    ),
    pytest.param(EntryRestored("k", 1, 1, 6, 5), Entry("k", 20, 1, 1, 6, 5), id="a life put back"),
    pytest.param(EntryDeleted("k"), None, id="a death"),
]
_OTHERS: list[Event] = [
    TurnAdvanced(7),
    TurnSet(7),
    Restored(7, 1),
    RunForked("a" * 32, 9, 7),
    WriteRefused("k", "key exists", 4, Seal(1, bytes(32), bytes(16))),
    NothingChanged(),
    Redacted(((3, bytes(32)),), (), "k"),
]


@pytest.mark.parametrize(("event", "after"), _CHANGES)
def test_a_change_tells_all_that_its_key_holds(event: Event, after: Entry | None) -> None:
    """Of what was there before, only the time at which a life that goes on began is kept."""
    assert evolve(BEFORE, recorded(event)) == after


@pytest.mark.parametrize("event", _OTHERS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("before", [BEFORE, None], ids=["an entry", "nothing"])
def test_marks_and_notes_change_no_entry(event: Event, before: Entry | None) -> None:
    """A turn, a fork, a restore by itself, a refusal or a redaction leaves every key as it was."""
    assert evolve(before, recorded(event)) == before


def test_every_type_of_event_has_a_meaning() -> None:
    """The two tests above leave no type out."""
    assert {type(case.values[0]) for case in _CHANGES} | {type(event) for event in _OTHERS} == set(CODES)
