"""The file: who may open it, how connections are made, and the one kind of write transaction there is."""

from __future__ import annotations

import os
import random
import stat
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar, cast

from .driver import Connection, Error, driver, is_busy, is_refused, storage_error
from .errors import Busy, NotOurs, OutcomeUnknown, StorageError, TooNew, TurnlogError
from .processes import is_inherited, keep, refusal
from .schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION

__all__ = ["CHECKPOINT_FRAMES", "Database", "Durability"]

Durability = Literal["disk", "os"]
T = TypeVar("T")

CHECKPOINT_FRAMES = 3_500
"""Pages in the WAL from which on it is moved into the file: more than SQLite's own 1,000, since the pages
that many commits change, those of the indexes, are then moved once instead of three times."""

_CAN_FLUSH = sys.platform == "linux"
_SHORTEST_WAIT_S = 0.000_05
_WAIT_SPREAD_S = 0.000_35
"""Seconds to the next try for the lock: at least, and at most how much more."""

_MOMENT_S = 0.000_5
"""Seconds that somebody waits for the lock who is not patient."""


# One statement, so that a file being created by somebody else is seen wholly before or wholly after.
_IDENTITY = """
select
    (select application_id from pragma_application_id),
    (select user_version from pragma_user_version),
    (select count(*) from sqlite_schema)
"""


