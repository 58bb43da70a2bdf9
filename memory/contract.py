"""What a store must offer, and what it may."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

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
    "check_limit",
    "check_store",
    "compares_and_sets",
    "executes",
    "keeps_turn",
    "scans",
    "sets_with_expiry",
]

REQUIRED = ("get", "set", "list", "delete", "clear")
OPTIONAL = (
    "compare_and_set",
    "set_with_expiry",
    "execute",
    "scan",
    "get_turn",
    "advance_turn",
    "set_turn",
)


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
    """`MemoryStore` with coroutines, its abilities too; but `scan` is an asynchronous generator."""

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


class ComparesAndSets(Protocol):
    """A store whose compare-and-set is atomic over every writer it claims to support."""

    def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set `key` if it holds exactly `expected` (None: if it is missing); whether it did."""
        ...


class SetsWithExpiry(Protocol):
    """A store that keeps an expiry."""

    def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> object:
        """`set`, with the turn at which the entry counts as expired."""
        ...


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


class Scans(Protocol):
    """A store that can be read in part."""

    def scan(
        self, prefix: str = "", after: str | None = None, limit: int | None = None
    ) -> Iterable[MemoryEntry]:
        """Entries whose key begins with `prefix`, in birth order, behind the entry `after`."""
        ...


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


def compares_and_sets(store: object) -> TypeGuard[ComparesAndSets]:
    """Whether `store` has the method of `ComparesAndSets`."""
    return _offers(store, "compare_and_set")


def sets_with_expiry(store: object) -> TypeGuard[SetsWithExpiry]:
    """Whether `store` has the method of `SetsWithExpiry`."""
    return _offers(store, "set_with_expiry")


def executes(store: object) -> TypeGuard[Executes]:
    """Whether `store` has the method of `Executes`."""
    return _offers(store, "execute")


def scans(store: object) -> TypeGuard[Scans]:
    """Whether `store` has the method of `Scans`."""
    return _offers(store, "scan")


def keeps_turn(store: object) -> TypeGuard[KeepsTurn]:
    """Whether `store` has the methods of `KeepsTurn`, all three."""
    return _offers(store, "get_turn", "advance_turn", "set_turn")


def check_limit(limit: object) -> None:
    """Refuse what cannot be the `limit` of a scan.

    Raises:
        TypeError: neither an int nor None (a bool is not an int).
        ValueError: negative.
    """
    if limit is None:
        return
    if type(limit) is not int:
        raise TypeError(f"limit must be an int or None, not {type(limit).__name__}")
    if limit < 0:
        raise ValueError(f"limit must not be negative: {limit}")


def check_store(store: object, *, asynchronous: bool, twin: str) -> None:
    """Refuse what is not a store, when it is handed over and not at its first use.

    Args:
        store: what was given.
        asynchronous: whether its methods must be coroutines.
        twin: name of the class for stores of the other colour, for the message.

    Raises:
        TypeError: a class, not an instance; methods missing, or of the other colour (both named).
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
    offered = [name for name in REQUIRED + OPTIONAL if _offers(store, name)]
    coroutines = [name for name in offered if _is_asynchronous(getattr(store, name))]
    if not asynchronous and coroutines:
        raise TypeError(f"{kind} has coroutines ({', '.join(coroutines)}); use {twin} with it")
    if asynchronous and not coroutines:
        raise TypeError(f"{kind} is synchronous; use {twin} with it")
    unfit = [name for name in offered if not _awaits(name, getattr(store, name))]
    if asynchronous and unfit:
        raise TypeError(
            f"{kind} is not an {wanted}: {', '.join(unfit)} must be coroutines too (scan: an asynchronous "
            "generator)"
        )


def _is_asynchronous(method: object) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _awaits(name: str, method: object) -> bool:
    return inspect.isasyncgenfunction(method) if name == "scan" else inspect.iscoroutinefunction(method)


def _offers(store: object, *names: str) -> bool:
    return all(callable(getattr(store, name, None)) for name in names)
