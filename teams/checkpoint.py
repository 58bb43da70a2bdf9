"""`Checkpoint`: where a run of a team stands, kept so that another process can go on from there."""

from __future__ import annotations

from collections.abc import Mapping

from ..eventlog import Write
from ..memory.async_shared import AsyncSharedMemory
from ..memory.contract import AsyncMemoryStore, MemoryStore
from ..memory.shared import SharedMemory
from ..memory.steps import acarry_out, carry_out
from .arguments import check_given_store
from .checkpoint_snapshot import CheckpointSnapshot
from .checkpoint_steps import CheckpointSteps

__all__ = ["AsyncCheckpoint", "Checkpoint", "steps_of"]


class Checkpoint:
    """The latest checkpoint of a run, under one key of a store. As safe to share as the store is.

    Each save replaces the one before. On a log all of them stay in the history: see `saved_checkpoints` and
    `checkpoint_at`.

    Args:
        store: any store; under a reserved prefix, the checkpoint is not seen by agents.
        key: where to keep it; None for `__oma_checkpoint__/<run_id>/latest`, without a run id
            `__oma_checkpoint__/latest`. A key outside the prefix is ordinary memory: listed, summarised, and
            taken away by a restore.
        run_id: at most 128 characters; None for the run of the log that the store writes to, if it does.

    Raises:
        TypeError: not a synchronous `MemoryStore` (names the missing methods), or not text.
        ValueError: the run id is too long.
    """

    def __init__(self, store: MemoryStore, key: str | None = None, run_id: str | None = None) -> None:
        check_given_store("store", store, asynchronous=False, twin="AsyncCheckpoint")
        self._steps = CheckpointSteps(store, key, run_id)

    @property
    def key(self) -> str:
        """Where it is kept."""
        return self._steps.key

    @property
    def run_id(self) -> str | None:
        """The run; None if it has no name."""
        return self._steps.run_id

    def save(self, snapshot: Mapping[str, object], *, memory: SharedMemory | None = None) -> int | None:
        """Keep `snapshot` as the latest checkpoint, in version 4, whichever version it is of.

        Args:
            snapshot: see `CheckpointSnapshot`; JSON data.
            memory: the team's memory. Its turn becomes part of the checkpoint; if it is kept in another
                store (two objects on one run are the same store), so do its entries. If it is on a log, where
                that stands is noted as the member `turnlog`.

        Returns:
            The entry's version; None on a store without versions.

        Raises:
            BadCheckpoint: it could not be loaded again; names the place, what belongs there and what is.
            TypeError, ValueError: it is not JSON; names the path.
            Busy, StorageError: nothing was written; as with all of these.
        """
        return carry_out(self._steps.save(snapshot, memory)).version

    def writing(self, snapshot: Mapping[str, object]) -> Write:
        """The command that saves `snapshot`, for whoever commits it together with other commands.

        Raises:
            BadCheckpoint, TypeError, ValueError: as `save`.
        """
        return self._steps.writing(snapshot)

    def load(self) -> CheckpointSnapshot | None:
        """The latest checkpoint, a record of an older version as one of version 4; None if there is none.

        Raises:
            BadCheckpoint: what is stored is not JSON or not a checkpoint; names the key and the place.
        """
        return carry_out(self._steps.load())

    def delete(self) -> None:
        """Remove the checkpoint; silent if there is none."""
        carry_out(self._steps.delete())


class AsyncCheckpoint:
    """The twin of `Checkpoint` for an `AsyncMemoryStore`: the same methods; all but `writing` are awaited."""

    def __init__(self, store: AsyncMemoryStore, key: str | None = None, run_id: str | None = None) -> None:
        check_given_store("store", store, asynchronous=True, twin="Checkpoint")
        self._steps = CheckpointSteps(store, key, run_id)

    @property
    def key(self) -> str:
        """Where it is kept."""
        return self._steps.key

    @property
    def run_id(self) -> str | None:
        """The run; None if it has no name."""
        return self._steps.run_id

    async def save(
        self, snapshot: Mapping[str, object], *, memory: AsyncSharedMemory | None = None
    ) -> int | None:
        """Keep `snapshot` as the latest checkpoint; see `Checkpoint.save`."""
        return (await acarry_out(self._steps.save(snapshot, memory))).version

    def writing(self, snapshot: Mapping[str, object]) -> Write:
        """The command that saves `snapshot`; see `Checkpoint.writing`."""
        return self._steps.writing(snapshot)

    async def load(self) -> CheckpointSnapshot | None:
        """The latest checkpoint; see `Checkpoint.load`."""
        return await acarry_out(self._steps.load())

    async def delete(self) -> None:
        """Remove the checkpoint; see `Checkpoint.delete`."""
        await acarry_out(self._steps.delete())


def steps_of(checkpoint: Checkpoint | AsyncCheckpoint) -> CheckpointSteps:
    """The operations of a checkpoint, for whoever carries them out together with others."""
    return checkpoint._steps  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - both are this module's
