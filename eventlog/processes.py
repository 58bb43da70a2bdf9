"""Logs and `fork()`: a child must neither use nor close a SQLite connection of its parent.

Closing one would drop the parent's POSIX locks (https://www.sqlite.org/howtocorrupt.html, section 2.6), so
the child keeps the inherited connections for ever and opens its own when it needs one.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from .driver import Connection

__all__ = ["forget", "watch"]


class Forkable(Protocol):
    """An open log."""

    def after_fork(self) -> tuple[Connection, ...]:
        """Let go of the inherited connections; returns them."""
        ...


_open: WeakSet[Forkable] = WeakSet()
_inherited: list[tuple[Connection, ...]] = []


def watch(log: Forkable) -> None:
    """Take care of `log` in children forked from now on."""
    _open.add(log)


def forget(log: Forkable) -> None:
    """`log` was closed."""
    _open.discard(log)


def _in_child() -> None:
    _inherited.extend(log.after_fork() for log in list(_open))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
