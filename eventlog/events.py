"""The facts a log holds: past tense, frozen, closed.

Payloads are text and numbers only, so frozen means frozen all the way down. Metadata is the JSON text that is
stored. Two groups matter to readers, and the numbers of the types follow them (docs/format.md):

- *changes* (1 to 9) alter what a key holds; the newest change of a key tells its whole state;
- *turn marks* (10 to 19) begin a visit to a turn; each carries the turn it leads to.

The others (20 to 29) are notes: they change neither entries nor the turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, final

from .tuples import slot_setters

__all__ = [
    "Change",
    "EntryDeleted",
    "EntryRestored",
    "EntryWritten",
    "Event",
    "Note",
    "NothingChanged",
    "Recorded",
    "Redacted",
    "Restored",
    "RunForked",
    "Seal",
    "TurnAdvanced",
    "TurnMark",
    "TurnSet",
    "WriteRefused",
    "moment",
]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FLOATS_ARE_EXACT = 2**42  # milliseconds: up to the year 2109 a float of seconds tells microseconds apart


@final
@dataclass(frozen=True, slots=True, init=False)
class EntryWritten:
    """A key was given a value.

    Attributes:
        key: the key, whole.
        value: the value.
        metadata: JSON text of an object, or None when the entry has no metadata.
        expires_at_turn: the first turn at which the entry counts as expired, or None.
        birth: the revision that began the key's present life; None when this event begins it.
        created_at: only where the event begins a life that is older than the event (a snapshot put back):
            milliseconds since 1970 UTC. None means: the time the event was recorded.
    """

    key: str
    value: str
    metadata: str | None = None
    expires_at_turn: int | None = None
    birth: int | None = None
    created_at: int | None = None

    def __init__(
        self,
        key: str,
        value: str,
        metadata: str | None = None,
        expires_at_turn: int | None = None,
        birth: int | None = None,
        created_at: int | None = None,
    ) -> None:
        """As `dataclass` would have it, in half the time: of this event there are the most."""
        _set_key(self, key)
        _set_value(self, value)
        _set_metadata(self, metadata)
        _set_expires_at_turn(self, expires_at_turn)
        _set_birth(self, birth)
        _set_created_at(self, created_at)


_set_key, _set_value, _set_metadata, _set_expires_at_turn, _set_birth, _set_created_at = slot_setters(
    EntryWritten
)


@dataclass(frozen=True, slots=True)
class EntryDeleted:
    """A key that existed exists no longer."""

    key: str


@dataclass(frozen=True, slots=True)
class EntryRestored:
    """A key holds again what it held earlier in the run's lineage; points there and copies nothing.

    Attributes:
        content: the revision of the `EntryWritten` that holds value and metadata.
        birth: the revision that began the life put back.
        created_at: when that life began, milliseconds since 1970 UTC.
        expires_at_turn: the expiry put back.
    """

    key: str
    content: int
    birth: int
    created_at: int
    expires_at_turn: int | None = None


@dataclass(frozen=True, slots=True)
class RunForked:
    """The first event of a fork: it goes on from revision `revision` of the run whose uid is `parent`."""

    parent: str
    revision: int
    turn: int


@dataclass(frozen=True, slots=True)
class TurnAdvanced:
    """The run's turn was counted up by one, to `turn`."""

    turn: int


@dataclass(frozen=True, slots=True)
class TurnSet:
    """The run's turn was set to `turn`, up or down."""

    turn: int


@dataclass(frozen=True, slots=True)
class Restored:
    """The run was taken back: the changes that follow in the same batch bring its entries there.

    Attributes:
        turn: the turn it leads to.
        to: the revision gone back to; None when the state came from a snapshot.
        by: who asked, as told; None when nobody said.
        reason: why, as told.
    """

    turn: int
    to: int | None = None
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Seal:
    """What may be kept of a text that must not be: its length and a salted digest.

    Attributes:
        length: bytes of UTF-8.
        digest: SHA-256 as docs/format.md describes, 32 bytes.
        salt: 16 random bytes; None once they have been erased, which makes the digest unguessable.
    """

    length: int
    digest: bytes
    salt: bytes | None


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """An attempt to write was refused, because what it expected of the key did not hold.

    Attributes:
        reason: `value differs`, `key is missing`, `key exists` or `version differs`.
        found_version: the version the key had; 0 when it did not exist.
        attempt: length and digest of the value that was not written.
        expected_version: the version the attempt stated, where it stated one.
    """

    key: str
    reason: str
    found_version: int
    attempt: Seal
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class NothingChanged:
    """A command with an idempotency key had nothing to change; recorded so that a repetition is known."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """Texts of earlier events of the same run were erased for good; what proves the hash chain stays here.

    The insertion of this event is what erases them (docs/format.md).

    Attributes:
        contents: revision of each event that lost value, metadata and salt, with the commitment to them.
        names: commitments of the names of the run's family that lost their text and salt.
        key: the key whose contents were erased; None where it is about names.
        reason: why, as told.
    """

    contents: tuple[tuple[int, bytes], ...]
    names: tuple[bytes, ...] = ()
    key: str | None = None
    reason: str | None = None


Change = EntryWritten | EntryDeleted | EntryRestored
TurnMark = RunForked | TurnAdvanced | TurnSet | Restored
Note = WriteRefused | NothingChanged | Redacted
Event = Change | TurnMark | Note


class Recorded(NamedTuple):
    """An event in its place in the log.

    Attributes:
        position: its place in this file's log: rising, never reused.
        run: name of the run.
        revision: its place in the run's lineage: 1, 2, 3 … without a gap.
        batch: its offset in its batch; 0 is the first. Only ends of batches are states anybody saw.
        turn: the run's turn; for a turn mark the turn it leads to.
        agent: who acted, as claimed; None when unknown.
        activity: the stretch of the agent's work it belongs to, if one was named.
        recorded_at_ms: the writer's clock, milliseconds since 1970 UTC. For people; order is `position`.
        event: the fact itself.
        hash: SHA-256 that chains it to everything before it in its run, 32 bytes (docs/format.md).
        idempotency_key: the key its writer gave it, if any.
    """

    position: int
    run: str
    revision: int
    batch: int
    turn: int
    agent: str | None
    activity: str | None
    recorded_at_ms: int
    event: Event
    hash: bytes
    idempotency_key: str | None = None

    @property
    def recorded_at(self) -> datetime:
        """`recorded_at_ms` as an aware UTC datetime."""
        return moment(self.recorded_at_ms)


def moment(milliseconds: int) -> datetime:
    """Milliseconds since 1970 UTC as an aware UTC datetime."""
    if 0 <= milliseconds < _FLOATS_ARE_EXACT:  # in half the time
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    return _EPOCH + timedelta(0, 0, 0, milliseconds)
