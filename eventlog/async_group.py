"""Group commit for asyncio: everything on the loop but the flush, which one worker thread does.

The first write that waits schedules a step: it takes what is in line, begins, decides, appends and commits on
the loop (with early release, see docs/adr/0007-early-release.md, that takes no flush), and hands the flush to
the worker. When it is back, those whom it covered are answered, and the next step takes who has come
meanwhile. One flush is out at a time; while it is, one more group is committed if many are in line, to be
covered by the next (docs/adr/0021-what-tasks-wait-for.md). A writer thread in place of this would need the
interpreter lock a hundred times a group, and a busy loop would let it have none of them.

What was written is moved from the WAL into the file by another thread, while writes go on.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias

from .group import own
from .writer import Request

__all__ = ["AsyncGroupCommit", "Steps"]

MAX_GROUP = 128
"""Requests decided in one step at most: a step holds up the loop for a few milliseconds at worst."""

WORTH_A_COMMIT = 64
"""Requests in line for which a commit is worth it while a flush is out; fewer wait for more to come."""

MAX_WAITING = 10_000
"""Writes in line above which further writers wait before they are put in line."""

_RETRY_S = 0.001
"""Seconds, at most, to the next try for a lock that somebody holds."""

_LEND_AFTER_S = 0.001
_LEND_S = 0.00005
"""Seconds after which, and for which, the interpreter lock is lent to the worker."""

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
        """Whether a commit is durable only after `flush`."""
        ...

    def checkpoint(self) -> None:
        """Move the WAL into the file; may take as long as the disk likes."""
        ...

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether the WAL has grown so far that it is to be moved."""
        ...

    @property
    def checkpoint_is_late(self) -> bool:
        """Whether the WAL has grown so far while it is moved that writers are to wait for that."""
        ...

    def waited_too_long(self, seconds: float) -> Exception | None:
        """What to tell somebody who has waited that long for the lock; None if it is not too long."""
        ...


