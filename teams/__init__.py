"""Teams of agents that share a memory: their tasks, checkpoints of their runs, approvals that outlive them.

A name is imported when it is first used, so that the command line, which has verbs here, answers quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent import Agent
    from .approval_decision import ApprovalDecision
    from .approval_error import DurableApprovalError
    from .approval_history import KeptApproval, kept_approvals
    from .approval_ledger import ApprovalLedger, AsyncApprovalLedger
    from .approval_record import ApprovalRecord
    from .approval_request import ApprovalRequest
    from .attempts import TaskContext
    from .checkpoint import AsyncCheckpoint, Checkpoint
    from .checkpoint_error import BadCheckpoint
    from .checkpoint_history import SavedCheckpoint, checkpoint_at, saved_checkpoints
    from .checkpoint_resume import (
        ResumedIdentity,
        check_resumable,
        memory_point,
        put_memory_back,
        resumed_identity,
    )
    from .checkpoint_snapshot import CheckpointSnapshot, LogPlace
    from .errors import BadPlan, RunTaken
    from .gates import Suspend
    from .loop import arestore, arun_tasks
    from .progress import TaskEvent
    from .result import TaskError, TaskResult, TeamResult
    from .task import Task
    from .team import Team
    from .threads import restore, run_tasks
else:

    def __getattr__(name: str) -> object:
        """A public name."""
        if name in __all__:
            for home in _HOMES:
                module = import_module(f".{home}", __name__)
                if name in module.__all__:
                    return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Everything there is, imported yet or not."""
        return sorted({*globals(), *__all__})


_HOMES = (
    "approval_error",
    "approval_request",
    "approval_decision",
    "approval_record",
    "approval_ledger",
    "approval_history",
    "checkpoint",
    "checkpoint_error",
    "checkpoint_history",
    "checkpoint_resume",
    "checkpoint_snapshot",
    "agent",
    "attempts",
    "errors",
    "gates",
    "loop",
    "progress",
    "result",
    "task",
    "team",
    "threads",
)

__all__ = [
    "Agent",
    "ApprovalDecision",
    "ApprovalLedger",
    "ApprovalRecord",
    "ApprovalRequest",
    "AsyncApprovalLedger",
    "AsyncCheckpoint",
    "BadCheckpoint",
    "BadPlan",
    "Checkpoint",
    "CheckpointSnapshot",
    "DurableApprovalError",
    "KeptApproval",
    "LogPlace",
    "ResumedIdentity",
    "RunTaken",
    "SavedCheckpoint",
    "Suspend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskEvent",
    "TaskResult",
    "Team",
    "TeamResult",
    "arestore",
    "arun_tasks",
    "check_resumable",
    "checkpoint_at",
    "kept_approvals",
    "memory_point",
    "put_memory_back",
    "restore",
    "resumed_identity",
    "run_tasks",
    "saved_checkpoints",
]
