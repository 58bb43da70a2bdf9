"""Which files the demo works on: a bounded number of a folder's Python files, read with care."""

from __future__ import annotations

import os
import stat
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..eventlog import NotFound, StorageError

__all__ = ["SourceFolder", "Unreadable", "choose_files"]

PACKAGE = "email"
"""Worked on when no folder is named: in every Python, some thirty files, some ten thousand lines."""

MAX_FILES = 60
MAX_FILE_BYTES = 256 * 1024
MAX_BYTES = 1024 * 1024
MAX_FOLDERS = 2_000
MAX_NAME = 1_000  # characters; a key of the memory takes 4 KiB, an agent's name included


class Unreadable(ValueError):  # noqa: N818 - reads as a state
    """A file that cannot be read, is too large for the demo, or is no Python this interpreter can parse.

    Attributes:
        line: where, as far as it is known.
    """

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class SourceFolder:
    """Python files of one folder and those below it.

    Attributes:
        root: the folder.
        title: what to call it.
        names: the files, as paths below `root` with slashes, in the order of a sorted walk.
        more: whether the folder has files that were left out to keep the demo short.
    """

    root: Path
    title: str
    names: tuple[str, ...]
    more: bool = False

    def read(self, name: str) -> bytes:
        """What the file holds.

        Raises:
            Unreadable: it cannot be read, is no longer a file, or is too large for the demo.
        """
        try:
            # Without O_NONBLOCK, a pipe that has taken the file's place would be waited for.
            descriptor = os.open(self.root / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Unreadable("no longer a file")
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror}") from error
        if len(data) > MAX_FILE_BYTES:
            raise Unreadable(f"larger than {MAX_FILE_BYTES // 1024} KiB, the most the demo reads of a file")
        return data


def choose_files(folder: str | None) -> SourceFolder:
    """The Python files of `folder`, or of a package of the standard library.

    Links are not followed; hidden folders and virtual environments are left out. At most 60 files, 1 MiB.

    Raises:
        NotFound: there are no Python files; says where.
        StorageError: not a folder, or one that cannot be read.
    """
    where = str(Path(sysconfig.get_path("stdlib"), PACKAGE)) if folder is None else folder
    title = f"the standard library's {PACKAGE} package" if folder is None else where
    try:
        os.scandir(where).close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        hint = "name a folder that has Python files: turnlog demo FOLDER"
        raise StorageError(f"{where!r} cannot be read as a folder: {reason}; {hint}") from error
    root = Path(where)
    names: list[str] = []
    left = MAX_BYTES
    for name, size in _python_files(root):
        if len(names) == MAX_FILES or size > left:
            return SourceFolder(root, title, tuple(names), more=True)
        names.append(name)
        left -= size
    if not names:
        raise NotFound(
            f"{str(root)!r} has no Python files (*.py), nor has a folder below it; name another one"
        )
    return SourceFolder(root, title, tuple(names))


def _python_files(root: Path) -> Iterator[tuple[str, int]]:
    """Name and readable size of each file, in the order of a sorted walk; links and oddities left out."""
    walk = os.walk(root)  # follows no links; a folder it may not read is as good as empty
    for _, (place, folders, files) in zip(range(MAX_FOLDERS), walk, strict=False):
        if "pyvenv.cfg" in files and Path(place) != root:
            folders.clear()
            continue
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != "__pycache__")
        for file in sorted(files):
            path = Path(place, file)
            name = path.relative_to(root).as_posix()
            if path.suffix != ".py" or len(name) > MAX_NAME:
                continue
            try:
                status = path.lstat()
            except OSError:  # gone since it was listed
                continue
            if stat.S_ISREG(status.st_mode):
                yield name, min(status.st_size, MAX_FILE_BYTES)
