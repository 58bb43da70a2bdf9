"""The writing verbs of a store, each said as a command: what makes all stores of ours alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..eventlog import AdvanceTurn, Clear, Command, CompareAndSet, Delete, SetTurn, Write

__all__ = ["AsyncCommandVerbs", "CommandVerbs", "expiring"]


class CommandVerbs(Protocol):
    """Verbs for a store that has `execute`; each is one command, carried out atomically.

    All of them raise what `execute` raises, and then nothing was written.
    """

    def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Carry out `commands` as one batch, all or nothing; one outcome each."""
        ...

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> int:
        """Replace value and metadata and clear the expiry; returns the entry's new version.

        The last writer wins, whatever it had read. Where that matters use `compare_and_set`, or
        `execute([Write(..., expected_version=...)])`.

        Raises:
            TypeError, ValueError: bad input; nothing was written.
        """
        return self.execute([Write(key, value, metadata)])[0]

    def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> int:
        """`set`, with the turn (0 … 2**53 - 1) from which on the entry counts as expired."""
        return self.execute([expiring(key, value, expires_at_turn, metadata)])[0]

    def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set `key` if it holds exactly `expected` (None: if it is missing); whether it did.

        Success replaces the metadata and clears the expiry. Values may have changed and changed back in
        between; to exclude that compare versions instead.
        """
        return self.execute([CompareAndSet(key, expected, value, metadata)])[0]

    def delete(self, key: str) -> None:
        """Remove `key`; silent, and without a trace, if it is missing."""
        self.execute([Delete(key)])

    def clear(self) -> None:
        """Remove every entry, those under reserved prefixes included."""
        self.execute([Clear()])

    def advance_turn(self) -> int:
        """Count the turn up by one; the new turn."""
        return self.execute([AdvanceTurn()])[0]

    def set_turn(self, turn: int) -> None:
        """Set the turn (0 … 2**53 - 1), up or down."""
        self.execute([SetTurn(turn)])


class AsyncCommandVerbs(Protocol):
    """`CommandVerbs` with coroutines; a task that is cancelled has written wholly or not at all."""

    async def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Carry out `commands` as one batch, all or nothing; one outcome each."""
        ...

    async def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> int:
        """Replace value and metadata and clear the expiry; see `EventSourcedStore.set`."""
        return (await self.execute([Write(key, value, metadata)]))[0]

    async def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> int:
        """`set`, with the turn (0 … 2**53 - 1) from which on the entry counts as expired."""
        return (await self.execute([expiring(key, value, expires_at_turn, metadata)]))[0]

    async def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set `key` if it holds exactly `expected`; see `EventSourcedStore.compare_and_set`."""
        return (await self.execute([CompareAndSet(key, expected, value, metadata)]))[0]

    async def delete(self, key: str) -> None:
        """Remove `key`; silent, and without a trace, if it is missing."""
        await self.execute([Delete(key)])

    async def clear(self) -> None:
        """Remove every entry, those under reserved prefixes included."""
        await self.execute([Clear()])

    async def advance_turn(self) -> int:
        """Count the turn up by one; the new turn."""
        return (await self.execute([AdvanceTurn()]))[0]

    async def set_turn(self, turn: int) -> None:
        """Set the turn (0 … 2**53 - 1), up or down."""
        await self.execute([SetTurn(turn)])


def expiring(key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None) -> Write:
    """The command of `set_with_expiry`, which, unlike a `Write`, must have an expiry."""
    if expires_at_turn is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise TypeError("expires_at_turn must be an int, not NoneType")
    return Write(key, value, metadata, expires_at_turn)
