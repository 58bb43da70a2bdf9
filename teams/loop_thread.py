"""An event loop in a thread of its own, for as long as it is needed."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """A running event loop. Close it: its thread does not end by itself."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._begun: set[Future[Any]] = set()
        self._cancelled = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="turnlog-agents", daemon=True)
        self._thread.start()

    def begin(self, awaitable: Awaitable[T]) -> Future[T]:
        """Let `awaitable` run as a task, in a copy of the caller's context; its result to be.

        It is not begun, and its result cancelled, if everything was cancelled before.
        """
        # A coroutine as it is: were it wrapped, a task cancelled before its first step would never await it.
        coroutine = awaitable if inspect.iscoroutine(awaitable) else _awaited(awaitable)
        with self._lock:
            if not self._cancelled:
                future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
                self._begun.add(future)
                future.add_done_callback(self._begun.discard)
                return future
        coroutine.close()
        cancelled: Future[T] = Future()
        cancelled.cancel()
        return cancelled

    def cancel(self) -> None:
        """Cancel whatever runs, and begin nothing more."""
        with self._lock:
            self._cancelled = True
            begun = list(self._begun)
        for future in begun:
            future.cancel()

    def close(self) -> None:
        """Cancel whatever runs, wait until it has ended, and end the loop and its thread."""
        self.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
            # Leaving the block cancels what is left, waits for it, and closes the loop.


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
