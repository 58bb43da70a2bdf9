"""An asynchronous store used as if it were synchronous, so that one suite of tests holds both kinds."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

__all__ = ["Blocking", "Loop"]

T = TypeVar("T")

_PATIENCE_S = 60


class Loop:
    """An event loop that runs in a thread of its own for as long as the `with` block lasts."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a task of the loop; it runs in a copy of the calling thread's context.

        Raises:
            TimeoutError: there was none within a minute.
        """
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=_PATIENCE_S)


class Blocking:
    """An asynchronous store; a method of it waits for a task on `loop`.

    An asynchronous generator gives an iterator over all it yields.

    Args:
        inner: the store.
        loop: the loop on which its methods run.
    """

    def __init__(self, inner: Any, loop: Loop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if inspect.iscoroutinefunction(found):
            return functools.partial(self._awaited, found)
        if inspect.isasyncgenfunction(found):
            return functools.partial(self._gathered, found)
        return found

    def _awaited(self, method: Callable[..., Coroutine[Any, Any, Any]], *given: Any, **named: Any) -> Any:
        return self._loop.run(method(*given, **named))

    def _gathered(
        self, method: Callable[..., AsyncIterable[Any]], *given: Any, **named: Any
    ) -> Iterator[Any]:
        return iter(self._loop.run(_all(method(*given, **named))))


async def _all(things: AsyncIterable[T]) -> list[T]:
    return [each async for each in things]
