"""How far a run has come: for a callback, or for somebody at a terminal."""

from __future__ import annotations

import io
import re
import time
from typing import Any

import pytest

from turnlog import Agent, Task, TaskEvent, Team, run_tasks

from .conftest import Way, says


def test_every_change_of_every_task_is_told(way: Way) -> None:
    """Begun, completed, failed; with how many have ended, those that fail along included."""

    def fails(prompt: str, memory: Any, context: Any) -> str:
        raise RuntimeError("no luck")

    told: list[TaskEvent] = []
    team = way.team(Agent("ann", says("x")), Agent("bob", fails))
    tasks = [Task("a", "", "ann"), Task("b", "", "bob"), Task("c", "", "ann", depends_on=["b"])]
    way.run(team, tasks, max_parallel=1, on_event=told.append)
    assert [(each.kind, each.task_id, each.assignee, each.attempt, each.finished) for each in told] == [
        ("started", "a", "ann", 1, 0),
        ("completed", "a", "ann", 1, 1),
        ("started", "b", "bob", 1, 1),
        ("failed", "b", "bob", 1, 3),
        ("failed", "c", "ann", 0, 3),
    ]
    assert {each.total for each in told} == {3}
    assert told[3].error is not None
    assert told[3].error.message == "RuntimeError: no luck"


def test_results_can_be_read_when_a_task_is_told_completed(way: Way) -> None:
    """G1: the event comes after the write."""
    seen: list[list[str]] = []
    way.run(
        way.team(Agent("ann", says("x"))),
        [Task("a", "", "ann")],
        on_event=lambda event: seen.append(list(way.entries())),
    )
    assert seen == [[], ["ann/task:a:result"]]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It does."""
        return True


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of tasks cannot act on the terminal, nor stop the run."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stderr", terminal)
    tasks = [Task("a\x1b[2J\ud83d", "", "ann"), Task("b[/]", "", "ann")]
    result = run_tasks(Team([Agent("ann", says("x"))]), tasks)
    monkeypatch.undo()
    assert result.success
    shown = terminal.getvalue()
    assert "2/2" in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_bar_stays_in_its_line(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """However narrow the terminal and long the ids: names give way, never the count or the word before."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stderr", terminal)
    tasks = [Task(f"{number} {'x' * 60}", "", "ann") for number in range(4)]

    def wait_for_a_frame(prompt: str, memory: Any, context: Any) -> str:
        before, until = terminal.getvalue().count("\r"), time.monotonic() + 10
        while terminal.getvalue().count("\r") < before + 2 and time.monotonic() < until:
            time.sleep(0.01)
        return "x"

    run_tasks(Team([Agent("ann", wait_for_a_frame)]), tasks)
    monkeypatch.undo()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    lines = re.split(r"[\r\n]+|\x1b\[[0-9;?]*[A-Za-z]", plain)
    shown = [line for line in lines if line.strip()]
    assert len(shown) > 2
    assert [line for line in shown if not re.match(r"tasks \S+ \d/4 ", line)] == []
    assert max(map(len, shown)) <= columns


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_nobody_is_shown_anything_elsewhere(monkeypatch: pytest.MonkeyPatch, stream: Any) -> None:
    """Where standard error is no terminal, or is not there, nothing is printed."""
    monkeypatch.setattr("sys.stderr", stream)
    result = run_tasks(Team([Agent("ann", says("x"))]), [Task("a", "", "ann")])
    monkeypatch.undo()
    assert result.success
    assert stream is None or stream.getvalue() == ""


def test_with_a_listener_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens shows what it likes."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    run_tasks(Team([Agent("ann", says("x"))]), [Task("a", "", "ann")], on_event=lambda _: None)
    monkeypatch.undo()
    assert terminal.getvalue() == ""
