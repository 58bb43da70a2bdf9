"""Which SQLite runs, and what its errors mean.

One process must never have two copies of SQLite on one file (closing a descriptor in one drops the POSIX
locks of the other), so this takes whatever module sqlite-utils selected: `pysqlite3` where it is installed,
else the standard library's. It is imported on first use, since that takes a sixth of a second.
"""

from __future__ import annotations

import functools
import sqlite3
from types import ModuleType
from typing import TYPE_CHECKING, cast

from .errors import Busy, Corrupt, NotOurs, OutcomeUnknown, StorageError, TurnlogError

if TYPE_CHECKING:
    Connection = sqlite3.Connection
    Cursor = sqlite3.Cursor
    Error = sqlite3.Error
else:
    Connection = Cursor = Error = object

__all__ = ["Connection", "Cursor", "Error", "driver", "is_busy", "is_refused", "storage_error"]

_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 8, 10, 11, 13, 14, 26

_NOT_FLUSHED = (1034, 1290)  # SQLITE_IOERR_FSYNC and SQLITE_IOERR_DIR_FSYNC: all had been written by then

_MEANING = {
    _READONLY: "cannot be written: the file or its folder is read-only",
    _IOERR: "could not be read or written: its size is limited, the disk is full, or it reported an error",
    _FULL: "cannot grow: the disk or a limit on the file's size is full",
    _CANTOPEN: "cannot be opened",
}


@functools.cache
def driver() -> ModuleType:
    """The SQLite module in use; it has the interface of the standard library's `sqlite3`."""
    from sqlite_utils.utils import sqlite3 as selected  # pyright: ignore[reportPrivateImportUsage]

    return cast("ModuleType", selected)


def is_busy(error: BaseException) -> bool:
    """Whether `error` says that somebody else holds a lock."""
    return _primary_code(error) in (_BUSY, _LOCKED)


def is_refused(error: BaseException) -> bool:
    """Whether `error` says that something may not be written, or not be opened, in this place."""
    return _primary_code(error) in (_READONLY, _CANTOPEN)


def storage_error(
    error: sqlite3.Error, path: str, *, busy_timeout_s: float, committing: bool = False
) -> TurnlogError:
    """The error of ours that says what `error` means for the log at `path`: the one place that maps them.

    With `committing`, the statement that failed was a COMMIT of changes: a flush that failed then leaves open
    whether they will be found after a crash.
    """
    code = _primary_code(error)
    detail = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    if code in (_BUSY, _LOCKED):
        return Busy(
            f"{path}: another writer held the lock for more than {busy_timeout_s:g} s; "
            f"try again (a program can wait for longer, with a greater busy_timeout_s) [{detail}]"
        )
    if committing and getattr(error, "sqlite_errorcode", None) in _NOT_FLUSHED:
        return OutcomeUnknown(
            f"{path}: the commit failed while it was being flushed, so it may or may not survive; "
            f"open the log again and read what is there [{detail}]"
        )
    if code in (_CORRUPT, _NOTADB):
        if code == _NOTADB:
            return NotOurs(f"{path} is not a SQLite file; it was left untouched [{detail}]")
        return Corrupt(f"{path} is damaged; restore it from a backup [{detail}]")
    meaning = _MEANING.get(code, "failed")
    return StorageError(f"{path} {meaning}; nothing was written [{detail}]")


def _primary_code(error: BaseException) -> int:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else -1
