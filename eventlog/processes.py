"""Logs and `fork()`: a child must not inherit a SQLite connection, not even an unused one.

Inside one process SQLite shares the locks of all connections to a file, and counts them itself. A child gets
a copy of that count, but none of the locks. A connection that it opens beside an inherited one believes to be
protected and is not: when the parent closes the file, the -wal is deleted under the child, and what the child
commits from then on is lost. Closing the inherited one is no way out either
(https://www.sqlite.org/howtocorrupt.html, section 2.6).

So everything is closed before a fork. Where a thread would not let go, or Ctrl-C ended the wait for it, the
child refuses that file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

from .driver import Connection, Cursor

__all__ = ["forget", "is_inherited", "keep", "opening", "refusal", "watch"]

PATIENCE_S = 5.0
"""Seconds that a fork waits for threads that are reading, writing or opening a log."""


class Pausable(Protocol):
    """The connections of an open log."""

    def in_use_here(self) -> bool:
        """Whether the calling thread is using one."""
        ...

    def pause(self) -> bool:
        """Close all and keep others out, if nobody is using one; whether that is so, also from before."""
        ...

    def resume(self) -> None:
        """Let others in again, if this thread has paused it."""
        ...

    def renew(self) -> bool:
        """In a child: work as if new, if it was paused; whether it was."""
        ...

    def abandon(self) -> tuple[tuple[int, int], list[Connection | Cursor]]:
        """Never work again; device and inode of the file, and the connections to be kept."""
        ...


_open: WeakSet[Pausable] = WeakSet()
_opening: dict[opening, None] = {}
_inherited_files: set[tuple[int, int]] = set()
_kept: list[Connection | Cursor] = []  # a cursor keeps its connection
# Guards the first two. A fork holds it to its end, so that nothing is opened after everything was closed. It
# can be had again by the thread that has it: another hook of the fork may open a log, or close one.
_guard = threading.RLock()
# Held by a fork from the beginning: who begins to open a log meanwhile stands behind it in line.
_line = threading.RLock()


class opening:  # noqa: N801 - reads as a verb where it is used
    """Around the opening of a log, from before its first connection until after `watch`.

    A fork waits for it, as for a thread that reads; where it did not, the child refuses the file.

    Args:
        identity: device and inode of the file.
    """

    def __init__(self, identity: tuple[int, int]) -> None:
        self.identity = identity
        self.thread = threading.get_ident()

    def __enter__(self) -> None:
        """From here on forks wait."""
        with _guard:
            at_work = any(log.in_use_here() for log in _open)
        if not at_work:  # else the fork may be waiting for this very thread
            with _line:
                pass
        with _guard:
            _opening[self] = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """No longer."""
        _opening.pop(self, None)


def watch(log: Pausable) -> None:
    """Take care of `log` when this process forks."""
    with _guard:
        _open.add(log)


def forget(log: Pausable) -> None:
    """`log` has no connections any more."""
    with _guard:
        _open.discard(log)


def keep(connections: Iterable[Connection | Cursor]) -> None:
    """Keep inherited connections for ever, since they must not be closed."""
    _kept.extend(connections)


def is_inherited(identity: tuple[int, int]) -> bool:
    """Whether this process inherited a connection to the file of that device and inode."""
    return identity in _inherited_files


def refusal(path: str) -> str:
    """Why a child may not use the file at `path`."""
    return (
        f"{path} was being read or written when this process was forked, so it cannot be used safely here; "
        'fork while the log is at rest, or start processes by "spawn"'
    )


def _before() -> None:
    thread = threading.get_ident()
    deadline = time.monotonic() + PATIENCE_S
    _line.acquire()
    while True:
        _guard.acquire()
        # What this very thread is at will not end while it waits.
        logs = [log for log in _open if not log.in_use_here()]
        # All or none: whoever holds one log while waiting for another must be able to go on.
        if all(each.thread == thread for each in _opening) and all(log.pause() for log in logs):
            return
        if time.monotonic() > deadline:
            for log in logs:
                log.pause()
            return
        _resume()
        _guard.release()
        time.sleep(0.001)


def _resume() -> None:
    for log in _open:
        log.resume()


def _in_parent() -> None:
    with _guard:
        _resume()
    for lock in (_guard, _line):
        # Ctrl-C may have ended `_before` too early, or this may be the second call.
        with suppress(RuntimeError):
            lock.release()


def _in_child() -> None:
    global _guard, _line
    _guard, _line = threading.RLock(), threading.RLock()  # threads that are not here may have held them
    _inherited_files.update(each.identity for each in _opening)
    _opening.clear()
    # Each log says itself whether it was closed: Ctrl-C may have ended `_before` too early.
    for log in _open:
        if not log.renew():
            identity, connections = log.abandon()
            _inherited_files.add(identity)
            keep(connections)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
    # Once more, since Ctrl-C during the fork ends the first call before it begins.
    os.register_at_fork(after_in_parent=_in_parent)
