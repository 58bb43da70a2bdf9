"""Every checkpoint ever saved: a later one replaces it in the store, none in the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from ..eventlog import EntryWritten, EventLog, Recorded
from ..eventlog.commands import exact_str
from ..eventlog.runs import NEWEST_REVISION, Lineage
from ..memory.reserved import CHECKPOINT_PREFIX
from ..replay.changes import filled_at, known_keys, read_recorded
from ..replay.timeline import Timeline
from .arguments import a_log, check_bool
from .canonical import parse_json
from .checkpoint_snapshot import CheckpointSnapshot
from .checkpoint_steps import read_checkpoint

__all__ = ["SavedCheckpoint", "checkpoint_at", "saved_checkpoints"]


@dataclass(frozen=True, slots=True)
class SavedCheckpoint:
    """A checkpoint as it was saved at one point of a run.

    Attributes:
        run: the run it was saved in; for a fork that may be an ancestor.
        uid: that run's identity, the same in every file.
        position, revision: of the event that saved it, in the file and in the run's lineage.
        turn: the run's turn then.
        recorded_at: aware UTC.
        key: where it was kept.
        text: what was kept, unchecked.
        hash: of the event, which chains it to everything before it.
    """

    run: str
    uid: str
    position: int
    revision: int
    turn: int
    recorded_at: datetime
    key: str
    text: str
    hash: bytes

    @property
    def version(self) -> int:
        """The version it was saved in.

        Raises:
            BadCheckpoint: see `load`.
        """
        self.load()
        return int(cast("dict[str, int]", parse_json(self.text))["version"])

    def load(self) -> CheckpointSnapshot:
        """The checkpoint, as one of version 4.

        Raises:
            BadCheckpoint: it is not JSON or not a checkpoint; names the key and the place.
        """
        return read_checkpoint(self.text, self.key, self.run)


def saved_checkpoints(
    log: EventLog, run: str, *, key: str | None = None, inherited: bool = True
) -> Iterator[SavedCheckpoint]:
    """The checkpoints saved in a run and, if `inherited`, in its ancestors up to the fork; oldest first.

    One at a time is in memory. Those deleted since are there too.

    Args:
        key: only what was kept there; None for every key with the prefix of checkpoints.

    Raises:
        NotFound: there is no such run.
    """
    lineage = a_log(log).lineage(run)
    _check_key(key)
    check_bool("inherited", inherited)
    if not inherited:
        lineage = Lineage(lineage.run, lineage.segments[:1])
    return _each_saved(log, lineage, key)


def _each_saved(log: EventLog, lineage: Lineage, key: str | None) -> Iterator[SavedCheckpoint]:
    for revision in _revisions(log, lineage, key):
        found = _saved(log, lineage, revision)
        if found is not None:
            yield found


def checkpoint_at(
    log: EventLog, run: str, *, at: str = "head", key: str | None = None
) -> SavedCheckpoint | None:
    """The newest checkpoint of a run's lineage saved at or before a point; None if there was none by then.

    Args:
        at: the point; see `turnlog.replay.address`.
        key: as in `saved_checkpoints`.

    Raises:
        NotFound: there is no such run.
        BadAddress: the address cannot be read, or the run never was there.
    """
    lineage = a_log(log).lineage(run)
    _check_key(key)
    upto = Timeline(log, run).point(at=at).revision
    cut_off = Lineage(lineage.run, lineage.upto(upto))
    for revision in reversed(_revisions(log, cut_off, key)):
        found = _saved(log, cut_off, revision)
        if found is not None:
            return found
    return None


def _check_key(key: object) -> None:
    if key is not None:
        exact_str("key", key)


def _revisions(log: EventLog, lineage: Lineage, key: str | None) -> list[int]:
    """Where checkpoints were saved, oldest first."""
    if not lineage.segments:
        return []
    if key is None:
        with log.reading() as db:
            known = known_keys(db, lineage, NEWEST_REVISION)
        keys = [each for each in known if each.startswith(CHECKPOINT_PREFIX)]
    else:
        keys = [key]
    return sorted(revision for each in keys for revision in filled_at(log, lineage, each))


def _saved(log: EventLog, lineage: Lineage, revision: int) -> SavedCheckpoint | None:
    with log.reading() as db:
        recorded: Recorded = read_recorded(db, lineage, revision)
    event = recorded.event
    if not isinstance(event, EntryWritten):  # a key outside the prefix, put back by a restore
        return None
    return SavedCheckpoint(
        recorded.run,
        log.lineage(recorded.run).run.uid,
        recorded.position,
        recorded.revision,
        recorded.turn,
        recorded.recorded_at,
        event.key,
        event.value,
        recorded.hash,
    )
