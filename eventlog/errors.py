"""The errors turnlog raises, one small tree.

TurnlogError
├── Busy               somebody else held the write lock for longer than the limit
├── Conflict           a stated condition did not hold (ValueError too)
├── NotFound           no such run, key or position (LookupError too)
├── RunExists          the name for a new run is taken (ValueError too)
├── BadAddress         a point of the past that cannot be read or was never reached (ValueError too)
├── BadImport          an export that cannot be read back as it was written (ValueError too)
├── Closed             the log, or the file of a store, was closed before
├── FileChanged        the file of a store was changed by another program
├── NotOurs            the file is not a turnlog file
├── TooNew             the file was written by a later version of turnlog
├── Corrupt            the file is ours, but damaged or altered
├── StorageError       the disk is full, the place is read-only, the file cannot be opened, …
└── OutcomeUnknown     a commit failed in a way that leaves open whether it happened

Every one of them but OutcomeUnknown means: nothing of what was asked has been written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .events import WriteRefused

__all__ = [
    "BadAddress",
    "BadImport",
    "Busy",
    "Closed",
    "Conflict",
    "Corrupt",
    "FileChanged",
    "NotFound",
    "NotOurs",
    "OutcomeUnknown",
    "RunExists",
    "StorageError",
    "TooNew",
    "TurnlogError",
]


class TurnlogError(Exception):
    """The root of every error turnlog raises of its own."""


class Busy(TurnlogError):  # noqa: N818 - the public names read as states, as in redis-py and sqlite3
    """Somebody else has what only one may have at a time: try again, or allow more time.

    Of a log: the write lock was not to be had within `busy_timeout_s`. Of a `FileStore`: its file is open in
    another one.
    """


class Conflict(TurnlogError, ValueError):  # noqa: N818
    """A write's `expected_version` is not the version found; read again, merge, and retry.

    Attributes:
        key: the key in question.
        expected: the version the caller stated (0 = must not exist).
        found: the version the key has (0 = it does not exist).
        refusal: the fact that the log keeps of the attempt.
        agent: who attempted it, where the command itself says so.
    """

    def __init__(self, *, expected: int, found: int, refusal: WriteRefused, agent: str | None = None) -> None:
        state = f"is at version {found}" if found else "does not exist"
        wanted = f"version {expected}" if expected else "the key not to exist"
        super().__init__(
            f"key {refusal.key!r} {state}, but the write expected {wanted}; "
            "read it again, merge your change and retry"
        )
        self.key = refusal.key
        self.expected = expected
        self.found = found
        self.refusal = refusal
        self.agent = agent


class NotFound(TurnlogError, LookupError):  # noqa: N818
    """No such run, key or position."""


class RunExists(TurnlogError, ValueError):  # noqa: N818
    """The name asked for a new run is taken already."""


class BadAddress(TurnlogError, ValueError):  # noqa: N818
    """An address of the past that cannot be read, or a point that was never reached."""


class BadImport(TurnlogError, ValueError):  # noqa: N818
    """An export that is malformed, incomplete or altered, or that does not fit this file."""


class Closed(TurnlogError):  # noqa: N818
    """The log, or the file of a store, was closed; open it again."""


class FileChanged(TurnlogError):  # noqa: N818
    """The file of a store was changed by another program since it was read; nothing was written over it."""


class NotOurs(TurnlogError):  # noqa: N818
    """The file is not a turnlog file; it was left untouched."""


class TooNew(TurnlogError):  # noqa: N818
    """The file's format is newer than this build; it was left untouched."""


class Corrupt(TurnlogError):  # noqa: N818
    """The file is a turnlog file, but what it holds cannot be right."""


class StorageError(TurnlogError):
    """The operating system or SQLite could not read or write the file."""


class OutcomeUnknown(TurnlogError):  # noqa: N818
    """A commit failed such that nobody can tell whether it happened; open the log again and look."""
