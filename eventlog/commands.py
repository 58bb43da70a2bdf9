"""What may be asked of a run, and what follows from it.

A command is frozen. `decide` is pure: from what the command asks of the present (a `View`) it returns the
facts that follow; it is called inside the write lock, once, in the order the commands came. `outcome` reads
the answer for the caller off the facts as recorded. Layers above may bring commands of their own; the events
they return are the closed set of `events`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Protocol, TypeVar

from .entry import Content, Entry
from .errors import Conflict
from .events import (
    EntryDeleted,
    EntryWritten,
    Event,
    Recorded,
    Seal,
    TurnAdvanced,
    TurnSet,
    WriteRefused,
)
from .jsonvalue import encode_json
from .limits import MAX_TURN, Limits
from .tuples import slot_setters

__all__ = [
    "AdvanceTurn",
    "Clear",
    "Command",
    "CompareAndSet",
    "Delete",
    "SetTurn",
    "View",
    "Write",
    "check_name",
    "check_turn",
    "exact_str",
    "metadata_agent",
    "metadata_text",
]

T_co = TypeVar("T_co", covariant=True)


class View(Protocol):
    """The present of one run, as a command may see it while it decides."""

    @property
    def turn(self) -> int:
        """The run's turn."""
        ...

    def entry(self, key: str) -> Entry | None:
        """What `key` holds, expired or not; None if nothing."""
        ...

    def entries(self) -> Iterable[Entry]:
        """Every living entry, in birth order."""
        ...

    def content(self, entry: Entry) -> Content:
        """The text that `entry` points to."""
        ...

    def seal(self, text: str) -> Seal:
        """Length and salted digest of `text`."""
        ...


class Command(Protocol[T_co]):
    """One thing asked of a run; `T_co` is the type of its outcome."""

    @property
    def agent(self) -> str | None:
        """Who asks, where the command itself says so; else None, and the ambient agent counts."""
        ...

    def check(self, limits: Limits) -> None:
        """Refuse at the door what is too large.

        Raises:
            ValueError: a size or number is out of bounds; nothing has been read or written.
        """
        ...

    def decide(self, view: View) -> Sequence[Event]:
        """The facts that follow; none if nothing changes.

        Raises:
            Conflict: a stated condition does not hold; carries the refusal to record.
        """
        ...

    def outcome(self, recorded: Sequence[Recorded]) -> T_co:
        """The answer, given the command's own events as they were recorded."""
        ...


@dataclass(frozen=True, slots=True, init=False)
class Write:
    """Give `key` a value, replacing value, metadata and expiry. The outcome is the entry's new version.

    Attributes:
        key, value: any text.
        metadata: a dict of JSON values with str keys, copied at once; None for no metadata.
        expires_at_turn: 0 … 2**53 - 1, or None for no expiry.
        expected_version: the version the key must have; 0 = must not exist; None = no condition.

    Raises:
        TypeError: an argument of the wrong type, or metadata that is not JSON.
        ValueError: a number out of bounds.
    """

    key: str
    value: str
    expires_at_turn: int | None
    expected_version: int | None
    metadata_json: str | None
    agent: str | None

    def __init__(
        self,
        key: str,
        value: str,
        metadata: Mapping[str, object] | None = None,
        expires_at_turn: int | None = None,
        expected_version: int | None = None,
    ) -> None:
        """Check types and freeze the metadata. Written out, since most commands are of this class."""
        if expires_at_turn is not None:
            check_turn("expires_at_turn", expires_at_turn)
        if expected_version is not None:
            check_version(expected_version)
        _set_key(self, key if type(key) is str else exact_str("key", key))
        _set_value(self, value if type(value) is str else exact_str("value", value))
        _set_expires_at_turn(self, expires_at_turn)
        _set_expected_version(self, expected_version)
        _set_metadata_json(self, metadata_text(metadata))
        _set_agent(self, metadata_agent(metadata))

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        _check_content(limits, self.key, self.value, self.metadata_json)

    def decide(self, view: View) -> Sequence[Event]:
        """One `EntryWritten`, which continues the life of a key that exists."""
        entry = view.entry(self.key)
        found = entry.version if entry else 0
        if self.expected_version is not None and self.expected_version != found:
            raise _version_conflict(self, self.expected_version, found, view)
        birth = entry.birth if entry else None
        return (EntryWritten(self.key, self.value, self.metadata_json, self.expires_at_turn, birth),)

    def outcome(self, recorded: Sequence[Recorded]) -> int:
        """The position of the event, which is the entry's version."""
        return recorded[-1].position


