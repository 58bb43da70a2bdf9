"""What the tests of teams share: a log, stores and ledgers of both colours, and the ways to run tasks."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnlog
from turnlog import (
    Agent,
    AsyncEventSourcedStore,
    EventSourcedStore,
    MemoryEntry,
    Task,
    Team,
    TeamResult,
    arestore,
    arun_tasks,
    restore,
    run_tasks,
)
from turnlog._command_line import turnlog as command_line
from turnlog.memory import AsyncInMemoryStore, InMemoryStore
from turnlog.teams import ApprovalLedger, ApprovalRequest, AsyncApprovalLedger, AsyncCheckpoint, Checkpoint
from turnlog.teams.hooks import Hooks
from turnlog.teams.loop import arun_queue
from turnlog.teams.queue import TaskQueue
from turnlog.teams.threads import run_queue
from turnlog.testing import Blocking, Loop

from ..memory.conftest import AsyncPlainStore, PlainStore

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
NOON = datetime(2026, 11, 30, 12, 0, 0, 123_000, tzinfo=UTC)
SORTS = ("in memory", "on a log", "in memory, async", "on a log, async")


@dataclass(frozen=True)
class Ended:
    """How a call of the command line ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """The JSON objects it printed, one on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def cli() -> Callable[..., Ended]:
    """Calls the whole command line in this process, its output being no terminal."""

    def call(*arguments: object) -> Ended:
        words = [str(argument) for argument in arguments]
        done = CliRunner().invoke(command_line, words, catch_exceptions=False, prog_name="turnlog")
        return Ended(done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "team.db"


@pytest.fixture
def log(path: Path) -> Iterator[turnlog.EventLog]:
    """A fresh log."""
    with turnlog.open(path, durability="os") as log:
        yield log


@dataclass
class Desk:
    """A store, and ledger and checkpoint on it; asynchronous ones are used as if they were not."""

    store: Any
    ledger: Any
    checkpoint_of: Callable[..., Any]


@pytest.fixture(params=SORTS)
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    """Every kind of store that can compare and set, in both colours."""
    log = request.getfixturevalue("log") if request.param.startswith("on a log") else None
    if not request.param.endswith("async"):
        store: Any = InMemoryStore() if log is None else EventSourcedStore(log, "trip-42")
        yield Desk(
            store, ApprovalLedger(store, clock=lambda: NOON), lambda **named: Checkpoint(store, **named)
        )
        return
    inner: Any = AsyncInMemoryStore() if log is None else AsyncEventSourcedStore(log, "trip-42")
    with Loop() as loop:
        yield Desk(
            Blocking(inner, loop),
            Blocking(AsyncApprovalLedger(inner, clock=lambda: NOON), loop),
            lambda **named: Blocking(AsyncCheckpoint(inner, **named), loop),
        )


CONTENT = {
    "kind": "tool_call",
    "toolName": "publish",
    "rawInput": {"to": "all"},
    "input": {"to": "all"},
    "agentName": "bob",
    "taskId": "draft",
    "toolCallId": "call-1",
    "consequential": True,
}


@pytest.fixture(scope="session")
def make_request() -> Callable[..., ApprovalRequest]:
    """Makes the request to approve a tool call; what is named replaces."""

    def make_request(**named: Any) -> ApprovalRequest:
        given: dict[str, Any] = {
            "run_id": "trip-42",
            "scope": "tool_call",
            "boundary": "draft:call-1",
            "content": copy.deepcopy(CONTENT),
            "requested_at": NOON,
        }
        return ApprovalRequest.create(**(given | named))

    return make_request


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """Reads records that the original implementation wrote."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))


@pytest.fixture
def snapshot(golden: Callable[[str], Any]) -> dict[str, Any]:
    """A checkpoint of version 4 with a task under way and an approval pending."""
    return json.loads(golden("checkpoint-4")["value"])


