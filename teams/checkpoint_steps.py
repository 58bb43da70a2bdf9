"""What a checkpoint decides: every operation, for `Checkpoint` and `AsyncCheckpoint` alike.

Whatever is said to callers about an operation is said at the class that offers it; this is how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from ..eventlog import Busy, Conflict, Write
from ..eventlog.commands import exact_str
from ..eventlog.jsonvalue import encode_json
from ..eventlog.text import json_text
from ..memory.async_shared import AsyncSharedMemory
from ..memory.contract import AsyncMemoryStore, MemoryStore, compares_and_sets, executes
from ..memory.entry import MemoryEntry
from ..memory.javascript import javascript_json
from ..memory.reserved import CHECKPOINT_PREFIX
from ..memory.shared import SharedMemory
from ..memory.snapshot import Snapshot
from ..memory.steps import Steps
from .canonical import parse_json
from .checkpoint_error import BadCheckpoint
from .checkpoint_snapshot import CheckpointSnapshot, LogPlace, check_snapshot, migrated
from .shape import Malformed
from .store_run import StoreRun, same_run, store_run

__all__ = ["CheckpointSteps", "Standing", "checkpoint_key", "read_checkpoint", "standing_after"]

_LONGEST_RUN_ID = 128
_ATTEMPTS = 100


def checkpoint_key(run_id: str | None) -> str:
    """Where the checkpoint of a run is kept; None or `""` is a run without a name."""
    return f"{CHECKPOINT_PREFIX}{run_id}/latest" if run_id else f"{CHECKPOINT_PREFIX}latest"


def read_checkpoint(text: str, key: str, run_id: str | None) -> CheckpointSnapshot:
    """The checkpoint of any version that a store holds under `key`, as one of version 4.

    Raises:
        BadCheckpoint: it is not JSON or not a checkpoint; names the key and the place in the record.
    """
    try:
        parsed = parse_json(text)
    except ValueError as error:
        raise BadCheckpoint(f"what is stored at {key!r:.200} is not valid JSON: {error}") from error
    try:
        check_snapshot(parsed)
    except Malformed as error:
        message = f"what is stored at {key!r:.200} is not a checkpoint snapshot"
        raise BadCheckpoint.of(message, error) from error
    return migrated(parsed, run_id)


class Standing(NamedTuple):
    """What is kept as a checkpoint, as a run saw it last: nobody else has written since if it is still so.

    Attributes:
        version: the entry's; 0 if there is none; None on a store that cannot be asked to check it.
        text: what is kept, where no version is checked; None if nothing is.
    """

    version: int | None
    text: str | None = None


class CheckpointSteps:
    """The operations on one store of either kind; see `turnlog.memory.steps` for how they are carried out.

    Args:
        store: a store that has passed `check_store`.
        key: where to keep the checkpoint; None for the place of the run.
        run_id: the run; None for the run of the log that the store writes to, if it does.

    Attributes:
        origin: the store, as it was given.
        where: the run of a log that it writes to, if it does.
        named: the run id, as it was given.
        run_id: the run.
        key: where the checkpoint is kept.
        has_own_key: whether a key was given.
    """

    def __init__(self, store: MemoryStore | AsyncMemoryStore, key: str | None, run_id: str | None) -> None:
        self._store = self.origin = store
        self.where = store_run(store)
        self.named = None if run_id is None else _check_run_id(run_id)
        self.run_id = self.named
        if run_id is None and self.where is not None:
            self.run_id = _check_run_id(self.where.run)
        self.has_own_key = key is not None
        self.key = checkpoint_key(self.run_id) if key is None else exact_str("key", key)

    def through(self, store: MemoryStore | AsyncMemoryStore) -> CheckpointSteps:
        """The same operations, asked of `store`, which is the same store in the other colour."""
        twin = copy(self)
        twin._store = store  # noqa: SLF001 - a copy of this very object
        return twin

    def named_for(self, run_id: str) -> CheckpointSteps:
        """The same operations for another run, in its place unless a key was given."""
        twin = copy(self)
        twin.run_id = _check_run_id(run_id)
        if not self.has_own_key:
            twin.key = checkpoint_key(run_id)
        return twin

    def shares(self, store: MemoryStore | AsyncMemoryStore) -> bool:
        """Whether what is kept in `store` is kept where the checkpoint is."""
        return store is self.origin or same_run(store_run(store), self.where)

    def save(
        self,
        snapshot: Mapping[str, object],
        memory: SharedMemory | AsyncSharedMemory | None,
        origin: MemoryStore | AsyncMemoryStore | None = None,
        standing: Standing | None = None,
    ) -> Steps[Standing]:
        """See `Checkpoint.save`.

        Args:
            snapshot, memory: see there.
            origin: the store of `memory`, where that one only leads to it.
            standing: what must be kept now, so far as the store can tell; None for no matter what.

        Raises:
            Conflict: something else is kept.
        """
        more: dict[str, object] = {}
        if memory is not None:
            _check_memory(memory, self._store)
            more = yield from self._memory_members(memory, memory.store if origin is None else origin)
        elif self.where is not None:
            more = _place(self.where)
        return (yield from self._put(*self._prepared(snapshot, more), standing))

    def writing(self, snapshot: Mapping[str, object], standing: Standing | None = None) -> Write:
        """See `Checkpoint.writing`; with `standing`, the command is refused if something else is kept."""
        more = {} if self.where is None else _place(self.where)
        text, metadata = self._prepared(snapshot, more)
        expected = None if standing is None else standing.version
        return Write(self.key, text, metadata, expected_version=expected)

    def standing(self) -> Steps[Standing]:
        """What is kept now."""
        entry: MemoryEntry | None = yield self._store.get(self.key)
        if entry is None:
            return Standing(0)
        if entry.version is not None and executes(self._store):
            return Standing(entry.version)
        return Standing(None, entry.value)

    def load(self) -> Steps[CheckpointSnapshot | None]:
        """See `Checkpoint.load`."""
        entry: MemoryEntry | None = yield self._store.get(self.key)
        return None if entry is None else read_checkpoint(entry.value, self.key, self.run_id)

    def kept(self, key: str) -> Steps[str | None]:
        """The text that is kept under `key` now; None if there is none."""
        entry: MemoryEntry | None = yield self._store.get(key)
        return None if entry is None else entry.value

    def delete(self) -> Steps[None]:
        """See `Checkpoint.delete`."""
        yield self._store.delete(self.key)

    # -- inside

    def _put(self, text: str, metadata: dict[str, Any], standing: Standing | None) -> Steps[Standing]:
        """Keep `text`; on condition of `standing` where the store has a way to check that."""
        store: Any = self._store
        if standing is not None and standing.version is not None and executes(self._store):
            write = Write(self.key, text, metadata, expected_version=standing.version)
            return standing_after((yield store.execute([write]))[-1])
        if standing is not None and compares_and_sets(self._store):
            if not (yield store.compare_and_set(self.key, standing.text, text, metadata)):
                raise Conflict(f"key {self.key!r} holds another checkpoint than was expected", key=self.key)
            return Standing(None, text)
        version = yield store.set(self.key, text, metadata)
        return standing_after(version if executes(self._store) else None, text)

    def _prepared(
        self, snapshot: Mapping[str, object], more: dict[str, object]
    ) -> tuple[str, dict[str, Any]]:
        """The text to store, and the metadata beside it; refused is what could not be loaded again."""
        if not isinstance(snapshot, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"snapshot must be a dict, not {type(snapshot).__name__}")
        # Where the log stood at another save is nothing that could be said of this one.
        told = {name: item for name, item in snapshot.items() if name != "turnlog"}
        floats: list[str] = []

        def read_float(digits: str) -> float:
            floats.append(digits)
            return float(digits)

        document: object = json.loads(encode_json(told | more), parse_float=read_float)
        try:
            check_snapshot(document)
        except Malformed as error:
            message = "this is not a checkpoint snapshot, and was not saved"
            raise BadCheckpoint.of(message, error) from error
        whole = migrated(document, self.run_id)
        metadata = {
            "namespace": "checkpoint",
            "version": whole["version"],
            "runId": whole["identity"]["runId"],
            "createdAt": whole["createdAt"],
        }
        # The two differ in how floats are spelled, and tenfold in time.
        return (javascript_json if floats else json_text)(whole), metadata

    def _memory_members(
        self, memory: SharedMemory | AsyncSharedMemory, origin: MemoryStore | AsyncMemoryStore
    ) -> Steps[dict[str, object]]:
        """What the checkpoint says of the memory: the turn, and the entries too if they are elsewhere."""
        where = store_run(origin)
        if self.shares(origin):
            turn = memory.turn if isinstance(memory, SharedMemory) else (yield memory.get_turn())
            return {"turnCount": turn} | ({} if where is None else _place(where))
        for _ in range(_ATTEMPTS):
            place = {} if where is None else _place(where)
            snapshot: Snapshot = yield memory.snapshot()
            if where is None or _place(where) == place:
                return {"sharedMemory": snapshot, "turnCount": snapshot["turnCount"]} | place
        raise Busy(f"the memory changed during each of {_ATTEMPTS} attempts to take a snapshot of it")


def standing_after(version: object, text: str | None = None) -> Standing:
    """What is kept after a write that gave `version`, if it did."""
    return Standing(version) if type(version) is int else Standing(None, text)


def _place(where: StoreRun) -> dict[str, object]:
    """The member that says where the run's head is; nothing while it has no event."""
    head = where.log.head(where.run)
    if head is None:
        return {}
    place: LogPlace = {
        "run": where.run,
        "uid": where.log.lineage(where.run).run.uid,
        "position": head.position,
        "revision": head.revision,
        "turn": head.turn,
        "head": head.hash.hex(),
    }
    return {"turnlog": place}


def _check_memory(memory: object, store: MemoryStore | AsyncMemoryStore) -> None:
    """Refuse what is no shared memory of the checkpoint's colour."""
    wanted = AsyncSharedMemory if iscoroutinefunction(store.get) else SharedMemory
    if not isinstance(memory, wanted):
        raise TypeError(f"memory must be a {wanted.__name__}, not {type(memory).__name__}")


def _check_run_id(run_id: str) -> str:
    text = exact_str("run_id", run_id)
    length = len(text.encode("utf-16-le", "surrogatepass")) // 2
    if length > _LONGEST_RUN_ID:
        raise ValueError(
            f"run_id has {length} characters (UTF-16); the limit is {_LONGEST_RUN_ID}. "
            "Give a shorter one with run_id="
        )
    return text
