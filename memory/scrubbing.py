"""What a redacting store makes of everything that is written to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ..eventlog import Command, CompareAndSet, EntryWritten, Event, Limits, Once, Recorded, View, Write
from ..eventlog.commands import exact_str, metadata_text
from ..eventlog.text import json_text, read_json
from .entry import read_metadata
from .javascript import JAVASCRIPT_SPACES
from .keys import owned
from .secret_json import mask_json
from .secret_text import is_suspicious, mask_text
from .snapshot import RestoreSnapshot, SavedEntry
from .values import ENCODING_MARK, JSON_MARK
from .writing import AGENT_MARK, WriteExpiring

__all__ = ["Scrubber"]


class Scrubber:
    """Takes secrets out of values, metadata and commands.

    Args:
        patterns: regular expressions, as text or compiled, for what counts as a secret besides.

    Raises:
        TypeError: one str instead of several patterns, or a pattern that is none (one for bytes, say).
        ValueError: a pattern that cannot be compiled.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]]) -> None:
        if isinstance(patterns, str | re.Pattern):
            raise TypeError("patterns must be several patterns, for example a list; not a single one")
        self._patterns = tuple(map(_compiled, patterns))

    def value(self, value: str) -> str:
        """`value` without its secrets; the same object where there is none.

        What is one JSON document, white space around it aside, is masked by the names of its members and
        stays JSON; so does JSON in the strings of it. Everything else is masked as text.

        Raises:
            TypeError: not a str.
        """
        text = exact_str("value", value)
        if self._is_clear(text):
            return text
        document = text.strip(JAVASCRIPT_SPACES)
        if document.startswith(("{", "[", '"')):
            masked = mask_json(document, self.value)
            if masked is not None:
                return text if masked is document else text.replace(document, masked, 1)
        return mask_text(text, self._patterns)

    def metadata(self, key: str, metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The metadata of `key` without its secrets; the same object where there is none.

        The agent that the key names anyway, and the mark of the encoding, stay.

        Raises:
            TypeError, ValueError: metadata that cannot be; see `Write`.
        """
        text = metadata_text(metadata)
        masked = self._metadata_text(exact_str("key", key), text)
        return metadata if masked is text else read_metadata(masked)

    def commands(self, commands: Sequence[Command[Any]]) -> list[Command[Any]]:
        """`commands`, such that what they write is without secrets.

        Raises:
            TypeError: a compare-and-set is among them.
        """
        return [self._command(command) for command in commands]

    def _is_clear(self, text: str) -> bool:
        """Whether a quick look is enough to leave `text` as it is."""
        return not self._patterns and not is_suspicious(text)

    def _command(self, command: Command[Any]) -> Command[Any]:
        if isinstance(command, CompareAndSet):
            raise TypeError(
                f"key {command.key!r:.80}: a redacting store compares and sets nothing, since what it holds "
                "is not what was written; use expected_version, or the inner store. Nothing was written"
            )
        # Known commands are scrubbed here, before the lock; what others write is only seen when they decide.
        if type(command) is Write:
            return self._write(command)
        if type(command) is Once:
            return replace(command, command=self._command(command.command))
        if type(command) is WriteExpiring and type(command.write) is Write:
            return replace(command, write=self._write(command.write))
        if type(command) is RestoreSnapshot:
            scrubbed = copy(command)
            object.__setattr__(scrubbed, "entries", tuple(map(self._saved, command.entries)))
            return scrubbed
        return _Scrubbed(command, self)

    def event(self, event: Event) -> Event:
        """`event`, with the text it writes scrubbed."""
        if not isinstance(event, EntryWritten):
            return event
        metadata = self._metadata_text(event.key, event.metadata)
        return replace(event, value=self.value(event.value), metadata=metadata)

    def _write(self, write: Write) -> Write:
        metadata = self.metadata(write.key, read_metadata(write.metadata_json))
        value = self.value(write.value)
        return Write(write.key, value, metadata, write.expires_at_turn, write.expected_version)

    def _saved(self, entry: SavedEntry) -> SavedEntry:
        metadata = self._metadata_text(entry.key, entry.metadata)
        return replace(entry, value=self.value(entry.value), metadata=metadata)

    def _metadata_text(self, key: str, metadata: str | None) -> str | None:
        if metadata is None or self._is_clear(metadata):
            return metadata
        masked = mask_json(metadata, self.value)
        if masked is None or masked is metadata:
            return metadata
        before = cast("dict[str, Any]", read_json(metadata))
        after = cast("dict[str, Any]", read_json(masked))
        for name, known in ((AGENT_MARK, owned(key).agent), (ENCODING_MARK, JSON_MARK)):
            if before.get(name) == known:
                after[name] = known
        return json_text(after)


@dataclass(frozen=True, slots=True)
class _Scrubbed:
    """A command of somebody else's, with what it writes scrubbed."""

    command: Command[Any]
    scrubber: Scrubber = field(compare=False, repr=False)

    @property
    def agent(self) -> str | None:
        """See `Command.agent`."""
        return self.command.agent

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        self.command.check(limits)

    def decide(self, view: View) -> Sequence[Event]:
        """See `Command.decide`."""
        return [self.scrubber.event(event) for event in self.command.decide(view)]

    def outcome(self, recorded: Sequence[Recorded]) -> Any:
        """See `Command.outcome`."""
        return self.command.outcome(recorded)


def _compiled(pattern: object) -> re.Pattern[str]:
    if isinstance(pattern, re.Pattern):
        compiled = cast("re.Pattern[Any]", pattern)
    elif isinstance(pattern, str):
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"the pattern {pattern!r:.80} is not a regular expression: {error}") from error
    else:
        raise TypeError(f"a pattern must be a str or a compiled pattern, not {type(pattern).__name__}")
    if not isinstance(compiled.pattern, str):
        raise TypeError(f"the pattern {compiled.pattern!r:.80} is for bytes; values are str")
    return compiled
