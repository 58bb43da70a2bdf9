"""`Timeline`: the history of one run, read backwards."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator
from typing import Self

from ..eventlog import (
    BadAddress,
    Content,
    Entry,
    EventLog,
    NotFound,
    Recorded,
)
from ..eventlog.commands import exact_str
from ..eventlog.driver import Connection
from ..eventlog.history import (
    Present,
    content_at,
    entries_at,
    entry_at,
    present_at,
    present_in_turn,
    present_of,
    versions_at,
)
from ..eventlog.limits import MAX_TURN
from ..eventlog.runs import NEWEST_REVISION, Lineage, read_head
from ..memory.contract import check_limit
from ..memory.entry import MemoryEntry
from ..memory.reserved import is_reserved
from ..projections import fold
from .address import Point, locate, resolve
from .bisect import batch_end, ends_beside, first_batch_end, first_sight
from .changes import changed_keys, filled_at, has_key, key_events, known_keys, read_recorded
from .restore import back_to, later_checkpoint
from .state import Difference, State, difference, is_expired, is_visible, memory_entry
from .visits import Visit, read_visits

__all__ = ["Timeline"]

_COMPARED = 2_000
_NAMED = 3
"""With how many keys an unknown one is compared for a hint: a matter of 0.1 s."""


class Timeline:
    """Replay of one run: its memory at any point, who wrote what, and what changed.

    A fork's past goes on in its parent. Points of the past are given as `turn=`, `position=` or `at=` (see
    `turnlog.replay.address`); none of them means now.

    Args:
        log: an open log.
        run: the run's name.

    Raises:
        NotFound: there is no such run; lists those there are.
    """

    def __init__(self, log: EventLog, run: str = "main") -> None:
        if not isinstance(log, EventLog):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"log must be an open EventLog (turnlog.open(path)), not {type(log).__name__}")
        self._log = log
        self._lineage = log.lineage(exact_str("run", run))

    @property
    def run(self) -> str:
        """The run's name."""
        return self._lineage.run.name

    @property
    def lineage(self) -> Lineage:
        """The run and its ancestors."""
        return self._lineage

    def point(self, *, turn: int | None = None, position: int | None = None, at: str | None = None) -> Point:
        """The point that the arguments mean.

        Raises:
            TypeError: not one of the three, or of the wrong type.
            BadAddress: it cannot be read, or the run never was there; says what can be.
        """
        with self._log.reading() as db:
            return self._point(db, turn, position, at)

    def state(
        self,
        *,
        turn: int | None = None,
        position: int | None = None,
        at: str | None = None,
        all: bool = False,  # noqa: A002 - the word of the command line
    ) -> State:
        """What `SharedMemory` would have shown at a point: every entry neither expired nor reserved.

        Costs with the number of keys, not with the length of the log. With `all` expired and reserved
        entries are there too, marked in `State.expired` and `State.reserved`.
        """
        with self._log.reading() as db:
            point = self._point(db, turn, position, at)
            return self._state(db, point, all=all)

    def versions(
        self, *, turn: int | None = None, position: int | None = None, at: str | None = None
    ) -> dict[str, int]:
        """The keys of `state`, in its order, each with its entry's `version`: in a third of the time.

        Two points whose versions are equal hold the same entries.
        """
        with self._log.reading() as db:
            point = self._point(db, turn, position, at)
            found = versions_at(db, self._lineage, point.revision, point.turn)
        for key in list(filter(is_reserved, found)):
            del found[key]
        return found

    def entry(
        self, key: str, *, turn: int | None = None, position: int | None = None, at: str | None = None
    ) -> MemoryEntry | None:
        """What `key` held at a point, by one seek of the history index; None if nothing visible.

        A reserved key is given when asked for by name; an expired entry is not.
        """
        key = exact_str("key", key)
        if position is None and at is None and type(turn) is int and 0 <= turn <= MAX_TURN:
            told, found = present_in_turn(self._log, self._lineage, turn, key)
            now = turn
            if not told:
                with self._log.reading() as db:
                    found, _ = self._present(db, key, str(turn))
        else:
            with self._log.reading() as db:
                found, now = self._present(db, key, self._address(turn, position, at))
        if found is None or is_expired(found, now):
            return None
        return memory_entry(found)

    def diff(self, before: str, after: str) -> list[Difference]:
        """What agents would have seen change between two addresses, in the order of their keys' births.

        Value, metadata and expiry count; an entry that expired in between was removed. Costs with what
        happened in between, where the two are close.
        """
        with self._log.reading() as db:
            old, new = resolve(db, self._lineage, before), resolve(db, self._lineage, after)
            keys = changed_keys(db, self._lineage, old, new)
            then, now = (
                {
                    present.key: present
                    for present in present_at(db, self._lineage, point.revision, keys)
                    if is_visible(present, point.turn)
                }
                for point in (old, new)
            )
        found: list[tuple[int, Difference]] = []
        for key in then.keys() | now.keys():
            pair = then.get(key), now.get(key)
            differing = difference(*pair)
            if differing is not None:
                born = min(present.birth for present in pair if present is not None)
                found.append((born, differing))
        found.sort(key=lambda pair: pair[0])
        return [differing for _, differing in found]

    def history(self, key: str, *, reverse: bool = False, limit: int | None = None) -> Iterator[Recorded]:
        """Every change, refused attempt and redaction of `key`, oldest first, a page in memory at a time.

        A restored entry appears as the `EntryRestored` that points to the original (`original` reads it).

        Args:
            key: the key, whole.
            reverse: newest first.
            limit: at most so many.

        Raises:
            TypeError, ValueError: a key or limit that cannot be.
            NotFound: the run never had such a key.
        """
        key = exact_str("key", key)
        check_limit(limit)
        with self._log.reading() as db:
            self._check_key(db, key)
        return key_events(self._log, self._lineage, key, reverse=reverse, limit=limit)

    def blame(self, key: str | None = None, *, at: str | None = None) -> dict[str, Recorded]:
        """For each entry visible at a point, the event that wrote its value, whoever restored it since.

        Args:
            key: only this one; it must exist there.
            at: the point; None means now.

        Raises:
            NotFound: nothing visible under `key` at the point.
        """
        with self._log.reading() as db:
            point = self._point(db, None, None, at)
            if key is None:
                entries = entries_at(db, self._lineage, point.revision)
            else:
                found = entry_at(db, self._lineage, exact_str("key", key), point.revision)
                if found is None or not is_visible(found, point.turn):
                    self._check_key(db, key)
                    raise NotFound(f"run {self.run!r}: key {key!r} does not exist at {point}")
                entries = [found]
            return {
                entry.key: read_recorded(db, self._lineage, entry.content)
                for entry in entries
                if is_visible(entry, point.turn)
            }

    def original(self, revision: int) -> Recorded:
        """The event at `revision` of the run's lineage: where an `EntryRestored` points with `content`.

        Raises:
            NotFound: the run has no such revision.
        """
        if type(revision) is not int:
            raise TypeError(f"revision must be an int, not {type(revision).__name__}")
        with self._log.reading() as db:
            return read_recorded(db, self._lineage, revision)

    def turns(self) -> list[Visit]:
        """The visits: each stretch the run spent at one turn, oldest first."""
        with self._log.reading() as db:
            return read_visits(db, self._lineage, read_head(db, self._lineage.run.id))

    def bisect(self, predicate: Callable[[State], bool]) -> Point | None:
        """The first batch end at which `predicate` holds; None if it does not hold now.

        Binary search: it assumes that once it holds it goes on holding, and asks about as many states as the
        number of events has binary digits. Where it holds, fails and holds again, one such change is found.
        """
        return first_batch_end(self._log, self._lineage, lambda point: predicate(self._state_at(point)))

    def first(self, key: str, text: str = "") -> Point | None:
        """The first batch end at which `key` exists and its value contains `text`; None if it never did.

        Exact even where the value came and went, since it reads the key's changes one after the other.

        Raises:
            NotFound: the run never had such a key.
        """
        key, text = exact_str("key", key), exact_str("text", text)
        with self._log.reading() as db:
            self._check_key(db, key)
        for revision in filled_at(self._log, self._lineage, key):
            seen = self._seen_holding(text, key, revision)
            if seen is not None:
                return seen
        return None

    def restore(
        self,
        *,
        turn: int | None = None,
        position: int | None = None,
        at: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Recorded:
        """Take the run back to a point: entries, their order, creation times and expiry, and the turn.

        Nothing is rewritten: events that point to the past are appended, in one batch. Reserved entries stay:
        if a team saved a checkpoint after the point, there is a `UserWarning`, since a team that goes on from
        that one would not do again what is undone here. `turnlog.restore(team, at=..., restore_memory=True)`
        takes back both.

        Args:
            by: who asks, for the history.
            reason: why, for the history.

        Returns:
            The `Restored` event.

        Raises:
            BadAddress: see `point`; or a position inside a batch, whose state nobody ever saw.
        """
        with self._log.reading() as db:
            point = self._goal(db, turn, position, at)
            command = back_to(db, self._lineage, point, by, reason)
            later = later_checkpoint(db, self._lineage, point)
        # Before anything is written: where warnings are errors, what raises must have changed nothing.
        if later is not None:
            warnings.warn(
                f"run {self.run!r}: the checkpoint at @{later.version} is later than {point}, and stays; a "
                "team goes on from there unless it is told otherwise: turnlog.restore(team, at=...)",
                stacklevel=2,
            )
        return self._log.execute([command], run=self.run)[0]

    def fork(
        self,
        *,
        run: str,
        turn: int | None = None,
        position: int | None = None,
        at: str | None = None,
        by: str | None = None,
    ) -> Self:
        """Begin a new run that starts from this one's state at a point; no event is copied.

        Args:
            run: name of the new run.
            by: who asks, for the history.

        Returns:
            The new run's timeline.

        Raises:
            RunExists: the name is taken.
            BadAddress: as of `restore`.
        """
        with self._log.reading() as db:
            point = self._goal(db, turn, position, at)
        self._log.fork(self.run, point.revision, run=run, turn=point.turn, agent=by)
        return type(self)(self._log, run)

    def folded(self, *, turn: int | None = None, position: int | None = None, at: str | None = None) -> State:
        """`state(all=True)` the slow, independent way: by folding every event up to the point."""
        with self._log.reading() as db:
            point = self._point(db, turn, position, at)
            living = fold(db, self._lineage, point.revision)
            ordered = sorted(living.values(), key=lambda entry: entry.birth)
            return State(point, [self._memory_entry(db, entry) for entry in ordered])

    def _point(self, db: Connection, turn: int | None, position: int | None, at: str | None) -> Point:
        return resolve(db, self._lineage, self._address(turn, position, at))

    def _goal(self, db: Connection, turn: int | None, position: int | None, at: str | None) -> Point:
        """Where a run may be taken: no position inside a batch, which would bring to life what nobody saw."""
        address = self._address(turn, position, at)
        point = resolve(db, self._lineage, address)
        if point.inside_batch and address.startswith("@"):
            before, behind = ends_beside(db, self._lineage, point.revision)
            raise BadAddress(
                f"run {self.run!r}: {address} lies inside a batch, and nobody ever saw that state; "
                f"give the end of the batch before, @{before}, or of this one, @{behind}"
            )
        return point

    def _address(self, turn: int | None, position: int | None, at: str | None) -> str:
        """One address for the three ways to give it."""
        given = {"turn": turn, "position": position, "at": at}
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise TypeError(f"give one of turn=, position= and at=, not {' and '.join(named)}")
        for name, number in (("turn", turn), ("position", position)):
            if number is not None and type(number) is not int:
                raise TypeError(f"{name} must be an int, not {type(number).__name__}")
            if number is not None and number < 0:
                raise BadAddress(f"{name} must not be negative")
            if number is not None and number > NEWEST_REVISION:
                raise BadAddress(f"{name} must lie within 0 and 2**63 - 1")
        if turn is not None:
            return str(turn)
        if position is not None:
            return f"@{position}"
        return "head" if at is None else at

    def _present(self, db: Connection, key: str, address: str) -> tuple[Present | None, int]:
        """What `key` held at an address, and the turn there."""
        revision, turn = locate(db, self._lineage, address)
        return present_of(db, self._lineage, key, revision), turn

    def _state_at(self, point: Point) -> State:
        with self._log.reading() as db:
            return self._state(db, point, all=False)

    def _state(self, db: Connection, point: Point, *, all: bool) -> State:  # noqa: A002
        found = present_at(db, self._lineage, point.revision)
        state = State(point, map(memory_entry, found))
        return state if all else state.visible()

    def _memory_entry(self, db: Connection, entry: Entry) -> MemoryEntry:
        value, metadata, _ = self._content(db, entry)
        return memory_entry(Present(*entry, value, metadata))

    def _content(self, db: Connection, entry: Entry) -> Content:
        return content_at(db, self._lineage, entry.content)

    def _seen_holding(self, text: str, key: str, revision: int) -> Point | None:
        """Where agents first saw what `key` held after the batch of `revision`, if `text` was in it."""
        with self._log.reading() as db:
            end = batch_end(db, self._lineage, revision)
            entry = entry_at(db, self._lineage, key, end.revision)
            if entry is None or text not in self._content(db, entry).value:
                return None
            return first_sight(db, self._lineage, entry, end)

    def _check_key(self, db: Connection, key: str) -> None:
        if has_key(db, self._lineage, key):
            return
        known = known_keys(db, self._lineage, _COMPARED)
        parts = [each for each in known if each.endswith(f"/{key}") or each.startswith(f"{key}/")]
        near = parts[:_NAMED] or difflib.get_close_matches(key, known, n=_NAMED)
        hint = f"; did you mean {' or '.join(f'{each!r:.80}' for each in near)}?" if near else ""
        raise NotFound(f"run {self.run!r} never had a key {key!r:.80}{hint}")
