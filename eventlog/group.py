"""Group commit for threads: whoever waits while one transaction is flushed goes into the next one together.

There is no writer thread. A caller that finds nobody at work commits by itself, at once; one that finds
somebody at work lines up, asleep on a lock of its own. Whoever has finished commits leads the next: it hands
the lead to the first in line, who takes along everybody behind. So a lone caller pays nothing for the others'
sake, and many callers share each flush.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from .errors import TurnlogError
from .writer import Request

__all__ = ["GroupCommit", "own"]

MAX_GROUP = 1024
"""Requests committed together at most: bounds how long the write lock is held."""


class _Place:
    """A caller's place in the line."""

    __slots__ = ("done", "failed", "request", "woken")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.done = False  # answered, by whoever led
        self.failed: BaseException | None = None  # why its whole group failed
        self.woken = threading.Lock()
        self.woken.acquire()


class GroupCommit:
    """The line of callers who want to append.

    Args:
        commit: decides, appends and commits requests in one transaction, and returns when they are durable.
            What it raises concerns all of them that it has not marked as settled.
    """

    def __init__(self, commit: Callable[[Sequence[Request]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._line: deque[_Place] = deque()
        self._led = False

    def submit(self, request: Request) -> None:
        """Return when `request` has been decided and, if it stands, is durable.

        Raises:
            TurnlogError: its group's transaction failed; nothing of the request was written.
        """
        alone = False
        place = None
        try:
            with self._mutex:
                alone = not self._led
                if alone:
                    self._led = True
                else:
                    place = _Place(request)
                    self._line.append(place)
            if place is None:
                self._commit((request,))
        finally:
            if alone:
                self._pass_on()
        if place is not None:
            self._wait(place)

    def _wait(self, place: _Place) -> None:
        try:
            place.woken.acquire()
        except BaseException:  # Ctrl-C in the middle of waiting
            self._leave(place)
            raise
        if not place.done:
            self._lead(place)
        if place.failed is not None:
            raise place.failed

    def _lead(self, first: _Place) -> None:
        """Commit for oneself and for those behind."""
        group = [first]
        try:
            with self._mutex:
                group += [self._line.popleft() for _ in range(min(len(self._line), MAX_GROUP - 1))]
            self._commit([place.request for place in group])
        except Exception as error:  # noqa: BLE001 - handed to every caller concerned, who raises it
            for place in group:
                if not place.request.settled:
                    place.failed = own(error)
                    place.request.settled = True
        finally:
            # What is not settled was not written, because this thread was interrupted: it is tried again.
            again = [place for place in group[1:] if not place.request.settled]
            with self._mutex:
                self._line.extendleft(reversed(again))
            for place in group[1:]:
                if place.request.settled:
                    place.done = True
                    place.woken.release()
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the first in line lead; nobody if there is none."""
        with self._mutex:
            if self._line:
                self._line.popleft().woken.release()
            else:
                self._led = False

    def _leave(self, place: _Place) -> None:
        """Give up a place in the line; if it has been taken along already, see that the line goes on."""
        with self._mutex:
            if place in self._line:
                self._line.remove(place)
                return
        place.woken.acquire()
        if not place.done:
            self._pass_on()


def own(error: Exception) -> Exception:
    """A copy of `error` for one of several threads to raise: a traceback belongs to one of them only."""
    copy = type(error)(*error.args) if isinstance(error, TurnlogError) else error
    if copy is not error:
        copy.__cause__ = error
    return copy
