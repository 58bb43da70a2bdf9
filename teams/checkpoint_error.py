"""The error of a record that is no checkpoint, or cannot be resumed."""

from __future__ import annotations

from typing import Self

from ..eventlog import TurnlogError
from .shape import Malformed

__all__ = ["BadCheckpoint"]


class BadCheckpoint(TurnlogError, ValueError):  # noqa: N818 - the public names of errors read as states
    """A checkpoint that is malformed, or that cannot be resumed as asked; nothing was changed.

    Attributes:
        path: where in the record, as in `$.queue.tasks`; None where it is about none of its members.
        expected, found: what belongs there, and what is there; None with `path`.
    """

    def __init__(
        self, message: str, *, path: str | None = None, expected: str | None = None, found: str | None = None
    ) -> None:
        super().__init__(message)
        self.path = path
        self.expected = expected
        self.found = found

    @classmethod
    def of(cls, message: str, error: Malformed) -> Self:
        """What is wrong, and where."""
        return cls(f"{message}: {error}", path=error.path, expected=error.expected, found=error.found)
