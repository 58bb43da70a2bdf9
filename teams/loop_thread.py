"""An event loop in a thread of its own, for as long as it is needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """A running event loop. Close it: its thread does not end by itself."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._begun: set[Future[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="turnlog-agents", daemon=True)
        self._thread.start()

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Let `coroutine` run as a task, in a copy of the caller's context; its result to be."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        self._begun.add(future)
        future.add_done_callback(self._begun.discard)
        return future

    def cancel(self) -> None:
        """Cancel whatever runs."""
        for future in list(self._begun):
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
