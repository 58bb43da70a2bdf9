"""Group commit for threads: whoever waits while one transaction is flushed goes into the next one together.

There is no writer thread. A caller that finds nobody at work commits by itself, at once; one that finds
somebody at work lines up, asleep on a lock of its own. Those who were committed together wake one another in
turn, and the last of them hands the lead to the first in line, who takes along everybody behind. So a lone
caller pays nothing for the others' sake, and many callers share each flush.
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


_PATIENCE_S = 1.0
"""Seconds after which somebody in line leads without having been asked to."""


class _Place:
    """A caller's place in the line.

    Attributes:
        leads: it is its turn to commit, for itself and those behind; or, if its own request is settled, only
            to pass that on. Given and taken under the line's mutex.
        answered: somebody else committed for it, or failed to.
        failed: why its whole group failed.
        after: who is to be woken when its caller goes.
        gone: its caller has gone, so that nothing can be granted to it any more.
        woken: held while the caller is to sleep.
    """

    __slots__ = ("after", "answered", "failed", "gone", "leads", "request", "woken")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.leads = self.answered = self.gone = False
        self.failed: BaseException | None = None
        self.after: _Place | None = None
        self.woken = threading.Lock()
        self.woken.acquire()

    def wake(self) -> None:
        """Let its caller go on; once or more often."""
        if self.woken.locked():
            self.woken.release()


class GroupCommit:
    """The line of callers who want to append.

    An interrupt (Ctrl-C) can come at any point. What was granted to a place is therefore said in it, under
    the mutex, before its caller is woken, and everything that passes on the lead can be done twice. Should
    two ever lead at once, they take turns at committing.

    Args:
        commit: decides, appends and commits requests in one transaction, and returns when they are durable.
            What it raises concerns all of them that it has not marked as settled.
    """

    def __init__(self, commit: Callable[[Sequence[Request]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._line: deque[_Place] = deque()
        self._leader: _Place | None = None

    def submit(self, request: Request) -> None:
        """Return when `request` has been decided and, if it stands, is durable.

        Raises:
            TurnlogError: its group's transaction failed; nothing of the request was written.
        """
        place = _Place(request)
        group = [place]
        try:
            with self._mutex:
                if self._leader is None:
                    place.leads, self._leader = True, place
                else:
                    self._line.append(place)
            while not (place.leads or place.answered):
                if not place.woken.acquire(timeout=_PATIENCE_S):
                    self._take_over(place)
            if place.leads and not request.settled:
                self._lead(group)
        finally:
            # Written out: an interrupt could hit a function that does this before its own `try`.
            interrupt: BaseException | None = None
            while True:
                try:
                    self._leave(group)
                    break
                except BaseException as error:  # noqa: BLE001 - raised below
                    interrupt = error
            if interrupt is not None:
                raise interrupt
        if place.failed is not None:
            raise place.failed

    def _lead(self, group: list[_Place]) -> None:
        """Commit for oneself and for those behind."""
        with self._mutex:
            while self._line and len(group) < MAX_GROUP:
                if not self._line[0].leads:  # else it is our own, which an interrupt left there
                    group.append(self._line[0])
                self._line.popleft()
        try:
            self._commit([place.request for place in group])
        except Exception as error:  # noqa: BLE001 - handed to every caller concerned, who raises it
            for place in group:
                if not place.request.settled:
                    place.failed = own(error)
                    place.request.settled = True

    def _take_over(self, place: _Place) -> None:
        """Lead, if still in line: who leads takes long, or an interrupt made him forget to pass it on."""
        with self._mutex:
            if place in self._line:
                place.leads, self._leader = True, place
                self._line.remove(place)

    def _leave(self, group: list[_Place]) -> None:
        """Go: answer those one has led, and pass on the lead, or give up one's place in the line."""
        place = group[0]
        with self._mutex:
            if len(group) > 1:
                self._answer(group)
            if place.leads:
                self._pass_on(place)
            elif not place.answered and place in self._line:
                self._line.remove(place)
            place.gone = True
        if place.after is not None:
            place.after.wake()

    def _answer(self, group: list[_Place]) -> None:
        """Tell those one has led, of whom each wakes the next, and the last passes on the lead."""
        place = group[0]
        answered = [other for other in group[1:] if other.request.settled and not other.gone]
        for one, other in zip([place, *answered], answered, strict=False):
            one.after = other
        if answered and place.leads:
            answered[-1].leads, self._leader, place.leads = True, answered[-1], False
        for other in answered:
            other.answered = True
        while len(group) > 1:
            other = group[-1]
            if not other.request.settled and other not in self._line:
                # Not written, because this thread was interrupted: it is tried again, without us.
                self._line.appendleft(other)
            group.pop()

    def _pass_on(self, place: _Place) -> None:
        # Whom the lead is given next is taken out of the line only once he has it.
        following = self._line[0] if self._line else None
        self._leader = following
        if following is not None:
            following.leads = True
            following.wake()
            self._line.popleft()
        place.leads = False


def own(error: Exception) -> Exception:
    """A copy of `error` for one of several threads to raise: a traceback belongs to one of them only."""
    copy = type(error)(*error.args) if isinstance(error, TurnlogError) else error
    if copy is not error:
        copy.__cause__ = error
    return copy
