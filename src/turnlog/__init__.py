"""turnlog: event-sourced shared memory for teams of AI agents.

A name is imported when it is first used, so that a command which needs little of this starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnlog._open import open as open  # noqa: A004 - public, but see `__all__`
    from turnlog.eventlog import (
        AdvanceTurn,
        BadAddress,
        BadAnchor,
        BadImport,
        Busy,
        Clear,
        Closed,
        CompareAndSet,
        Conflict,
        Corrupt,
        Delete,
        EventLog,
        FileChanged,
        KeyReused,
        Limits,
        NotFound,
        NotOurs,
        Once,
        OutcomeUnknown,
        RunExists,
        SetTurn,
        StorageError,
        TooNew,
        TurnlogError,
        Write,
    )
    from turnlog.memory import (
        AgentMemory,
        AsyncAgentMemory,
        AsyncEventSourcedStore,
        AsyncFileStore,
        AsyncInMemoryStore,
        AsyncMemoryStore,
        AsyncRedactingStore,
        AsyncSharedMemory,
        EventSourcedStore,
        FileStore,
        InMemoryStore,
        MemoryEntry,
        MemoryStore,
        RedactingStore,
        SharedEntry,
        SharedMemory,
        acting_as,
    )
    from turnlog.replay import Timeline, redact
    from turnlog.teams import (
        Agent,
        ApprovalLedger,
        ApprovalRequest,
        AsyncApprovalLedger,
        AsyncCheckpoint,
        BadCheckpoint,
        BadPlan,
        Checkpoint,
        DurableApprovalError,
        RunTaken,
        Suspend,
        Task,
        TaskContext,
        TaskError,
        TaskEvent,
        TaskResult,
        Team,
        TeamResult,
        arestore,
        arun_tasks,
        restore,
        run_tasks,
    )
else:

    def __getattr__(name: str) -> object:
        """A public name, or a part of the package."""
        if name in ("eventlog", "memory", "projections", "replay", "teams", "testing"):
            return import_module(f"turnlog.{name}")
        if name in __all__ or name == "open":
            for home in (
                "turnlog._open",
                "turnlog.eventlog",
                "turnlog.memory",
                "turnlog.replay",
                "turnlog.teams",
            ):
                module = import_module(home)
                if name in module.__all__:
                    return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module 'turnlog' has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Everything there is, imported yet or not."""
        return sorted({*globals(), *__all__, "open"})


# `turnlog.open` is public as well, but `from turnlog import *` must not take the place of Python's own.
__all__ = [
    "AdvanceTurn",
    "Agent",
    "AgentMemory",
    "ApprovalLedger",
    "ApprovalRequest",
    "AsyncAgentMemory",
    "AsyncApprovalLedger",
    "AsyncCheckpoint",
    "AsyncEventSourcedStore",
    "AsyncFileStore",
    "AsyncInMemoryStore",
    "AsyncMemoryStore",
    "AsyncRedactingStore",
    "AsyncSharedMemory",
    "BadAddress",
    "BadAnchor",
    "BadCheckpoint",
    "BadImport",
    "BadPlan",
    "Busy",
    "Checkpoint",
    "Clear",
    "Closed",
    "CompareAndSet",
    "Conflict",
    "Corrupt",
    "Delete",
    "DurableApprovalError",
    "EventLog",
    "EventSourcedStore",
    "FileChanged",
    "FileStore",
    "InMemoryStore",
    "KeyReused",
    "Limits",
    "MemoryEntry",
    "MemoryStore",
    "NotFound",
    "NotOurs",
    "Once",
    "OutcomeUnknown",
    "RedactingStore",
    "RunExists",
    "RunTaken",
    "SetTurn",
    "SharedEntry",
    "SharedMemory",
    "StorageError",
    "Suspend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskEvent",
    "TaskResult",
    "Team",
    "TeamResult",
    "Timeline",
    "TooNew",
    "TurnlogError",
    "Write",
    "acting_as",
    "arestore",
    "arun_tasks",
    "redact",
    "restore",
    "run_tasks",
]
