"""Taking texts out of the past for good: the request to do so, decided like any other inside the write lock.

What is appended is a `Redacted` for every key concerned; its insertion erases the texts, by a trigger of the
file (docs/format.md, "Redaction"), and it carries the commitments that keep the hash chain whole. Wherever an
erased text was the present value of a key, in the run itself or in a fork of it, `[redacted]` is written over
it, so that nobody reads a gap, and a compare-and-set can still win.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .batch import Actor, Batch
from .chain import content_commitment
from .codec import REDACTED
from .driver import Connection
from .entry import Entry
from .errors import NotFound
from .events import EntryDeleted, EntryWritten, Redacted
from .runs import Lineage
from .sources import Sources
from .tail import Tail
from .text import json_text

__all__ = ["Redact", "Texts"]

Texts = Mapping[int, Mapping[str | None, Sequence[int]]]
"""Which texts: by id of the run that recorded them and key (None: its name was erased), the revisions."""

_AT_ONCE = 200
"""Revisions named by one event at most: the trigger looks each of them up in it."""

_TEXT = "select value, metadata, salt from events where run = ? and revision = ?"


class Redact:
    """Erase `texts` and `names`, as far as they belong to one run, and write over what it shows of them.

    Args:
        run: name of the run.
        texts: of every run; those of the run's ancestors matter for what it shows.
        names: commitments of the names to erase; of the run's family, and only for the family's root.
        keys: which of the names are keys: entries under them are deleted, since nobody could reach them.
        reason: why, for the record.
        actor: who asks.

    Attributes:
        error, settled, needs_tables: see `Request`.
        names: see above.
        recorded: whether anything was appended.
        erased: how many events lost their text.
        rewritten: how many entries of the present were written over.
        deleted: how many entries were deleted with the name of their key.
    """

    needs_tables = True

    def __init__(
        self,
        run: str,
        texts: Texts,
        names: Sequence[bytes],
        keys: Sequence[str],
        reason: str,
        actor: Actor,
    ) -> None:
        self.run = run
        self.error: BaseException | None = None
        self.settled = False
        self.recorded = False
        self.erased = self.rewritten = self.deleted = 0
        self.names = names
        self._texts = texts
        self._keys = keys
        self._reason = reason
        self._actor = actor

    def attempt(self, db: Connection, tail: Tail, sources: Sources) -> Batch | None:
        """See `Request.attempt`."""
        self.erased = self.rewritten = self.deleted = 0
        end = tail.run(db, self.run)
        if end is None:
            self.error = NotFound(f"there is no run {self.run!r}")
            return None
        batch = Batch(db, tail, self.run, sources)
        # What is to be written over is looked at first: of an erased text nothing can be told any more.
        shown = list(self._shown(batch, end.lineage))
        for key in self._keys:
            if batch.entry(key) is not None:
                batch.append(EntryDeleted(key), self._actor)
                self.deleted += 1
        for key, revisions in self._texts.get(end.run.id, {}).items():
            self._erase(db, batch, end.run.id, key, revisions)
        if self.names:
            batch.append(Redacted((), tuple(self.names), None, self._reason), self._actor)
        for entry in shown:
            batch.append(self._cover(entry), self._actor)
            self.rewritten += 1
        self.recorded = bool(self.erased or self.names or self.rewritten or self.deleted)
        return batch

    def _shown(self, batch: Batch, past: Lineage) -> Iterator[Entry]:
        """The entries of the present whose text is about to be erased."""
        for key in dict.fromkeys(key for keys in self._texts.values() for key in keys):
            entry = None if key is None else batch.entry(key)
            if entry is None or key in self._keys:
                continue
            origin = past.upto(entry.content)[0].run
            if entry.content in self._texts.get(origin, {}).get(key, ()):
                yield entry

    def _erase(
        self, db: Connection, batch: Batch, run: int, key: str | None, revisions: Sequence[int]
    ) -> None:
        """Append what erases the texts of `key` that are still there."""
        contents: list[tuple[int, bytes]] = []
        for revision in revisions:
            value, metadata, salt = db.execute(_TEXT, (run, revision)).fetchone()
            if salt is not None:
                contents.append((revision, content_commitment(salt, value, metadata)))
        for first in range(0, len(contents), _AT_ONCE):
            some = tuple(contents[first : first + _AT_ONCE])
            batch.append(Redacted(some, (), key, self._reason), self._actor)
        self.erased += len(contents)

    def _cover(self, entry: Entry) -> EntryWritten:
        metadata: dict[str, object] = {"redacted": True, "reason": self._reason}
        if self._actor.agent is not None:
            metadata["agent"] = self._actor.agent
        return EntryWritten(entry.key, REDACTED, json_text(metadata), entry.expires_at_turn, entry.birth)
