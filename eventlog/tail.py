"""What this process remembers of the end of the log, so that a write reads nothing it knows already.

Whether somebody else has written, SQLite tells by `PRAGMA data_version`. What they appended is then taken in,
unless it is too much or anything but ordinary; then all is forgotten (docs/adr/0020-catching-up.md). Nothing
here is more than a copy of what the tables say.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .chain import framed_commitment
from .codec import CODES, is_todays_write
from .driver import Connection
from .entry import Content, Entry
from .events import EntryWritten, Recorded, Redacted
from .evolve import evolve
from .history import content_at, entries_at, entry_of
from .runs import STAND_IN_BEGINS, Lineage, Run, find_name, find_run, lineage, read_head
from .schema import CHANGES
from .tuples import build

__all__ = ["Name", "RunTail", "Tail", "written_content"]

_DATA_VERSION = "pragma data_version"
_SCHEMA_VERSION = "pragma schema_version"
_LAST = """
select coalesce((select max(position) from events), 0), coalesce((select max(id) from names), 0),
    coalesce((select max(id) from runs), 0)
"""
MAX_NEWS = 1_000
"""Events of others that are taken in; of more, the few keys asked for next are sooner looked up anew."""

_ORDINARY = ", ".join(str(code) for kind, code in CODES.items() if kind is not Redacted)
# For each run what was appended to it: turn and hash are those of its newest event. No row if it is too much.
# Without `not indexed` SQLite would walk over all events to have them by run.
_NEWS = f"""
select run, count(*), max(revision), turn, hash, total(type not in ({_ORDINARY})),
    (select max(position) from events), (select max(id) from names), (select max(id) from runs)
from events not indexed
where position > ?1 and (select max(position) from events) <= ?1 + {MAX_NEWS}
group by run
"""  # noqa: S608 - constants only
# Birth and expiry only of a value that goes on with a life: that is all which changes of its entry.
_NEW_CHANGES = f"""
select run, key, position, revision,
    case when {is_todays_write("events")} and created_at is null then birth end, expires_at_turn
