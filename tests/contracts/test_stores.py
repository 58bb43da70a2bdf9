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
    AsyncRedactingStore,
    EventSourcedStore,
    FileStore,
    InMemoryStore,
    RedactingStore,
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


def _redacting(decorator: Any, opened: Opened) -> Opened:
    """A store within a redacting one."""

    @contextmanager
    def redacting(*given: Any) -> Iterator[Any]:
        with opened(*given) as store:
            yield decorator(store)

    return redacting


def _blocking(opened: Opened) -> Opened:
    """An asynchronous store, used as if it were synchronous."""

    @contextmanager
    def blocking(*given: Any) -> Iterator[Any]:
        with opened(*given) as store, Loop() as loop:
            yield Blocking(store, loop)

    return blocking


SPLIT_PAIR = ("\ud83d\ude00",)
"""What JSON cannot tell from the one character that the two halves would make."""

_OPENED: dict[str, tuple[type, Opened]] = {
    "in memory": (InMemoryStore, partial(_in_memory, InMemoryStore)),
    "on a log": (EventSourcedStore, partial(_on_a_log, EventSourcedStore)),
    "in a file": (FileStore, partial(_in_a_file, FileStore)),
}
_OPENED_ASYNC: dict[str, tuple[type, Opened]] = {
    "in memory": (AsyncInMemoryStore, partial(_in_memory, AsyncInMemoryStore)),
    "on a log": (AsyncEventSourcedStore, partial(_on_a_log, AsyncEventSourcedStore)),
    "in a file": (AsyncFileStore, partial(_in_a_file, AsyncFileStore)),
}


def _kinds() -> Iterator[tuple[str, Kind]]:
    for name in _OPENED:
        without_form = SPLIT_PAIR if name == "in a file" else ()
        store, opened = _OPENED[name]
        yield name, Kind(store, opened, (), without_form)
        within = _redacting(RedactingStore, opened)
        yield f"{name}, redacting", Kind(store, within, ("compare_and_set",), without_form)
        store, opened = _OPENED_ASYNC[name]
        yield f"{name}, async", Kind(store, _blocking(opened), (), without_form)
        if name == "in a file":
            continue  # nothing new, and slow
        within = _blocking(_redacting(AsyncRedactingStore, opened))
        yield f"{name}, redacting, async", Kind(store, within, ("compare_and_set",), without_form)


KINDS = dict(_kinds())


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
