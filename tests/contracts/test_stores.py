"""Every store, held to the contract. A new store joins with one line in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from turnlog.eventlog import EventLog, Limits
from turnlog.memory import AsyncEventSourcedStore, AsyncInMemoryStore, EventSourcedStore, InMemoryStore
from turnlog.projections import EntriesProjection

from ..blocking import Blocking, Loop
from .store_contract import SMALL, Clock, StoreContract


class Kind(NamedTuple):
    """A kind of store: its class, and how to open an empty one in a folder."""

    store: type
    opened: Callable[[Path, Clock, Limits], AbstractContextManager[Any]]


@contextmanager
def _on_disk(store: Any, folder: Path, clock: Clock, limits: Limits) -> Iterator[Any]:
    projections = (EntriesProjection(),)
    file = folder / "store.db"
    with EventLog(file, projections=projections, durability="os", clock=clock, limits=limits) as log:
        yield store(log)


@contextmanager
def _blocking(opened: AbstractContextManager[Any]) -> Iterator[Any]:
    with opened as store, Loop() as loop:
        yield Blocking(store, loop)


KINDS = {
    "in memory": Kind(
        InMemoryStore, lambda _, clock, limits: nullcontext(InMemoryStore(clock=clock, limits=limits))
    ),
    "in memory, async": Kind(
        AsyncInMemoryStore,
        lambda _, clock, limits: _blocking(nullcontext(AsyncInMemoryStore(clock=clock, limits=limits))),
    ),
    "event-sourced": Kind(EventSourcedStore, partial(_on_disk, EventSourcedStore)),
    "event-sourced, async": Kind(
        AsyncEventSourcedStore, lambda *given: _blocking(_on_disk(AsyncEventSourcedStore, *given))
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for the stores that have the abilities it needs."""
    if "kind" in metafunc.fixturenames:
        methods = getattr(metafunc.function, "needs", ())
        fitting = {
            name: kind
            for name, kind in KINDS.items()
            if all(callable(getattr(kind.store, method, None)) for method in methods)
        }
        metafunc.parametrize("kind", fitting.values(), ids=fitting.keys())


@pytest.fixture
def clock() -> Clock:
    """The clock of the store, standing still."""
    return Clock()


@pytest.fixture
def store(kind: Kind, tmp_path: Path, clock: Clock) -> Iterator[Any]:
    """An empty store."""
    with kind.opened(tmp_path, clock, Limits()) as store:
        yield store


@pytest.fixture
def small_store(kind: Kind, tmp_path: Path, clock: Clock) -> Iterator[Any]:
    """An empty store with narrow limits."""
    with kind.opened(tmp_path, clock, SMALL) as store:
        yield store


class TestStores(StoreContract):
    """The contract, for every kind of store."""