from events not indexed where position > ? and {CHANGES} order by position
"""  # noqa: S608 - constants only
# Names under which an earlier look-up may have found, or missed, a name that was erased.
_NEW_STAND_IN = f"""
select 1 from names where id > ? and (text is null or substr(text, 1, {len(STAND_IN_BEGINS)}) = ?) limit 1
"""  # noqa: S608 - a constant only

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
        news: the newest change that somebody else made to a key since `entries` told what it holds, as
            `_NEW_CHANGES` has it; by the number of the key's name.
        names: the interned names of its family, as far as somebody asked; shared by the family's runs.
        missing: names that a family, by its number, did not have when somebody asked in this transaction.
    """

    __slots__ = (
        "entries",
        "hash",
        "lineage",
        "missing",
        "names",
        "news",
        "pending",
        "recorded_upto",
        "revision",
        "turn",
    )

    def __init__(
        self,
        past: Lineage,
        revision: int,
        turn: int,
        newest: bytes,
        names: dict[str, Name],
        missing: set[tuple[int, str]],
    ) -> None:
        self.lineage = past
        self.revision = self.recorded_upto = revision
        self.turn = turn
        self.hash = newest
        self.entries: dict[str, Entry | None] = {}
        self.pending: list[Recorded] = []
        self.news: dict[int, tuple[Any, ...]] = {}
        self.names = names
        self.missing = missing

    @property
    def run(self) -> Run:
        """The run."""
        return self.lineage.run

    def entry(self, db: Connection, key: str) -> Entry | None:
        """What `key` holds now."""
        if self.news:
            self._hear(db, key)
        if key in self.entries:
            return self.entries[key]
        name = self.name(db, key)
        found = None if name is None else entry_of(db, self.lineage, name.id, self.recorded_upto)
        self.entries[key] = found
        return found

    def living(self, db: Connection) -> dict[str, Entry | None]:
        """What every key holds now; None for keys that are gone."""
        if self.news:
            for key in list(self.entries):
                self._hear(db, key)
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
        self.missing.clear()  # by now they may be there, and no longer in `names`
        if max(len(self.entries), len(self.names), len(self.news)) > MAX_ENTRIES:
            self.entries.clear()
            self.names.clear()
            self.news.clear()

    def name(self, db: Connection, text: str) -> Name | None:
        """The interned name `text`; None if the family has none."""
        known = self.names.get(text)
        if known is None and (self.run.family, text) not in self.missing:
            row = find_name(db, self.run.family, text)
            if row is None:
                self.missing.add((self.run.family, text))
                return None
            known = self.names[text] = Name(row[0], framed_commitment(row[1]))
        return known

    def go_on(self, count: int, revision: int, turn: int, newest: bytes) -> bool:
        """Go on to the newest event of so many that somebody else appended; whether they fit."""
        if revision != self.revision + count or len(self.news) > MAX_ENTRIES:
            return False
        self.revision = self.recorded_upto = revision
        self.turn, self.hash = turn, newest
        return True

    def _hear(self, db: Connection, key: str) -> None:
        """Bring `entries` up to date, or forget what it has, if somebody else has changed `key` since."""
        name = self.name(db, key)
        change = None if name is None else self.news.pop(name.id, None)
        if change is None:
            return
        entry = self.entries.pop(key, None)
        _, _, position, revision, birth, expires_at_turn = change
        # Changes in between were passed over, so that only within the same life the entry tells the rest.
        if entry is not None and birth == entry.birth:
            event = EntryWritten(key, "", None, expires_at_turn, birth)
            recorded = build(Recorded, (position, "", revision, 0, 0, None, None, 0, event, b"", None))
            self.entries[key] = evolve(entry, recorded)


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
        missing: see `RunTail`.
    """

    def __init__(self) -> None:
        self._data_version = self._begun_at = self._schema_version = -1
        self._runs: dict[str, RunTail] = {}
        self._run_ids: dict[int, RunTail] = {}
        self._names: dict[int, dict[str, Name]] = {}
        self.missing: set[tuple[int, str]] = set()
        self.position = self.last_name = self.last_run = 0

    def forget(self) -> None:
        """Something else wrote: remember nothing."""
        self._data_version = -1

    def hold(self) -> None:
        """The transaction was committed: what is remembered is so."""
        if len(self._runs) > MAX_RUNS:
            self._clear()
        self._data_version = self._begun_at

    def refresh(self, db: Connection) -> bool:
        """Call right after BEGIN: make true what is remembered; whether somebody else may have written."""
        self.missing.clear()
        (version,) = db.execute(_DATA_VERSION).fetchone()
        known, self._data_version, self._begun_at = self._data_version, -1, version
        if version == known:
            return False
        (schema,) = db.execute(_SCHEMA_VERSION).fetchone()
        if known == -1 or schema != self._schema_version or not self._catch_up(db):
            self._clear()
            self.position, self.last_name, self.last_run = db.execute(_LAST).fetchone()
        self._schema_version = schema
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
            known = RunTail(past, head.revision, head.turn, head.hash, names, self.missing)
            self.add(known)
        return known

    def names(self, family: int) -> dict[str, Name]:
        """The interned names of a family, as far as somebody asked."""
        return self._names.setdefault(family, {})

    def add(self, tail: RunTail) -> None:
        """A run that begins."""
        self._runs[tail.run.name] = self._run_ids[tail.run.id] = tail

    def _clear(self) -> None:
        self._runs.clear()
        self._run_ids.clear()
        self._names.clear()

    def _catch_up(self, db: Connection) -> bool:
        """Take in what others appended; whether what is remembered is true again.

        As long as the schema is the same, its triggers have kept past rows from being changed. So everything
        that concerns what is remembered has come with an event, and of the events only a `Redacted` changes
        more than the end of its run.
        """
        news = db.execute(_NEWS, (self.position,)).fetchall()
        if not news:
            return False
        known_position, known_name = self.position, self.last_name
        self.position, self.last_name, self.last_run = news[0][6:]
        if self.last_name != known_name:
            new = (known_name, STAND_IN_BEGINS)
            if db.execute(_NEW_STAND_IN, new).fetchone() is not None:
                return False
        for run, count, revision, turn, newest, unusual, *_ in news:
            known = self._run_ids.get(run)
            if unusual or (known is not None and not known.go_on(count, revision, turn, newest)):
                return False
        for change in db.execute(_NEW_CHANGES, (known_position,)).fetchall():
            known = self._run_ids.get(change[0])
            if known is not None:
                known.news[change[1]] = change
        return True
