"""The clock a store reads, as far as the tests may know and move it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "StandingClock", "WallClock", "moment"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Milliseconds since 1970 UTC, as the store under test should see them."""

    @property
    def slack_ms(self) -> int:
        """How far from this clock a store's times may be."""
        ...

    def __call__(self) -> int:
        """The time."""
        ...

    def pass_ms(self, ms: int) -> None:
        """Let so much time pass, or more; a negative time is a clock that is set back, where that can be."""
        ...


class StandingClock:
    """A clock that stands still until it is moved, for a store that can be given one: times become exact."""

    slack_ms = 0

    def __init__(self) -> None:
        self.now = 1_700_000_000_123

    def __call__(self) -> int:
        """The time."""
        return self.now

    def pass_ms(self, ms: int) -> None:
        """Move it, forwards or back."""
        self.now += ms


class WallClock:
    """The clock of this machine. A store may read another one, if that is off by a minute at most."""

    slack_ms = 60_000

    def __call__(self) -> int:
        """The time."""
        return time.time_ns() // 1_000_000

    def pass_ms(self, ms: int) -> None:
        """Wait until it is that much later; nobody can set it back."""
        if ms > 0:
            time.sleep(ms / 1000)


def moment(ms: int) -> datetime:
    """Milliseconds since 1970 as an aware time."""
    return _EPOCH + timedelta(milliseconds=ms)
