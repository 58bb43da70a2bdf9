"""Every store, held to the contract. A new store joins with one line in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from turnlog.eventlog import EventLog, Limits
from turnlog.memory import (
    AsyncEventSourcedStore,
    AsyncFileStore,
    AsyncInMemoryStore,
    EventSourcedStore,
    FileStore,
    InMemoryStore,
)
from turnlog.projections import EntriesProjection

from ..blocking import Blocking, Loop
from .store_contract import SMALL, Clock, StoreContract

Opened: TypeAlias = Callable[[Path, Clock, Limits], AbstractContextManager[Any]]


class Kind(NamedTuple):
    """A kind of store: its class, how to open an empty one in a folder, and what it cannot.

    Attributes:
        lacks: methods that `store` has and this kind has not.
        without_form: texts that it cannot keep, and refuses.
    """

    store: type
    opened: Opened
    lacks: tuple[str, ...] = ()
    without_form: tuple[str, ...] = ()

    def offers(self, method: str) -> bool:
        """Whether such a store has the method."""
        return method not in self.lacks and callable(getattr(self.store, method, None))


@contextmanager
def _on_a_log(store: Any, folder: Path, clock: Clock, limits: Limits) -> Iterator[Any]:
    projections = (EntriesProjection(),)
    file = folder / "store.db"
    with EventLog(file, projections=projections, durability="os", clock=clock, limits=limits) as log:
        yield store(log)


def _in_memory(store: Any, _: Path, clock: Clock, limits: Limits) -> AbstractContextManager[Any]:
    return nullcontext(store(clock=clock, limits=limits))


def _in_a_file(store: Any, folder: Path, clock: Clock, limits: Limits) -> AbstractContextManager[Any]:
    return store(folder / "store.json", clock=clock, limits=limits)


def _blocking(opened: Opened) -> Opened:
    """An asynchronous store, used as if it were synchronous."""

    @contextmanager
    def blocking(*given: Any) -> Iterator[Any]:
        with opened(*given) as store, Loop() as loop:
            yield Blocking(store, loop)

    return blocking


SPLIT_PAIR = ("\ud83d\ude00",)
"""What JSON cannot tell from the one character that the two halves would make."""

KINDS = {
    "in memory": Kind(InMemoryStore, partial(_in_memory, InMemoryStore)),
    "in memory, async": Kind(AsyncInMemoryStore, _blocking(partial(_in_memory, AsyncInMemoryStore))),
    "on a log": Kind(EventSourcedStore, partial(_on_a_log, EventSourcedStore)),
    "on a log, async": Kind(AsyncEventSourcedStore, _blocking(partial(_on_a_log, AsyncEventSourcedStore))),
    "in a file": Kind(FileStore, partial(_in_a_file, FileStore), without_form=SPLIT_PAIR),
    "in a file, async": Kind(
        AsyncFileStore, _blocking(partial(_in_a_file, AsyncFileStore)), without_form=SPLIT_PAIR
    ),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for the stores that have the abilities it needs."""
    if "kind" in metafunc.fixturenames:
        methods = getattr(metafunc.function, "needs", ())
        fitting = {name: kind for name, kind in KINDS.items() if all(map(kind.offers, methods))}
        metafunc.parametrize("kind", fitting.values(), ids=fitting.keys())


@pytest.fixture
def clock() -> Clock:
    """The clock of the store, standing still."""
    return Clock()


@pytest.fixture
def without_form(kind: Kind) -> tuple[str, ...]:
    """The texts that the store cannot keep."""
    return kind.without_form


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
