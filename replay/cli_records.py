"""Events, entries and the like as JSON objects for programs and as cells for people."""

from __future__ import annotations

from typing import assert_never

from ..eventlog import (
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    EventLog,
    NothingChanged,
    Recorded,
    Redacted,
    Restored,
    RunForked,
    TurnAdvanced,
    TurnSet,
    WriteRefused,
)
from ..eventlog.events import moment
from ..memory.entry import MemoryEntry, read_metadata
from ..memory.values import decode_value
from .cli_text import counted, iso_time, shown_value
from .timeline import Timeline

__all__ = [
    "Places",
    "author",
    "blame_record",
    "entry_record",
    "event_detail",
    "event_record",
    "event_text",
    "history_record",
    "history_texts",
    "value_text",
    "written",
]


def event_record(recorded: Recorded) -> dict[str, object]:
    """An event as `log --json` shows it; with `detail` where it tells more than the other fields can."""
    event = recorded.event
    value, metadata = None, None
    if isinstance(event, EntryWritten):
        metadata = read_metadata(event.metadata)
        value = decode_value(event.value, metadata)
    record: dict[str, object] = {
        "position": recorded.position,
        "run": recorded.run,
        "revision": recorded.revision,
        "turn": recorded.turn,
        "type": type(event).__name__,
        "agent": recorded.agent,
        "activity": recorded.activity,
        "key": getattr(event, "key", None),
        "value": value,
        "metadata": metadata,
        "recorded_at": iso_time(recorded.recorded_at),
        "hash": recorded.hash.hex(),
    }
    detail = event_detail(recorded)
    return record | {"detail": detail} if detail else record


def event_detail(recorded: Recorded) -> dict[str, object]:
    """What an event tells beyond its place, key, value and metadata, by its JSON name; nothing absent."""
    event = recorded.event
    match event:
        case EntryWritten():
            told = {"expires_at_turn": event.expires_at_turn, "created_at": _time(event.created_at)}
        case EntryRestored():
            told = {
                "content_revision": event.content,
                "expires_at_turn": event.expires_at_turn,
                "created_at": _time(event.created_at),
            }
        case WriteRefused():
            told = {
                "reason": event.reason,
                "found_version": event.found_version,
                "expected_version": event.expected_version,
                "length": event.attempt.length,
            }
        case Restored():
            told = {"to_revision": event.to, "by": event.by, "reason": event.reason}
        case RunForked():
            told = {"parent_uid": event.parent, "parent_revision": event.revision}
        case Redacted():
            told = {"revisions": [revision for revision, _ in event.contents], "names": len(event.names)}
            told |= {"reason": event.reason}
        case EntryDeleted() | TurnAdvanced() | TurnSet() | NothingChanged():
            told = {}
        case _:
            assert_never(event)
    return {name: value for name, value in told.items() if value is not None}


class Places:
    """Positions of revisions: what people can give as an address."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._timelines: dict[str, Timeline] = {}
        self._names: dict[str, str] | None = None

    def address(self, run: str, revision: int) -> str:
        """The address of a revision of `run`'s lineage."""
        if revision == 0:
            return "@0"
        timeline = self._timelines.get(run)
        if timeline is None:
            timeline = self._timelines[run] = Timeline(self._log, run)
        return f"@{timeline.original(revision).position}"

    def name(self, uid: str) -> str:
        """The name of the run whose uid that is."""
        if self._names is None or uid not in self._names:
            self._names = {info.run.uid: info.run.name for info in self._log.runs()}
        return self._names.get(uid, uid)


def event_text(recorded: Recorded, places: Places) -> str:
    """What an event says, in the words of the log."""
    event = recorded.event
    match event:
        case EntryWritten():
            return value_text(recorded)
        case EntryDeleted() | NothingChanged():
            return "-"
        case Redacted():
            return redaction_text(event)
        case EntryRestored():
            return f"the value of {places.address(recorded.run, event.content)}"
        case WriteRefused():
            return f"{refusal_text(event)}; {event.attempt.length:,} bytes not written"
        case TurnAdvanced() | TurnSet():
            return f"to turn {event.turn}"
        case Restored():
            to = "a snapshot" if event.to is None else places.address(recorded.run, event.to)
            return f"back to {to}, turn {event.turn}" + ("" if event.reason is None else f": {event.reason}")
        case RunForked():
            parent = places.name(event.parent)
            return f"from {places.address(parent, event.revision)} of run {parent}"
        case _:
            assert_never(event)


