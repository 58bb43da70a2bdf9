"""`turnlog checkpoints`: every checkpoint ever saved."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import Checkpoint, Timeline
from turnlog.memory import EventSourcedStore

Cli = Callable[..., Any]


@pytest.fixture
def trip(path: Path, snapshot: dict[str, Any]) -> Path:
    """A file in which a run saved two checkpoints with a write between them, and a fork of it saved one."""
    with turnlog.open(path, durability="os") as log:
        store = EventSourcedStore(log, "trip-42")
        Checkpoint(store).save(snapshot)
        store.advance_turn()
        Checkpoint(store).save(snapshot | {"inFlightTasks": [], "pendingApprovals": []})
        Timeline(log, "trip-42").fork(run="what-if", position=1)
        Checkpoint(EventSourcedStore(log, "what-if"), key="__oma_checkpoint__/mine").save(snapshot)
    return path


def test_all_are_listed(cli: Cli, trip: Path) -> None:
    """Run by run, the one that was replaced too; each with its address, version, and the tasks done."""
    done = cli("checkpoints", trip, "--json")
    assert (done.code, done.err) == (0, "")
    assert [(each["run"], each["position"], each["turn"]) for each in done.records] == [
        ("trip-42", 1, 0),
        ("trip-42", 3, 1),
        ("what-if", 5, 0),
    ]
    first = done.records[0]
    first.pop("saved_at")
    assert first == {
        "position": 1,
        "run": "trip-42",
        "revision": 1,
        "turn": 0,
        "key": "__oma_checkpoint__/trip-42/latest",
        "version": 4,
        "mode": "runTasks",
        "run_id": "trip-42",
        "attempt": 2,
        "tasks_done": 1,
        "tasks": 3,
        "under_way": 1,
        "pending_approvals": 1,
    }


def test_those_of_one_run(cli: Cli, trip: Path) -> None:
    """With those it was forked from, up to the fork."""
    positions = [each["position"] for each in cli("checkpoints", trip, "--run", "what-if", "--json").records]
    assert positions == [1, 5]
    assert len(cli("checkpoints", trip, "--run", "trip-42", "--json").records) == 2
    assert cli("checkpoints", trip, "--run", "none").code == 2


def test_a_table_for_people(cli: Cli, trip: Path) -> None:
    """One line each, with what is under way and what waits."""
    lines = cli("checkpoints", trip).out.splitlines()
    assert re.sub(r" +", " ", lines[0]).strip() == "at run turn saved (UTC) version tasks done remark"
    assert re.search(r"@1 .*trip-42 .*4 .*1/3 .*1 task under way, 1 approval pending$", lines[1])
    assert re.search(r"@3 .*1/3 +-$", lines[2])


def test_what_is_no_checkpoint_is_marked(cli: Cli, trip: Path) -> None:
    """It is listed with what is wrong, those behind it too, and the exit code is 1."""
    with turnlog.open(trip) as log:
        EventSourcedStore(log, "trip-42").set("__oma_checkpoint__/trip-42/latest", '{"version":4}')
    done = cli("checkpoints", trip, "--json")
    assert (done.code, len(done.records)) == (1, 4)
    assert "$.mode must be one of" in done.records[2]["error"]
    assert "WRONG: " in cli("checkpoints", trip).out


def test_an_empty_file(cli: Cli, path: Path) -> None:
    """A log without checkpoints lists none, a missing one is refused and not made."""
    turnlog.open(path).close()
    assert (cli("checkpoints", path).code, cli("checkpoints", path).out) == (0, "")
    assert cli("checkpoints", path.with_name("missing.db")).code == 2
    assert not path.with_name("missing.db").exists()


def test_the_verbs_are_in_the_help(cli: Cli) -> None:
    """Both verbs are listed with the others, and say in their own help how they are called."""
    done = cli("--help")
    for verb in ("approvals", "checkpoints"):
        assert re.search(rf"^  {verb} ", done.out, re.MULTILINE)
        assert f"\n  turnlog {verb} team.db" in cli(verb, "--help").out


def test_help_loads_nothing_of_teams_but_the_verbs() -> None:
    """The help is as quick as it was: records, ledgers and memory are imported where they are used."""
    code = (
        "import sys\nsys.argv = ['turnlog', '--help']\n"
        "from turnlog.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*[name for name in sys.modules if name.startswith(('turnlog.teams.', 'turnlog.memory'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1].split() == [
        "turnlog.teams.cli_approvals",
        "turnlog.teams.cli_checkpoints",
    ]
