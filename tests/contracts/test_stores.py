"""Every store, held to the contract. A new store joins with a class of a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

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
from turnlog.testing import AsyncStoreContract, Clock, StandingClock, StoreContract

SPLIT_PAIR = ("\ud83d\ude00",)
"""What JSON cannot tell from the one character that the two halves would make."""


class AtExactTimes:
    """For stores that can be given a clock."""

    @pytest.fixture
    def clock(self) -> Clock:
        """The clock of the store, standing still."""
        return StandingClock()


@contextmanager
def on_a_log(store: Any, file: Path, clock: Clock, limits: Limits) -> Iterator[Any]:
    """A store of that class, on the log in `file`."""
    projections = (EntriesProjection(),)
    with EventLog(file, projections=projections, durability="os", clock=clock, limits=limits) as log:
        yield store(log)


class TestInMemoryStore(AtExactTimes, StoreContract):
    """The store that dies with the process."""

    @pytest.fixture
    def open_store(self, clock: Clock) -> Callable[[], InMemoryStore]:
        """A new one each time."""
        return lambda: InMemoryStore(clock=clock)


class TestAsyncInMemoryStore(AtExactTimes, AsyncStoreContract):
    """Its asynchronous twin."""

    @pytest.fixture
    def open_store(self, clock: Clock) -> Callable[[], AsyncInMemoryStore]:
        """A new one each time."""
        return lambda: AsyncInMemoryStore(clock=clock)


class TestEventSourcedStore(AtExactTimes, StoreContract):
    """The store on a log."""

    durable = True

    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: Clock) -> Callable[[], AbstractContextManager[Any]]:
        """The log of the test's folder."""
        return partial(on_a_log, EventSourcedStore, tmp_path / "store.db", clock, Limits())


class TestAsyncEventSourcedStore(AtExactTimes, AsyncStoreContract):
    """Its asynchronous twin."""

    durable = True

    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: Clock) -> Callable[[], AbstractContextManager[Any]]:
        """The log of the test's folder."""
        return partial(on_a_log, AsyncEventSourcedStore, tmp_path / "store.db", clock, Limits())


@contextmanager
def redacting(decorator: Any, opened: AbstractContextManager[Any]) -> Iterator[Any]:
    """A redacting store around what is opened."""
    with opened as store:
        yield decorator(store)


class TestFileStore(AtExactTimes, StoreContract):
    """The store in a JSON file."""

    durable = True
    refuses = SPLIT_PAIR

    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: Clock) -> Callable[[], FileStore]:
        """The file of the test's folder."""
        return lambda: FileStore(tmp_path / "store.json", clock=clock)


class TestAsyncFileStore(AtExactTimes, AsyncStoreContract):
    """Its asynchronous twin."""

    durable = True
    refuses = SPLIT_PAIR

    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: Clock) -> Callable[[], AsyncFileStore]:
        """The file of the test's folder."""
        return lambda: AsyncFileStore(tmp_path / "store.json", clock=clock)


class TestRedactingStoreInMemory(AtExactTimes, StoreContract):
    """A store that masks secrets, before one in memory."""

    @pytest.fixture
    def open_store(self, clock: Clock) -> Callable[[], RedactingStore]:
        """A new one each time."""
        return lambda: RedactingStore(InMemoryStore(clock=clock))


class TestAsyncRedactingStoreInMemory(AtExactTimes, AsyncStoreContract):
    """Its asynchronous twin."""

    @pytest.fixture
    def open_store(self, clock: Clock) -> Callable[[], AsyncRedactingStore]:
        """A new one each time."""
        return lambda: AsyncRedactingStore(AsyncInMemoryStore(clock=clock))


class TestRedactingStoreOnALog(AtExactTimes, StoreContract):
    """Before one on a log."""

    durable = True

    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: Clock) -> Callable[[], AbstractContextManager[Any]]:
        """The log of the test's folder."""
        file = tmp_path / "store.db"
        return lambda: redacting(RedactingStore, on_a_log(EventSourcedStore, file, clock, Limits()))


class TestAsyncRedactingStoreOnALog(AtExactTimes, AsyncStoreContract):
    """Its asynchronous twin."""

    durable = True

    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: Clock) -> Callable[[], AbstractContextManager[Any]]:
        """The log of the test's folder."""
        file = tmp_path / "store.db"
        return lambda: redacting(AsyncRedactingStore, on_a_log(AsyncEventSourcedStore, file, clock, Limits()))


class TestRedactingStoreInAFile(AtExactTimes, StoreContract):
    """Before one in a JSON file."""

    durable = True
    refuses = SPLIT_PAIR

    @pytest.fixture
    def open_store(self, tmp_path: Path, clock: Clock) -> Callable[[], AbstractContextManager[Any]]:
        """The file of the test's folder."""
        return lambda: redacting(RedactingStore, FileStore(tmp_path / "store.json", clock=clock))


@pytest.fixture(params=["in memory", "on a log", "in a file"])
def open_limited(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Limits], Any]:
    """Opens a store that has these limits, for the time of a `with` block."""
    if request.param == "in memory":
        return lambda limits: nullcontext(InMemoryStore(limits=limits))
    if request.param == "in a file":
        return lambda limits: FileStore(tmp_path / "store.json", limits=limits)
    file = tmp_path / "store.db"
    return lambda limits: on_a_log(EventSourcedStore, file, StandingClock(), limits)


@pytest.mark.parametrize(
    ("key", "value", "metadata"),
    [
        pytest.param("é" * 9, "", None, id="key"),
        pytest.param("k", "é" * 17, None, id="value"),
        pytest.param("k", "v", {"note": "x" * 40}, id="metadata"),
    ],
)
def test_limits_are_bytes_of_utf8(
    open_limited: Callable[[Limits], Any], key: str, value: str, metadata: dict[str, Any] | None
) -> None:
    """What is larger than a limit is a ValueError that names size and limit; nothing is written."""
    with open_limited(Limits(key=16, value=32, metadata=48)) as store:
        store.set("é" * 8, "é" * 16, {"note": "x" * 35})
        with pytest.raises(ValueError, match="limit is"):
            store.set(key, value, metadata)
        assert len(store.list()) == 1


def test_a_key_may_have_4_kib(open_limited: Callable[[Limits], Any]) -> None:
    """4,096 bytes of UTF-8 are a key, 4,097 are not, unless a store is told otherwise."""
    key = "é" * 2048
    with open_limited(Limits()) as store:
        store.set(key, "v")
        assert store.get(key).value == "v"
        with pytest.raises(ValueError, match=r"4,097.*4,096"):
            store.set(key + "x", "v")
