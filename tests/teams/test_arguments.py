"""What callers give the team layer: whatever cannot be is refused at the door, in words of the caller's."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import turnlog
from turnlog import (
    Agent,
    AsyncEventSourcedStore,
    EventSourcedStore,
    SharedMemory,
    Task,
    Team,
    arestore,
    arun_tasks,
    restore,
    run_tasks,
    teams,
)
from turnlog.memory import InMemoryStore
from turnlog.teams import (
    ApprovalLedger,
    ApprovalRequest,
    AsyncApprovalLedger,
    AsyncCheckpoint,
    Checkpoint,
    Suspend,
    check_resumable,
    checkpoint_at,
    kept_approvals,
    memory_point,
    put_memory_back,
    resumed_identity,
    saved_checkpoints,
)

from .conftest import CONTENT, says

PYTHONS_OWN = re.compile(
    r"object is not|has no attribute|positional argument|subscriptable|unhashable|indices must be|"
    r"^'[^']*'$|argument of type|can't be used|first arg must be"
)
"""How Python itself words what is wrong, from deep inside."""


@dataclass
class Bench:
    """What a call needs beside the argument that is wrong."""

    log: turnlog.EventLog
    store: Any
    asynchronous: Any
    agent: Agent
    task: Task
    saved: Any

    def team(self, *, asynchronous: bool = False) -> Team:
        """A team on the log."""
        return Team([self.agent], shared_memory_store=self.asynchronous if asynchronous else self.store)


@pytest.fixture
def bench(log: turnlog.EventLog) -> Bench:
    """A log with one finished run in it."""
    agent, task = Agent("ann", says("x")), Task("a", "", "ann")
    store = EventSourcedStore(log, "trip-42")
    run_tasks(Team([agent], shared_memory_store=store), [task], checkpoint=True)
    saved = checkpoint_at(log, "trip-42")
    return Bench(log, store, AsyncEventSourcedStore(log, "trip-42"), agent, task, saved)


async def coroutine(*given: Any) -> None:
    """A coroutine function, where a plain one is wanted."""


def too_few() -> None:
    """A function that takes nothing, where it is given something."""


NO_TEXT: list[object] = [3, None, b"x", ["x"], {}, Task]
NO_NAME: list[object] = [*NO_TEXT, ""]
NO_TEXT_OR_NONE: list[object] = [3, b"x", ["x"], {}, Task]
NO_FUNCTION: list[object] = [3, "x", [print], too_few]
NO_BOOL: list[object] = [3, 0, "yes", [], {}]
NO_COUNT: list[object] = [-1, 1.5, "3", None, True]
NO_NUMBER: list[object] = ["3", None, True, -1, float("nan"), [1]]
NO_TEAM: list[object] = [3, None, "x", Team, [], Agent("ann", says("x")), InMemoryStore()]
NO_LOG: list[object] = [3, None, "team.db", turnlog.EventLog, InMemoryStore()]
NO_STORE: list[object] = [3, "team.db", {}, [], InMemoryStore, SharedMemory(), print]
NO_AGENTS: list[object] = [
    3,
    None,
    "ann",
    b"ann",
    {"ann": Agent("ann", says("x"))},
    {},
    [],
    Agent,
    Agent("ann", says("x")),
    [Agent],
    ["ann"],
    [Agent("ann", says("x")), None],
    Team([Agent("ann", says("x"))]),
]
NO_TASKS: list[object] = [
    3,
    None,
    "do it",
    b"x",
    {"a": Task("a", "", "ann")},
    {},
    Task,
    Task("a", "", "ann"),
    [Task],
    ["a"],
    [Task("a", "", "ann"), {"id": "b"}],
    [[Task("a", "", "ann")]],
]
NO_CHECKPOINT: list[object] = [3, "x", {}, [], Checkpoint, InMemoryStore(), print]
NO_GATE: list[object] = [3, "x", True, Suspend("why"), too_few]
NO_SNAPSHOT: list[object] = [3, "x", None, [], {}, {"version": 4}, Checkpoint]
NO_ADDRESS: list[object] = [3, 3.1, b"3", [3], "soon"]

Call = Callable[[Bench, Any], object]


def _runs() -> Iterator[tuple[str, Call, list[object]]]:
    """The four ways to begin or go on with tasks."""
    wrong = {
        "checkpoint": NO_CHECKPOINT,
        "approve_plan": NO_GATE,
        "approve_round": NO_GATE,
        "approve_dispatch": NO_GATE,
        "max_parallel": [0, -1, 1.5, "3", None, True],
        "on_event": [*NO_FUNCTION, coroutine],
        "sleep": [3, "x", too_few],
        "at": NO_ADDRESS,
        "restore_memory": NO_BOOL,
    }
    for plain, twin in ((run_tasks, arun_tasks), (restore, arestore)):
        for option, values in wrong.items():
            if option not in inspect.signature(plain).parameters:
                continue
            colour = {"sleep": [coroutine], "approve_plan": [coroutine]}.get(option, [])
            yield (
                f"{plain.__name__}.{option}",
                lambda bench, given, plain=plain, option=option: plain(
                    bench.team(), [bench.task], **{option: given}
                ),
                [*values, *colour],
            )
            yield (
                f"{twin.__name__}.{option}",
                lambda bench, given, twin=twin, option=option: asyncio.run(
                    twin(bench.team(asynchronous=True), [bench.task], **{option: given})
                ),
                [*values, time.sleep] if option == "sleep" else values,
            )
        yield f"{plain.__name__}.team", lambda bench, given, f=plain: f(given, [bench.task]), NO_TEAM
        yield f"{plain.__name__}.tasks", lambda bench, given, f=plain: f(bench.team(), given), NO_TASKS
        yield (
            f"{twin.__name__}.team",
            lambda bench, given, f=twin: asyncio.run(f(given, [bench.task])),
            NO_TEAM,
        )
        yield (
            f"{twin.__name__}.tasks",
            lambda bench, given, f=twin: asyncio.run(f(bench.team(), given)),
            NO_TASKS,
        )


def _request(**named: Any) -> ApprovalRequest:
    given: dict[str, Any] = {
        "run_id": "trip-42",
        "scope": "tool_call",
        "boundary": "draft:call-1",
        "content": CONTENT,
    }
    return ApprovalRequest.create(**(given | named))


def _decide(bench: Bench, **named: Any) -> object:
    request = _request()
    given: dict[str, Any] = {
        "request_id": request.id,
        "request_hash": request.request_hash,
        "decision": "approve",
        "reviewer": "eve",
    }
    return ApprovalLedger(bench.store).decide(**(given | named))


def _task(**named: Any) -> Task:
    return Task(**({"id": "a", "description": "", "assignee": "ann"} | named))


def _snapshot(bench: Bench) -> Any:
    return bench.saved.load()


_OTHERS: list[tuple[str, Call, list[object]]] = [
    ("Team.agents", lambda _, given: Team(given), NO_AGENTS),
    (
        "Team.shared_memory",
        lambda bench, given: Team([bench.agent], shared_memory=given),
        [*NO_BOOL, InMemoryStore()],
    ),
    (
        "Team.shared_memory_store",
        lambda bench, given: Team([bench.agent], shared_memory_store=given),
        NO_STORE,
    ),
    ("Agent.name", lambda _, given: Agent(given, says("x")), [*NO_NAME, says("x"), "a/b"]),
    ("Agent.run", lambda _, given: Agent("ann", given), [*NO_FUNCTION, None, Team, lambda prompt: "x"]),
    (
        "Agent.result_type",
        lambda bench, given: Agent("ann", says("x"), given),
        [3, "no such name", {}, {"a": int}, [], bench_agent := Agent("bob", says("x")), Task("a", "", "b")],
    ),
    ("Task.id", lambda _, given: _task(id=given), NO_NAME),
    ("Task.description", lambda _, given: _task(description=given), NO_TEXT),
    ("Task.assignee", lambda _, given: _task(assignee=given), [*NO_NAME, bench_agent, "a/b"]),
    ("Task.title", lambda _, given: _task(title=given), NO_TEXT),
    (
        "Task.depends_on",
        lambda _, given: _task(depends_on=given),
        [3, None, "b", b"b", {"b": 1}, {}, [3], Task("b", "", "ann"), [Task("b", "", "ann")], Task],
    ),
    ("Task.memory_scope", lambda _, given: _task(memory_scope=given), [3, None, "none", ["all"], {}, True]),
    (
        "Task.dependency_payload",
        lambda _, given: _task(dependency_payload=given),
        [3, None, "json", ["output"], {}, True],
    ),
    ("Task.max_retries", lambda _, given: _task(max_retries=given), NO_COUNT),
    ("Task.retry_delay_s", lambda _, given: _task(retry_delay_s=given), NO_NUMBER),
    ("Task.retry_backoff", lambda _, given: _task(retry_backoff=given), [*NO_NUMBER, 0.5]),
    ("Suspend.reason", lambda _, given: Suspend(given), NO_TEXT_OR_NONE),
    ("Checkpoint.store", lambda _, given: Checkpoint(given), [*NO_STORE, None]),
    ("Checkpoint.key", lambda bench, given: Checkpoint(bench.store, given), NO_TEXT_OR_NONE),
    (
        "Checkpoint.run_id",
        lambda bench, given: Checkpoint(bench.store, run_id=given),
        [*NO_TEXT_OR_NONE, "x" * 129],
    ),
    ("Checkpoint.save.snapshot", lambda bench, given: Checkpoint(bench.store).save(given), NO_SNAPSHOT),
    (
        "Checkpoint.save.memory",
        lambda bench, given: Checkpoint(bench.store).save(_snapshot(bench), memory=given),
        [3, "x", bench_team := Team([bench_agent], shared_memory=True), InMemoryStore(), SharedMemory],
    ),
    ("Checkpoint.writing.snapshot", lambda bench, given: Checkpoint(bench.store).writing(given), NO_SNAPSHOT),
    ("AsyncCheckpoint.store", lambda _, given: AsyncCheckpoint(given), [*NO_STORE, None, InMemoryStore()]),
    ("AsyncCheckpoint.key", lambda bench, given: AsyncCheckpoint(bench.asynchronous, given), NO_TEXT_OR_NONE),
    (
        "AsyncCheckpoint.run_id",
        lambda bench, given: AsyncCheckpoint(bench.asynchronous, run_id=given),
        NO_TEXT_OR_NONE,
    ),
    (
        "AsyncCheckpoint.save.snapshot",
        lambda bench, given: asyncio.run(AsyncCheckpoint(bench.asynchronous).save(given)),
        NO_SNAPSHOT,
    ),
    (
        "AsyncCheckpoint.save.memory",
        lambda bench, given: asyncio.run(
            AsyncCheckpoint(bench.asynchronous).save(_snapshot(bench), memory=given)
        ),
        [3, "x", bench_team, InMemoryStore(), SharedMemory()],
    ),
    (
        "AsyncCheckpoint.writing.snapshot",
        lambda bench, given: AsyncCheckpoint(bench.asynchronous).writing(given),
        NO_SNAPSHOT,
    ),
    ("ApprovalLedger.store", lambda _, given: ApprovalLedger(given), [*NO_STORE, None]),
    ("ApprovalLedger.clock", lambda bench, given: ApprovalLedger(bench.store, clock=given), [3, "x", None]),
    (
        "ApprovalLedger.ensure_request.request",
        lambda bench, given: ApprovalLedger(bench.store).ensure_request(given),
        [3, "x", None, {}, ApprovalRequest],
    ),
    (
        "ApprovalLedger.get.request_id",
        lambda bench, given: ApprovalLedger(bench.store).get(given),
        NO_TEXT,
    ),
    ("ApprovalLedger.decide.request_id", lambda bench, given: _decide(bench, request_id=given), NO_TEXT),
    ("ApprovalLedger.decide.request_hash", lambda bench, given: _decide(bench, request_hash=given), NO_TEXT),
    (
        "ApprovalLedger.decide.decision",
        lambda bench, given: _decide(bench, decision=given),
        [3, None, True, "yes", ["approve"], {}],
    ),
    ("ApprovalLedger.decide.reviewer", lambda bench, given: _decide(bench, reviewer=given), [*NO_NAME, " "]),
    (
        "ApprovalLedger.decide.display_name",
        lambda bench, given: _decide(bench, display_name=given),
        NO_TEXT_OR_NONE,
    ),
    (
        "ApprovalLedger.reconcile.snapshot",
        lambda bench, given: ApprovalLedger(bench.store).reconcile(given),
        NO_SNAPSHOT,
    ),
    ("AsyncApprovalLedger.store", lambda _, given: AsyncApprovalLedger(given), [*NO_STORE, None]),
    (
        "AsyncApprovalLedger.clock",
        lambda bench, given: AsyncApprovalLedger(bench.asynchronous, clock=given),
        [3, "x", None],
    ),
    (
        "AsyncApprovalLedger.reconcile.snapshot",
        lambda bench, given: asyncio.run(AsyncApprovalLedger(bench.asynchronous).reconcile(given)),
        NO_SNAPSHOT,
    ),
    ("ApprovalRequest.create.run_id", lambda _, given: _request(run_id=given), [*NO_NAME, " "]),
    ("ApprovalRequest.create.scope", lambda _, given: _request(scope=given), [3, None, "x", ["plan"], {}]),
    ("ApprovalRequest.create.boundary", lambda _, given: _request(boundary=given), [*NO_NAME, " "]),
    (
        "ApprovalRequest.create.content",
        lambda _, given: _request(content=given),
        [3, None, "x", [], {}, CONTENT | {"input": {"to": {1}}}],
    ),
    ("ApprovalRequest.create.reason", lambda _, given: _request(reason=given), NO_TEXT_OR_NONE),
    ("ApprovalRequest.create.requested_at", lambda _, given: _request(requested_at=given), [3, "now", {}]),
    ("ApprovalRequest.read.document", lambda _, given: ApprovalRequest.read(given), [3, None, "x", {}]),
    ("kept_approvals.log", lambda _, given: kept_approvals(given), NO_LOG),
    ("kept_approvals.run", lambda bench, given: kept_approvals(bench.log, given), [3, b"x", ["x"], Team]),
    (
        "kept_approvals.request_id",
        lambda bench, given: kept_approvals(bench.log, "trip-42", given),
        NO_TEXT_OR_NONE,
    ),
    ("saved_checkpoints.log", lambda _, given: saved_checkpoints(given, "trip-42"), NO_LOG),
    ("saved_checkpoints.run", lambda bench, given: saved_checkpoints(bench.log, given), NO_TEXT),
    (
        "saved_checkpoints.key",
        lambda bench, given: saved_checkpoints(bench.log, "trip-42", key=given),
        NO_TEXT_OR_NONE,
    ),
    (
        "saved_checkpoints.inherited",
        lambda bench, given: saved_checkpoints(bench.log, "trip-42", inherited=given),
        NO_BOOL,
    ),
    ("checkpoint_at.log", lambda _, given: checkpoint_at(given, "trip-42"), NO_LOG),
    ("checkpoint_at.run", lambda bench, given: checkpoint_at(bench.log, given), NO_TEXT),
    ("checkpoint_at.at", lambda bench, given: checkpoint_at(bench.log, "trip-42", at=given), NO_ADDRESS),
    (
        "checkpoint_at.key",
        lambda bench, given: checkpoint_at(bench.log, "trip-42", key=given),
        NO_TEXT_OR_NONE,
    ),
    ("check_resumable.snapshot", lambda _, given: check_resumable(given), NO_SNAPSHOT),
    ("resumed_identity.snapshot", lambda _, given: resumed_identity(given), NO_SNAPSHOT),
    (
        "resumed_identity.run_id",
        lambda bench, given: resumed_identity(_snapshot(bench), run_id=given),
        NO_TEXT_OR_NONE,
    ),
    (
        "resumed_identity.fork",
        lambda bench, given: resumed_identity(_snapshot(bench), fork=given),
        NO_TEXT_OR_NONE,
    ),
    (
        "resumed_identity.new_run_id",
        lambda bench, given: resumed_identity(_snapshot(bench), new_run_id=given),
        [3, "x", None],
    ),
    ("memory_point.log", lambda bench, given: memory_point(given, "trip-42", bench.saved), NO_LOG),
    ("memory_point.run", lambda bench, given: memory_point(bench.log, given, bench.saved), NO_TEXT),
    (
        "memory_point.saved",
        lambda bench, given: memory_point(bench.log, "trip-42", given),
        [3, None, "x", {}, Checkpoint(InMemoryStore())],
    ),
    ("put_memory_back.log", lambda bench, given: put_memory_back(given, "trip-42", bench.saved), NO_LOG),
    ("put_memory_back.run", lambda bench, given: put_memory_back(bench.log, given, bench.saved), NO_TEXT),
    (
        "put_memory_back.saved",
        lambda bench, given: put_memory_back(bench.log, "trip-42", given),
        [3, None, "x", {}, Checkpoint(InMemoryStore())],
    ),
    (
        "put_memory_back.by",
        lambda bench, given: put_memory_back(bench.log, "trip-42", bench.saved, by=given),
        NO_TEXT_OR_NONE,
    ),
    (
        "put_memory_back.reason",
        lambda bench, given: put_memory_back(bench.log, "trip-42", bench.saved, reason=given),
        NO_TEXT_OR_NONE,
    ),
]

CASES = [*_runs(), *_OTHERS]

TOLD_OTHERWISE = {
    "at": "address",
    "agents": "team needs at least one agent",
    "boundary": "runId and boundary",
    "display_name": "displayName",
    "document": "is malformed",
    "name": "agent",
    "run_id": "runId",
    "saved": "saved|run",
    "shared_memory_store": "MemoryStore",
    "snapshot": "checkpoint snapshot",
    "store": "(Async|InMemory|Memory)+Store",
}
"""What a parameter is called in messages, where that can be another word."""


@pytest.mark.parametrize(("call", "wrong"), [pytest.param(*case, id=name) for name, *case in CASES])
def test_what_cannot_be_is_refused_at_the_door(
    bench: Bench, request: pytest.FixtureRequest, call: Call, wrong: list[object]
) -> None:
    """In our words and about that argument, with nothing written and no agent asked."""
    named = request.node.callspec.id.rpartition(".")[2]
    before = bench.log.head("trip-42"), len(list(bench.log.runs()))
    for given in wrong:
        with pytest.raises((TypeError, ValueError)) as raised:
            call(bench, given)
        told = str(raised.value)
        assert not PYTHONS_OWN.search(told), (given, told)
        assert re.search(rf"\b({named}|{TOLD_OTHERWISE.get(named, named)})\b", told), (given, told)
        assert (bench.log.head("trip-42"), len(list(bench.log.runs()))) == before


# What the library makes and callers only read, or what is an error.
_NOT_MADE_BY_CALLERS = {
    "ApprovalDecision",
    "ApprovalRecord",
    "BadCheckpoint",
    "BadPlan",
    "CheckpointSnapshot",
    "DurableApprovalError",
    "KeptApproval",
    "LogPlace",
    "ResumedIdentity",
    "RunTaken",
    "SavedCheckpoint",
    "TaskContext",
    "TaskError",
    "TaskEvent",
    "TaskResult",
    "TeamResult",
}
# `judge` is given what an agent returned; the twins' verbs are those of the plain classes.
_LEFT_OUT = {
    "Agent.judge.returned",
    *(
        f"AsyncApprovalLedger.{rest}"
        for rest in (
            "ensure_request.request",
            "get.request_id",
            *(
                f"decide.{each}"
                for each in ("request_id", "request_hash", "decision", "reviewer", "display_name")
            ),
        )
    ),
}


def _parameters() -> Iterator[str]:
    """Every parameter of every public name."""
    for name in teams.__all__:
        thing = getattr(teams, name)
        if name in _NOT_MADE_BY_CALLERS:
            continue
        if not inspect.isclass(thing):
            yield from (f"{name}.{each}" for each in inspect.signature(thing).parameters)
            continue
        if name != "ApprovalRequest":  # made by `create`
            yield from (f"{name}.{each}" for each in inspect.signature(thing).parameters)
        for verb, method in vars(thing).items():
            if verb.startswith("_") or isinstance(method, property):
                continue
            if callable(method) or isinstance(method, classmethod):
                bound = getattr(thing, verb)
                parameters = list(inspect.signature(bound).parameters)
                yield from (f"{name}.{verb}.{each}" for each in parameters if each != "self")


def test_every_public_parameter_is_in_the_table() -> None:
    """A new one must say what it refuses, too."""
    assert set(_parameters()) - _LEFT_OUT == {name for name, *_ in CASES}


@pytest.mark.parametrize(
    ("make", "says_what"),
    [
        pytest.param(
            lambda: Team(Agent("ann", says("x"))),  # type: ignore[arg-type]
            "agents must be Agent objects in a list, not one Agent; write Team([agent])",
            id="one agent",
        ),
        pytest.param(
            lambda: Team([Agent("ann", says("x")), Agent]),  # type: ignore[list-item]
            "agents[1] must be an Agent, not the class Agent; write Agent(name, run)",
            id="a class",
        ),
        pytest.param(
            lambda: run_tasks(Team([Agent("ann", says("x"))]), Task("a", "", "ann")),  # type: ignore[arg-type]
            "tasks must be Task objects in a list, not one Task; write [task]",
            id="one task",
        ),
        pytest.param(
            lambda: run_tasks(Team([Agent("ann", says("x"))]), [{"id": "a"}]),  # type: ignore[list-item]
            "tasks[0] must be a Task, not dict; write Task(id, description, assignee)",
            id="a dict",
        ),
        pytest.param(
            lambda: Task("a", "", Agent("ann", says("x"))),  # type: ignore[arg-type]
            "task 'a': assignee must be a str, not Agent; write assignee='ann', the agent's name",
            id="an agent as assignee",
        ),
        pytest.param(
            lambda: Task("a", "", "ann", depends_on=[Task("b", "", "ann")]),  # type: ignore[list-item]
            "task 'a': depends_on[0] must be a str, not Task; write its id, 'b'",
            id="a task it depends on",
        ),
        pytest.param(
            lambda: Agent("ann", lambda prompt: "x"),  # type: ignore[arg-type,misc]
            "agent 'ann': run is called with (prompt, memory, context), but is one that takes (prompt)",
            id="a function of one",
        ),
        pytest.param(
            lambda: Agent("ann", InMemoryStore),
            "agent 'ann': run must be a function or an object that is called like one, not the class "
            "InMemoryStore; pass an instance of it",
            id="a class to run",
        ),
        pytest.param(
            lambda: run_tasks(Team([Agent("ann", says("x"))]), [], sleep=3),  # type: ignore[arg-type]
            "sleep must be a function of (seconds) or None, not int",
            id="a number to sleep",
        ),
        pytest.param(
            lambda: run_tasks(Team([Agent("ann", says("x"))]), [], sleep=asyncio.sleep),
            "sleep is a coroutine function, which nobody awaits here; use arun_tasks or arestore",
            id="a coroutine to sleep",
        ),
        pytest.param(
            lambda: run_tasks(Team([Agent("ann", says("x"))]), [], on_event=coroutine),
            "on_event is a coroutine function, which nobody awaits; pass a plain function",
            id="a coroutine to tell",
        ),
        pytest.param(
            lambda: Team([Agent("ann", says("x"))], shared_memory_store="team.db"),  # type: ignore[arg-type]
            "shared_memory_store must be a MemoryStore, not str; on a log that is "
            "EventSourcedStore(turnlog.open(path), run)",
            id="a path as a store",
        ),
        pytest.param(
            lambda: Checkpoint(SharedMemory()),  # type: ignore[arg-type]
            "store must be a MemoryStore, not SharedMemory; write memory.store",
            id="a memory as a store",
        ),
    ],
)
def test_the_message_says_how_to_write_it(make: Callable[[], object], says_what: str) -> None:
    """For the slips that newcomers make."""
    with pytest.raises(TypeError) as raised:
        make()
    assert str(raised.value) == says_what


def test_a_decorated_function_is_called_as_it_is() -> None:
    """What counts is what the decorator takes, not what it wraps."""
    import functools

    def with_model(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def called(*given: Any) -> str:
            return function("a model", *given)

        return called

    @with_model
    def run(model: str, prompt: str, memory: Any, context: Any) -> str:
        return f"{model} did it"

    assert run_tasks(Team([Agent("ann", run)]), [Task("a", "", "ann")])["a"].output == "a model did it"


def test_functions_without_a_signature_will_do() -> None:
    """Some of those written in C say nothing of what they take."""
    told: list[Any] = []
    team = Team([Agent("ann", says("x"))])
    assert run_tasks(team, [Task("a", "", "ann")], on_event=told.append, sleep=time.sleep).success
    assert [event.kind for event in told] == ["started", "completed"]
