"""What the tests of teams share: stores and ledgers of both colours, and records written by the original."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnlog
from turnlog._command_line import turnlog as command_line
from turnlog.memory import AsyncEventSourcedStore, AsyncInMemoryStore, EventSourcedStore, InMemoryStore
from turnlog.teams import ApprovalLedger, ApprovalRequest, AsyncApprovalLedger, AsyncCheckpoint, Checkpoint

from ..blocking import Blocking, Loop

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
