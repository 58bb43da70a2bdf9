"""turnlog: event-sourced shared memory for teams of AI agents."""

from turnlog._open import open  # noqa: A004
from turnlog.eventlog import EventLog
from turnlog.memory.event_sourced import EventSourcedStore

__all__ = ["EventLog", "EventSourcedStore", "open"]
