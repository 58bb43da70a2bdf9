"""Asynchronous memories used as if they were synchronous, so that one suite of tests holds both twins."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Self

from turnlog import testing
from turnlog.memory import AsyncSharedMemory
from turnlog.testing import Loop

__all__ = ["Blocking", "Loop"]


class Blocking(testing.Blocking):
    """As for a store; also of a memory or an agent's view, where `turn` is `get_turn()`."""

    def __getattr__(self, name: str) -> Any:
        if name == "turn" and isinstance(self._inner, AsyncSharedMemory):
            return self._loop.run(self._inner.get_turn())
        if name == "agent":
            found = self._inner.agent
            return lambda *given, **named: Blocking(found(*given, **named), self._loop)
        if name in ("store", "memory"):
            return Blocking(getattr(self._inner, name), self._loop)
        return super().__getattr__(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocking) and self._inner is other._inner

    __hash__ = None  # type: ignore[assignment]

    def __enter__(self) -> Self:
        _at_once(self._inner.__aenter__())  # in the calling thread, whose context it changes
        return self

    def __exit__(self, *error: object) -> None:
        _at_once(self._inner.__aexit__(*error))


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that waits for nothing, here and now."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")
