"""Group commit for asyncio: everything on the loop but the flush, which one worker thread does.

The first write that waits schedules a step: it takes what is in line, begins, decides, appends and commits on
the loop (with early release, see docs/adr/0007-early-release.md, that takes no flush), and hands the flush to
the worker. When it is back, everybody is answered, and the next step takes who has come meanwhile. At most
one flush is out at a time. A writer thread in place of this would need the interpreter lock a hundred times a
group, and a busy loop would let it have none of them.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from .group import own
from .writer import Request

__all__ = ["AsyncGroupCommit", "Steps"]

MAX_GROUP = 128
"""Requests decided in one step at most: a step holds up the loop for a few milliseconds at worst."""

MAX_WAITING = 10_000
"""Writes in line above which further writers wait before they are put in line."""

_RETRY_S = 0.001
_LEND_AFTER_S = 0.001
_LEND_S = 0.00005


class Steps(Protocol):
    """What a log offers to be driven from a loop."""

    def try_commit(self, requests: list[Request]) -> bool:
        """Commit `requests` without waiting for any lock, and without the flush; False if one was held."""
        ...

    def flush(self) -> None:
        """Make durable what was committed; may take as long as the disk likes."""
        ...

    @property
    def flush_is_due(self) -> bool:
        """Whether `flush` has anything to do after the commit just made."""
        ...

    def waited_too_long(self, seconds: float) -> Exception | None:
        """What to tell somebody who has waited that long for the lock; None if it is not too long."""
        ...


class AsyncGroupCommit:
    """The line of tasks of one event loop that want to append."""

    def __init__(self, log: Steps, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._loop = loop
        self._line: deque[tuple[Request, asyncio.Future[None]]] = deque()
        self._busy = False  # a step is scheduled, or a flush is out
        self._waiting_since: float | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._lending: asyncio.TimerHandle | None = None

    async def submit(self, request: Request) -> None:
        """Return when `request` has been decided and, if it stands, is durable.

        A task cancelled before its request was taken out of the line leaves nothing behind; cancelled later,
        its request is carried out whole.

        Raises:
            TurnlogError: its group's transaction failed; nothing of the request was written.
        """
        while len(self._line) >= MAX_WAITING:
            self._room.clear()
            await self._room.wait()
        answer: asyncio.Future[None] = self._loop.create_future()
        self._line.append((request, answer))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._step)
        await answer

    def close(self) -> None:
        """Let the worker end."""
        self._work.put(None)

    def _step(self) -> None:
        group = self._take()
        if not group:
            self._busy = False
            return
        requests = [request for request, _ in group]
        try:
            committed = self._log.try_commit(requests)
        except BaseException as error:
            self._fail(group, error)
            self._next()
            if not isinstance(error, Exception):
                raise
            return
        if committed:
            self._waiting_since = None
            if self._log.flush_is_due:
                self._hand_over(group)
            else:
                self._flushed(group, None)
        else:
            self._wait(group)

    def _take(self) -> list[tuple[Request, asyncio.Future[None]]]:
        group: list[tuple[Request, asyncio.Future[None]]] = []
        while self._line and len(group) < MAX_GROUP:
            request, answer = self._line.popleft()
            if not answer.done():  # else it was cancelled while it waited
                group.append((request, answer))
        if len(self._line) < MAX_WAITING:
            self._room.set()
        return group

    def _wait(self, group: list[tuple[Request, asyncio.Future[None]]]) -> None:
        """Somebody else holds the lock: come back in a moment, unless the time is up."""
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        error = self._log.waited_too_long(now - self._waiting_since)
        if error is not None:
            self._waiting_since = None
            self._fail(group, error)
            self._next()
            return
        self._line.extendleft(reversed(group))
        self._loop.call_later(_RETRY_S * (0.1 + 0.9 * random.random()), self._step)  # noqa: S311 - spreads retries

    def _hand_over(self, group: list[tuple[Request, asyncio.Future[None]]]) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._run, name="turnlog-flush", daemon=True)
            self._worker.start()

        def flush() -> None:
            failed: Exception | None = None
            try:
                self._log.flush()
            except Exception as error:  # noqa: BLE001 - told to every task concerned
                failed = error
            self._loop.call_soon_threadsafe(self._flushed, group, failed)

        self._work.put(flush)
        self._lending = self._loop.call_later(_LEND_AFTER_S, self._lend)

    def _flushed(self, group: list[tuple[Request, asyncio.Future[None]]], failed: Exception | None) -> None:
        if self._lending is not None:
            self._lending.cancel()
        if failed is not None:
            self._fail(group, failed)
        else:
            for _, answer in group:
                if not answer.done():
                    answer.set_result(None)
        self._next()

    def _next(self) -> None:
        if self._line:
            self._loop.call_soon(self._step)
        else:
            self._busy = False

    def _fail(self, group: list[tuple[Request, asyncio.Future[None]]], error: BaseException) -> None:
        for _, answer in group:
            if not answer.done():
                if isinstance(error, Exception):
                    answer.set_exception(own(error))
                else:
                    answer.cancel()

    def _lend(self) -> None:
        """A loop that never rests would keep the interpreter lock from the worker: lend it for a moment."""
        time.sleep(_LEND_S)
        self._lending = self._loop.call_later(_LEND_AFTER_S, self._lend)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
