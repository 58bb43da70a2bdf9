"""What `diff`, `history`, `blame` and `bisect` tell of changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import AdvanceTurn, CompareAndSet, EventLog, Write
from turnlog.replay import Timeline

Cli = Callable[..., Any]
Open = Callable[[Path], EventLog]


def test_diff(cli: Cli, team: Path) -> None:
    """`diff` tells what agents saw added, changed and removed, an expired entry among the latter."""
    done = cli("diff", team, "0", "2", "--json")
    assert done.code == 0
    assert done.records == [
        {
            "key": "researcher/findings",
            "change": "changed",
            "before": {"claim": "X reduces Y", "confidence": 0.8},
            "after": {"claim": "X reduces Y", "confidence": 0.9},
        },
        {"key": "researcher/source", "change": "removed", "before": "https://example.org", "after": None},
        {"key": "scratch/todo", "change": "removed", "before": "look at table 3", "after": None},
        {"key": "writer/draft", "change": "added", "before": None, "after": "Second draft"},
    ]
    lines = cli("diff", team, "0", "2").lines
    assert [line.split()[0] for line in lines] == ["change", "changed", "removed", "removed", "added"]
    assert '"confidence":0.8}' in lines[1]
    assert '"confidence":0.9}' in lines[1]


def test_diff_backwards_and_of_nothing(cli: Cli, team: Path) -> None:
    """The order of the points counts, and no difference is no output and no failure."""
    changes = [record["change"] for record in cli("diff", team, "2", "0", "--json").records]
    assert changes == ["changed", "added", "added", "removed"]
    assert cli("diff", team, "1", "1").out == cli("diff", team, "@10", "head", "--json").out == ""
    assert cli("diff", team, "1", "1").code == 0


def test_a_difference_beside_the_value(cli: Cli, team: Path, open_team: Open) -> None:
    """Where only metadata or expiry changed, that is what is shown."""
    with open_team(team) as log:
        log.execute([Write("writer/draft", "Second draft", {"agent": "ops"}, expires_at_turn=9)], run="main")
    done = cli("diff", team, "@10", "@11", "--json")
    assert done.records[0]["detail"] == {
        "metadata": {"before": {"agent": "editor"}, "after": {"agent": "ops"}},
        "expires_at_turn": {"before": None, "after": 9},
    }
    assert '"expires_at_turn":9' in cli("diff", team, "@10", "@11").out


def test_history_shows_refused_attempts(cli: Cli, team: Path, open_team: Open) -> None:
    """A refused attempt is there with reason, the version it met and its length, but not with its text."""
    with open_team(team) as log:
        log.execute([CompareAndSet("writer/draft", None, "x" * 1500)], run="main", agent="late")
    done = cli("history", team, "writer/draft", "--json")
    assert [(record["position"], record["type"], record["agent"]) for record in done.records] == [
        (5, "EntryWritten", "writer"),
        (6, "WriteRefused", "editor"),
        (10, "EntryWritten", "editor"),
        (11, "WriteRefused", "late"),
    ]
    assert done.records[3]["detail"] == {"reason": "key exists", "found_version": 10, "length": 1500}
    text = cli("history", team, "writer/draft").out
    assert [line.split()[0] for line in text.splitlines()] == ["at", "@5", "@6", "@10", "@11"]
    assert "refused: key exists (found @10)" in text
    assert "1,500 bytes" in text
    assert "a lost draft" not in done.out + text


def test_history_shows_restores_with_their_author(cli: Cli, team: Path, open_team: Open) -> None:
    """What a restore put back is shown with its value and who wrote it, beside who restored it."""
    with open_team(team) as log:
        Timeline(log, "main").restore(turn=1, by="ops")
    record = cli("history", team, "writer/draft", "--json").records[-1]
    assert (record["type"], record["agent"], record["value"]) == (
        "EntryRestored",
        "ops",
        "X reduces Y.\nSee table 3.",
    )
    assert (record["original"]["agent"], record["original"]["position"]) == ("writer", 5)
    line = cli("history", team, "writer/draft").lines[-1]
    assert "restored from @5 by ops" in line
    assert "writer" in line


def test_history_goes_back_into_the_parent(cli: Cli, team: Path, open_team: Open) -> None:
    """A fork's key has the history it had before the fork, and --last keeps the newest of it."""
    with open_team(team) as log:
        Timeline(log, "main").fork(turn=1, run="b")
        log.execute([Write("writer/draft", "of the fork")], run="b")
    records = cli("history", team, "writer/draft", "--run", "b", "--json").records
    assert [(record["run"], record["position"]) for record in records] == [
        ("main", 5),
        ("main", 6),
        ("b", 12),
    ]
    last = cli("history", team, "writer/draft", "--run", "b", "--json", "--last", 2).records
    assert last == records[1:]
    assert cli("history", team, "writer/draft", "--last", 0).out == ""


