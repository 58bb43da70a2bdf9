"""What this process remembers of the end of the log, so that a write reads nothing it knows already.

It holds as long as nobody else has written, which SQLite tells by `PRAGMA data_version`. Nothing here is more
than a copy of what the tables say.
"""

from __future__ import annotations

from typing import NamedTuple

from .chain import framed_commitment
from .driver import Connection
from .entry import Content, Entry
from .events import EntryWritten, Recorded
from .history import content_at, entries_at, entry_of
from .runs import Lineage, Run, find_name, find_run, lineage, read_head

__all__ = ["Name", "RunTail", "Tail", "written_content"]

_DATA_VERSION = "pragma data_version"
_LAST_POSITION = "select coalesce(max(position), 0) from events"
_LAST_NAME = "select coalesce(max(id), 0) from names"
_LAST_RUN = "select coalesce(max(id), 0) from runs"

MAX_RUNS = 1_000
"""Runs remembered before all of them are forgotten."""

MAX_ENTRIES = 100_000
"""Entries, and names, remembered for one run before it is forgotten and read anew."""


class Name(NamedTuple):
    """An interned name: its number in this file, and what stands for it in the frame of an event."""

    id: int
    framed: bytes

    @property
    def commitment(self) -> bytes:
        """The 32 bytes themselves."""
        return self.framed[-32:]


class RunTail:
    """The end of one run.

    Attributes:
        lineage: the run and its ancestors.
        revision, turn, hash: of its newest event.
        recorded_upto: the newest revision that is in the table; later ones are about to be written.
        entries: what keys hold now, as far as somebody asked.
        pending: the events that are not in the table yet, oldest first.
        names: the interned names of its family, as far as somebody asked; shared by the family's runs.
        missing: names that the family did not have when somebody asked; what is in `names` counts.
    """

    __slots__ = (
        "entries",
        "hash",
        "lineage",
        "missing",
        "names",
        "pending",
        "recorded_upto",
        "revision",
        "turn",
    )

    def __init__(
        self, past: Lineage, revision: int, turn: int, newest: bytes, names: dict[str, Name]
    ) -> None:
        self.lineage = past
        self.revision = self.recorded_upto = revision
        self.turn = turn
        self.hash = newest
        self.entries: dict[str, Entry | None] = {}
        self.pending: list[Recorded] = []
        self.names = names
        self.missing: set[str] = set()

    @property
    def run(self) -> Run:
        """The run."""
        return self.lineage.run

    def entry(self, db: Connection, key: str) -> Entry | None:
        """What `key` holds now."""
        if key in self.entries:
            return self.entries[key]
        name = self.name(db, key)
        found = None if name is None else entry_of(db, self.lineage, name.id, self.recorded_upto)
        self.entries[key] = found
        return found

    def living(self, db: Connection) -> dict[str, Entry | None]:
        """What every key holds now; None for keys that are gone."""
        stored: dict[str, Entry | None] = {
            entry.key: entry for entry in entries_at(db, self.lineage, self.recorded_upto)
        }
        stored.update(self.entries)
        return stored

    def content(self, db: Connection, entry: Entry) -> Content:
        """The text that `entry` points to."""
        offset = entry.content - self.recorded_upto - 1
        if offset < 0:
            return content_at(db, self.lineage, entry.content)
        return written_content(self.pending[offset])

    def written(self) -> None:
        """What was pending is in the tables now."""
        self.recorded_upto = self.revision
        self.pending.clear()
        self.missing.clear()
        if len(self.entries) > MAX_ENTRIES or len(self.names) > MAX_ENTRIES:
            self.entries.clear()
            self.names.clear()

    def name(self, db: Connection, text: str) -> Name | None:
        """The interned name `text`; None if the family has none."""
        known = self.names.get(text)
        if known is None and text not in self.missing:
            row = find_name(db, self.run.family, text)
            if row is None:
                self.missing.add(text)
                return None
            known = self.names[text] = Name(row[0], framed_commitment(row[1]))
        return known


def written_content(recorded: Recorded) -> Content:
    """The text that an event wrote which is not in the table yet."""
    event = recorded.event
    assert isinstance(event, EntryWritten)
    return Content(event.value, event.metadata, recorded.agent)


class Tail:
    """The end of the file.

    It is trusted only from the end of a transaction that succeeded (`hold`) to the beginning of the next
    (`refresh`). So whatever breaks a transaction off, and wherever, what it left here is not believed.

    Attributes:
        position: the newest position.
        last_name, last_run: the greatest number given to a name, to a run.
    """

    def __init__(self) -> None:
        self._data_version = self._begun_at = -1
        self._runs: dict[str, RunTail] = {}
        self._names: dict[int, dict[str, Name]] = {}
        self.position = self.last_name = self.last_run = 0

    def forget(self) -> None:
        """Something else wrote: remember nothing."""
        self._data_version = -1

    def hold(self) -> None:
        """The transaction was committed: what is remembered is so."""
        if len(self._runs) > MAX_RUNS:
            self._runs.clear()
            self._names.clear()
        self._data_version = self._begun_at

    def refresh(self, db: Connection) -> bool:
        """Call right after BEGIN: drop what is no longer true; whether somebody else may have written."""
        (version,) = db.execute(_DATA_VERSION).fetchone()
        known, self._data_version, self._begun_at = self._data_version, -1, version
        if version == known:
            return False
        self._runs.clear()
        self._names.clear()
        (self.position,) = db.execute(_LAST_POSITION).fetchone()
        (self.last_name,) = db.execute(_LAST_NAME).fetchone()
        (self.last_run,) = db.execute(_LAST_RUN).fetchone()
        return True

    def run(self, db: Connection, name: str) -> RunTail | None:
        """The end of the run called `name`; None if there is no such run."""
        known = self._runs.get(name)
        if known is None:
            run = find_run(db, name)
            if run is None:
                return None
            head = read_head(db, run.id)
            past, names = lineage(db, run), self.names(run.family)
            known = self._runs[name] = RunTail(past, head.revision, head.turn, head.hash, names)
        return known

    def names(self, family: int) -> dict[str, Name]:
        """The interned names of a family, as far as somebody asked."""
        return self._names.setdefault(family, {})

    def add(self, tail: RunTail) -> None:
        """A run that begins."""
        self._runs[tail.run.name] = tail
