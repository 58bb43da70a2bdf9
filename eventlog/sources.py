"""Where an append takes from what is not the same twice: the time, identities, salts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from .chain import SALT_SIZE

__all__ = ["Sources"]

_SALTS = 256
"""Drawn ahead at a time."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where time, identities and salts come from; passed in, so that tests can be exact.

    Attributes:
        clock: milliseconds since 1970 UTC.
        new_uid: a fresh run uid, 32 hex digits.
        random_bytes: that many random bytes.
    """

    clock: Callable[[], int]
    new_uid: Callable[[], str]
    random_bytes: Callable[[int], bytes]
    _salts: list[bytes] = field(default_factory=list[bytes], init=False, repr=False, compare=False)

    def salt(self) -> bytes:
        """Random bytes that nobody else gets. The system's are drawn many at a time, which is quicker."""
        if not self._salts:
            if self.random_bytes is not os.urandom:
                return self.random_bytes(SALT_SIZE)
            drawn = os.urandom(SALT_SIZE * _SALTS)
            starts = range(0, len(drawn), SALT_SIZE)
            self._salts.extend(drawn[first : first + SALT_SIZE] for first in starts)
        return self._salts.pop()

    def forget(self) -> None:
        """After a fork of the process: what was drawn ahead, the other side has as well."""
        self._salts.clear()
