"""The connections of one open log: one that writes, those that read, and how they get past a `fork()`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import Any, TypeVar

from . import processes
from .database import Database
from .driver import Connection, Cursor, driver
from .errors import Closed, StorageError

__all__ = ["Connections", "Reading"]

T = TypeVar("T")

_KNOCK_S = 0.003
"""Seconds that `write` holds back for a `try_write` that was turned away."""


class Reading:
    """A loan of a reading connection; written out, since most reads go through it."""

    __slots__ = ("_connections", "_cursor", "_thread")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> Connection:
        self._thread = get_ident()
        self._cursor = self._connections.borrow(self._thread)
        return self._cursor.connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.give_back(self._cursor, self._thread, error)


class Connections:
    """Lends the connections of a log to its threads. Readers are kept and lent again.

    Before the process forks, every connection is closed, if need be after a short wait for threads that are
    reading or writing, and each side opens its own when it next needs one: a child must not inherit any
    (`processes`). Where that cannot be had, the child's object refuses to work.

    Args:
        database: the file.
        first: the connection that prepared it.
    """

    def __init__(self, database: Database, first: Connection) -> None:
        self._database = database
        self._writing = threading.Lock()
        self._nobody_knocks = _set_event()
        self._somebody_knocks = False  # the same, to be asked in less time
        self._writer = None if database.read_only else first
        self._writing_thread: int | None = None
        self._pool = threading.Lock()  # held by those who bar the way, and those who find it barred
        # Each is kept with a cursor of its own, since to make one takes as long as a seek.
        self._readers = [first.cursor()] if database.read_only else []
        if database.as_it_lies:
            self._readers.pop().connection.close()
        self._reading_threads: list[int] = []  # one item for each connection lent
        self._closed = False
        self._abandoned = False
        self._barred = False  # closed, abandoned, or about to fork
        self._pausing_thread: int | None = None  # the one that is forking; then nothing is open
        if processes.is_inherited(database.identity):  # the process was forked since `first` was made
            processes.keep([first])
            raise StorageError(processes.refusal(database.shown))
        processes.watch(self)

    def reading(self) -> Reading:
        """A connection for reading, in nobody else's hands until the `with` block ends.

        Raises (at its beginning, or in the block):
            Closed: the log was closed.
            Busy, StorageError, Corrupt: what SQLite reports, in our terms.
        """
        return Reading(self)

    def ask(self, query: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """All rows of one query, by a connection as `reading` lends it, in less time."""
        thread = get_ident()
        cursor = self.borrow(thread)
        try:
            rows = cursor.execute(query, parameters).fetchall()
        except BaseException as error:
            self.give_back(cursor, thread, error)
            raise
        self.give_back(cursor, thread, None)
        return rows

    def borrow(self, thread: int) -> Cursor:
        """A cursor, with its connection, for `reading` or `ask` by `thread`; `give_back` must follow."""
        # Without the lock, which takes a tenth of a read: a list's own methods are atomic, and who says that
        # he reads, and then looks whether he may, is not missed by those who bar the way and then look.
        reads = True  # said first each time, since an interrupt can follow each of these calls
        try:
            self._reading_threads.append(thread)
            if self._barred:
                reads = False
                self._reading_threads.remove(thread)
                with self._pool:
                    self._check()
                    reads = True
                    self._reading_threads.append(thread)
            try:
                return self._readers.pop()
            except IndexError:
                return self._database.connect().cursor()
        except BaseException:
            if reads:
                self._reading_threads.remove(thread)
            raise

    def give_back(self, cursor: Cursor, thread: int, error: BaseException | None) -> None:
        """Return what was borrowed by `thread`; `error` is raised in our terms if SQLite raised it."""
        db = cursor.connection
        if error is None and not (self._barred or db.in_transaction or self._database.as_it_lies):
            try:
                self._readers.append(cursor)
            finally:
                self._reading_threads.remove(thread)  # last: now a fork finds all of them at home
            if self._closed:  # meanwhile
                self._close_readers()
            return
        with self._pool:
            self._reading_threads.remove(thread)
            if self._abandoned:
                processes.keep([cursor])
            elif self._closed or db.in_transaction or self._database.as_it_lies:
                # Whoever borrows next must not see a past moment.
                db.close()
            elif error is None:
                self._readers.append(cursor)
            else:
                cursor.close()  # it may stand in the middle of what it was reading, and see a past moment
                self._readers.append(db.cursor())
        if error is not None and isinstance(error, driver().Error):
            raise self._database.error(error) from error

    def write(self, action: Callable[[Connection], T]) -> T:
        """Carry out `action` with the writing connection, in nobody else's hands until it ends.

        Raises:
            Closed, StorageError: the log was closed, or opened to be read only.
        """
        if self._somebody_knocks:
            self._nobody_knocks.wait(_KNOCK_S)
            self._let_in()
        with self._writing:
            return self._write(action)

    def try_write(self, action: Callable[[Connection], T]) -> T:
        """`write`, unless somebody else of this process is writing.

        Who was turned away is let in before the next `write`, if he comes soon: threads that write without a
        pause would else keep out for ever who cannot stand in line with them.

        Raises:
            Busy: somebody is.
        """
        if not self._writing.acquire(blocking=False):
            self._knock()
            raise self._database.busy()
        try:
            if self._somebody_knocks:
                self._let_in()
            return self._write(action)
        finally:
            self._writing.release()

    def close(self) -> None:
        """Release the file, after a write of another thread has ended; closing twice is fine."""
        with self._writing, self._pool:
            if not self._closed:
                self._closed = self._barred = True
                self._release()
                processes.forget(self)

    def in_use_here(self) -> bool:
        """Whether this very thread is reading or writing, so that it must not wait for itself to end."""
        thread = get_ident()
        return self._writing_thread == thread or thread in self._reading_threads

    def pause(self) -> bool:
        """Before a fork: close everything and let nobody in, unless it is in use; whether that is done."""
        thread = get_ident()
        if self._pausing_thread == thread:
            return True
        if not self._writing.acquire(blocking=False):
            self._knock()  # the next who would write lets us in before
            return False
        try:
            if not self._pool.acquire(blocking=False):
                return False
            try:
                self._barred = True
                if not self._reading_threads:
                    self._release()
                    self._pausing_thread = thread  # last: it says that nothing is open
                    return True
            finally:
                if self._pausing_thread is None:
                    self._barred = self._closed or self._abandoned
                    self._pool.release()
        finally:
            if self._pausing_thread is None:
                self._writing.release()
        return False

    def resume(self) -> None:
        """After a fork, in the parent: let everybody in again, if this thread has paused it."""
        if self._pausing_thread == get_ident():
            self._pausing_thread = None
            self._barred = self._closed or self._abandoned
            self._pool.release()
            self._writing.release()

    def renew(self) -> bool:
        """In a child: forget what threads of the parent may have held, if it was paused; whether it was."""
        if self._pausing_thread is None:
            return False
        self._new_locks()
        self._reading_threads = []  # they were about to turn back before the barrier, and are not here
        self._barred = self._closed
        self._database.renew()
        return True

    def abandon(self) -> tuple[tuple[int, int], list[Connection | Cursor]]:
        """In a child, where the parent could not pause: never work again.

        Returns:
            The file's device and inode, and the inherited connections, to be kept and never closed.
        """
        self._abandoned = self._barred = True
        self._new_locks()
        inherited: list[Connection | Cursor] = [*self._readers]
        inherited += [] if self._writer is None else [self._writer]
        self._writer, self._readers = None, []
        return self._database.identity, inherited

    def _knock(self) -> None:
        self._nobody_knocks.clear()
        self._somebody_knocks = True  # last, so that who sees it finds the event as it says

    def _let_in(self) -> None:
        self._somebody_knocks = False  # first, for the same reason
        self._nobody_knocks.set()

    def _write(self, action: Callable[[Connection], T]) -> T:
        if self._closed or self._abandoned:
            self._check()
        if self._database.read_only:
            raise StorageError(f"{self._database.shown} was opened to be read only; nothing was written")
        if self._writer is None:
            self._writer = self._database.connect(writing=True)
        self._writing_thread = get_ident()
        try:
            return action(self._writer)
        finally:
            self._writing_thread = None

    def _new_locks(self) -> None:
        self._writing, self._pool = threading.Lock(), threading.Lock()
        self._nobody_knocks, self._somebody_knocks = _set_event(), False
        self._pausing_thread = None

    def _check(self) -> None:
        if self._closed:
            raise Closed(f"{self._database.shown} was closed; open it again")
        if self._abandoned:
            raise StorageError(processes.refusal(self._database.shown))

    def _release(self) -> None:
        self._database.release()
        self._close_readers()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _close_readers(self) -> None:
        """Close those that are not lent; others may take some away meanwhile."""
        with suppress(IndexError):
            while True:
                self._readers.pop().connection.close()


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event
