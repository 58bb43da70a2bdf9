"""Where the records of a run are kept: its checkpoints, and beside them its approvals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..eventlog import Command, Write
from ..memory.async_shared import AsyncSharedMemory
from ..memory.contract import executes
from ..memory.shared import SharedMemory
from ..memory.steps import Steps
from ..replay.restore import Restore
from .approval_steps import ApprovalSteps
from .arguments import kind_of
from .bridges import as_asynchronous, asynchronous_store
from .checkpoint import AsyncCheckpoint, Checkpoint, steps_of
from .checkpoint_error import BadCheckpoint
from .checkpoint_history import SavedCheckpoint, checkpoint_at
from .checkpoint_snapshot import CheckpointSnapshot
from .checkpoint_steps import CheckpointSteps, Standing, read_checkpoint, standing_after
from .errors import RunTaken
from .team import Team

__all__ = ["Found", "RecordDesk", "memory_of"]


class Found(NamedTuple):
    """A checkpoint to go on from.

    Attributes:
        snapshot: what it says.
        saved: where it is in the log; None on a store that is on none.
        fork: the run id of the run that goes on, where that is a fork of the one that saved it.
    """

    snapshot: CheckpointSnapshot
    saved: SavedCheckpoint | None = None
    fork: str | None = None


@dataclass(frozen=True)
class RecordDesk:
    """The places of a run's records, in the colour of whoever carries out the steps.

    Attributes:
        checkpoint: keeps checkpoints.
        approvals: keeps approvals, in the same store.
        team: the team.
        memory: the team's memory; None if it has none.
    """

    checkpoint: CheckpointSteps
    approvals: ApprovalSteps
    team: Team
    memory: SharedMemory | AsyncSharedMemory | None

    @classmethod
    def of(cls, team: Team, checkpoint: object, *, asynchronous: bool) -> RecordDesk | None:
        """The desk for what a caller gave as `checkpoint`; None if there is to be none.

        Raises:
            TypeError: neither a bool nor a checkpoint, or one that must be awaited where nothing is.
            ValueError: True, but the team has no store.
        """
        if checkpoint is None or checkpoint is False:
            return None
        if checkpoint is True:
            if team.store is None:
                raise ValueError(
                    "checkpoint=True keeps checkpoints in the team's store, and this team has none; "
                    "pass Checkpoint(store)"
                )
            steps = CheckpointSteps(team.store, None, None)
        elif isinstance(checkpoint, Checkpoint | AsyncCheckpoint):
            steps = steps_of(checkpoint)
        else:
            raise TypeError(
                f"checkpoint must be True, False or a Checkpoint, not {kind_of(checkpoint)}; for a store, "
                "write Checkpoint(store)"
            )
        if isinstance(checkpoint, AsyncCheckpoint) and not asynchronous:
            raise TypeError("an AsyncCheckpoint is for arun_tasks and arestore; use Checkpoint")
        approvals = ApprovalSteps(steps.origin, lambda: datetime.now(UTC))
        if asynchronous:
            through = asynchronous_store(steps.origin)
            steps, approvals = steps.through(through), approvals.through(through)
        return cls(steps, approvals, team, memory_of(team, asynchronous=asynchronous))

    @property
    def shares(self) -> bool:
        """Whether the team's memory is kept where the checkpoints are."""
        return self.team.store is not None and self.checkpoint.shares(self.team.store)

    def named_for(self, run_id: str) -> RecordDesk:
        """The desk of another run in the same store."""
        return replace(self, checkpoint=self.checkpoint.named_for(run_id))

    # -- keeping

    def save(
        self,
        snapshot: Mapping[str, object],
        *,
        standing: Standing | None = None,
        back: Restore | None = None,
    ) -> Steps[Standing]:
        """Keep a checkpoint; with `back`, in the one batch that takes the memory beside it back.

        What is kept beside the memory is written through the team's store, so that one which redacts does.

        Raises:
            Conflict: something else is kept than `standing`, if that is given.
        """
        if self.shares and self.memory is not None and executes(self.team.store):
            store: Any = self.memory.store
            turn = (yield from self._turn()) if back is None else back.point.turn
            commands: list[Command[Any]] = [] if back is None else [back]
            commands.append(self.checkpoint.writing({**snapshot, "turnCount": turn}, standing))
            return standing_after((yield store.execute(commands))[-1])
        return (yield from self.checkpoint.save(snapshot, self.memory, self.team.store, standing))

    def writing_next(self, snapshot: Mapping[str, object], standing: Standing | None) -> Steps[Write]:
        """The command that keeps a checkpoint beside the memory, in the batch that advances the turn."""
        turn = yield from self._turn()
        return self.checkpoint.writing({**snapshot, "turnCount": turn + 1}, standing)

    def taken(self, about: str) -> Steps[RunTaken]:
        """The error of a run that somebody else has gone on with; `about` says what was not recorded."""
        key = self.checkpoint.key
        try:
            found = yield from self.checkpoint.load()
        except BadCheckpoint:
            found = None
        now = f"what is kept at {key!r:.200} is not what this attempt has kept or found there"
        if found is not None:
            tasks, done = found["queue"]["tasks"], found["queue"].get("completed", [])
            now = (
                f"its checkpoint now says that {len(done):,} of {len(tasks):,} tasks are completed "
                f"(attempt {found['identity']['attempt']}, saved {found['createdAt']:.40})"
            )
        run = "this run" if self.checkpoint.run_id is None else f"run {self.checkpoint.run_id!r:.200}"
        return RunTaken(
            f"somebody else has gone on with {run}: {now}. {about} and this attempt has ended. Only one at a "
            "time can go on with a run; call restore to go on from where it is now, or give this one a "
            "Checkpoint of its own (run_id= or key=)",
            key,
        )

    def _turn(self) -> Steps[int]:
        assert self.memory is not None
        return self.memory.turn if isinstance(self.memory, SharedMemory) else (yield self.memory.get_turn())

    # -- finding

    def find(self, at: str | None) -> Steps[Found | None]:
        """The checkpoint to go on from: the present one, or the newest saved at or before a point.

        A fork that has none of its own goes on from its parent's.

        Raises:
            TypeError: a point, but the store is on no log.
            NotFound, BadAddress: the run never was there.
            BadCheckpoint: what is stored cannot be loaded.
        """
        where, steps = self.checkpoint.where, self.checkpoint
        if where is None:
            if at is not None:
                raise TypeError(
                    f"{type(steps.origin).__name__} keeps the latest checkpoint only, so at= leads nowhere; "
                    "keep checkpoints in an EventSourcedStore"
                )
            snapshot = yield from steps.load()
            return None if snapshot is None else Found(snapshot)
        if at is None and where.log.head(where.run) is None:
            return None
        address = "head" if at is None else at
        saved = checkpoint_at(where.log, where.run, at=address, key=steps.key)
        if saved is None and not steps.has_own_key and where.log.lineage(where.run).run.parent is not None:
            saved = checkpoint_at(where.log, where.run, at=address)
        if saved is None:
            return None
        if at is None:
            text = yield from steps.kept(saved.key)
            if text is None:
                return None
            if text != saved.text:  # under a key outside the prefix, put back by a restore; or erased since
                return Found(read_checkpoint(text, saved.key, steps.run_id))
        snapshot = saved.load()
        if saved.run == where.run:
            return Found(snapshot, saved)
        known = (None, snapshot["identity"]["runId"])
        return Found(snapshot, saved, where.run if steps.run_id in known else steps.run_id)


def memory_of(team: Team, *, asynchronous: bool) -> SharedMemory | AsyncSharedMemory | None:
    """The team's memory in that colour."""
    if asynchronous and isinstance(team.memory, SharedMemory):
        return as_asynchronous(team.memory)
    return team.memory
