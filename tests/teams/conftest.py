"""What the tests of teams have in common: one log, and the three ways in which its team's tasks are run."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import (
    Agent,
    AsyncEventSourcedStore,
    EventSourcedStore,
    MemoryEntry,
    Task,
    Team,
    TeamResult,
    arun_tasks,
    run_tasks,
)
from turnlog.teams.hooks import Hooks
from turnlog.teams.loop import arun_queue
from turnlog.teams.queue import TaskQueue
from turnlog.teams.threads import run_queue

from ..memory.conftest import AsyncPlainStore, PlainStore


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

    def __init__(self, name: str, log: turnlog.EventLog) -> None:
        self.name = name
        self.log = log
        self.in_threads = name == "threads"
        self.store: Any = AsyncEventSourcedStore(log) if "async" in name else EventSourcedStore(log)
        self.plain = FailingStore()
        self.plain_store: Any = AsyncPlainStore(self.plain) if "async" in name else self.plain

    def team(self, *agents: Agent) -> Team:
        """A team whose memory is on the log."""
        return Team(agents, shared_memory_store=self.store)

    def run(self, team: Team, tasks: Iterable[Task], **named: Any) -> TeamResult:
        """The result of the tasks; `sleep` is a plain function of seconds."""
        return self._called(run_tasks, arun_tasks, team, tasks, **named)

    def run_queue(self, team: Team, queue: TaskQueue, hooks: Hooks, **named: Any) -> TeamResult:
        """The result of what a queue has left."""
        return self._called(run_queue, arun_queue, team, queue, hooks, **named)

    def entries(self) -> dict[str, str]:
        """What the run holds: values by key."""
        return {entry.key: entry.value for entry in EventSourcedStore(self.log).list()}

    def turn(self) -> int:
        """The run's turn."""
        return EventSourcedStore(self.log).get_turn()

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


@pytest.fixture
def log(tmp_path: Path) -> Iterator[turnlog.EventLog]:
    """A fresh log."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        yield log


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
