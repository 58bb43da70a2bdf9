"""The errors turnlog raises, one small tree.

TurnlogError
├── Busy               somebody else held the write lock for longer than the limit
├── Conflict           a stated condition did not hold (ValueError too)
│   └── KeyReused      an idempotency key was used for another command before
├── NotFound           no such run, key or position (LookupError too)
├── RunExists          the name for a new run is taken (ValueError too)
├── BadAddress         a point of the past that cannot be read or was never reached (ValueError too)
├── BadImport          an export that cannot be read back as it was written (ValueError too)
├── BadAnchor          an anchor file that was damaged, or that this log contradicts (ValueError too)
├── BadCheckpoint      (teams) a record that is no checkpoint, or cannot be resumed (ValueError too)
├── DurableApprovalError (teams) an approval that cannot be asked for, read or decided (ValueError too)
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
    "BadAnchor",
    "BadImport",
    "Busy",
    "Closed",
    "Conflict",
    "Corrupt",
    "FileChanged",
    "KeyReused",
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
    """A stated condition did not hold: as a rule, a write's `expected_version` is not the version found.

    Attributes:
        key: the key in question, where it is about one.
        expected: the version the caller stated (0 = must not exist); None where it is not about versions.
        found: the version the key has (0 = it does not exist); likewise.
        refusal: the fact that the log keeps of the attempt, if it keeps one.
        agent: who attempted it, where the command itself says so.
    """

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        expected: int | None = None,
        found: int | None = None,
        refusal: WriteRefused | None = None,
        agent: str | None = None,
    ) -> None:
        super().__init__(message)
        self.key = key
        self.expected = expected
        self.found = found
        self.refusal = refusal
        self.agent = agent


class KeyReused(Conflict):
    """An idempotency key stands for another command, or a list was carried out in part before.

    Attributes:
        idempotency_key: the key.
    """

    def __init__(self, message: str, idempotency_key: str) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class NotFound(TurnlogError, LookupError):  # noqa: N818
    """No such run, key or position."""


class RunExists(TurnlogError, ValueError):  # noqa: N818
    """The name asked for a new run is taken already."""


class BadAddress(TurnlogError, ValueError):  # noqa: N818
    """An address of the past that cannot be read, or a point that was never reached."""


class BadImport(TurnlogError, ValueError):  # noqa: N818
    """An export that is malformed, incomplete or altered, or that does not fit this file."""


class BadAnchor(TurnlogError, ValueError):  # noqa: N818
    """An anchor file that is not as it was written, or that the log at hand is at odds with."""


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
