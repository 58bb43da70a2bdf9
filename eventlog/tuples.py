"""Named tuples on the paths that every event takes.

To call the class goes through a function written in Python, which takes three times as long as to build the
tuple it is.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, cast

__all__ = ["build"]

T = TypeVar("T")


class _Build(Protocol):
    def __call__(self, kind: type[T], members: tuple[Any, ...], /) -> T: ...


build = cast("_Build", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""A named tuple of that class; every member must be given, in order."""
