"""A copy of a log that is in use: whole, of one moment, flushed and verified, or not there at all."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import cast

from ..eventlog import Corrupt, EventLog, StorageError
from ..eventlog.driver import Connection, driver, storage_error
from .verification import RunHead, Verification, check_file

__all__ = ["backup"]

_PAGES_A_STEP = 1024
_ENDINGS = ("-wal", "-shm", "-journal")
_BEGINNINGS = (b"", b"SQLite format 3\0", bytes(16))
"""Of a copy: none of it, its first page, or later pages only."""

_HEADS = """
select uid, (select hash from events where run = runs.id order by revision desc limit 1) from runs
"""


def backup(
    log: EventLog, path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None
) -> Verification:
    """Copy `log`, as it is at this moment, to a new file, while others go on reading and writing.

    The copy is made page by page within one read transaction, under the name `<path>.partial`, with mode
    0600; it is checked as `verify` does, its heads are compared with those of the log at that moment, and it
    is flushed. Only then does it get its name. Whatever interrupts this, nothing is at `path`; a killed
    process leaves the partial file, which the next backup to `path` replaces. Until it is done the log's
    -wal file can only grow.

    Args:
        log: an open log.
        path: where to; nothing may be there.
        progress: called now and then with the number of pages copied, and of all.

    Returns:
        What was found in the copy: its heads, and no problems.

    Raises:
        StorageError: something is at `path`, another backup to it is under way, the disk is full, ….
        Corrupt: the copy does not verify, since the log does not; `path` is not made.
        Closed, Busy: the log cannot be read.
    """
    target = Path(path).absolute()
    _refuse_taken(target)
    with _partial(target) as (partial, file):
        heads = _copy(log, partial, progress)
        found = _checked(partial, heads)
        try:
            os.fsync(file)
            os.link(partial, target)  # unlike a renaming, this never takes the place of another file
        except FileExistsError as error:
            raise StorageError(
                f"{target} was made by somebody else meanwhile; nothing was backed up"
            ) from error
        except OSError as error:
            raise StorageError(f"{target}: {error.strerror or error}; nothing was backed up") from error
    _flush_folder(target.parent)
    return found


def _refuse_taken(target: Path) -> None:
    for ending in ("", *_ENDINGS):  # SQLite would take a companion for this file's, and play it back over it
        there = target.with_name(target.name + ending)
        if os.path.lexists(there):
            raise StorageError(f"{there} is there already; nothing was backed up. Choose another name")


@contextmanager
def _partial(target: Path) -> Generator[tuple[Path, int]]:
    """An empty file beside `target` that is ours alone, and a descriptor of it; gone in the end."""
    partial = target.with_name(f"{target.name}.partial")
    try:
        file = _claim(partial)
    except OSError as error:
        raise StorageError(f"{partial}: {error.strerror or error}; nothing was backed up") from error
    try:
        yield partial, file
    finally:
        # The lock goes last: whoever waits for the name must not find a file that is about to go.
        for ending in ("", *_ENDINGS):
            partial.with_name(partial.name + ending).unlink(missing_ok=True)
        os.close(file)


def _claim(partial: Path) -> int:
    """Make the file, or take over what a killed process left; the descriptor holds the claim."""
    while True:
        file = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode) or os.pread(file, 16, 0) not in _BEGINNINGS:
                raise StorageError(f"{partial} is no unfinished backup; move it away. Nothing was backed up")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(partial, file):
                os.fchmod(file, 0o600)
                os.ftruncate(file, 0)
                return file
        except BlockingIOError as error:
            os.close(file)
            raise StorageError(f"another backup is writing {partial}; nothing was backed up") from error
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # somebody who was at work there has just ended, and removed it


def _is_at(path: Path, file: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(file))
    return False


def _copy(log: EventLog, partial: Path, progress: Callable[[int, int], None] | None) -> dict[str, bytes]:
    """Copy the pages; the head of each run, by uid, at the moment that was copied."""

    def report(_: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(total - remaining, total)

    with log.reading() as db:
        # Within a transaction every step reads the same moment, and no commit makes the copy begin anew.
        db.execute("begin")
        try:
            heads = cast("dict[str, bytes]", dict(db.execute(_HEADS).fetchall()))
            try:
                with closing(_connect(partial, "rw")) as copy:
                    copy.execute("pragma journal_mode = off")  # a copy that is not finished is thrown away
                    copy.execute("pragma synchronous = off")  # it is flushed as a whole
                    db.backup(copy, pages=_PAGES_A_STEP, progress=report)
            except driver().Error as error:
                raise storage_error(error, str(partial), busy_timeout_s=0) from error
        finally:
            db.execute("rollback")
    return heads


def _checked(partial: Path, heads: dict[str, bytes]) -> Verification:
    """What a check of the copy found.

    Raises:
        Corrupt: it is not in order, or does not end where the log ended.
    """
    with closing(_connect(partial, "ro")) as copy:
        found = check_file(copy)
    if not found.ok:
        more = f" (and {len(found.problems) - 1} more)" if len(found.problems) > 1 else ""
        raise Corrupt(
            f"the copy does not verify: {found.problems[0]}{more}; `turnlog verify` says what is wrong with "
            "the log itself. Nothing was backed up"
        )
    if _by_uid(found.heads) != heads:
        raise Corrupt("the copy does not end where the log did when it was copied; nothing was backed up")
    return found


def _by_uid(heads: list[RunHead]) -> dict[str, bytes]:
    return {head.uid: head.hash for head in heads}


def _connect(partial: Path, mode: str) -> Connection:
    # Nobody else touches it. `immutable` reads a file in WAL mode without making its companions.
    uri = f"{partial.as_uri()}?mode={mode}" + ("&immutable=1" if mode == "ro" else "")
    return cast("Connection", driver().connect(uri, uri=True, isolation_level=None))


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
