"""A copy of a log that is in use: whole, of one moment, flushed and verified, or not there at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import cast

from ..eventlog import Corrupt, EventLog, StorageError
from ..eventlog.driver import Connection, driver, storage_error
from ..eventlog.files import belongs_to, companions, draft_for, flush_folder
from .verification import RunHead, Verification, check_file

__all__ = ["backup"]

_PAGES_A_STEP = 1024
_HEADS = """
select uid, (select hash from events where run = runs.id order by revision desc limit 1) from runs
"""


def backup(
    log: EventLog, path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None
) -> Verification:
    """Copy `log`, as it is at this moment, to a new file, while others go on reading and writing.

    The copy is made page by page within one read transaction, as `<path>.partial-<process>-<random>`, with
    mode 0600; it is checked as `verify` does, its heads are compared with those of the log at that moment,
    and it is flushed. Only then does it get its name. Whatever interrupts this, nothing is at `path`; a
    killed process leaves the partial file, for somebody to remove who knows that it is not being written.
    Until it is done the log's -wal file can only grow.

    Args:
        log: an open log.
        path: where to; nothing may be there.
        progress: called now and then with the number of pages copied, and of all.

    Returns:
        What was found in the copy: its heads, and no problems.

    Raises:
        StorageError: something is at `path`, it is a name that SQLite keeps for the log, the disk is full, ….
        Corrupt: the copy does not verify, since the log does not; `path` is not made.
        Closed, Busy: the log cannot be read.
        OutcomeUnknown: the copy is at `path`, but whether a power cut would spare its name cannot be told.
    """
    target = Path(path).absolute()
    _refuse_taken(target, log)
    with draft_for(target) as draft:
        heads = _copy(log, draft, progress)
        found = _checked(draft, heads)
        _give_name(draft, target)
    flush_folder(target)
    return found


def _refuse_taken(target: Path, log: EventLog) -> None:
    for there in (target, *companions(target)):  # SQLite would take one for this file's, and play it back
        if os.path.lexists(there):
            raise StorageError(f"{there} is there already; nothing was backed up. Choose another name")
    if belongs_to(target, log.path):
        raise StorageError(f"{target} belongs to the log itself; nothing was backed up. Choose another name")


def _copy(log: EventLog, draft: Path, progress: Callable[[int, int], None] | None) -> dict[str, bytes]:
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
                with closing(_connect(draft, "rw")) as copy:
                    copy.execute("pragma journal_mode = off")  # a copy that is not finished is thrown away
                    copy.execute("pragma synchronous = off")  # it is flushed as a whole
                    db.backup(copy, pages=_PAGES_A_STEP, progress=report)
            except driver().Error as error:
                raise storage_error(error, str(draft), busy_timeout_s=0) from error
        finally:
            db.execute("rollback")
    return heads


def _checked(draft: Path, heads: dict[str, bytes]) -> Verification:
    """What a check of the copy found.

    Raises:
        Corrupt: it is not in order, or does not end where the log ended.
    """
    with closing(_connect(draft, "ro")) as copy:
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


def _connect(draft: Path, mode: str) -> Connection:
    # Nobody else touches it. `immutable` reads a file in WAL mode without making its companions.
    uri = f"{draft.as_uri()}?mode={mode}" + ("&immutable=1" if mode == "ro" else "")
    return cast("Connection", driver().connect(uri, uri=True, isolation_level=None))


def _give_name(draft: Path, target: Path) -> None:
    try:
        _flush(draft)
        os.link(draft, target)  # unlike a renaming, this never takes the place of another file
    except FileExistsError as error:
        raise StorageError(f"{target} was made by somebody else meanwhile; nothing was backed up") from error
    except OSError as error:
        raise StorageError(f"{target}: {error.strerror or error}; nothing was backed up") from error


def _flush(draft: Path) -> None:
    file = os.open(draft, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
