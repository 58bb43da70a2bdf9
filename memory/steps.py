"""What is decided once and carried out by two classes: one that is synchronous, and its asynchronous twin.

An operation is a generator. It yields what a method of the store returned, and is sent the answer: of a
synchronous store that is the same thing, of an asynchronous one what awaiting it gives. So an operation holds
every decision, knows neither kind of store, and never waits. One that is given up in between, because its
task was cancelled or the store failed, is not told; it must hold nothing that would have to be put back.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Generator, Iterable
from typing import Any, TypeAlias, TypeVar

from .entry import MemoryEntry

__all__ = ["Steps", "acarry_out", "carry_out", "gathered"]

T = TypeVar("T")

Steps: TypeAlias = Generator[Any, Any, T]
"""An operation whose result is a `T`."""


def carry_out(steps: Steps[T]) -> T:
    """Carry out an operation on a synchronous store.

    Raises:
        TypeError: the store turns out to be asynchronous.
    """
    # The call that a step yields has been made by then, inside the generator: what it raises is raised there.
    answer = None
    try:
        while True:
            answer = steps.send(answer)
            if hasattr(answer, "__await__"):
                getattr(answer, "close", lambda: None)()
                raise TypeError("the store's methods are asynchronous; use AsyncSharedMemory with it")
    except StopIteration as end:
        return end.value


async def acarry_out(steps: Steps[T]) -> T:
    """Carry out an operation on an asynchronous store."""
    try:
        awaited = steps.send(None)
        while True:
            try:
                answer = await awaited
            except Exception as error:  # noqa: BLE001 - the operation decides what to make of it
                awaited = steps.throw(error)
            else:
                awaited = steps.send(answer)
    except StopIteration as end:
        return end.value


def gathered(
    entries: Iterable[MemoryEntry] | AsyncIterable[MemoryEntry],
) -> Iterable[MemoryEntry] | Awaitable[Iterable[MemoryEntry]]:
    """What to yield of a store's `scan`: entries that come asynchronously must be there to be looked at."""
    return _gather(entries) if isinstance(entries, AsyncIterable) else entries


async def _gather(entries: AsyncIterable[MemoryEntry]) -> Iterable[MemoryEntry]:
    return [entry async for entry in entries]
