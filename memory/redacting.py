"""A store around a store, which lets no credentials through."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..eventlog import Command
from .contract import MemoryStore, check_store, executes, sets_with_expiry
from .entry import MemoryEntry
from .scrubbing import Scrubber

__all__ = ["PASSED_ON", "RedactingStore"]

PASSED_ON = ("scan", "get_turn", "advance_turn", "set_turn")
"""Abilities of the inner store in which no text is written: a redacting store has them as they are."""


class RedactingStore:
    """A `MemoryStore` that replaces the secrets in what is written by `[redacted]`, and keeps it in another.

    Scrubbed are values and metadata, not keys and agents: private keys, tokens of well-known shapes (JSON Web
    Tokens, those of OpenAI, GitHub, AWS, Slack and Google), authorization headers, passwords in URLs, and
    whatever is given to a name like `password` or `api_key`, in text as in JSON. A JSON document stays one.
    What holds no secret is kept exactly. What was masked cannot be had again: this is lossy, on purpose.

    It guesses by names and shapes: it takes some things for secrets that are none (`session: 3`), and does
    not know a secret that is a plain word in a sentence. Entries that were there before stay as they are.

    It has `set_with_expiry`, `execute`, `scan` and the turn exactly if the inner store has. It never has
    `compare_and_set`, and refuses that in `execute` too: nothing may be decided by comparing with a text that
    is not what was written. `expected_version` works as it does there.

    Args:
        inner: the store in which it is kept.
        patterns: regular expressions, as text or compiled, for what counts as a secret besides, wherever it
            occurs. A pattern that matches within `[redacted]` does nothing there. One that takes
            exponential time takes it here too.

    Raises:
        TypeError: not a synchronous store, or something that is no pattern.
        ValueError: a pattern that cannot be compiled.
    """

    def __init__(self, inner: MemoryStore, *, patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        check_store(inner, asynchronous=False, twin="AsyncRedactingStore")
        self._inner = inner
        self._scrubber = Scrubber(patterns)

    @property
    def inner(self) -> MemoryStore:
        """The store in which it is kept."""
        return self._inner

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, as it was kept."""
        return self._inner.get(key)

    def list(self) -> builtins.list[MemoryEntry]:
        """Every entry, as it was kept."""
        return self._inner.list()

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> object:
        """`set` of the inner store, scrubbed; gives and raises what that does."""
        return self._inner.set(key, self._scrubber.value(value), self._scrubber.metadata(key, metadata))

    def delete(self, key: str) -> object:
        """`delete` of the inner store."""
        return self._inner.delete(key)

    def clear(self) -> object:
        """`clear` of the inner store."""
        return self._inner.clear()

    def __getattr__(self, name: str) -> Any:
        """An ability that the inner store has."""
        if name in PASSED_ON:
            return getattr(self._inner, name)
        if name == "set_with_expiry" and sets_with_expiry(self._inner):
            return self._set_with_expiry
        if name == "execute" and executes(self._inner):
            return self._execute
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> object:
        """`set_with_expiry` of the inner store, scrubbed."""
        assert sets_with_expiry(self._inner)
        scrubbed = self._scrubber.metadata(key, metadata)
        return self._inner.set_with_expiry(key, self._scrubber.value(value), expires_at_turn, scrubbed)

    def _execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        agent: str | None = None,
        activity: str | None = None,
    ) -> builtins.list[Any]:
        """`execute` of the inner store, with what the commands write scrubbed.

        Raises:
            TypeError: a compare-and-set is among the commands; nothing was written.
        """
        assert executes(self._inner)
        return self._inner.execute(self._scrubber.commands(commands), agent=agent, activity=activity)
