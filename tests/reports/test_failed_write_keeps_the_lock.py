"""A write that fails half-way locks everybody out, or commits its first half.

`tests/crash/test_mutators.py` does this to every statement of every method.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from turnlog import EventSourcedStore, SharedMemory, Write
from turnlog.eventlog import EventLog
from turnlog.eventlog.driver import driver

from .conftest import others_can_write


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        pytest.param(lambda: Write("b", object()), TypeError, id="a value that is no text"),  # type: ignore[arg-type]
        pytest.param(lambda: Write("b", "v", {"x": {1}}), TypeError, id="metadata that is no JSON"),
        pytest.param(lambda: Write("b", "v", expected_version=7), ValueError, id="a condition that fails"),
    ],
)
def test_one_bad_item_in_a_batch(
    path: Path, log: EventLog, store: EventSourcedStore, bad: Any, error: type[Exception]
) -> None:
    """The error is about the item, nothing of the batch is there, and everybody can write at once."""
    store.set("a", "before")
    for _ in range(2):
        with pytest.raises(error):
            store.execute([Write("a", "half"), bad(), Write("c", "half")])
        others_can_write(path)
        assert [(entry.key, entry.value) for entry in store.list()] == [("a", "before")]
    assert store.set("a", "after") >= 2


def test_a_trigger_that_fails_in_the_middle(path: Path, log: EventLog, store: EventSourcedStore) -> None:
    """What the database itself refuses comes through as it is, and the next write works."""
    store.set("a", "before")
    refuse = (
        "create trigger refuse before insert on events when new.value = 'bad'"
        " begin select raise(abort, 'refused by the test'); end"
    )
    log.transact(lambda db: db.execute(refuse))
    with pytest.raises(Exception, match="refused by the test") as caught:
        store.execute([Write("b", "good"), Write("c", "bad"), Write("d", "good")])
    assert not isinstance(caught.value, driver().Error)
    others_can_write(path)
    assert [entry.key for entry in store.list()] == ["a"]
    store.set("b", "good")
    log.transact(lambda db: db.execute("drop trigger refuse"))


def test_memory_that_cannot_encode_a_value(memory: SharedMemory, path: Path) -> None:
    """Values are encoded before anything is locked."""
    with pytest.raises(TypeError, match=r"\$\.scores\[2\]"):
        memory.write("a", "k", {"scores": [1, 2, object()]})
    others_can_write(path)
    assert memory.list_all() == []
