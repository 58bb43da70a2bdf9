"""A memory in the other colour: so that a function and a coroutine function can share one team."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Collection, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, cast

from ..memory.async_shared import AsyncSharedMemory
from ..memory.contract import OPTIONAL, REQUIRED, AsyncMemoryStore, MemoryStore
from ..memory.shared import SharedMemory

__all__ = ["as_asynchronous", "as_synchronous", "asynchronous_store", "drained", "in_thread"]

T = TypeVar("T")

_TURN = ("get_turn", "advance_turn", "set_turn")


def as_asynchronous(memory: SharedMemory) -> AsyncSharedMemory:
    """`memory` for coroutines: same store, same turn. What is asked of the store is done in threads."""
    return AsyncSharedMemory(cast("AsyncMemoryStore", _InThreads(memory)))


def asynchronous_store(store: MemoryStore | AsyncMemoryStore) -> AsyncMemoryStore:
    """`store` for coroutines; what is asked of a synchronous one is done in threads."""
    if inspect.iscoroutinefunction(store.get):
        return cast("AsyncMemoryStore", store)
    return as_asynchronous(SharedMemory(cast("MemoryStore", store))).store


def as_synchronous(memory: AsyncSharedMemory, loop: asyncio.AbstractEventLoop) -> SharedMemory:
    """`memory` for threads: same store, same turn. What is asked of the store is done on `loop`."""
    return SharedMemory(cast("MemoryStore", _OnLoop(memory, loop)))


async def in_thread(pool: Executor | None, work: Callable[[], T]) -> T:
    """What `work` gives, done in a thread, which cannot be interrupted.

    Raises:
        CancelledError: this task was cancelled meanwhile; `work` has ended nevertheless.
    """
    future = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        try:
            await drained([future])
        finally:
            _throw_away(future)
        raise


async def drained(futures: Collection[asyncio.Future[Any]]) -> None:
    """Wait until `futures` are done, whatever comes of them.

    Raises:
        CancelledError: this task was cancelled meanwhile; they are done nevertheless.
    """
    cancelled: asyncio.CancelledError | None = None
    while left := [future for future in futures if not future.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _throw_away(future: asyncio.Future[Any]) -> None:
    """Let go of what nobody is going to await."""
    if not future.cancelled() and future.exception() is None and inspect.iscoroutine(future.result()):
        future.result().close()


class _Bridge:
    """The methods of a memory's store, those it has, each made into one of the other colour.

    The turn is the memory's, since that may keep it in place of the store.
    """

    def __init__(self, memory: SharedMemory | AsyncSharedMemory) -> None:
        self._memory = memory

    def __getattr__(self, name: str) -> Any:
        if name not in REQUIRED and name not in OPTIONAL:
            raise AttributeError(f"a store has no {name!r}")
        if name == "get_turn" and isinstance(self._memory, SharedMemory):
            return self._turned(name, functools.partial(getattr, self._memory, "turn"))
        return self._turned(name, getattr(self._memory if name in _TURN else self._memory.store, name))

    def _turned(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        raise AssertionError(f"{name} of {method!r}: each colour has its own way")


class _InThreads(_Bridge):
    def _turned(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def asked(*given: Any, **named: Any) -> Any:
            context = contextvars.copy_context()
            return await in_thread(None, functools.partial(context.run, method, *given, **named))

        async def scanned(*given: Any, **named: Any) -> AsyncGenerator[Any]:
            for each in await asked(*given, **named):
                yield each

        return scanned if name == "scan" else asked


class _OnLoop(_Bridge):
    def __init__(self, memory: AsyncSharedMemory, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(memory)
        self._loop = loop

    def _turned(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        if name == "scan":
            return lambda *given, **named: iter(self._wait(_all(method(*given, **named))))
        return lambda *given, **named: self._wait(method(*given, **named))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            coroutine.close()
            raise RuntimeError(
                "this memory is for threads and would wait for the loop it is used on; make the agent's "
                "run a coroutine function (async def)"
            )
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


async def _all(things: AsyncIterable[T]) -> list[T]:
    return [each async for each in things]
