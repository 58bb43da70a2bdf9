"""Every public way to change a log, in one table; `test_mutators` holds it against the public surface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import turnlog
from turnlog import (
    Agent,
    ApprovalLedger,
    ApprovalRequest,
    AsyncApprovalLedger,
    AsyncCheckpoint,
    AsyncEventSourcedStore,
    AsyncRedactingStore,
    AsyncSharedMemory,
    Checkpoint,
    CompareAndSet,
    EventLog,
    EventSourcedStore,
    Once,
    RedactingStore,
    SharedMemory,
    Task,
    Team,
    Timeline,
    Write,
)
from turnlog.eventlog import AdvanceTurn, Delete
from turnlog.eventlog.batch import Actor
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.eventlog.redaction import Redact
from turnlog.projections import EntriesProjection, rebuild
from turnlog.replay import redact, sweep
from turnlog.teams import put_memory_back, saved_checkpoints

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
_KEPT, _NEW = (
    ApprovalRequest.create(
        run_id="main",
        scope="plan",
        boundary=boundary,
        content={"kind": "plan", "continuation": "execute", "tasks": []},
        requested_at=datetime(2026, 11, 30, 12, tzinfo=UTC),
    )
    for boundary in ("kept", "new")
)
_GOLDEN = Path(__file__).parents[1] / "golden"
_CHECKPOINT = json.loads(json.loads((_GOLDEN / "checkpoint-4.json").read_text("utf-8"))["value"])
_CHECKPOINT |= {"approvalDecisions": []}


def prepare(path: Path) -> None:
    """A log with something in it, and beside it one to import from."""
    with turnlog.open(path, durability="os") as log:
        log.execute([Write("a", "old"), Write("writer/draft", "old"), AdvanceTurn()], run="main")
        log.execute(
            [
                Write("a", "older"),
                Write("gone", "old", expires_at_turn=9),
                Write("expired", "old", expires_at_turn=1),
            ],
            run="main",
            agent="writer",
        )
        ApprovalLedger(EventSourcedStore(log)).ensure_request(_KEPT)
        store = EventSourcedStore(log)
        Checkpoint(store).save(_CHECKPOINT | {"mode": "runTeam"}, memory=SharedMemory(store))
        store.set("later", "old")
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


def _redacting(verb: str, *given: Any) -> Callable[[EventLog], Any]:
    return lambda log: getattr(RedactingStore(EventSourcedStore(log)), verb)(*given)


def _async_redacting(verb: str, *given: Any) -> Callable[[EventLog], Any]:
    return lambda log: _run(lambda: getattr(AsyncRedactingStore(AsyncEventSourcedStore(log)), verb)(*given))


def _over(kind: type, verb: str, *given: Any, **named: Any) -> Callable[[EventLog], Any]:
    """A method of what keeps something in a store, of either colour."""
    if kind.__name__.startswith("Async"):
        return lambda log: _run(lambda: getattr(kind(AsyncEventSourcedStore(log)), verb)(*given, **named))
    return lambda log: getattr(kind(EventSourcedStore(log)), verb)(*given, **named)


def _once(command: Any) -> Callable[[EventLog], Any]:
    """A command that is carried out once."""
    return lambda log: log.execute([Once("key", command)], run="main")


def _team(store: Any) -> tuple[Team, list[Task]]:
    team = Team([Agent("writer", lambda prompt, memory, context: "done")], shared_memory_store=store)
    return team, [Task("one", "do it", "writer")]


def _quiet(event: turnlog.TaskEvent) -> None:
    """Nothing is shown of the progress."""


def _redact(**chosen: Any) -> Callable[[EventLog], Any]:
    return lambda log: redact(log, reason="asked for", by="dpo", **chosen)


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
_REDACTING_VERBS = {verb: given for verb, given in _VERBS.items() if verb != "compare_and_set"}
_DECISION = {"request_hash": _KEPT.request_hash, "decision": "approve", "reviewer": "eve"}
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


def _named(kind: str, verb: str, *, own: bool) -> str:
    """A row's name: a method that is passed on to the store inside is no attribute of the class."""
    return f"{kind}.{verb}" if own else f"{kind}.set, {verb}"


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
    "EventLog.redact": lambda log: log.redact(
        [Redact("main", {1: {"a": [1]}}, (), (), "asked for", Actor("dpo"))]
    ),
    "EventLog.execute, once": _once(Write("a", "new")),
    "EventLog.execute, once, refused": _once(CompareAndSet("a", "not this", "new")),
    "EventLog.execute, once, without effect": _once(Delete("not there")),
    **{
        f"{kind.__name__}.{verb}": _over(kind, verb, *given)
        for kind in (Checkpoint, AsyncCheckpoint)
        for verb, given in {"save": (_CHECKPOINT,), "delete": ()}.items()
    },
    **{
        f"{kind.__name__}.{verb}": _over(kind, verb, *given, **named)
        for kind in (ApprovalLedger, AsyncApprovalLedger)
        for verb, given, named in (
            ("ensure_request", (_NEW,), {}),
            ("decide", (_KEPT.id,), _DECISION),
            ("reconcile", (_CHECKPOINT,), {}),
        )
    },
    **{
        _named(kind.__name__, verb, own=hasattr(kind, verb)): wrapped(verb, *given)
        for kind, wrapped in ((RedactingStore, _redacting), (AsyncRedactingStore, _async_redacting))
        for verb, given in _REDACTING_VERBS.items()
    },
    "run_tasks": lambda log: turnlog.run_tasks(*_team(EventSourcedStore(log)), on_event=_quiet),
    "arun_tasks": lambda log: _run(
        lambda: turnlog.arun_tasks(*_team(AsyncEventSourcedStore(log)), on_event=_quiet)
    ),
    "put_memory_back": lambda log: put_memory_back(log, "main", next(iter(saved_checkpoints(log, "main")))),
    "redact": _redact(key="a"),
    "redact, by position": _redact(position=2),
    "redact, by name": _redact(name="writer/draft"),
    "redact, by pattern": _redact(matching="^ol"),
    "rebuild": rebuild,
    "sweep": lambda log: sweep(log, "main", agent="janitor"),
    "import_lines": _import,
}
"""What is asked, by `Class.method`, of the log that `prepare` makes; each changes something. One method may
be there more than once, with what tells the cases apart behind a comma."""

