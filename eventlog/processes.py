"""Logs and `fork()`: a child must not inherit a SQLite connection, not even an unused one.

Inside one process SQLite shares the locks of all connections to a file, and counts them itself. A child gets
a copy of that count, but none of the locks. A connection that it opens beside an inherited one believes to be
protected and is not: when the parent closes the file, the -wal is deleted under the child, and what the child
commits from then on is lost. Closing the inherited one is no way out either
(https://www.sqlite.org/howtocorrupt.html, section 2.6).

So everything is closed before a fork. Where a thread would not let go, the child refuses that file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from typing import Protocol
from weakref import WeakSet

from .driver import Connection

__all__ = ["forget", "is_inherited", "keep", "refusal", "watch"]

PATIENCE_S = 5.0
"""Seconds that a fork waits for threads that are reading or writing."""


class Pausable(Protocol):
    """The connections of an open log."""

    def in_use_here(self) -> bool:
        """Whether the calling thread is using one."""
        ...

    def pause(self) -> bool:
        """Close all and keep others out, if nobody is using one; whether that was done."""
        ...

    def resume(self) -> None:
        """Let others in again."""
        ...

    def renew(self) -> None:
        """In a child: forget what threads of the parent, which are not here, may have held."""
        ...

    def abandon(self) -> tuple[tuple[int, int], list[Connection]]:
        """Never work again; device and inode of the file, and the connections to be kept."""
        ...


_open: WeakSet[Pausable] = WeakSet()
_paused: list[Pausable] = []
_missed: list[Pausable] = []
_inherited_files: set[tuple[int, int]] = set()
_kept: list[Connection] = []
_forking = threading.Lock()


def watch(log: Pausable) -> None:
    """Take care of `log` when this process forks."""
    _open.add(log)


def forget(log: Pausable) -> None:
    """`log` was closed."""
    _open.discard(log)


def keep(connections: Iterable[Connection]) -> None:
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
    _forking.acquire()
    logs = list(_open)
    _missed.extend(log for log in logs if log.in_use_here())
    waiting = [log for log in logs if log not in _missed]
    deadline = time.monotonic() + PATIENCE_S
    # All or none: whoever holds one log while waiting for another must be able to go on.
    while not _pause_all(waiting):
        if time.monotonic() > deadline:
            _missed.extend(log for log in waiting if not _pause_one(log))
            return
        time.sleep(0.001)


def _pause_all(logs: list[Pausable]) -> bool:
    if all(map(_pause_one, logs)):
        return True
    _resume()
    return False


def _pause_one(log: Pausable) -> bool:
    paused = log.pause()
    if paused:
        _paused.append(log)
    return paused


def _resume() -> None:
    while _paused:
        _paused.pop().resume()


def _in_parent() -> None:
    _resume()
    _missed.clear()
    _forking.release()


def _in_child() -> None:
    for log in _missed:
        identity, connections = log.abandon()
        _inherited_files.add(identity)
        keep(connections)
    for log in _paused:
        log.renew()
    _in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