class Database:
    """One log file and how to connect to it.

    Args:
        path: the file. A str or path-like; any name that the file system allows.
        durability: `"disk"`: a commit returns once it is flushed (synchronous=FULL), and survives a power
            cut; `"os"`: once the operating system has it (NORMAL), and survives a killed process only.
        busy_timeout_s: seconds to wait for another writer before `Busy`.
        read_only: never write a byte of the file.
        create: make the file, with mode 0600, if it is missing.

    Raises:
        TypeError, ValueError: a path or an option that cannot be.
        StorageError: the file is missing, a folder, or cannot be opened.
        NotOurs, TooNew, Corrupt: the file is not one this build can work with; it is left untouched.

    Attributes:
        identity: device and inode of the file.
        as_it_lies: it was read without locks, since in its place SQLite could not put what it locks with.
            Such a connection never sees what others write, which can spoil what it reads meanwhile.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "disk",
        busy_timeout_s: float = 5.0,
        read_only: bool = False,
        create: bool = True,
    ) -> None:
        self.path = _checked_path(path)
        # SQLite follows links, and keeps -wal and -journal beside the file they lead to.
        self._file_text = os.path.realpath(self.path)
        self._file = Path(self._file_text)
        if durability not in ("disk", "os"):
            raise ValueError(f'durability must be "disk" or "os", not {durability!r}')
        if not isinstance(busy_timeout_s, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"busy_timeout_s must be a number of seconds, not {busy_timeout_s!r:.80}")
        if not 0 <= busy_timeout_s <= 1_000_000:
            raise ValueError(
                f"busy_timeout_s must lie within 0 and 1,000,000 seconds, not {busy_timeout_s!r}"
            )
        self.durability: Durability = durability
        self.busy_timeout_s = busy_timeout_s
        self.read_only = read_only
        self._makes = create and not read_only
        # Where we can flush the WAL ourselves, the lock is free meanwhile; else SQLite flushes in COMMIT.
        self._flushes = durability == "disk" and _CAN_FLUSH
        self._wal: int | None = None
        self._flushing = threading.Lock()  # guards the two: a descriptor must not be closed under a flush
        self._released = True  # no writing connection is open, so that the WAL is not sure to stay
        self.as_it_lies = False
        self._broken: OutcomeUnknown | None = None  # a flush has failed
        self.identity = self._find(create=self._makes)

    @property
    def shown(self) -> str:
        """The path, as messages show it."""
        return str(self.path)

    def prepare(self, projections: Callable[[Connection], None]) -> Connection:
        """Identify the file, lift it to the present format, let `projections` set up; its first connection.

        Everything that writes happens in one transaction, and what is there is looked at again inside it, so
        that any number of processes may do this to one file at the same moment.
        """
        self._look()
        db = self.connect(writing=not self.read_only)
        try:
            with self.errors():
                version = self._retry(lambda: self._identify(db))
                if version == 0 and not self._makes:
                    raise NotOurs(f"{self.shown} is empty: no turnlog has been written there")
                if self.read_only:
                    return db
                self._retry(lambda: db.execute("pragma journal_mode = wal").fetchone())
            self.transact(db, lambda: self._lift(db, projections))
        except BaseException:
            if not is_inherited(self.identity):
                db.close()
            raise
        return db

    def connect(self, *, writing: bool = False) -> Connection:
        """A new connection with this log's settings; it may be used by any thread, one at a time.

        Args:
            writing: it does not wait for locks by itself, since `begin` does.

        Raises:
            Busy, StorageError, Corrupt: what SQLite reports, or another file lies at the path by now.
        """
        self._check_in_place()
        with self.errors():
            try:
                return self._open(immutable=False, writing=writing)
            except driver().OperationalError as error:
                # A WAL file that nobody writes can be read in a place where SQLite cannot put its -shm file,
                # but only without locks: not for an error of any other kind.
                unfinished = self._left("-wal") or self._left("-journal")
                if is_refused(error) and not os.access(self._file, os.R_OK):
                    raise StorageError(f"{self.shown} cannot be opened: Permission denied") from error
                if not self.read_only or unfinished or not is_refused(error):
                    raise
                db = self._open(immutable=True, writing=False)
                self.as_it_lies = True
                return db

    def transact(self, db: Connection, action: Callable[[], T]) -> T:
        """Carry out `action` in a write transaction of `db`, its lock taken at the start; all or nothing.

        A function, since an interrupt can hit a context manager after its block and before its own end, and
        would leave the transaction open.

        Raises:
            Busy: the lock was not to be had in time; nothing happened.
            StorageError: the disk is full, …; nothing was written. Or this process was forked in the action.
            OutcomeUnknown: the commit's flush failed.
        """
        try:
            self.begin(db)  # inside try: an interrupt just after it must roll back too
            result = action()
            if is_inherited(self.identity):  # forked in the action, and so without the lock
                raise StorageError(refusal(self.shown))
            self.commit(db)
        except BaseException as error:  # cancellation and Ctrl-C included
            if is_inherited(self.identity):
                keep([db])  # neither its locks nor its shared memory are this process's to touch
            else:
                self.roll_back(db)
            if isinstance(error, driver().Error):
                raise self.error(error) from error
            raise
        self.flush()
        return result

    def begin(self, db: Connection, *, patient: bool = True) -> None:
        """Begin a write transaction, its lock taken at once, waiting for it up to the limit if `patient`.

        Else it is waited for half a millisecond, about as long as another process needs to come to its end.

        SQLite's own wait backs off so far that a writer who never pauses starves everybody else; short waits
        of random length give every process its share (docs/adr/0007-early-release.md).

        Raises:
            sqlite3.OperationalError: busy beyond the limit, or anything else.
            StorageError: an earlier flush has failed, so that nothing more is written.
        """
        if self._broken is not None:
            raise StorageError(
                f"{self.shown}: an earlier flush failed, so nothing more is written here; open the log again"
            ) from self._broken
        self._check_in_place()
        if db.in_transaction:  # an interrupt hit an earlier one while it was being rolled back
            db.execute("rollback")
        limit = self.busy_timeout_s if patient else min(self.busy_timeout_s, _MOMENT_S)
        deadline = None
        while True:
            try:
                db.execute("begin immediate")
            except driver().OperationalError as error:
                now = time.monotonic()
                deadline = now + limit if deadline is None else deadline
                if not is_busy(error) or now >= deadline:
                    raise
            else:
                return
            time.sleep(_SHORTEST_WAIT_S + random.random() * _WAIT_SPREAD_S)  # noqa: S311 - guards nothing

    def commit(self, db: Connection) -> None:
        """Commit; `flush` makes it durable.

        Raises:
            StorageError: the disk is full, …; nothing was written.
            OutcomeUnknown: SQLite's own flush failed.
        """
        try:
            db.execute("commit")
        except driver().Error as error:
            raise self.error(error, committing=True) from error

    def roll_back(self, db: Connection) -> None:
        """End the transaction, if there is still one: a full disk has rolled back by itself."""
        if db.in_transaction:
            db.execute("rollback")

    def purge(self, db: Connection) -> bool:
        """Leave no copy of a row that is gone: neither in the WAL nor between the rows of a page.

        `secure_delete` overwrites what is deleted, but not where a row lay before it was moved to a page
        beside; so every page is written anew.

        Returns:
            False if somebody else was reading or writing for longer than was to be waited.

        Raises:
            StorageError: the disk is full, …
        """
        with self.errors():
            # First, since a reader that stays would make the WAL hold the whole file, again and again.
            return self._emptied(db) and self._rewritten(db) and self._emptied(db)

    def _rewritten(self, db: Connection) -> bool:
        try:
            self._retry(lambda: db.execute("vacuum"))
        except driver().Error as error:
            if not is_busy(error):
                raise
            return False
        return True

    def _emptied(self, db: Connection) -> bool:
        """Whether the WAL could be moved into the file and cut off."""
        deadline = time.monotonic() + self.busy_timeout_s
        while True:
            busy, _, _ = db.execute("pragma wal_checkpoint(truncate)").fetchone()
            if not busy or time.monotonic() > deadline:
                return not busy
            time.sleep(0.001 + random.random() * 0.009)  # noqa: S311 - spreads retries, guards nothing

    @property
    def flushes(self) -> bool:
        """Whether a commit is durable only after `flush`."""
        return self._flushes

    def flush(self) -> None:
        """Return when everything committed so far survives a power cut, if that was promised.

        Raises:
            OutcomeUnknown: it could not be flushed.
        """
        if not self._flushes:
            return
        with self._flushing:
            # After a failure the system may take lost pages for written, and let the next flush succeed.
            if self._broken is not None:
                raise OutcomeUnknown(*self._broken.args) from self._broken
            try:
                if self._wal is None:
                    wal = os.open(f"{self._file}-wal", os.O_RDONLY | os.O_CLOEXEC)
                    if self._released:
                        # Nothing of ours is open: this WAL may be removed, and another begun in its place.
                        try:
                            os.fdatasync(wal)
                        finally:
                            os.close(wal)
                        return
                    self._wal = wal
                os.fdatasync(self._wal)
            except FileNotFoundError:
                return  # a WAL goes only when all that was in it has been moved into the file, and flushed
            except OSError as error:
                self._broken = OutcomeUnknown(
                    f"{self.shown}: what was committed could not be flushed ({error.strerror}), so it may or "
                    "may not survive; nothing more is written until the log is opened again"
                )
                raise self._broken from error

    def release(self) -> None:
        """Let go of the WAL; call before the writing connection is closed."""
        with self._flushing:
            self._released = True
            if self._wal is not None:
                os.close(self._wal)
                self._wal = None

    def renew(self) -> None:
        """In a forked child: forget a lock that a thread of the parent may have held."""
        self._flushing = threading.Lock()

    def busy(self) -> Busy:
        """The error of somebody who has waited for the lock as long as was allowed."""
        return Busy(
            f"{self.shown}: another writer held the lock for more than {self.busy_timeout_s:g} s; "
            "try again (a program can wait for longer, with a greater busy_timeout_s)"
        )

    def error(self, error: BaseException, *, committing: bool = False) -> TurnlogError:
        """What an error of SQLite's means for this file."""
        return storage_error(
            cast("Error", error), self.shown, busy_timeout_s=self.busy_timeout_s, committing=committing
        )

    @contextmanager
    def errors(self) -> Generator[None]:
        """Turn what SQLite raises in the block into errors of ours."""
        try:
            yield
        except driver().Error as error:
            raise self.error(error) from error

    def _check_in_place(self) -> None:
        """Refuse to go on with a file that is no longer at its path: what is written would be lost."""
        found = self._stat()
        if found is None or found.st_ino != self.identity[1] or found.st_dev != self.identity[0]:
            raise StorageError(f"{self.shown} was moved or replaced since it was opened; open it again")

    def __del__(self) -> None:
        """Close what a log that was never closed left open."""
        if getattr(self, "_wal", None) is not None:
            os.close(cast("int", self._wal))

    def _find(self, *, create: bool) -> tuple[int, int]:
        """Device and inode of the file, which is made if it may be."""
        found = self._stat()
        if found is None:
            self._make(create=create)
            found = self._stat()
        if found is None:
            raise StorageError(f"{self.shown} cannot be opened: it is a link to a file that does not exist")
        if stat.S_ISDIR(found.st_mode):
            raise StorageError(
                f"{self.shown} is a folder; a log is one file, for example {self.shown}/team.db"
            )
        if not stat.S_ISREG(found.st_mode):
            raise StorageError(f"{self.shown} is not a file")
        if found.st_size == 1:  # SQLite takes a single byte for an empty file, and would write over it
            raise NotOurs(f"{self.shown} holds one byte, so it is not a turnlog file; it was left untouched")
        return found.st_dev, found.st_ino

    def _stat(self) -> os.stat_result | None:
        try:
            return os.stat(self._file_text)  # noqa: PTH116 - before every write, in half the time
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.shown} cannot be opened: {error.strerror}") from error

    def _make(self, *, create: bool) -> None:
        if not create:
            raise StorageError(f"{self.shown} does not exist; it was not created")
        try:
            # The mode is set before a byte is in it, and SQLite gives its -wal and -shm files the same.
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return  # another process was faster: it is the same file
        except OSError as error:
            raise StorageError(f"{self.shown} cannot be created: {error.strerror}") from error

    def _look(self) -> None:
        """Identify a file that a crash, or somebody at work, left with a -wal or -journal.

        Opening a file to write, and closing it as the last, finishes what a crash left half done. A file that
        is to be left untouched must therefore be known before, by a connection that cannot write.

        Raises:
            NotOurs, TooNew: it is not a file this build can work with.
        """
        journal = self._left("-journal")
        if not journal and not self._left("-wal"):
            return
        # Only `immutable` reads past the journal of a transaction that was cut off. Whatever goes wrong here,
        # the opening in earnest meets as well, and says.
        with suppress(driver().Error), closing(self._connect("ro", immutable=journal)) as db:
            self._identify(db)

    def _lift(self, db: Connection, projections: Callable[[Connection], None]) -> None:
        version = self._identify(db)
        for step in range(version, SCHEMA_VERSION):
            MIGRATIONS[step](db)
        if version != SCHEMA_VERSION:
            db.execute(f"pragma application_id = {APPLICATION_ID}")
            db.execute(f"pragma user_version = {SCHEMA_VERSION}")
        projections(db)

    def _open(self, *, immutable: bool, writing: bool) -> Connection:
        db = self._connect("ro" if self.read_only else "rw", immutable=immutable)
        try:
            synchronous = "full" if self.durability == "disk" and not self._flushes else "normal"
            db.execute(f"pragma synchronous = {synchronous}")
            db.execute("pragma secure_delete = on")
            db.execute("pragma fullfsync = on")  # macOS: a flush that reaches the platter; else no effect
            db.execute("pragma trusted_schema = off")
            db.execute("select count(*) from sqlite_schema").fetchone()  # the first look into the file
            if writing:
                db.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_FRAMES}")
                db.execute("pragma busy_timeout = 0")  # from here on `begin` waits
                self._released = False
        except BaseException:
            db.close()
            raise
        return db

    def _connect(self, mode: Literal["ro", "rw"], *, immutable: bool) -> Connection:
        if is_inherited(self.identity):
            raise StorageError(refusal(self.shown))
        uri = f"{self._file.as_uri()}?mode={mode}" + ("&immutable=1" if immutable else "")
        return cast(
            "Connection",
            driver().connect(
                uri, uri=True, timeout=self.busy_timeout_s, isolation_level=None, check_same_thread=False
            ),
        )

    def _left(self, suffix: Literal["-wal", "-journal"]) -> bool:
        """Whether that companion of the file is there and holds something."""
        try:
            return self._file.with_name(self._file.name + suffix).stat().st_size > 0
        except OSError:
            return False

    def _identify(self, db: Connection) -> int:
        """The file's format version, 0 if it is empty.

        Raises:
            NotOurs, TooNew: it is not a file this build can work with.
        """
        application, version, tables = db.execute(_IDENTITY).fetchone()
        if application == APPLICATION_ID:
            if version > SCHEMA_VERSION:
                raise TooNew(
                    f"{self.shown} has format version {version}; this build reads up to {SCHEMA_VERSION}. "
                    "Upgrade turnlog; the file was left untouched"
                )
            if version == 0 or version not in {*MIGRATIONS, SCHEMA_VERSION}:
                raise NotOurs(f"{self.shown} has format version {version}, which no release wrote")
            return version
        if application or version or tables:
            raise NotOurs(
                f"{self.shown} is another application's SQLite file (application_id {application}, "
                f"user_version {version}, {tables} schema objects); it was left untouched"
            )
        return 0

    def _retry(self, action: Callable[[], T]) -> T:
        """Run `action` until it is not busy: for what SQLite's own wait does not cover."""
        deadline = time.monotonic() + self.busy_timeout_s
        while True:
            try:
                return action()
            except driver().Error as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.001 + random.random() * 0.009)  # noqa: S311 - spreads retries, guards nothing


def _checked_path(path: str | os.PathLike[str]) -> Path:
    text = os.fspath(path)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
        raise TypeError(f"path must be a str or a path of str, not {type(path).__name__}")
    if not text or text.startswith(":memory:") or "\0" in text:
        raise ValueError(
            f"{text!r} is no path of a file; for memory without a file use turnlog.InMemoryStore"
            if text.startswith(":memory:")
            else f"{text!r} is no path of a file"
        )
    return Path(text).absolute()
