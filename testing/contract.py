"""The whole suite, and the fixtures through which it gets at a store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from typing import Any, ClassVar, TypeAlias

import pytest

from ..memory.contract import check_store
from .blocking import Blocking, Loop
from .clocks import Clock, WallClock
from .compare_and_set import CompareAndSetRules
from .entries import EntryRules
from .execute import ExecuteRules
from .expiry import ExpiryRules
from .model import ModelRules
from .names_and_types import TypeRules
from .reopening import ReopeningRules
from .rules import abilities_of
from .scanning import ScanRules
from .texts import TextRules
from .turns import TurnRules
from .versions import VersionRules

__all__ = ["AsyncStoreContract", "StoreContract"]

Opened: TypeAlias = Callable[[], AbstractContextManager[Any]]


class StoreContract(
    EntryRules,
    TextRules,
    TypeRules,
    ModelRules,
    CompareAndSetRules,
    ExpiryRules,
    ScanRules,
    ExecuteRules,
    VersionRules,
    TurnRules,
    ReopeningRules,
):
    """The contract of a `MemoryStore`: a test class takes it over and gives the fixture `open_store`.

    The fixture's value is a function without arguments (the store's class, if that needs none) that gives a
    store. If what it gives is a context manager it is entered, and left after the test. Its first store must
    be empty, in every test anew.

    Attributes:
        durable: whether what `open_store` gives later in the same test holds what an earlier store held.
        refuses: texts that the store's form has no place for, and which it refuses with a ValueError.
    """

    durable: ClassVar[bool] = False
    refuses: ClassVar[tuple[str, ...]] = ()

    @pytest.fixture
    def open_store(self) -> Callable[[], Any]:
        """A function that gives a store; to be replaced."""
        name = type(self).__qualname__
        pytest.fail(
            f"{name} must define a fixture `open_store`, whose value is a function that gives a store"
        )

    @pytest.fixture
    def clock(self) -> Clock:
        """The clock that the store reads; to be replaced (`StandingClock`) where a store can be given one."""
        return WallClock()

    @pytest.fixture
    def opened(self, open_store: Callable[[], Any]) -> Opened:
        """A function that opens a store for the time of a `with` block."""

        @contextmanager
        def opened() -> Generator[Any]:
            with ExitStack() as stack:
                given = open_store()
                store = stack.enter_context(given) if hasattr(given, "__enter__") else given
                check_store(store, asynchronous=False, twin="AsyncStoreContract")
                yield store

        return opened

    @pytest.fixture
    def store(self, request: pytest.FixtureRequest, opened: Opened) -> Iterator[Any]:
        """An empty store; a test about an ability that it lacks is skipped."""
        with opened() as store:
            for ability in abilities_of(request.function):
                if getattr(store, ability, None) is None:
                    pytest.skip(f"the store has no {ability}")
            yield store


class AsyncStoreContract(StoreContract):
    """The same contract for an `AsyncMemoryStore`.

    `open_store` gives a function, or a coroutine function, which is called on the event loop on which the
    store is then used; what it gives may be an asynchronous context manager as well.
    """

    @pytest.fixture
    def opened(self, open_store: Callable[[], Any]) -> Opened:
        """A function that opens a store for the time of a `with` block, to be used without awaiting."""

        async def entered(stack: AsyncExitStack) -> Any:
            given = open_store()
            if inspect.isawaitable(given):
                given = await given
            if hasattr(given, "__aenter__"):
                return await stack.enter_async_context(given)
            return stack.enter_context(given) if hasattr(given, "__enter__") else given

        @contextmanager
        def opened() -> Generator[Any]:
            with Loop() as loop:
                stack = AsyncExitStack()
                try:
                    store = loop.run(entered(stack))
                    check_store(store, asynchronous=True, twin="StoreContract")
                    yield Blocking(store, loop)
                finally:
                    loop.run(stack.aclose())

        return opened
