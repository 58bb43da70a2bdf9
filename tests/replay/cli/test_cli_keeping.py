"""`anchor`, `backup`, `rebuild` and `sweep` on the command line, and how a verb ends that is cut short."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import EventLog, Write
from turnlog.eventlog.driver import driver

Cli = Callable[..., Any]
Start = Callable[..., Any]
Open = Callable[[Path], EventLog]


def alter(path: Path, *statements: str) -> None:
    """Change the file behind the log's back."""
    with contextlib.closing(driver().connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_anchor_and_verify(cli: Cli, team: Path, open_team: Open, tmp_path: Path) -> None:
    """An anchored log verifies against its anchor, also when it went on; an older copy does not."""
    kept, older = tmp_path / "team.anchor", tmp_path / "older.db"
    shutil.copy(team, older)
    assert cli("anchor", team, kept).out == "anchor 1: 10 events in 1 run\n"
    with open_team(team) as log:
        log.execute([Write("late", "v")], run="main")
    done = cli("verify", team, "--anchor", kept)
    assert (done.code, done.lines[-1].split(" of ")[0]) == (0, "it went on from anchor 1")
    (record,) = cli("anchor", team, kept, "--json").records
    assert (record["counter"], record["heads"][0]["name"], record["heads"][0]["revision"]) == (2, "main", 11)
    (found,) = cli("verify", team, "--anchor", kept, "--json").records
    assert (found["ok"], found["anchor"]["counter"], found["anchor"]["events"]) == (True, 2, 11)
    done = cli("verify", older, "--anchor", kept)
    assert done.code == 1
    assert "run 'main': ends at revision 10, though anchor 2 saw revision 11" in done.out
    done = cli("anchor", older, kept)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    kept.write_bytes(kept.read_bytes()[:-20])
    assert cli("verify", team, "--anchor", kept).code == 1
    done = cli("verify", team, "--anchor", tmp_path / "nothing")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("verb", ["log", "sweep"])
def test_the_help_says_that_all_runs_are_meant(cli: Cli, verb: str) -> None:
    """Where --run is left out and there are several, these take all of them; the others ask."""
    assert "Only this run; left out, all of them." in " ".join(cli(verb, "--help").out.split())
    assert "may be left out where the file has only one" in " ".join(cli("state", "--help").out.split())


def test_backup_rebuild_and_sweep(cli: Cli, team: Path, tmp_path: Path) -> None:
    """Each says what it did, for people or as JSON, and what cannot be is exit code 2 and one line."""
    (record,) = cli("backup", team, tmp_path / "copy.db", "--json").records
    assert (record["events"], record["heads"][0]["run"]) == (10, "main")
    alter(team, "update entries set created_at = 0")
    assert cli("verify", team).code == 1
    assert cli("rebuild", team).out == "entries was made anew\n"
    assert cli("verify", team).code == 0
    assert cli("rebuild", team, "entries", "--json").records == [{"projection": "entries"}]
    assert cli("rebuild", team, "vectors").code == 2
    assert cli("sweep", team, "--as", "janitor").out == "run main: 1 entry deleted\n"
    assert cli("sweep", team, "--json").records == [{"run": "main", "deleted": 0}]
    assert cli("log", team, "--last", 1, "--json").records[0]["agent"] == "janitor"
    assert cli("sweep", team, "--run", "no such run").code == 2


def test_doctor_compares_guards_by_what_they_say(cli: Cli, team: Path) -> None:
    """A guard of the right name that guards nothing is wrong."""
    hollow = "create trigger events_no_delete before delete on events begin select 1; end"
    alter(team, "drop trigger events_no_delete", hollow)
    done = cli("doctor", team, "--json")
    found = {record["what"]: record for record in done.records}
    assert (done.code, found["schema"]["level"]) == (1, "wrong")
    assert "the trigger events_no_delete is not declared as turnlog declares it" in found["schema"]["value"]


def test_doctor_says_how_far_the_table_is_behind(cli: Cli, team: Path) -> None:
    """The lag is given in events."""
    with EventLog(team, durability="os") as log:
        log.execute([Write("late", "value"), Write("later", "value")], run="main")
    found = {record["what"]: record for record in cli("doctor", team, "--json").records}
    assert found["projection"]["value"] == "stale from position 11 on: it lacks 2 events"


@pytest.mark.parametrize(
    ("mode", "level"),
    [(0o700, "fine"), (0o755, "fine"), (0o770, "warning"), (0o777, "warning"), (0o1777, "fine")],
)
def test_doctor_warns_of_a_folder_that_others_can_write(cli: Cli, team: Path, mode: int, level: str) -> None:
    """Who can write the folder can put another file in the log's place, unless the folder is sticky."""
    team.parent.chmod(mode)
    found = {record["what"]: record for record in cli("doctor", team, "--json").records}
    assert (found["folder"]["level"], found["folder"]["value"]) == (level, f"{mode:04o}")


def test_an_export_takes_no_files_place(cli: Cli, team: Path, tmp_path: Path) -> None:
    """A file that is there is kept without --force, and a database in any case; - is standard output."""
    there, other = tmp_path / "there.jsonl", tmp_path / "other.db"
    there.write_text("mine", "utf-8")
    shutil.copy(team, other)
    whole = other.read_bytes()
    done = cli("export", team, "-o", there)
    assert (done.code, done.out, done.err.count("\n"), there.read_text("utf-8")) == (2, "", 1, "mine")
    for words in ([], ["--force"]):
        done = cli("export", team, "-o", other, *words)
        assert (done.code, other.read_bytes()) == (2, whole)
        assert "is a SQLite database" in done.err
    assert cli("export", team, "-o", there, "--force").code == 0
    assert json.loads(there.read_text("utf-8").splitlines()[0])["kind"] == "turnlog-export"
    assert cli("export", team, "-o", "-").out == there.read_text("utf-8")


def test_a_number_too_large_for_a_float_is_valid_json(cli: Cli, team: Path, open_team: Open) -> None:
    """What was written as 1e400 is shown to people as it is, and to programs as text."""
    with open_team(team) as log:
        metadata = {"agent": "a", "sharedMemoryValueEncoding": "json"}
        log.execute([Write("a/large", '{"n":[1e400,-1e400],"ok":1.5}', metadata)], run="main")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for words in (["state"], ["log"], ["history", "a/large"], ["get", "a/large"]):
        done = cli(words[0], team, *words[1:], "--json")
        values = [json.loads(line, parse_constant=refuse) for line in done.lines]
        assert '"n":["Infinity","-Infinity"]' in done.out, (words, values)
    assert "1e400" in cli("state", team).out


@pytest.mark.parametrize("words", [["--help"], ["verify", "--help"], ["--version"]], ids=" ".join)
def test_help_that_cannot_be_printed(words: list[str]) -> None:
    """A full disk is told in one line, and a reader who is gone is no failure."""
    command = [sys.executable, "-m", "turnlog", *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=30
        )
    assert (done.returncode, done.stderr.count("\n"), "No space left" in done.stderr) == (2, 1, True)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=30)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


INTERRUPTED = """
import os, signal, sys
wanted = sys.argv.pop(1)

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from turnlog.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["turnlog.replay.cli", "turnlog.eventlog", "sqlite_utils"])
def test_ctrl_c_while_the_verb_is_still_loading(team: Path, module: str) -> None:
    """However early Ctrl-C comes, the exit code is 130, and nothing is printed."""
    command = [sys.executable, "-c", INTERRUPTED, module, "log", str(team)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_sigterm_leaves_no_partial_file(process: Start, team: Path, tmp_path: Path) -> None:
    """An import that waits for its input, told to end, removes what it had begun."""
    waiting = process("import", tmp_path / "copy.db", stdin=subprocess.PIPE)
    waiting.stdin.write(b'{"kind":"turnlog-export","version":1}\n')
    waiting.stdin.flush()
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("copy.db.partial-*-wal")) and time.monotonic() < deadline:
        time.sleep(0.01)  # until it has begun
    waiting.send_signal(signal.SIGTERM)
    assert (waiting.wait(20), waiting.stderr.read()) == (143, b"")
    assert list(tmp_path.glob("copy.db*")) == []
