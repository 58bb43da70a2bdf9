"""A file that one object holds at a time, reads once, and only ever replaces whole.

Held is the file `<path>.lock` beside it, with `flock`: the lock belongs to the open file, not to the name of
a process, so the system lets go of it when the holder ends, however it ends. (The file itself cannot carry
the lock, since each write puts another file in its place.) It is left lying, because removing it would let
two hold two files of one name. A child of `fork` shares the open file and would keep the lock alive after its
parent: it closes its copy at once, and its copy of the object refuses to work.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from weakref import WeakSet

from ..eventlog import Busy, Closed, FileChanged, OutcomeUnknown, StorageError

__all__ = ["HeldFile"]

_held: WeakSet[HeldFile] = WeakSet()


class HeldFile:
    """The file at `path`, held from here on until `close`, or until nothing refers to this object.

    Folders that are missing are made. Not safe to be written from several threads at once.

    Raises:
        Busy: another object, here or in another process, holds it.
        StorageError: the system refuses, or the path is not that of an ordinary file.
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
            self._lock = _taken(path.with_name(f"{path.name}.lock"), path)
        except OSError as error:
            raise self._failure("opened", error) from error
        _held.add(self)

    def __del__(self) -> None:
        """Let go."""
        self.close()

    def close(self) -> None:
        """Let go of the file; again has no effect."""
        lock, self._lock = getattr(self, "_lock", None), None
        if lock is not None:
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
        self._flush_folder()

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

    def _flush_folder(self) -> None:
        try:
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot flush a folder
                raise OutcomeUnknown(
                    f"{self.path} was written, but its folder could not be flushed: {error.strerror}"
                ) from error

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


def _taken(lock_path: Path, path: Path) -> int:
    """The open, locked file at `lock_path`."""
    lock = os.open(lock_path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise Busy(
            f"{path} is open in another store (process {holder}), and two would overwrite each other's "
            "entries; close that one, share it, or keep the memory in a log (EventSourcedStore)"
        ) from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _let_go_in_child() -> None:
    for file in _held:
        file.close()


os.register_at_fork(after_in_child=_let_go_in_child)
