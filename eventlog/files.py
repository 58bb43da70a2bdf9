"""A log among other files: what else belongs to it, and how a new file gets its name once it is whole."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from .errors import OutcomeUnknown, StorageError

__all__ = ["belongs_to", "companions", "draft_for", "drafts_of", "flush_folder", "own_file"]

_ENDINGS = ("-wal", "-shm", "-journal")
_DRAFT = re.compile(r"\.partial-\d+-[0-9a-f]{16}\Z")


def own_file(path: str | os.PathLike[str]) -> Path:
    """The file of the log at `path`: SQLite follows links, and keeps what else there is beside that."""
    return Path(os.path.realpath(path))


def companions(file: Path) -> list[Path]:
    """What SQLite keeps, or would, beside `file`, the WAL first; only SQLite may open them."""
    return [file.with_name(file.name + ending) for ending in _ENDINGS]


def belongs_to(path: Path, log: str | os.PathLike[str]) -> bool:
    """Whether `path` is a file of the log at `log`, by whatever name, or would become one if it were made."""
    file, place = own_file(log), os.path.realpath(path)
    for own in (file, *companions(file)):
        if place == str(own):
            return True
        with suppress(OSError):
            if path.samefile(own):
                return True
    return False


@contextmanager
def draft_for(target: Path) -> Generator[Path]:
    """An empty private file beside `target`, to be filled and then linked or renamed to it; gone in the end.

    Its name, `<target>.partial-<process>-<random>`, is nobody else's, so that what is removed is ours for
    sure. One that a killed process left is not removed by anybody: whether it is still being written cannot
    be told from another machine or container, and it may have become `target` already.

    Raises:
        StorageError: it cannot be made.
    """
    draft = target.with_name(f"{target.name}.partial-{os.getpid()}-{os.urandom(8).hex()}")
    # A signal may raise at any call, also at those of making and removing, so either is within a `try`.
    try:
        _make(draft)
        yield draft
    finally:
        try:
            _remove(draft)
        except BaseException:
            _remove(draft)
            raise


def _make(draft: Path) -> None:
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StorageError(f"{draft}: {error.strerror or error}; nothing was written") from error


def _remove(draft: Path) -> None:
    for each in (draft, *companions(draft)):
        each.unlink(missing_ok=True)


def drafts_of(target: Path) -> list[Path]:
    """The drafts for `target` there are: being written at this moment, or left by killed processes."""
    beside = target.parent.glob(f"{escape(target.name)}.partial-*")
    return sorted(each for each in beside if _DRAFT.search(each.name))


def flush_folder(path: Path) -> None:
    """Let the name of the file at `path`, which was just given to it, survive a power cut.

    Raises:
        OutcomeUnknown: it could not be flushed; the file is there.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot flush a folder
            raise OutcomeUnknown(
                f"{path} was written, but its folder could not be flushed: {error.strerror}"
            ) from error
