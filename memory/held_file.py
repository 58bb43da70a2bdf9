"""A file that one object holds at a time, reads once, and only ever replaces whole.

Held is the file `<path>.lock` beside it, with `flock`: the lock belongs to the open file, not to the name of
a process, so the system lets go of it when the holder ends, however it ends. (The file itself cannot carry
the lock, since each write puts another file in its place.) It is left lying, because removing it would let
two hold two files of one name. A file of that name which holds anything but the number of a process is
somebody else's, and is left alone. A child of `fork` shares the open file and would keep the lock alive after
its parent: it closes its copy at once, and its copy of the object refuses to work.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from ..eventlog import Busy, Closed, FileChanged, NotOurs, StorageError
from ..eventlog.files import flush_folder

__all__ = ["HeldFile"]

_LOCK = re.compile(rb"\d{0,20}\n?")
"""What a lock file holds: the process that has it, or had it last; nothing, where one was cut off."""

_held: WeakSet[HeldFile] = WeakSet()
# Around the opening of a lock file until it is in `_held`. A fork takes it, so that its child knows them all.
_opening = threading.RLock()


class HeldFile:
    """The file at `path`, held from here on until `close`, or until nothing refers to this object.

    Folders that are missing are made. Not safe to be written from several threads at once.

    Raises:
        Busy: another object, here or in another process, holds it.
        NotOurs: the file `<path>.lock` is somebody else's.
        StorageError: the system refuses, or one of the two is not an ordinary file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = os.getpid()
        self._lock: int | None = None
        self._seen: _Seen | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and not path.is_file():
                raise StorageError(f"{path} is not an ordinary file")
            self._take(path.with_name(f"{path.name}.lock"))
        except OSError as error:
            self.close()
            raise self._failure("opened", error) from error
        except BaseException:
            self.close()
            raise

    def __del__(self) -> None:
        """Let go."""
        self.close()

    def _take(self, path: Path) -> None:
        """Hold the lock file at `path`. It is known to forks before it is locked."""
        if path.is_symlink():
            raise StorageError(f"{path} is not an ordinary file")
        with _opening:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._lock = lock = os.open(path, flags, 0o600)
            _held.add(self)
        _check_lock(lock, path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise Busy(
                f"{self.path} is open in another store (process {holder}), and two would overwrite each "
                "other's entries; close that one, share it, or keep the memory in a log (EventSourcedStore)"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let go of the file; again has no effect."""
        lock, self._lock = getattr(self, "_lock", None), None
        if lock is None:
            return
        try:
            if self._owner == os.getpid():
                fcntl.flock(lock, fcntl.LOCK_UN)  # at once, even where a child has not closed its copy yet
        finally:
            os.close(lock)

    def is_usable(self) -> bool:
        """Whether `check` has nothing to say."""
        return self._lock is not None and self._owner == os.getpid()

    def check(self) -> None:
        """Refuse to work where the file is not held any more.

        Raises:
            Closed: it was closed, or this is the copy in a child of `fork`.
        """
        if self._owner != os.getpid():
            raise Closed(f"{self.path} is held by the process that was forked; open it anew in this one")
        if self._lock is None:
            raise Closed(f"{self.path} was closed; open it again")

    def read(self) -> bytes | None:
        """All that the file holds, or None where there is none.

        Raises:
            StorageError: it cannot be read.
        """
        try:
            content, self._seen = _look(self.path)
        except OSError as error:
            raise self._failure("read", error) from error
        return content

    def replace(self, content: bytes, replaced: Callable[[], None]) -> None:
        """Put `content` in the place of what was read or written last: wholly, or not at all.

        It is written to a file beside it, flushed, and given the name; then the folder is flushed. A new file
        has mode 0600; one that is there keeps its mode.

        Args:
            content: all that the file is to hold.
            replaced: called once the file is another one, whatever is raised after that.

        Raises:
            FileChanged: somebody else has changed, removed or made the file; nothing was written.
            StorageError: the system refuses; nothing was written.
            OutcomeUnknown: it was written, but whether a power cut would spare it cannot be told.
        """
        self.check()
        draft = self.path.with_name(f"{self.path.name}.turnlog-tmp")
        done = False
        try:
            seen = _written(draft, content, self._mode())
            self._check_unchanged()
            try:
                draft.replace(self.path)
            finally:
                # Asked of the disk, since an interrupt may have come just after the file got its name.
                done = not draft.exists()
                if done:
                    self._seen = seen
                    replaced()
        except OSError as error:
            raise self._failure("written", error) from error
        finally:
            if not done:
                with suppress(OSError):
                    draft.unlink()
        flush_folder(self.path)

    def _mode(self) -> int:
        with suppress(FileNotFoundError):
            return stat.S_IMODE(self.path.stat().st_mode)
        return 0o600

    def _check_unchanged(self) -> None:
        """Looked at right before the new file gets the name: what comes in between is a few microseconds."""
        try:
            there = _Identity.of(self.path.stat())
        except FileNotFoundError:
            there = None
        if there == (None if self._seen is None else self._seen.identity):
            return
        _, found = _look(self.path)  # it may have been touched, or copied back as it was
        if (found and found.digest) != (self._seen and self._seen.digest):
            raise FileChanged(
                f"{self.path} was changed by another program since it was read here; nothing was written. "
                "Open it again to go on from what it holds now"
            )

    def _failure(self, what: str, error: OSError) -> StorageError:
        return StorageError(f"{self.path} could not be {what}: {error.strerror or error}")


class _Identity(NamedTuple):
    """What tells one state of a file from the next, without reading it."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Identity:
        """The identity in what `stat` says."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class _Seen(NamedTuple):
    """The file as it was read or written last."""

    identity: _Identity
    digest: bytes


def _look(path: Path) -> tuple[bytes | None, _Seen | None]:
    try:
        with path.open("rb") as file:
            content = file.read()
            identity = _Identity.of(os.fstat(file.fileno()))
    except FileNotFoundError:
        return None, None
    return content, _Seen(identity, hashlib.sha256(content).digest())


def _written(draft: Path, content: bytes, mode: int) -> _Seen:
    """A new file at `draft`, written and flushed; one that a killed holder left there is removed first."""
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
        return _Seen(_Identity.of(os.fstat(file.fileno())), hashlib.sha256(content).digest())


def _check_lock(lock: int, path: Path) -> None:
    """Refuse to write into what is somebody else's.

    Raises:
        StorageError, NotOurs: it is no ordinary file; it holds something else than such a lock.
    """
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        raise StorageError(f"{path} is not an ordinary file")
    content = os.pread(lock, 40, 0).strip(
        b"\0"
    )  # a power cut can leave a file that has its size, and no more
    if not _LOCK.fullmatch(content):
        raise NotOurs(
            f"{path} holds something else than the lock of a store, and was left untouched; "
            "choose another name for the store"
        )


def _in_parent() -> None:
    with suppress(RuntimeError):  # Ctrl-C may have ended the taking
        _opening.release()


def _in_child() -> None:
    global _opening
    _opening = threading.RLock()
    for file in _held:
        file.close()


os.register_at_fork(before=lambda: _opening.acquire(), after_in_parent=_in_parent, after_in_child=_in_child)
