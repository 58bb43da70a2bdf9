"""The write side: events, commands, the SQLite log and its hash chain. Imports nothing else of turnlog."""

from .commands import AdvanceTurn, Clear, Command, CompareAndSet, Delete, SetTurn, View, Write
from .entry import Content, Entry
from .errors import (
    BadAddress,
    BadImport,
    Busy,
    Closed,
    Conflict,
    Corrupt,
    FileChanged,
    NotFound,
    NotOurs,
    OutcomeUnknown,
    RunExists,
    StorageError,
    TooNew,
    TurnlogError,
)
from .events import (
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    Event,
    Recorded,
    Restored,
    RunForked,
    Seal,
    TurnAdvanced,
    TurnSet,
    WriteRefused,
)
from .evolve import evolve
from .limits import Limits
from .log import EventLog, RunInfo
from .projection import Projection, Step
from .runs import Head

__all__ = [
    "AdvanceTurn",
    "BadAddress",
    "BadImport",
    "Busy",
    "Clear",
    "Closed",
    "Command",
    "CompareAndSet",
    "Conflict",
    "Content",
    "Corrupt",
    "Delete",
    "Entry",
    "EntryDeleted",
    "EntryRestored",
    "EntryWritten",
    "Event",
    "EventLog",
    "FileChanged",
    "Head",
    "Limits",
    "NotFound",
    "NotOurs",
    "OutcomeUnknown",
    "Projection",
    "Recorded",
    "Restored",
    "RunExists",
    "RunForked",
    "RunInfo",
    "Seal",
    "SetTurn",
    "Step",
    "StorageError",
    "TooNew",
    "TurnAdvanced",
    "TurnSet",
    "TurnlogError",
    "View",
    "Write",
    "WriteRefused",
    "evolve",
]
