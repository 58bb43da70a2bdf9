"""An event was accepted that nobody can ever read again, and every listing fails at it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from turnlog import Corrupt, SharedMemory, Timeline
from turnlog.eventlog import EventLog


def nested(depth: int) -> Any:
    """Lists in lists."""
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("make", "accepted"),
    [
        *(
            pytest.param(lambda depth=depth: nested(depth), depth <= 100, id=f"{depth} deep")
            for depth in (10, 100, 101, 200, 254, 255, 1_000, 10_000)
        ),
        *(
            pytest.param(lambda digits=digits: 10 ** (digits - 1), digits <= 4_000, id=f"{digits} digits")
            for digits in (4_000, 4_001, 4_300, 4_301)
        ),
        pytest.param(lambda: "x" * 10_000_000, True, id="10 MB of text"),
        pytest.param(lambda: {f"k{number}": number for number in range(100_000)}, True, id="100,000 keys"),
        pytest.param(lambda: "x" * (64 * 2**20 + 1), False, id="over 64 MiB"),
    ],
)
def test_whatever_is_accepted_is_read_back(
    log: EventLog, memory: SharedMemory, make: Callable[[], Any], accepted: bool
) -> None:
    """Over the documented limit it is a ValueError and nothing is stored; up to it, it reads back equal."""
    value = make()
    with contextlib.nullcontext() if accepted else pytest.raises(ValueError, match=r"deep|digits|limit"):
        memory.write("a", "k", value)
    if not accepted:
        assert memory.list_all() == []
        return
    entry = memory.read("a/k")
    assert entry is not None
    assert entry.value == value
    assert len(Timeline(log).state(all=True)) == 1
    assert sys.getrecursionlimit() < 10_000


def test_an_event_that_cannot_be_read_is_named_and_the_rest_shown(tmp_path: Any) -> None:
    """Of a file that was tampered with, the reader gets all up to the bad event, and then its position."""
    import turnlog

    path = tmp_path / "damaged.db"
    with turnlog.open(path) as log:
        store = turnlog.EventSourcedStore(log)
        store.set("a", "1")
        store.set("a", "2")
        store.set("a", "3")
        log.transact(lambda db: (db.execute("drop trigger events_no_update"), _damage(db)))
        reader = log.read()
        assert next(reader).position == 1
        with pytest.raises(Corrupt, match="position 2"):
            next(reader)
        assert [each.position for each in log.read(after=2)] == [3]


def _damage(db: Any) -> None:
    db.execute("update events set payload = 9 where position = 2")