@pytest.mark.parametrize("verb", ["history", "blame", "bisect"])
def test_a_key_that_never_was(cli: Cli, team: Path, verb: Any) -> None:
    """An unknown key is an error that names near ones."""
    done = cli(verb, team, "writer/daft")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "did you mean 'writer/draft'" in done.err


def test_blame(cli: Cli, team: Path) -> None:
    """`blame` names for each entry the event that wrote its value."""
    done = cli("blame", team, "--json")
    assert done.records == [
        {
            "key": "researcher/findings",
            "agent": "researcher",
            "turn": 1,
            "position": 7,
            "recorded_at": "2026-11-30T02:13:06.000Z",
            "value": {"claim": "X reduces Y", "confidence": 0.9},
        },
        {
            "key": "writer/draft",
            "agent": "editor",
            "turn": 2,
            "position": 10,
            "recorded_at": "2026-11-30T02:13:09.000Z",
            "value": "Second draft",
        },
    ]
    assert [line.split()[0] for line in cli("blame", team).lines[1:]] == [
        "researcher/findings",
        "writer/draft",
    ]


def test_blame_of_one_key_then(cli: Cli, team: Path) -> None:
    """`blame KEY --at A` answers for that key at that point, or says that it was not there."""
    assert cli("blame", team, "writer/draft", "--at", "1", "--json").records[0]["agent"] == "writer"
    assert "does not exist at turn 0" in cli("blame", team, "writer/draft", "--at", "0").err


def test_blame_survives_a_restore(cli: Cli, team: Path, open_team: Open) -> None:
    """After a restore, blame still names the original author."""
    with open_team(team) as log:
        Timeline(log, "main").restore(turn=1, by="ops")
    assert cli("blame", team, "writer/draft", "--json").records[0]["agent"] == "writer"
    assert cli("state", team, "--json").records[-1]["agent"] == "writer"


@pytest.mark.parametrize(
    ("what", "at", "agent"),
    [
        pytest.param("writer/draft", "@5", "writer", id="the key itself"),
        pytest.param("writer/draft~", "@5", "writer", id="no text"),
        pytest.param("writer/draft~Second", "@10", "editor", id="text"),
        pytest.param('researcher/findings~"confidence": 0.9', "@7", "researcher", id="as it is stored"),
        pytest.param("a~b", "@11", "odd", id="a key with the mark in it"),
        pytest.param("a~b~hello", "@11", "odd", id="a key with the mark, and text"),
    ],
)
def test_bisect(cli: Cli, team: Path, open_team: Open, what: str, at: Any, agent: str) -> None:
    """`bisect` finds the first point at which a key was there, or contained a text."""
    with open_team(team) as log:
        log.execute([Write("a~b", "hello")], run="main", agent="odd")
        log.execute([AdvanceTurn()], run="main")
    done = cli("bisect", team, what, "--json")
    assert [(record["at"], record["agent"]) for record in done.records] == [(at, agent)]
    assert cli("bisect", team, what).out.startswith(f"{at}, turn ")


def test_bisect_of_what_never_held(cli: Cli, team: Path) -> None:
    """A text that a key never contained is no output and exit code 1, apart from an unknown key's 2."""
    done = cli("bisect", team, "writer/draft~Third")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "never contained 'Third'" in done.err