def value_text(recorded: Recorded) -> str:
    """The value that an event wrote, decoded where it is structured; `-` if it wrote none."""
    event = recorded.event
    return shown_value(event.value, read_metadata(event.metadata)) if isinstance(event, EntryWritten) else "-"


def refusal_text(event: WriteRefused) -> str:
    """Why a write was refused, with the version it met."""
    found = f"found @{event.found_version}" if event.found_version else "found nothing"
    expected = "" if event.expected_version is None else f", expected @{event.expected_version}"
    return f"{event.reason} ({found}{expected})"


def redaction_text(event: Redacted) -> str:
    """What was erased, and why."""
    contents, names = len(event.contents), len(event.names)
    erased = [counted(contents, "value", "values")] if contents else []
    erased += [counted(names, "name", "names")] if names else []
    return f"{' and '.join(erased)} erased" + ("" if event.reason is None else f": {event.reason}")


def history_record(timeline: Timeline, recorded: Recorded) -> dict[str, object]:
    """A change or refusal of a key: as in the log, with the value and author of what a restore put back."""
    record = event_record(recorded)
    source = written(timeline, recorded)
    if isinstance(recorded.event, EntryRestored) and source is not None:
        origin = event_record(source)
        record |= {"value": origin["value"], "metadata": origin["metadata"]}
        record["original"] = {
            name: origin[name] for name in ("position", "run", "turn", "agent", "recorded_at")
        }
    return record


def history_texts(timeline: Timeline, recorded: Recorded) -> tuple[str, str | None, str]:
    """A change or refusal of a key for people: what happened, whose it is, and the value."""
    event = recorded.event
    source = written(timeline, recorded)
    value = "-" if source is None else value_text(source)
    match event:
        case EntryWritten():
            return "written", recorded.agent, value
        case EntryRestored() if source is not None:
            by = "" if recorded.agent is None else f" by {recorded.agent}"
            return f"restored from @{source.position}{by}", source.agent, value
        case WriteRefused():
            return f"refused: {refusal_text(event)}", recorded.agent, f"({event.attempt.length:,} bytes)"
        case Redacted():
            return redaction_text(event), recorded.agent, value
        case _:
            return "deleted", recorded.agent, value


def entry_record(entry: MemoryEntry, agent: str | None) -> dict[str, object]:
    """An entry as `state --json` shows it."""
    return {
        "key": entry.key,
        "value": decode_value(entry.value, entry.metadata),
        "metadata": entry.metadata,
        "created_at": iso_time(entry.created_at),
        "expires_at_turn": entry.expires_at_turn,
        "version": entry.version,
        "agent": agent,
    }


def blame_record(key: str, recorded: Recorded) -> dict[str, object]:
    """Who wrote an entry, as `blame --json` shows it."""
    whole = event_record(recorded)
    return {"key": key} | {
        name: whole[name] for name in ("agent", "turn", "position", "recorded_at", "value")
    }


def author(log: EventLog, timeline: Timeline, entry: MemoryEntry) -> str | None:
    """The agent that wrote an entry's value, whoever restored it since."""
    version = entry.version or 0
    for recorded in log.read(after=version - 1, limit=1):
        source = written(timeline, recorded)
        return None if source is None else source.agent
    return None


def written(timeline: Timeline, recorded: Recorded) -> Recorded | None:
    """The `EntryWritten` whose value an event gave its key; None if it gave none."""
    event = recorded.event
    if isinstance(event, EntryRestored):
        return timeline.original(event.content)
    return recorded if isinstance(event, EntryWritten) else None


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso_time(moment(milliseconds))
