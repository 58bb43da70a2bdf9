"""The ways in which a store can be given to the contract, and that it is let go of after each test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from typing import Any, Self

import pytest

from turnlog.memory import AsyncInMemoryStore, InMemoryStore
from turnlog.testing import AsyncStoreContract, StoreContract


class Noting(InMemoryStore):
    """A store that notes when it is closed."""

    def __init__(self, closed: list[str]) -> None:
        super().__init__()
        self.closed = closed

    def close(self) -> None:
        """Close it."""
        self.closed.append("closed")


class Entered(Noting):
    """One that is a context manager itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OnItsLoop(AsyncInMemoryStore):
    """A store that can be used on the loop on which it was opened only, as clients of servers are."""

    def __init__(self, closed: list[str]) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.closed = closed

    async def list(self) -> list[Any]:
        """Every entry."""
        assert asyncio.get_running_loop() is self.loop
        return await super().list()

    async def aclose(self) -> None:
        """Close it."""
        assert asyncio.get_running_loop() is self.loop
        self.closed.append("closed")


class AsyncEntered(OnItsLoop):
    """One that is an asynchronous context manager itself."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@contextmanager
def in_a_block(closed: list[str]) -> Generator[Noting]:
    """For a `with` block."""
    with closing(Noting(closed)) as store:
        yield store


@asynccontextmanager
async def in_an_async_block(closed: list[str]) -> AsyncGenerator[OnItsLoop]:
    """For an `async with` block."""
    async with aclosing(OnItsLoop(closed)) as store:
        yield store


async def awaited(closed: list[str]) -> AsyncEntered:
    """A coroutine that gives a context manager."""
    return AsyncEntered(closed)


class WaysToOpen:
    """What the tests of both colours share."""

    @pytest.fixture
    def closed(self) -> list[str]:
        """What was closed."""
        return []

    @pytest.fixture
    def open_store(self, way: Any, closed: list[str]) -> Callable[[], Any]:
        """Opens a store in that way."""
        return lambda: way(closed)

    def open_twice(self, opened: Any, closed: list[str]) -> None:
        """Each store is a new one, is used in its block, and closed at its end, however that comes."""
        for number in (1, 2):
            with opened() as store:
                store.set("a", str(number))
                assert [entry.value for entry in store.list()] == [str(number)]
                assert len(closed) == number - 1
            assert len(closed) == number
        with pytest.raises(ZeroDivisionError), opened():
            raise ZeroDivisionError  # as in a test that fails
        assert len(closed) == 3


class TestWaysToOpen(WaysToOpen):
    """Those of a synchronous store."""

    opened = StoreContract.opened

    @pytest.mark.parametrize("way", [Entered, in_a_block, lambda closed: closing(Noting(closed))])
    def test_a_store_is_closed_after_use(self, opened: Any, closed: list[str]) -> None:
        """A context manager is entered and left, whether it is the store or gives one."""
        self.open_twice(opened, closed)

    @pytest.mark.parametrize("way", [lambda _: {}, lambda _: InMemoryStore, lambda _: AsyncInMemoryStore()])
    def test_what_is_no_store_is_refused(self, opened: Any) -> None:
        """A dict, a class and a store of the other colour are told apart from a broken store."""
        with pytest.raises(TypeError, match=r"is a class|lacks|AsyncStoreContract"), opened():
            pass


class TestAsyncWaysToOpen(WaysToOpen):
    """Those of an asynchronous store."""

    opened = AsyncStoreContract.opened

    @pytest.mark.parametrize("way", [AsyncEntered, in_an_async_block, awaited])
    def test_a_store_is_closed_after_use(self, opened: Any, closed: list[str]) -> None:
        """All happens on one loop, which ends with the block."""
        self.open_twice(opened, closed)

    @pytest.mark.parametrize("way", [lambda _: {}, lambda _: AsyncInMemoryStore, lambda _: InMemoryStore()])
    def test_what_is_no_store_is_refused(self, opened: Any) -> None:
        """A dict, a class and a store of the other colour are told apart from a broken store."""
        with pytest.raises(TypeError, match=r"is a class|lacks|use StoreContract"), opened():
            pass