(
    _set_key,
    _set_value,
    _set_expires_at_turn,
    _set_expected_version,
    _set_metadata_json,
    _set_agent,
) = slot_setters(Write)


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """Give `key` a value if it holds exactly `expected` (None: if it does not exist).

    Equality is of the whole string, code point by code point. Expiry neither hides nor blocks. On success the
    expiry is cleared and the metadata replaced. The outcome is whether the value was written; a refusal is
    recorded as a fact.

    Raises:
        TypeError: an argument of the wrong type, or metadata that is not JSON.
    """

    key: str
    expected: str | None
    value: str
    metadata: InitVar[Mapping[str, object] | None] = None
    metadata_json: str | None = field(init=False)
    agent: str | None = field(init=False)

    def __post_init__(self, metadata: Mapping[str, object] | None) -> None:
        """Check types and freeze the metadata."""
        _make_exact(self, "key", "value")
        if self.expected is not None:
            _make_exact(self, "expected")
        object.__setattr__(self, "metadata_json", metadata_text(metadata))
        object.__setattr__(self, "agent", metadata_agent(metadata))

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        _check_content(limits, self.key, self.value, self.metadata_json)

    def decide(self, view: View) -> Sequence[Event]:
        """One `EntryWritten`, or one `WriteRefused` that says why not."""
        entry = view.entry(self.key)
        if entry is None:
            reason = None if self.expected is None else "key is missing"
        elif self.expected is None:
            reason = "key exists"
        else:
            reason = None if view.content(entry).value == self.expected else "value differs"
        if reason is None:
            birth = entry.birth if entry else None
            return (EntryWritten(self.key, self.value, self.metadata_json, None, birth),)
        found = entry.version if entry else 0
        return (WriteRefused(self.key, reason, found, view.seal(self.value)),)

    def outcome(self, recorded: Sequence[Recorded]) -> bool:
        """Whether the value was written."""
        return isinstance(recorded[-1].event, EntryWritten)


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove `key`. The outcome is whether it existed; removing an absent key records nothing.

    Raises:
        TypeError: the key is not a str.
    """

    key: str
    agent: str | None = None

    def __post_init__(self) -> None:
        """Check the type."""
        _make_exact(self, "key")

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        limits.check_name("the key", self.key)

    def decide(self, view: View) -> Sequence[Event]:
        """One `EntryDeleted` if there is something to delete."""
        return (EntryDeleted(self.key),) if view.entry(self.key) else ()

    def outcome(self, recorded: Sequence[Recorded]) -> bool:
        """Whether the key existed."""
        return bool(recorded)


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove every entry, reserved ones included. The outcome is how many there were."""

    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: View) -> Sequence[Event]:
        """One `EntryDeleted` per living key, in birth order."""
        return [EntryDeleted(entry.key) for entry in view.entries()]

    def outcome(self, recorded: Sequence[Recorded]) -> int:
        """How many entries were removed."""
        return len(recorded)


@dataclass(frozen=True, slots=True)
class AdvanceTurn:
    """Count the run's turn up by one. The outcome is the new turn."""

    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: View) -> Sequence[Event]:
        """One `TurnAdvanced`.

        Raises:
            ValueError: the turn is as high as turns go (2**53 - 1).
        """
        check_turn("turn", view.turn + 1)
        return (TurnAdvanced(view.turn + 1),)

    def outcome(self, recorded: Sequence[Recorded]) -> int:
        """The new turn."""
        return recorded[-1].turn


