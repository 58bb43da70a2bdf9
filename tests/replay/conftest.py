"""What the tests of replay share: a log in a fresh file, its clock, and stores and timelines on its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnlog.eventlog import EventLog
from turnlog.memory import EventSourcedStore
from turnlog.projections import EntriesProjection
from turnlog.replay import Timeline


class Clock:
    """A clock that goes where the test says; milliseconds since 1970 UTC."""

    def __init__(self) -> None:
        self.now = 1_764_468_780_000  # 2025-11-30T02:13:00Z

    def __call__(self) -> int:
        """The time."""
        return self.now


Open = Callable[[Path, Callable[[], int]], EventLog]


@pytest.fixture(scope="session")
def clock_type() -> type[Clock]:
    """For logs made by hand."""
    return Clock


@pytest.fixture(scope="session")
def open_log() -> Open:
    """Opens a log with its projection and a clock."""
    return lambda path, clock: EventLog(
        path, projections=(EntriesProjection(),), durability="os", clock=clock
    )


@pytest.fixture
def clock() -> Clock:
    """The clock of `log`; it stands still unless the test moves it."""
    return Clock()


@pytest.fixture
def log(tmp_path: Path, clock: Clock, open_log: Open) -> Iterator[EventLog]:
    """A fresh log."""
    with open_log(tmp_path / "team.db", clock) as log:
        yield log


@pytest.fixture
def store(log: EventLog) -> EventSourcedStore:
    """The store on the run `main`."""
    return EventSourcedStore(log)


@pytest.fixture
def store_of(log: EventLog) -> Callable[[str], EventSourcedStore]:
    """Makes stores on other runs."""
    return lambda run: EventSourcedStore(log, run)


@pytest.fixture
def timeline_of(log: EventLog) -> Callable[..., Timeline]:
    """Makes the timeline of a run, `main` unless another is named."""
    return lambda run="main": Timeline(log, run)
