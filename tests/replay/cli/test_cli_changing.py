"""`restore` and `fork`: what they do, say, and refuse."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


def entries(cli: Cli, path: Path, *options: str) -> dict[str, Any]:
    """Keys and values as `state` shows them."""
    return {record["key"]: record["value"] for record in cli("state", path, "--json", *options).records}


def test_restore_brings_back_a_state(cli: Cli, team: Path) -> None:
    """A restore shows the entries and the turn of the point again, and appends only."""
    done = cli("restore", team, "--at", "1", "--as", "ops", "--reason", "bad merge")
    assert (done.code, done.err) == (0, "")
    assert "run main is back at turn 1" in done.out
    assert "2 entries put back, 0 removed" in done.out
    assert entries(cli, team) == entries(cli, team, "--at", "1.1")
    assert cli("runs", team, "--json").records[0]["turn"] == 1
    restored = cli("log", team, "--type", "Restored", "--json").records[0]
    assert (restored["agent"], restored["detail"]["reason"]) == ("ops", "bad merge")
    assert cli("verify", team).code == 0


def test_a_restore_says_how_to_undo_it(cli: Cli, team: Path) -> None:
    """The command it prints takes the run back to before the restore."""
    before = entries(cli, team)
    done = cli("restore", team, "--at", "0")
    assert entries(cli, team) != before
    command = next(line for line in done.lines if line.startswith("to undo it: "))
    program, *words = shlex.split(command.removeprefix("to undo it: "))
    assert program == "turnlog"
    assert cli(*words).code == 0
    assert entries(cli, team) == before
    assert cli("runs", team, "--json").records[0]["turn"] == 2


def test_restore_as_json(cli: Cli, team: Path) -> None:
    """The same facts as one object."""
    assert cli("restore", team, "--at", "@3", "--json").records == [
        {
            "run": "main",
            "turn": 0,
            "position": 11,
            "to": "@3",
            "put_back": 2,
            "removed": 1,
            "undo": "@10",
            "warnings": [],
        }
    ]


def test_fork_begins_a_run(cli: Cli, team: Path) -> None:
    """A fork shows the state of its point under its own name, and leaves the parent as it was."""
    before = entries(cli, team)
    done = cli("fork", team, "--at", "1", "--as", "what-if")
    assert (done.code, done.err) == (0, "")
    assert "with 4 entries" in done.out
    assert entries(cli, team, "--run", "main") == before
    assert entries(cli, team, "--run", "what-if") == entries(cli, team, "--run", "main", "--at", "1")
    again = cli("fork", team, "--run", "what-if", "--as", "deeper", "--json").records[0]
    assert (again["parent"], again["turn"], again["entries"]) == ("what-if", 1, 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["restore", "--at", "7"], "it visited 0-2", id="turn"),
        pytest.param(["restore", "--at", "@99"], "lies ahead", id="position"),
        pytest.param(["restore"], "--at", id="no point"),
        pytest.param(["restore", "--at", "0", "--run", "nope"], "it has 'main'", id="run"),
        pytest.param(["restore", "--at", "0", "--as", "x" * 5000], "5,000 bytes", id="long name"),
        pytest.param(["fork", "--at", "0", "--as", "main"], "exists already", id="name taken"),
        pytest.param(["fork", "--at", "0", "--as", ""], "must not be empty", id="no name"),
        pytest.param(["fork", "--at", "0"], "--as", id="name missing"),
    ],
)
def test_what_cannot_be_is_refused(cli: Cli, team: Path, arguments: list[str], said: str) -> None:
    """A change that cannot be made is one line of error, and nothing is appended."""
    verb, *rest = arguments
    done = cli(verb, team, *rest)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert len(cli("log", team, "--json").records) == 10


@pytest.mark.parametrize("verb", ["restore", "fork"])
def test_no_file_is_made(cli: Cli, tmp_path: Path, verb: Any) -> None:
    """Taking a run of a missing file back, or forking it, makes no file."""
    done = cli(verb, tmp_path / "missing.db", "--at", "0", "--as", "me")
    assert (done.code, "does not exist" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["fork", "--as", "x"],
        ["restore", "--at", "1"],
        ["sweep"],
        ["rebuild"],
        ["redact", "--key", "k", "--as", "dpo", "--reason", "17"],
    ],
    ids=lambda words: words[0],
)
def test_an_empty_file_stays_empty(cli: Cli, tmp_path: Path, words: list[str]) -> None:
    """A verb that does not begin a log makes none of it."""
    path = tmp_path / "zero.db"
    path.touch()
    done = cli(words[0], path, *words[1:])
    assert (done.code, "is empty" in done.err) == (2, True)
    assert path.stat().st_size == 0
