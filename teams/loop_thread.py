"""An event loop in a thread of its own, for as long as it is needed."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """A running event loop. Close it: its thread does not end by itself."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._begun: set[Future[Any]] = set()
        self._cancelled = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="turnlog-agents", daemon=True)
        self._thread.start()

    def begin(self, awaitable: Awaitable[T]) -> Future[T]:
        """Let `awaitable` run as a task, in a copy of the caller's context; its result to be.

        It is cancelled at once if everything was cancelled before.
        """
        # A coroutine as it is: were it wrapped, a task cancelled before its first step would never await it.
        return self.begin_call(lambda: awaitable if inspect.iscoroutine(awaitable) else _awaited(awaitable))

    def begin_call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """`begin` with what `make` returns, which an interrupt just before thus leaves unmade."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(make(), self._loop)
        self._begun.add(future)
        future.add_done_callback(self._begun.discard)
        # Looked at after it was added: either `cancel` finds it there, or it is seen here. (Not a lock: an
        # interrupt just before its release would keep it, and whoever cleans up would wait for ever.)
        if self._cancelled:
            future.cancel()
        return future

    def cancel(self) -> None:
        """Cancel whatever runs, and whatever is begun from now on."""
        self._cancelled = True
        for future in list(self._begun):
            future.cancel()

    def close(self) -> None:
        """Cancel whatever runs, wait until it has ended, and end the loop and its thread."""
        self.cancel()
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def _stop(self) -> None:
        """End the loop once what was cancelled has cleaned up, which a second time would break off."""
        ending = [task for task in asyncio.all_tasks(self._loop) if task.cancelling()]
        if ending:
            ending[0].add_done_callback(lambda _: self._stop())
        else:
            self._closing = True
            self._loop.stop()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            loop = runner.get_loop()
            while not self._closing:
                # A task's KeyboardInterrupt or SystemExit comes out here too; whoever waits for it is told.
                with suppress(KeyboardInterrupt, SystemExit):
                    loop.run_forever()
            # Leaving the block cancels what is left, waits for it, and closes the loop.


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
