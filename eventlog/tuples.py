"""Named tuples and frozen classes on the paths that every event takes.

To call the class of a named tuple goes through a function written in Python, which takes three times as long
as to build the tuple it is; and a frozen dataclass looks each of its attributes up by name to set it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Protocol, TypeVar, cast

__all__ = ["build", "slot_setters"]

T = TypeVar("T")


class _Build(Protocol):
    def __call__(self, kind: type[T], members: tuple[Any, ...], /) -> T: ...


build = cast("_Build", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""A named tuple of that class; every member must be given, in order."""


def slot_setters(kind: type[Any]) -> list[Callable[[object, object], None]]:
    """For each attribute of a dataclass with slots, in order, what sets it; to be used while one is made."""
    return [getattr(kind, each.name).__set__ for each in fields(kind)]
