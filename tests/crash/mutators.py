"""Every public way to change a log, in one table; `test_mutators` holds it against the public surface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import turnlog
from turnlog import (
    AsyncEventSourcedStore,
    AsyncSharedMemory,
    EventLog,
    EventSourcedStore,
    SharedMemory,
    Timeline,
    Write,
)
from turnlog.eventlog import AdvanceTurn, Delete
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.projections import EntriesProjection

__all__ = ["MUTATORS", "NOT_ON_A_LOG", "READERS", "prepare"]

_SNAPSHOT = {
    "version": 1,
    "turnCount": 2,
    "entries": [
        {"key": f"writer/{number}", "value": "put back", "createdAt": "2026-11-30T02:13:00.123Z"}
        for number in range(3)
    ],
}
_BATCH = [Write("a", "new"), Write("new", "new"), Delete("writer/draft"), AdvanceTurn()]


def prepare(path: Path) -> None:
    """A log with something in it, and beside it one to import from."""
    with turnlog.open(path, durability="os") as log:
        log.execute([Write("a", "old"), Write("writer/draft", "old"), AdvanceTurn()], run="main")
        log.execute(
            [Write("a", "older"), Write("gone", "old", expires_at_turn=9)], run="main", agent="writer"
        )
        log.fork("main", 3, run="side", turn=0)
    with turnlog.open(path.with_name("source.db"), durability="os") as log:
        log.execute([Write(f"key {number}", "from afar") for number in range(3)], run="arriving")
        path.with_name("arriving.jsonl").write_text("\n".join(export_lines(log)), "utf-8")


def _store(verb: str, *given: Any, **named: Any) -> Callable[[EventLog], Any]:
    return lambda log: getattr(EventSourcedStore(log), verb)(*given, **named)


def _async_store(verb: str, *given: Any) -> Callable[[EventLog], Any]:
    return lambda log: _run(lambda: getattr(AsyncEventSourcedStore(log), verb)(*given))


def _memory(verb: str, *given: Any) -> Callable[[EventLog], Any]:
    return lambda log: getattr(SharedMemory(EventSourcedStore(log)), verb)(*given)


def _async_memory(verb: str, *given: Any) -> Callable[[EventLog], Any]:
    return lambda log: _run(lambda: getattr(AsyncSharedMemory(AsyncEventSourcedStore(log)), verb)(*given))


def _agent(verb: str, *given: Any) -> Callable[[EventLog], Any]:
    return lambda log: getattr(SharedMemory(EventSourcedStore(log)).agent("writer"), verb)(*given)


def _async_agent(verb: str, *given: Any) -> Callable[[EventLog], Any]:
    return lambda log: _run(
        lambda: getattr(AsyncSharedMemory(AsyncEventSourcedStore(log)).agent("writer"), verb)(*given)
    )


def _run(begin: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        return await begin()

    return asyncio.run(main())


def _import(log: EventLog) -> Any:
    export = Path(log.path).with_name("arriving.jsonl")
    return import_lines(log, export.read_text("utf-8").splitlines(), "arriving")


_VERBS: dict[str, tuple[Any, ...]] = {
    "set": ("a", "new", {"x": 1}),
    "set_with_expiry": ("a", "new", 7),
    "compare_and_set": ("a", "older", "new"),
    "delete": ("a",),
    "clear": (),
    "advance_turn": (),
    "set_turn": (9,),
    "execute": (_BATCH,),
}
_MEMORY_VERBS: dict[str, tuple[Any, ...]] = {
    "write": ("writer", "draft", {"new": 1}),
    "write_expiring": ("writer", "draft", "new", 2),
    "compare_and_set": ("writer", "draft", "old", "new"),
    "delete": ("writer", "draft"),
    "advance_turn": (),
    "set_turn": (9,),
    "restore": (_SNAPSHOT,),
}
_AGENT_VERBS = {
    verb: _MEMORY_VERBS[verb][1:] for verb in ("write", "write_expiring", "compare_and_set", "delete")
}

MUTATORS: dict[str, Callable[[EventLog], Any]] = {
    **{f"EventSourcedStore.{verb}": _store(verb, *given) for verb, given in _VERBS.items()},
    **{f"AsyncEventSourcedStore.{verb}": _async_store(verb, *given) for verb, given in _VERBS.items()},
    **{f"SharedMemory.{verb}": _memory(verb, *given) for verb, given in _MEMORY_VERBS.items()},
    **{f"AsyncSharedMemory.{verb}": _async_memory(verb, *given) for verb, given in _MEMORY_VERBS.items()},
    **{f"AgentMemory.{verb}": _agent(verb, *given) for verb, given in _AGENT_VERBS.items()},
    **{f"AsyncAgentMemory.{verb}": _async_agent(verb, *given) for verb, given in _AGENT_VERBS.items()},
    "EventLog.execute": lambda log: log.execute(_BATCH, run="main", agent="somebody new"),
    "EventLog.execute, a new run": lambda log: log.execute(_BATCH, run="new"),
    "EventLog.aexecute": lambda log: _run(lambda: log.aexecute(_BATCH, run="main")),
    "EventLog.fork": lambda log: log.fork("main", 4, run="new", turn=0),
    "EventLog.transact": lambda log: log.transact(EntriesProjection().rebuild),
    "Timeline.restore": lambda log: Timeline(log, "main").restore(position=3),
    "Timeline.fork": lambda log: Timeline(log, "main").fork(run="new", position=3),
    "import_lines": _import,
}
"""What is asked, by `Class.method`, of the log that `prepare` makes; each changes something. One method may
be there more than once, with what tells the cases apart behind a comma."""

READERS: dict[str, set[str]] = {
    "EventLog": {
        "as_it_lies",
        "close",
        "durability",
        "flushes_itself",
        "head",
        "lineage",
        "path",
        "projections",
        "read",
        "read_only",
        "reading",
        "runs",
    },
    "EventSourcedStore": {"get", "get_turn", "list", "log", "run", "scan"},
    "AsyncEventSourcedStore": {"get", "get_turn", "list", "log", "run", "scan"},
    "SharedMemory": {
        "agent",
        "get_summary",
        "list_all",
        "list_by_agent",
        "read",
        "snapshot",
        "store",
        "turn",
    },
    "AsyncSharedMemory": {
        "agent",
        "get_summary",
        "get_turn",
        "list_all",
        "list_by_agent",
        "read",
        "snapshot",
        "store",
    },
    "AgentMemory": {
        "activity",
        "get_summary",
        "list_all",
        "list_own",
        "memory",
        "name",
        "read",
        "read_own",
    },
    "AsyncAgentMemory": {
        "activity",
        "get_summary",
        "list_all",
        "list_own",
        "memory",
        "name",
        "read",
        "read_own",
    },
    "Timeline": {
        "bisect",
        "blame",
        "diff",
        "entry",
        "first",
        "folded",
        "history",
        "lineage",
        "original",
        "point",
        "run",
        "state",
        "turns",
    },
}
"""Public methods that change nothing in a log."""

NOT_ON_A_LOG = {
    "AdvanceTurn",
    "AsyncInMemoryStore",
    "AsyncMemoryStore",
    "Clear",
    "CompareAndSet",
    "Delete",
    "InMemoryStore",
    "Limits",
    "MemoryEntry",
    "MemoryStore",
    "SetTurn",
    "SharedEntry",
    "Write",
}
"""Public classes that hold no log: values, commands, protocols and stores in memory."""
