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
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias

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

_Waiting: TypeAlias = tuple[Request, asyncio.Future[None], float]
"""Who is in line, how to answer, and since when (`time.monotonic()`)."""


class Steps(Protocol):
    """What a log offers to be driven from a loop."""

    def try_commit(self, requests: Sequence[Request]) -> None:
        """Commit `requests` without waiting for a lock longer than a moment, and without the flush.

        Those that are not settled afterwards were not written, since a lock was held.
        """
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
        self._room = asyncio.Semaphore(MAX_WAITING)
        self._line: deque[_Waiting] = deque()
        self._busy = False  # a step is scheduled, or a flush is out
        self._apart = 0  # how many at the head of the line are to be decided each in a step of its own
        self._locked_since: float | None = None
        self._lending: asyncio.TimerHandle | None = None
        self._handing_over = threading.Lock()  # guards the three below: `close` may come from any thread
        self._work: queue.SimpleQueue[list[_Waiting] | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._closed = False

    async def submit(self, request: Request) -> None:
        """Return when `request` has been decided and, if it stands, is durable.

        A task cancelled before its request was taken out of the line leaves nothing behind; cancelled later,
        its request is carried out whole.

        Raises:
            TurnlogError: its group's transaction failed; nothing of the request was written.
        """
        await self._room.acquire()
        answer: asyncio.Future[None] = self._loop.create_future()
        self._line.append((request, answer, time.monotonic()))
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._step)
        await answer

    def close(self) -> None:
        """End the worker, after what it has to do; whatever is committed later is flushed on the loop."""
        with self._handing_over:
            self._closed = True
            worker, self._worker = self._worker, None
            self._work.put(None)
        if worker is not None:
            worker.join()

    def _step(self) -> None:
        """Decide and commit for those at the head of the line."""
        group = self._take()
        if not group:
            self._busy = False
            return
        error: BaseException | None = None
        try:
            self._log.try_commit([request for request, _, _ in group])
        except BaseException as caught:  # noqa: BLE001 - told to the tasks concerned, or raised below
            error = caught
        committed = [waiting for waiting in group if waiting[0].settled]
        left = [waiting for waiting in group if not waiting[0].settled]
        interrupt = None if isinstance(error, Exception) else error
        if error is None or (interrupt is not None and len(group) > 1):
            self._line.extendleft(reversed(left))
            if interrupt is not None:
                self._apart = len(left)  # which of them raised what no command may is not known
        else:
            self._answer(left, error)
        if committed:
            self._locked_since = None
            self._make_durable(committed)
        elif error is None:
            self._wait()
        else:
            self._next()
        if interrupt is not None:
            raise interrupt

    def _take(self) -> list[_Waiting]:
        """Those to be decided together, without those who were cancelled while they waited."""
        group: list[_Waiting] = []
        most = 1 if self._apart else MAX_GROUP
        while self._line and len(group) < most:
            waiting = self._line.popleft()
            self._apart = max(0, self._apart - 1)
            if waiting[1].done():
                self._room.release()
            else:
                group.append(waiting)
        return group

    def _wait(self) -> None:
        """Somebody else holds the lock: come back in a moment, without those whose time is up."""
        now = time.monotonic()
        if self._locked_since is None:
            self._locked_since = now
        while self._line:
            error = self._log.waited_too_long(now - max(self._line[0][2], self._locked_since))
            if error is None:
                delay = _RETRY_S * (0.1 + 0.9 * random.random())  # noqa: S311 - spreads retries
                self._loop.call_later(delay, self._step)
                return
            self._answer([self._line.popleft()], error)
        self._busy, self._locked_since = False, None

    def _make_durable(self, group: list[_Waiting]) -> None:
        """Flush what was committed, and answer; if need be here and now."""
        if not self._log.flush_is_due:
            self._flushed(group, None)
            return
        with self._handing_over:
            handed_over = not self._closed and self._has_worker()
            if handed_over:
                self._work.put(group)
        if handed_over:
            self._lending = self._loop.call_later(_LEND_AFTER_S, self._lend)
        else:
            self._flushed(group, self._flush())

    def _flushed(self, group: list[_Waiting], failed: BaseException | None) -> None:
        if self._lending is not None:
            self._lending.cancel()
            self._lending = None
        self._answer(group, failed)
        self._next()

    def _answer(self, group: list[_Waiting], error: BaseException | None) -> None:
        for request, answer, _ in group:
            self._room.release()
            if answer.done():
                continue
            if error is None or (request.settled and request.error is not None):
                answer.set_result(None)  # one that failed alone is told so, whatever became of its neighbours
            elif isinstance(error, Exception):
                answer.set_exception(own(error))
            else:
                answer.cancel()

    def _next(self) -> None:
        if self._line:
            self._loop.call_soon(self._step)
        else:
            self._busy = False

    def _lend(self) -> None:
        """A loop that never rests would keep the interpreter lock from the worker: lend it for a moment."""
        time.sleep(_LEND_S)
        self._lending = self._loop.call_later(_LEND_AFTER_S, self._lend)

    # -- the worker

    def _has_worker(self) -> bool:
        if self._worker is None:
            worker = threading.Thread(target=self._run, name="turnlog-flush", daemon=True)
            try:
                worker.start()
            except RuntimeError:  # no more threads are to be had
                return False
            self._worker = worker
        return True

    def _run(self) -> None:
        while (group := self._work.get()) is not None:
            failed = self._flush()
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
                self._loop.call_soon_threadsafe(self._flushed, group, failed)

    def _flush(self) -> BaseException | None:
        try:
            self._log.flush()
        except BaseException as error:  # noqa: BLE001 - told to every task concerned
            return error
        return None
