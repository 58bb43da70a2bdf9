"""Asynchronous objects used as if they were synchronous, so that one suite of tests holds both twins."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterable, Coroutine
from types import TracebackType
from typing import Any, Self

from turnlog.memory import AsyncSharedMemory


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

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The result of a task of the loop; it runs in a copy of the calling thread's context."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=60)


class Blocking:
    """An asynchronous store, memory or agent's view; a method of it waits for a task on `loop`.

    An asynchronous generator gives an iterator over all it yields, and `turn` is `get_turn()`.
    """

    def __init__(self, inner: Any, loop: Loop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        if name == "turn" and isinstance(self._inner, AsyncSharedMemory):
            return self._loop.run(self._inner.get_turn())
        found = getattr(self._inner, name)
        if inspect.iscoroutinefunction(found):
            return lambda *given, **named: self._loop.run(found(*given, **named))
        if inspect.isasyncgenfunction(found):
            return lambda *given, **named: iter(self._loop.run(_all(found(*given, **named))))
        if name == "agent":
            return lambda *given, **named: Blocking(found(*given, **named), self._loop)
        return Blocking(found, self._loop) if name in ("store", "memory") else found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocking) and self._inner is other._inner

    __hash__ = None  # type: ignore[assignment]

    def __enter__(self) -> Self:
        _at_once(self._inner.__aenter__())  # in the calling thread, whose context it changes
        return self

    def __exit__(self, *error: object) -> None:
        _at_once(self._inner.__aexit__(*error))


async def _all(things: AsyncIterable[Any]) -> list[Any]:
    return [each async for each in things]


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that waits for nothing, here and now."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")