class AsyncGroupCommit:
    """The line of tasks of one event loop that want to append."""

    def __init__(self, log: Steps, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._loop = loop
        self._inside = 0  # how many were let in and are not answered
        self._outside: deque[asyncio.Future[None]] = deque()  # those who wait to be let in
        self._line: deque[_Waiting] = deque()
        self._step_is_due = False  # one is scheduled
        self._committed: list[_Waiting] = []  # to be covered by the next flush
        self._flushing: list[_Waiting] = []  # covered by the one that is out
        self._apart = 0  # how many at the head of the line are to be decided each in a step of its own
        self._locked_since: float | None = None
        self._lending: asyncio.TimerHandle | None = None
        self._handing_over = threading.Lock()  # guards the four below: `close` may come from any thread
        self._work: queue.SimpleQueue[list[_Waiting] | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._mover: threading.Thread | None = None
        self._closed = False

    def submit(self, request: Request) -> Awaitable[None]:
        """What to await at once: it ends when `request` has been decided and, if it stands, is durable.

        A task cancelled before its request was taken out of the line leaves nothing behind; cancelled later,
        its request is carried out whole.

        Raises:
            TurnlogError: its group's transaction failed; nothing of the request was written.
        """
        if self._inside >= MAX_WAITING or self._outside:
            return self._submit_from_outside(request)
        self._inside += 1
        return self._line_up(request)

    def close(self) -> None:
        """End the threads, after what they have to do; whatever is committed later is flushed on the loop."""
        with self._handing_over:
            self._closed = True
            ending, self._worker, self._mover = (self._worker, self._mover), None, None
            self._work.put(None)
        for thread in ending:
            if thread is not None:
                thread.join()

    # -- the way in and out

    async def _submit_from_outside(self, request: Request) -> None:
        await self._enter()
        await self._line_up(request)

    def _line_up(self, request: Request) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = self._loop.create_future()
        self._line.append((request, answer, time.monotonic()))
        if not self._step_is_due and (not self._flushing or len(self._line) >= WORTH_A_COMMIT):
            self._next()
        return answer

    async def _enter(self) -> None:
        """Wait for a place inside; those who leave hand theirs over in the order people came."""
        place: asyncio.Future[None] = self._loop.create_future()
        self._outside.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it had been given one already
                self._leave(1)
            raise

    def _leave(self, count: int) -> None:
        self._inside -= count
        while self._outside and self._inside < MAX_WAITING:
            place = self._outside.popleft()
            if not place.done():
                self._inside += 1
                place.set_result(None)

    # -- steps

    def _next(self) -> None:
        """See that those in line get their turn, if this is the moment for it."""
        if not self._step_is_due and self._line and self._is_worth_it():
            self._step_is_due = True
            self._loop.call_soon(self._step)

    def _is_worth_it(self) -> bool:
        """Whether to commit now, rather than together with those who come while a flush is out."""
        return not self._flushing or (not self._committed and len(self._line) >= WORTH_A_COMMIT)

    def _step(self) -> None:
        """Decide and commit for those at the head of the line."""
        self._step_is_due = False
        if self._log.checkpoint_is_late:
            self._wait()
            return
        group = self._take()
        if not group:
            return
        error: BaseException | None = None
        try:
            self._log.try_commit([waiting[0] for waiting in group])
        except BaseException as caught:  # noqa: BLE001 - told to the tasks concerned, or raised below
            error = caught
        left = [waiting for waiting in group if not waiting[0].settled]
        committed = [waiting for waiting in group if waiting[0].settled] if left else group
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
        self._next()
        if interrupt is not None:
            raise interrupt

    def _take(self) -> list[_Waiting]:
        """Those to be decided together, without those who were cancelled while they waited."""
        line, group = self._line, list[_Waiting]()
        most = 1 if self._apart else MAX_GROUP
        while line and len(group) < most:
            waiting = line.popleft()
            if self._apart:
                self._apart -= 1
            if waiting[1].done():
                self._leave(1)
            else:
                group.append(waiting)
        return group

    def _wait(self) -> None:
        """Somebody else is at it: come back in a moment, without those whose time is up."""
        now = time.monotonic()
        if self._locked_since is None:
            self._locked_since = now
        while self._line:
            error = self._log.waited_too_long(now - max(self._line[0][2], self._locked_since))
            if error is None:
                self._step_is_due = True
                delay = _RETRY_S * (0.1 + 0.9 * random.random())  # noqa: S311 - spreads retries
                self._loop.call_later(delay, self._step)
                return
            self._answer([self._line.popleft()], error)
        self._locked_since = None

    def _answer(self, group: list[_Waiting], error: BaseException | None) -> None:
        self._leave(len(group))
        for request, answer, _ in group:
            if answer.done():
                continue
            if error is None or (request.settled and request.error is not None):
                answer.set_result(None)  # one that failed alone is told so, whatever became of its neighbours
            elif isinstance(error, Exception):
                answer.set_exception(own(error))
            else:
                answer.cancel()

    # -- flushes

    def _make_durable(self, group: list[_Waiting]) -> None:
        """Let the next flush cover what was committed; if none is out, that begins now."""
        if self._log.checkpoint_is_due:
            self._move()
        if not self._log.flush_is_due:
            self._answer(group, None)
            return
        self._committed += group
        if not self._flushing:
            self._begin_flush()

    def _begin_flush(self) -> None:
        """Hand the flush for all who are committed to the worker, or if need be do it here and now."""
        group, self._committed = self._committed, []
        with self._handing_over:
            handed_over = not self._closed and self._has_worker()
            if handed_over:
                self._flushing = group
                self._work.put(group)
        if handed_over:
            self._lending = self._loop.call_later(_LEND_AFTER_S, self._lend)
        else:
            self._answer(group, self._flush())

    def _flushed(self, group: list[_Waiting], failed: BaseException | None) -> None:
        self._flushing = []
        if self._lending is not None:
            self._lending.cancel()
            self._lending = None
        if self._committed:
            self._begin_flush()
        self._answer(group, failed)
        self._next()

    def _lend(self) -> None:
        """A loop that never rests would keep the interpreter lock from the worker: lend it for a moment."""
        time.sleep(_LEND_S)
        self._lending = self._loop.call_later(_LEND_AFTER_S, self._lend)

    # -- threads

    def _has_worker(self) -> bool:
        if self._worker is None:
            self._worker = _started(self._run, "turnlog-flush")
        return self._worker is not None

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

    def _move(self) -> None:
        """Let the WAL be moved into the file, by a thread of its own, or if need be here and now."""
        with self._handing_over:
            if self._mover is not None and self._mover.is_alive():
                return
            self._mover = None if self._closed else _started(self._log.checkpoint, "turnlog-checkpoint")
            moving = self._mover is not None
        if not moving:
            self._log.checkpoint()


def _started(work: Callable[[], None], name: str) -> threading.Thread | None:
    """A thread that does `work`; None if no more threads are to be had."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
