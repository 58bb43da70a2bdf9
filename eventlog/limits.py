"""What a log accepts, in bytes of UTF-8, checked before the write lock is taken."""

from __future__ import annotations

from dataclasses import dataclass

from .text import utf8_size

__all__ = ["MAX_TURN", "Limits"]

MAX_TURN = 2**53 - 1
"""The greatest turn and expiry: what a JavaScript reader of the same records can still count to."""

_WIDEST = 4  # bytes: the most that a code point takes


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes of UTF-8 above which a command is refused with `ValueError`.

    Attributes:
        key: of a key, an agent's, an activity's or a run's name, or an idempotency key. Default 4 KiB.
        value: of a value. Default 64 MiB.
        metadata: of the JSON text of one entry's metadata. Default 1 MiB.

    Raises:
        TypeError, ValueError: something that is no size.
    """

    key: int = 4 * 1024
    value: int = 64 * 1024 * 1024
    metadata: int = 1024 * 1024

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name in ("key", "value", "metadata"):
            size = getattr(self, name)
            if type(size) is not int:
                raise TypeError(f"{name} must be an int, a number of bytes, not {size!r:.80}")
            if size < 0:
                raise ValueError(f"{name} is a number of bytes, and must not be negative: {size}")

    def surely_allow(self, key: str, value: str, metadata: str | None) -> bool:
        """Whether all three are far below what is allowed, so that nothing need be counted."""
        return (
            len(key) * _WIDEST <= self.key
            and len(value) * _WIDEST <= self.value
            and (metadata is None or len(metadata) * _WIDEST <= self.metadata)
        )

    def check_name(self, what: str, name: str) -> None:
        """Raises: ValueError if `name` is longer than a key may be."""
        if len(name) * _WIDEST > self.key:
            _check(what, name, self.key)

    def check_value(self, key: str, value: str) -> None:
        """Raises: ValueError if `value` is too long; the message names `key`."""
        if len(value) * _WIDEST > self.value:
            _check(f"the value of key {key[:80]!r}", value, self.value)

    def check_metadata(self, key: str, metadata: str | None) -> None:
        """Raises: ValueError if the JSON text `metadata` is too long; the message names `key`."""
        if metadata is not None and len(metadata) * _WIDEST > self.metadata:
            _check(f"the metadata of key {key[:80]!r}", metadata, self.metadata)


def _check(what: str, text: str, limit: int) -> None:
    size = utf8_size(text)
    if size > limit:
        raise ValueError(f"{what} has {size:,} bytes of UTF-8; the limit is {limit:,}")
