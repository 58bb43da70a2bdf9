"""The example store of two layers answers from the exact one, and tells the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from distilling_store import DistillingStore
from rest_store import BadAnswer, Refused, Service, ServiceError, WriteUnknown

import turnlog
from turnlog import EventSourcedStore, InMemoryStore
from turnlog.testing import StoreContract

from .memory_service import MemoryService


@pytest.fixture
def store(service: MemoryService) -> DistillingStore:
    """Two layers, the exact one in memory."""
    return DistillingStore(InMemoryStore(), Service(service.url))


class TestDistillingStore(StoreContract):
    """The contract; the service is told nothing meanwhile."""

    @pytest.fixture
    def open_store(self, service: MemoryService) -> Callable[[], DistillingStore]:
        """A new one, whose exact layer is in memory."""
        return lambda: DistillingStore(InMemoryStore(), Service(service.url))


def test_the_service_is_told_once_what_was_written(store: DistillingStore, service: MemoryService) -> None:
    """Each key in its present state; what was deleted meanwhile, or is to expire, is not told."""
    store.set("writer/draft", "first")
    store.set("writer/draft", "X reduces Y")
    assert store.compare_and_set("team/plan", None, "ask about Y")
    assert not store.compare_and_set("team/plan", None, "another")
    store.set("writer/slip", "oops")
    store.delete("writer/slip")
    store.set_with_expiry("writer/hint", "soon gone", 1)
    assert store.tell() == 2
    assert sorted(each["text"] for each in service.observations.values()) == ["X reduces Y", "ask about Y"]
    assert (store.tell(), store.untold) == (0, [])


def test_what_is_recalled_is_not_what_was_written(store: DistillingStore) -> None:
    """The service answers by meaning and in its own words; by key the exact layer does."""
    store.set("writer/draft", "X reduces Y")
    assert store.recall("reduces what?") == []
    store.tell()
    assert store.recall("reduces what?") == ["Somebody noted: X reduces Y"]
    entry = store.get("writer/draft")
    assert entry is not None
    assert entry.value == "X reduces Y"


@pytest.mark.parametrize(
    ("trouble", "error"),
    [((503, b""), WriteUnknown), ("hang up", WriteUnknown), ((404, b"{}"), Refused), ((403, b"{}"), Refused)],
    ids=["503", "hangs up", "404", "403"],
)
def test_a_service_in_trouble_does_not_cost_a_write(
    store: DistillingStore, service: MemoryService, trouble: tuple[int, bytes] | str, error: type[Exception]
) -> None:
    """Writes count, what could not be told stays untold, and being told twice is no harm."""
    service.trouble = trouble
    store.set("a", "1")
    store.set("b", "2")
    with pytest.raises(error):
        store.tell()
    assert sorted(store.untold) == ["a", "b"]
    assert [entry.value for entry in store.list()] == ["1", "2"]
    service.trouble = None
    assert store.tell() == 2
    assert sorted(each["text"] for each in service.observations.values()) == ["1", "2"]


@pytest.mark.parametrize("answer", [(200, b"{}"), (200, b'{"notes": [1]}'), (404, b"{}"), (500, b"")])
def test_a_failed_recall_is_no_empty_one(
    store: DistillingStore, service: MemoryService, answer: tuple[int, bytes]
) -> None:
    """Notes come from the service or not at all."""
    service.trouble = answer
    with pytest.raises(BadAnswer if answer[0] != 500 else ServiceError):
        store.recall("anything")


def test_the_exact_layer_may_be_a_log(service: MemoryService, tmp_path: Path) -> None:
    """With a log below, what was written has its history as well."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        store = DistillingStore(EventSourcedStore(log), Service(service.url))
        store.set("writer/draft", "v")
        assert store.tell() == 1
        assert [each.event.key for each in log.read() if hasattr(each.event, "key")] == ["writer/draft"]
