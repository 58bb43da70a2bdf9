"""What the tests of the command line share: a way to call it, and a file with the story of a small team."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from turnlog.eventlog import AdvanceTurn, CompareAndSet, Delete, EventLog, Write
from turnlog.projections import EntriesProjection
from turnlog.replay.cli import turnlog

STRUCTURED = "sharedMemoryValueEncoding"
START_MS = 1_796_004_780_000  # 2026-11-30T02:13:00Z


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

    @property
    def lines(self) -> list[str]:
        """The lines it printed."""
        return self.out.splitlines()


@pytest.fixture
def cli() -> Callable[..., Ended]:
    """Calls the command line in this process, its output being no terminal."""

    def call(*arguments: object, stdin: str | bytes | None = None) -> Ended:
        words = [str(argument) for argument in arguments]
        done = CliRunner().invoke(turnlog, words, input=stdin, catch_exceptions=False, prog_name="turnlog")
        return Ended(done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture
def process() -> Callable[..., subprocess.Popen[bytes]]:
    """Starts `python -m turnlog` as a user would, with pipes; killed after 100 s and at the test's end."""
    started: list[subprocess.Popen[bytes]] = []
    watchdogs: list[threading.Timer] = []

    def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        options = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "stdin": subprocess.DEVNULL,
        } | options
        options["env"] = os.environ | {"PYTHONUNBUFFERED": ""} | options.get("env", {})
        words = [word if isinstance(word, bytes) else str(word) for word in arguments]
        command = [sys.executable, "-m", "turnlog", *words]
        started.append(subprocess.Popen(command, **options))
        watchdogs.append(threading.Timer(100, started[-1].kill))
        watchdogs[-1].start()
        return started[-1]

    yield start
    for watchdog in watchdogs:
        watchdog.cancel()
        watchdog.join()
    for each in started:
        if each.poll() is None:
            each.kill()
        each.communicate()


@pytest.fixture
def open_team() -> Callable[..., EventLog]:
    """Opens a log whose clock begins at 2026-11-30T02:13Z and counts seconds."""

    def open_team(path: Path) -> EventLog:
        clock = itertools.count(START_MS, 1000).__next__
        return EventLog(path, projections=(EntriesProjection(),), durability="os", clock=clock)

    return open_team


@pytest.fixture
def team(tmp_path: Path, open_team: Callable[..., EventLog]) -> Path:
    """A file with one run, `main`, three turns and ten events; each on a line below at its position."""
    path = tmp_path / "team.db"
    writer, editor, json_by = (
        {"agent": "writer"},
        {"agent": "editor"},
        {"agent": "researcher", STRUCTURED: "json"},
    )
    story: list[Any] = [
        Write("researcher/findings", '{"claim": "X reduces Y", "confidence": 0.8}', json_by),
        Write("researcher/source", "https://example.org", {"agent": "researcher"}),
        Write("scratch/todo", "look at table 3", {"agent": "scratch"}, expires_at_turn=2),
        AdvanceTurn(),
        Write("writer/draft", "X reduces Y.\nSee table 3.", writer),
        CompareAndSet("writer/draft", "an old draft", "a lost draft", editor),
        Write("researcher/findings", '{"claim": "X reduces Y", "confidence": 0.9}', json_by),
        AdvanceTurn(),
        Delete("researcher/source", agent="critic"),
        Write("writer/draft", "Second draft", editor),
    ]
    with open_team(path) as log:
        for command in story:
            log.execute([command], run="main")
    return path