class FailingStore(PlainStore):
    """A plain store whose verbs fail when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: Callable[[str], BaseException | None] = lambda verb: None

    def set(self, key: str, value: str, metadata: Any = None) -> None:
        """Set `key`, or fail."""
        if (error := self.failing("set")) is not None:
            raise error
        super().set(key, value, metadata)

    def list(self) -> list[MemoryEntry]:
        """Every entry, or fail."""
        if (error := self.failing("list")) is not None:
            raise error
        return super().list()


class Way:
    """One way to run a team's tasks: in threads, or on a loop with a store of either kind."""

    def __init__(self, name: str, log: turnlog.EventLog, run: str = "main") -> None:
        self.name = name
        self.log = log
        self.run_name = run
        self.in_threads = name == "threads"
        self.store: Any = AsyncEventSourcedStore(log, run) if "async" in name else EventSourcedStore(log, run)
        self.plain = FailingStore()
        self.plain_store: Any = AsyncPlainStore(self.plain) if "async" in name else self.plain

    def team(self, *agents: Agent) -> Team:
        """A team whose memory is on the log."""
        return Team(agents, shared_memory_store=self.store)

    def run(self, team: Team, tasks: Iterable[Task], **named: Any) -> TeamResult:
        """The result of the tasks; `sleep` is a plain function of seconds."""
        return self._called(run_tasks, arun_tasks, team, tasks, **named)

    def restore(self, team: Team, *given: Any, **named: Any) -> TeamResult:
        """The result of a run that goes on."""
        return self._called(restore, arestore, team, *given, **named)

    def on(self, run: str) -> Way:
        """The same way, on another run."""
        return Way(self.name, self.log, run)

    def checkpoint(self, **named: Any) -> Any:
        """A checkpoint on the log."""
        return (AsyncCheckpoint if "async" in self.name else Checkpoint)(self.store, **named)

    def run_queue(self, team: Team, queue: TaskQueue, hooks: Hooks, **named: Any) -> TeamResult:
        """The result of what a queue has left."""
        return self._called(run_queue, arun_queue, team, queue, hooks, **named)

    def entries(self) -> dict[str, str]:
        """What the run holds: values by key."""
        return {entry.key: entry.value for entry in EventSourcedStore(self.log, self.run_name).list()}

    def turn(self) -> int:
        """The run's turn."""
        return EventSourcedStore(self.log, self.run_name).get_turn()

    def events(self) -> list[tuple[str, int, str | None, str | None, str | None]]:
        """Type, turn, agent, activity and key of each event."""
        return [
            (
                type(each.event).__name__,
                each.turn,
                each.agent,
                each.activity,
                getattr(each.event, "key", None),
            )
            for each in self.log.read()
        ]

    def _called(self, plain: Any, asynchronous: Any, *given: Any, **named: Any) -> TeamResult:
        if self.in_threads:
            return plain(*given, **named)
        if (sleep := named.get("sleep")) is not None:
            named["sleep"] = as_coroutine(sleep)
        return asyncio.run(asynchronous(*given, **named))


def as_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a coroutine function."""

    @functools.wraps(function)
    async def called(*given: Any) -> Any:
        await asyncio.sleep(0)
        returned = function(*given)
        return await returned if inspect.isawaitable(returned) else returned

    return called


@pytest.fixture(params=["threads", "loop", "loop, async store"])
def way(request: pytest.FixtureRequest, log: turnlog.EventLog) -> Way:
    """Each way to run tasks."""
    return Way(request.param, log)


@pytest.fixture(params=["function", "coroutine"])
def made(request: pytest.FixtureRequest) -> Callable[..., Agent]:
    """Makes an agent of a plain function: of it as it is, or as a coroutine function."""

    def make(name: str, run: Callable[..., Any], result_type: object = None) -> Agent:
        return Agent(name, run if request.param == "function" else as_coroutine(run), result_type)

    return make


def says(text: str) -> Callable[..., str]:
    """What an agent runs that always returns `text`."""
    return lambda prompt, memory, context: text


def echo(prompt: str, memory: Any, context: Any) -> str:
    """What an agent runs that returns its prompt."""
    return prompt