@dataclass(frozen=True, slots=True)
class SetTurn:
    """Set the run's turn, up or down; setting it to what it is records nothing. The outcome is the turn.

    Raises:
        TypeError, ValueError: not an integer from 0 to 2**53 - 1.
    """

    turn: int
    agent: str | None = None

    def __post_init__(self) -> None:
        """Check type and range."""
        check_turn("turn", self.turn)

    def check(self, limits: Limits) -> None:
        """Nothing more to check."""

    def decide(self, view: View) -> Sequence[Event]:
        """One `TurnSet` if the turn is another."""
        return (TurnSet(self.turn),) if view.turn != self.turn else ()

    def outcome(self, recorded: Sequence[Recorded]) -> int:  # noqa: ARG002 - the contract of `Command`
        """The turn asked for."""
        return self.turn


def metadata_text(metadata: Mapping[str, object] | None) -> str | None:
    """The JSON text of `metadata`; None stays None and `{}` stays `{}`.

    Raises:
        TypeError: not a dict of JSON values with str keys, finite and free of cycles; names the path.
        ValueError: nested deeper than 100, or an integer of more than 4,000 digits.
    """
    if metadata is None:
        return None
    if type(metadata) is not dict:  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(f"metadata must be a dict with str keys or None, not {type(metadata).__name__}")
    return encode_json(metadata)  # pyright: ignore[reportUnknownArgumentType]


def metadata_agent(metadata: Mapping[str, object] | None) -> str | None:
    """The agent that `metadata` names, if it does."""
    agent = metadata.get("agent") if metadata else None
    return agent if isinstance(agent, str) and agent else None


def check_turn(what: str, turn: object) -> int:
    """`turn`, if it is an integer from 0 to 2**53 - 1 (a bool is not an integer).

    Raises:
        TypeError: it is no integer.
        ValueError: it is out of range.
    """
    if type(turn) is not int:
        raise TypeError(f"{what} must be an int, not {type(turn).__name__} ({turn!r:.50})")
    if not 0 <= turn <= MAX_TURN:
        raise ValueError(f"{what} must lie within 0 and 2**53 - 1, not {turn}")
    return turn


def check_version(version: object) -> None:
    """Refuse what cannot be the version of an entry.

    Raises:
        TypeError: not an int (a bool is not one).
    """
    if type(version) is not int:
        raise TypeError(f"expected_version must be an int or None, not {type(version).__name__}")


def check_name(limits: Limits, what: str, name: object) -> None:
    """Refuse a name of a run, an agent or an activity that cannot be.

    Raises:
        TypeError, ValueError: it is no str, empty, or longer than a name may be.
    """
    if type(name) is str and 0 < len(name) * 4 <= limits.key:
        return  # four bytes is the most that a code point takes
    text = exact_str(what, name)
    if not text:
        raise ValueError(f"the name of the {what} must not be empty")
    limits.check_name(f"the name of the {what}", text)


def exact_str(what: str, text: object) -> str:
    """`text` as a plain `str`.

    Raises:
        TypeError: it is not text.
    """
    if type(text) is str:
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    return str.__str__(text)


def _make_exact(command: object, *names: str) -> None:
    """Let the named attributes of a command be plain `str`, whatever subclass of it came."""
    for name in names:
        text = getattr(command, name)
        if type(text) is not str:
            object.__setattr__(command, name, exact_str(name, text))


def _check_content(limits: Limits, key: str, value: str, metadata: str | None) -> None:
    if not limits.surely_allow(key, value, metadata):
        limits.check_name("the key", key)
        limits.check_value(key, value)
        limits.check_metadata(key, metadata)


def _version_conflict(write: Write, expected: int, found: int, view: View) -> Conflict:
    state = f"is at version {found}" if found else "does not exist"
    wanted = f"version {expected}" if expected else "the key not to exist"
    return Conflict(
        f"key {write.key!r} {state}, but the write expected {wanted}; "
        "read it again, merge your change and retry",
        key=write.key,
        expected=expected,
        found=found,
        refusal=WriteRefused(
            key=write.key,
            reason="version differs",
            found_version=found,
            attempt=view.seal(write.value),
            expected_version=expected,
        ),
        agent=write.agent,
    )