READERS: dict[str, set[str]] = {
    "EventLog": {
        "as_it_lies",
        "busy_timeout_s",
        "close",
        "ask",
        "durability",
        "purge",  # moves what was written; nothing else is read than before
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
        "versions",
    },
    "RedactingStore": {"get", "inner", "list"},
    "AsyncRedactingStore": {"get", "inner", "list"},
    "Checkpoint": {"key", "load", "run_id", "writing"},
    "AsyncCheckpoint": {"key", "load", "run_id", "writing"},
    "ApprovalLedger": {"get"},
    "AsyncApprovalLedger": {"get"},
    "Team": {"agents", "memory", "store"},
    "": {
        "acting_as",
        "anchor",
        "backup",
        "check_resumable",
        "checkpoint_at",
        "first_difference",
        "fold",
        "fold_runs",
        "kept_approvals",
        "memory_point",
        "read_anchor",
        "read_birth",
        "read_entries",
        "read_entry",
        "resumed_identity",
        "saved_checkpoints",
        "verify",
    },
}
"""Public methods that change nothing in a log, by class; under no class, functions."""

ELSEWHERE = {
    "restore",  # tests/teams/test_restore.py fails it, tests/crash/test_resume_killed.py kills it
    "arestore",
}
"""Public functions that change a log, and are broken off in tests of their own."""

NOT_ON_A_LOG = {
    "AdvanceTurn",
    "Agent",
    "ApprovalRequest",
    "AsyncFileStore",  # tests/crash/test_file_store.py
    "AsyncInMemoryStore",
    "AsyncMemoryStore",
    "Clear",
    "CompareAndSet",
    "Delete",
    "FileStore",
    "InMemoryStore",
    "Limits",
    "MemoryEntry",
    "MemoryStore",
    "Once",  # "EventLog.execute, once"
    "SetTurn",
    "SharedEntry",
    "Task",
    "TaskContext",
    "TaskEvent",
    "TaskResult",
    "TeamResult",
    "Write",
}
"""Public classes that hold no log: values, commands, protocols, and stores in memory or in another file."""
