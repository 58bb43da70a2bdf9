"""Memory as one JSON document, taken and put back: version 1, the shape other implementations write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NotRequired, TypedDict, cast

from ..eventlog import Entry, EntryDeleted, EntryWritten, Event, Limits, Recorded, Restored, View
from ..eventlog.commands import check_turn, exact_str, metadata_text
from .contract import AsyncMemoryStore, MemoryStore, sets_with_expiry
from .entry import MemoryEntry, read_metadata
from .reserved import is_reserved
from .steps import Steps

__all__ = [
    "RestoreSnapshot",
    "SavedEntry",
    "Snapshot",
    "SnapshotEntry",
    "iso_time",
    "milliseconds",
    "put_back",
    "take_snapshot",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SnapshotEntry(TypedDict):
    """One entry of a snapshot; absent members are left out.

    `value` is the text a store keeps; `metadata` says how it is encoded. `createdAt` is ISO 8601 in UTC with
    milliseconds, as in `2026-11-30T02:13:00.123Z`.
    """

    key: str
    value: str
    metadata: NotRequired[dict[str, Any]]
    createdAt: str
    expiresAtTurn: NotRequired[int]


class Snapshot(TypedDict):
    """The visible entries in order, and the turn; plain JSON."""

    version: int
    turnCount: int
    entries: list[SnapshotEntry]


@dataclass(frozen=True, slots=True)
class SavedEntry:
    """An entry as a snapshot tells it; see `turnlog.eventlog.EntryWritten` for the units."""

    key: str
    value: str
    metadata: str | None
    created_at: int
    expires_at_turn: int | None


@dataclass(frozen=True, slots=True)
class RestoreSnapshot:
    """Bring the run's entries and turn to what `snapshot` says; reserved entries stay. The outcome is None.

    Entries that are there already, in their place, are left alone; the others begin a new life behind them,
    with the `created_at` of the snapshot. The restore itself is recorded, even where it changes nothing.

    Attributes:
        snapshot: a `Snapshot`, checked completely and copied at once.
        by: who asks, for the history; not empty.

    Raises:
        TypeError, ValueError: not a snapshot of version 1; the message names the member.
    """

    snapshot: InitVar[object]
    by: str | None = None
    turn: int = field(init=False)
    entries: tuple[SavedEntry, ...] = field(init=False)

    def __post_init__(self, snapshot: object) -> None:
        """Check and copy the snapshot."""
        document = _members(snapshot, "snapshot")
        version = document.get("version")
        if type(version) is not int or version != 1:
            raise ValueError(f"unsupported snapshot version {version!r:.80}; this build reads version 1")
        if self.by is not None and not exact_str("by", self.by):
            raise ValueError("by must not be empty")
        object.__setattr__(self, "turn", check_turn("turnCount", document.get("turnCount")))
        object.__setattr__(self, "entries", _saved_entries(document.get("entries")))

    @property
    def agent(self) -> str | None:
        """Who acts: whoever asked."""
        return self.by

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        if self.by is not None:
            limits.check_name("by", self.by)
        for entry in self.entries:
            limits.check_name("the key", entry.key)
            limits.check_value(entry.key, entry.value)
            limits.check_metadata(entry.key, entry.metadata)

    def decide(self, view: View) -> Sequence[Event]:
        """One `Restored`, then one event per key that changes."""
        living = [entry for entry in view.entries() if not is_reserved(entry.key)]
        staying = {saved.key for saved in self.entries}
        gone = [EntryDeleted(entry.key) for entry in living if entry.key not in staying]
        anew = [
            EntryWritten(
                saved.key,
                saved.value,
                saved.metadata,
                saved.expires_at_turn,
                birth=None,
                created_at=saved.created_at,
            )
            for saved in self.entries[self._in_place(view, living) :]
        ]
        return [Restored(self.turn, by=self.by, reason="snapshot"), *gone, *anew]

    def outcome(self, recorded: Sequence[Recorded]) -> None:
        """Nothing to tell."""

    def _in_place(self, view: View, living: Iterable[Entry]) -> int:
        """How many of the snapshot's first entries live already, unchanged and in this order."""
        by_key = {entry.key: entry for entry in living}
        last_birth = 0
        for place, saved in enumerate(self.entries):
            entry = by_key.get(saved.key)
            if entry is None or entry.birth <= last_birth or not _unchanged(view, entry, saved):
                return place
            last_birth = entry.birth
        return len(self.entries)


