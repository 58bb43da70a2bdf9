"""What an agent's write becomes before it reaches a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from ..eventlog import EntryWritten, Event, Limits, Recorded, View, Write
from ..eventlog.commands import check_turn
from .keys import full_key, owned
from .values import ENCODING_MARK, JSON_MARK, encode_value

__all__ = ["AGENT_MARK", "Prepared", "WriteExpiring", "check_ttl", "prepare"]

AGENT_MARK = "agent"
"""The member of an entry's metadata that says who wrote it."""


class Prepared(NamedTuple):
    """A write in the terms of a store: three arguments of `MemoryStore.set`."""

    key: str
    value: str
    metadata: dict[str, Any]


def prepare(
    agent: object, key: object, value: object, metadata: Mapping[str, Any] | None, schema: object
) -> Prepared:
    """Namespace the key, encode the value, and mark the metadata with what callers cannot forge.

    Raises:
        TypeError, ValueError: a name, key, value or metadata that cannot be; see `SharedMemory.write`.
    """
    whole = full_key(agent, key)
    encoded = encode_value(value, schema=schema)
    if metadata is not None and type(metadata) is not dict:
        raise TypeError(f"metadata must be a dict with str keys or None, not {type(metadata).__name__}")
    marked = dict(cast("dict[str, Any]", metadata or {}))
    marked.pop(ENCODING_MARK, None)
    if encoded.is_json:
        marked[ENCODING_MARK] = JSON_MARK
    marked[AGENT_MARK] = owned(whole).agent
    return Prepared(whole, encoded.text, marked)


def check_ttl(ttl_turns: object) -> int:
    """`ttl_turns`, if it is an integer of at least 1 (a bool is not an integer).

    Raises:
        ValueError: it is not.
    """
    if type(ttl_turns) is not int or ttl_turns < 1:
        raise ValueError(f"ttl_turns must be an integer of at least 1, not {ttl_turns!r:.80}")
    return ttl_turns


@dataclass(frozen=True, slots=True)
class WriteExpiring:
    """`write`, with an expiry `ttl_turns` after the turn at which it is carried out, exactly.

    The outcome is the entry's new version.
    """

    write: Write
    ttl_turns: int

    def __post_init__(self) -> None:
        """Check the number."""
        check_ttl(self.ttl_turns)

    @property
    def agent(self) -> str | None:
        """See `Command.agent`."""
        return self.write.agent

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        self.write.check(limits)

    def decide(self, view: View) -> Sequence[Event]:
        """The event of `write`, with the expiry.

        Raises:
            ValueError: the expiry would lie beyond the highest turn (2**53 - 1).
        """
        expires_at_turn = check_turn("the turn of expiry", view.turn + self.ttl_turns)
        return [
            replace(event, expires_at_turn=expires_at_turn) if isinstance(event, EntryWritten) else event
            for event in self.write.decide(view)
        ]

    def outcome(self, recorded: Sequence[Recorded]) -> int:
        """See `Write.outcome`."""
        return self.write.outcome(recorded)
