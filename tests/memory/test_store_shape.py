"""What is not a store is refused when it is handed over."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from turnlog.memory import InMemoryStore, SharedMemory


class Half:
    """An object that lacks three methods, and has a fourth that cannot be called."""

    list = "not callable"

    def get(self, key: str) -> None:
        """Nothing."""

    def clear(self) -> None:
        """Nothing."""


class Asynchronous:
    """A store of the other colour."""

    async def get(self, key: str) -> None:
        """Nothing."""

    async def set(self, key: str, value: str, metadata: Any = None) -> None:
        """Nothing."""

    async def list(self) -> list[Any]:
        """Nothing."""
        return []

    async def delete(self, key: str) -> None:
        """Nothing."""

    async def clear(self) -> None:
        """Nothing."""


class HalfAsynchronous(InMemoryStore):
    """A store whose compare-and-set would always seem to win: a coroutine is true."""

    async def compare_and_set(self, *arguments: Any) -> bool:  # type: ignore[override]
        """Never."""
        return False


class PartlyAsynchronous(InMemoryStore):
    """A store with a scan that is an asynchronous generator."""

    async def scan(self, *arguments: Any) -> Any:  # type: ignore[override]
        """Nothing."""
        yield 1


def test_no_store_means_a_new_one_in_memory() -> None:
    """Two memories without a store share nothing."""
    first, second = SharedMemory(), SharedMemory()
    assert isinstance(first.store, InMemoryStore)
    first.write("a", "k", "v")
    assert second.list_all() == []


def test_the_store_is_handed_back() -> None:
    """`store` is the very object that was given, even one that looks empty."""

    class Sized(InMemoryStore):
        def __len__(self) -> int:
            return 0

    store = Sized()
    assert SharedMemory(store).store is store


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(Half(), "lacks set, list, delete", id="methods missing"),
        pytest.param(json.loads('{"get": 1}'), "lacks set, list, delete", id="dict from JSON"),
        pytest.param([], "lacks get, set, list, delete", id="list"),
        pytest.param("store.db", "lacks get, set, list, delete, clear", id="path"),
        pytest.param(0, "lacks", id="zero"),
        pytest.param(False, "lacks", id="False"),
        pytest.param(InMemoryStore, "InMemoryStore is a class; pass an instance", id="class"),
        pytest.param(functools.partial(InMemoryStore), "lacks", id="factory"),
        pytest.param(Asynchronous(), "use AsyncSharedMemory", id="coroutines"),
        pytest.param(HalfAsynchronous(), r"compare_and_set.*use AsyncSharedMemory", id="one coroutine"),
        pytest.param(PartlyAsynchronous(), r"scan.*use AsyncSharedMemory", id="asynchronous generator"),
    ],
)
def test_what_is_no_store_is_refused_at_construction(wrong: Any, message: str) -> None:
    """A TypeError says what is missing or what to use instead."""
    with pytest.raises(TypeError, match=message):
        SharedMemory(wrong)


def test_a_store_that_turns_out_to_be_asynchronous_is_named() -> None:
    """Coroutines behind ordinary decorators pass the check of shapes; the first use says what they are."""

    class Decorated:
        def __getattr__(self, name: str) -> Any:
            if name not in ("get", "set", "list", "delete", "clear"):
                raise AttributeError(name)

            async def method(*_: object) -> None:
                return None

            return lambda *arguments: method(*arguments)

    with pytest.raises(TypeError, match="use AsyncSharedMemory"):
        SharedMemory(Decorated()).write("agent", "k", "v")
