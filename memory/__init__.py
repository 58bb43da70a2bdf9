"""What agents use: the store contract, stores, and shared memory."""

from .acting import acting_as
from .agent import AgentMemory
from .async_agent import AsyncAgentMemory
from .async_event_sourced import AsyncEventSourcedStore
from .async_file_store import AsyncFileStore
from .async_in_memory import AsyncInMemoryStore
from .async_redacting import AsyncRedactingStore
from .async_shared import AsyncSharedMemory
from .contract import (
    AsyncMemoryStore,
    ComparesAndSets,
    Executes,
    KeepsTurn,
    MemoryStore,
    Scans,
    SetsWithExpiry,
)
from .entry import MemoryEntry
from .event_sourced import EventSourcedStore
from .file_store import FileStore
from .in_memory import InMemoryStore
from .redacting import RedactingStore
from .shared import SharedMemory
from .shared_entry import SharedEntry
from .snapshot import RestoreSnapshot, Snapshot, SnapshotEntry
from .writing import WriteExpiring

__all__ = [
    "AgentMemory",
    "AsyncAgentMemory",
    "AsyncEventSourcedStore",
    "AsyncFileStore",
    "AsyncInMemoryStore",
    "AsyncMemoryStore",
    "AsyncRedactingStore",
    "AsyncSharedMemory",
    "ComparesAndSets",
    "EventSourcedStore",
    "Executes",
    "FileStore",
    "InMemoryStore",
    "KeepsTurn",
    "MemoryEntry",
    "MemoryStore",
    "RedactingStore",
    "RestoreSnapshot",
    "Scans",
    "SetsWithExpiry",
    "SharedEntry",
    "SharedMemory",
    "Snapshot",
    "SnapshotEntry",
    "WriteExpiring",
    "acting_as",
]