def take_snapshot(entries: Iterable[MemoryEntry], turn: int) -> Snapshot:
    """The snapshot of `entries`, which must be those that are visible at `turn`.

    Raises:
        ValueError: a store gave a `created_at` without a time zone.
    """
    return {"version": 1, "turnCount": turn, "entries": [_snapshot_entry(entry) for entry in entries]}


def put_back(store: MemoryStore | AsyncMemoryStore, command: RestoreSnapshot) -> Steps[None]:
    """Bring the entries of a store that cannot `execute` to what `command` says, one by one.

    A failure leaves them in between; `created_at` is lost, and so are expiries where the store keeps none.
    """
    present: list[MemoryEntry] = yield store.list()
    for entry in present:
        if not is_reserved(entry.key):
            yield store.delete(entry.key)
    for saved in command.entries:
        yield _set_again(store, saved)


def _set_again(store: MemoryStore | AsyncMemoryStore, saved: SavedEntry) -> object:
    metadata = read_metadata(saved.metadata)
    if saved.expires_at_turn is not None and sets_with_expiry(store):
        return store.set_with_expiry(saved.key, saved.value, saved.expires_at_turn, metadata)
    return store.set(saved.key, saved.value, metadata)


def _snapshot_entry(entry: MemoryEntry) -> SnapshotEntry:
    if entry.created_at.utcoffset() is None:
        raise ValueError(f"key {entry.key!r:.80}: its store gave a created_at without a time zone")
    saved: SnapshotEntry = {
        "key": entry.key,
        "value": entry.value,
        "createdAt": iso_time(entry.created_at),
    }
    if entry.metadata is not None:
        saved["metadata"] = entry.metadata
    if entry.expires_at_turn is not None:
        saved["expiresAtTurn"] = entry.expires_at_turn
    return saved


def _unchanged(view: View, entry: Entry, saved: SavedEntry) -> bool:
    if (entry.created_at, entry.expires_at_turn) != (saved.created_at, saved.expires_at_turn):
        return False
    content = view.content(entry)
    return (content.value, content.metadata) == (saved.value, saved.metadata)


def _saved_entries(entries: object) -> tuple[SavedEntry, ...]:
    if type(entries) is not list:
        raise TypeError(f"entries must be a list, not {type(entries).__name__}")
    saved: dict[str, SavedEntry] = {}
    for index, given in enumerate(cast("list[object]", entries)):
        entry = _saved_entry(given, f"entries[{index}]")
        if entry.key in saved:
            raise ValueError(f"entries[{index}]: the key {entry.key!r:.80} occurs twice")
        if not is_reserved(entry.key):
            saved[entry.key] = entry
    return tuple(saved.values())


def _saved_entry(given: object, where: str) -> SavedEntry:
    members = _members(given, where)
    expires_at_turn = members.get("expiresAtTurn")
    if expires_at_turn is not None:
        check_turn(f"{where}.expiresAtTurn", expires_at_turn)
    metadata = cast("dict[str, object] | None", members.get("metadata"))
    try:
        stored_metadata = metadata_text(metadata)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}.metadata: {error}") from error
    return SavedEntry(
        _text(members, "key", where),
        _text(members, "value", where),
        stored_metadata,
        milliseconds(_text(members, "createdAt", where), f"{where}.createdAt"),
        cast("int | None", expires_at_turn),
    )


def _members(given: object, where: str) -> dict[str, object]:
    if type(given) is not dict:
        raise TypeError(f"{where} must be a dict, not {type(given).__name__}")
    return cast("dict[str, object]", given)


def _text(members: dict[str, object], name: str, where: str) -> str:
    text = members.get(name)
    if type(text) is not str:
        raise TypeError(f"{where}.{name} must be a str, not {type(text).__name__}")
    return text


def iso_time(moment: datetime) -> str:
    """An aware time as ISO 8601 in UTC with milliseconds, `2026-11-30T02:13:00.123Z`."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def milliseconds(text: str, where: str) -> int:
    """ISO 8601 as milliseconds since 1970 UTC; finer parts are dropped."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is not None:
            moment.astimezone(UTC)  # there is no such time in UTC before the year 1 or after 9999
            return (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{where} is not a time in ISO 8601: {text!r:.80}") from error
    raise ValueError(f"{where} has no time zone: {text!r:.80}")
