"""What a store must offer, and what it may."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..eventlog import Command
from .entry import MemoryEntry

__all__ = [
    "AsyncMemoryStore",
    "ComparesAndSets",
    "Executes",
    "KeepsTurn",
    "MemoryStore",
    "Scans",
    "SetsWithExpiry",
    "check_store",
]

REQUIRED = ("get", "set", "list", "delete", "clear")


class MemoryStore(Protocol):
    """A flat map of str to str with metadata: the five methods every store has.

    A store never judges expiry; it keeps the number and hands it back. The protocols below it are abilities a
    store may have as well. They are probed at run time, and a store without an ability lacks the method.
    """

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none."""
        ...

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> object:
        """Replace value and metadata and clear the expiry. The last writer wins: see `compare_and_set`."""
        ...

    def list(self) -> list[MemoryEntry]:
        """Every entry, in birth order: overwriting keeps a key's place, deleting and setting ends it."""
        ...

    def delete(self, key: str) -> object:
        """Remove `key`; silent if it is missing."""
        ...

    def clear(self) -> object:
        """Remove every entry."""
        ...


class AsyncMemoryStore(Protocol):
    """`MemoryStore` with coroutine methods."""

    async def get(self, key: str) -> MemoryEntry | None:
        """See `MemoryStore.get`."""
        ...

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> object:
        """See `MemoryStore.set`."""
        ...

    async def list(self) -> list[MemoryEntry]:
        """See `MemoryStore.list`."""
        ...

    async def delete(self, key: str) -> object:
        """See `MemoryStore.delete`."""
        ...

    async def clear(self) -> object:
        """See `MemoryStore.clear`."""
        ...


@runtime_checkable
class ComparesAndSets(Protocol):
    """A store whose compare-and-set is atomic over every writer it claims to support."""

    def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set `key` if it holds exactly `expected` (None: if it is missing); whether it did."""
        ...


@runtime_checkable
class SetsWithExpiry(Protocol):
    """A store that keeps an expiry."""

    def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> object:
        """`set`, with the turn at which the entry counts as expired."""
        ...


@runtime_checkable
class Executes(Protocol):
    """A store that carries out several commands as one, or none of them."""

    def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Decide the commands in order, atomically; one outcome each."""
        ...


@runtime_checkable
class Scans(Protocol):
    """A store that can be read in part."""

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> Iterable[MemoryEntry]:
        """Entries whose key begins with `prefix`, in birth order, behind the entry `after`."""
        ...


@runtime_checkable
class KeepsTurn(Protocol):
    """A store that keeps the turn counter, so that a restart does not revive what had expired."""

    def get_turn(self) -> int:
        """The turn; 0 at first."""
        ...

    def advance_turn(self) -> int:
        """Count up by one; the new turn."""
        ...

    def set_turn(self, turn: int) -> object:
        """Set the turn, up or down."""
        ...


def check_store(store: object, *, asynchronous: bool, twin: str) -> None:
    """Refuse what is not a store, when it is handed over and not at its first use.

    Args:
        store: what was given.
        asynchronous: whether its methods must be coroutines.
        twin: name of the class for stores of the other colour, for the message.

    Raises:
        TypeError: a class, not an instance; methods missing (named); or methods of the other colour.
    """
    kind = type(store).__name__
    wanted = "AsyncMemoryStore" if asynchronous else "MemoryStore"
    if inspect.isclass(store):
        raise TypeError(f"{store.__name__} is a class; pass an instance of it, which implements {wanted}")
    missing = [name for name in REQUIRED if not callable(getattr(store, name, None))]
    if missing:
        raise TypeError(
            f"{kind} is not a {wanted}: it needs the methods {', '.join(REQUIRED)} "
            f"and lacks {', '.join(missing)}"
        )
    coroutines = [name for name in REQUIRED if inspect.iscoroutinefunction(getattr(store, name))]
    if asynchronous and len(coroutines) < len(REQUIRED):
        raise TypeError(f"{kind} is synchronous; use {twin} with it")
    if not asynchronous and coroutines:
        raise TypeError(f"{kind} has coroutines ({', '.join(coroutines)}); use {twin} with it")
