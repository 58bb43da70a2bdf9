"""What the tests of the write side share: a log in a fresh file, raw connections, and a plain command."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import Event, EventLog, Limits, Recorded, View
from turnlog.eventlog.driver import driver


@dataclass(frozen=True)
class Tell:
    """A command that states facts as they are given; the outcome is what was recorded."""

    events: Sequence[Event]
    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: View) -> Sequence[Event]:
        """The facts."""
        return self.events

    def outcome(self, recorded: Sequence[Recorded]) -> list[Recorded]:
        """The facts in their places."""
        return list(recorded)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log of a test lies; there is no file yet."""
    return tmp_path / "team.db"


@pytest.fixture
def log(path: Path) -> Iterator[EventLog]:
    """A fresh log without a projection, whose clock counts milliseconds from 1000."""
    with EventLog(path, durability="os", clock=itertools.count(1000).__next__) as log:
        yield log


@pytest.fixture
def tell() -> Callable[..., Tell]:
    """Makes a command that records the given events."""
    return lambda *events, agent=None: Tell(events, agent)


@pytest.fixture
def connect(path: Path) -> Iterator[Callable[..., Any]]:
    """Makes raw connections to the log's file, as another program would; closed when the test ends."""
    with ExitStack() as stack:

        def connect(to: Path = path, **options: Any) -> Any:
            options = {"isolation_level": None, "timeout": 5} | options
            return stack.enter_context(closing(driver().connect(to, **options)))

        yield connect


@pytest.fixture
def everything(connect: Callable[..., Any]) -> Callable[[], dict[str, list[str]]]:
    """Reads every row of every table of the log's file, to tell whether anything at all was written."""

    def everything() -> dict[str, list[str]]:
        db = connect()
        tables = [
            name for (name,) in db.execute("select name from sqlite_schema where type = 'table'").fetchall()
        ]
        return {table: sorted(map(repr, db.execute(f"select * from {table}"))) for table in tables}

    return everything
