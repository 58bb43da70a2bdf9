"""`redact`: what it erases, says, and refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import Write
from turnlog.eventlog.driver import driver

Cli = Callable[..., Any]
ASKED = ("--as", "dpo", "--reason", "request 17")


def values(cli: Cli, path: Path, *options: str) -> dict[str, Any]:
    """Keys and values as `state` shows them."""
    return {record["key"]: record["value"] for record in cli("state", path, "--json", *options).records}


def files(path: Path) -> bytes:
    """All bytes of the log's files, which nobody has open."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


def test_a_key_is_erased_and_a_receipt_printed(cli: Cli, team: Path) -> None:
    """What was erased, what was written over it, and which copies are not reached."""
    done = cli("redact", team, "--key", "writer/draft", *ASKED)
    assert (done.code, done.err) == (0, "")
    assert done.lines == [
        "3 texts and no names erased, recorded in run main",
        "1 present value written over: [redacted]",
        "the file and its WAL hold them no longer",
        "not reached: backups, exports, other copies of the file, and what was read from it before",
    ]
    assert values(cli, team)["writer/draft"] == "[redacted]"
    assert values(cli, team, "--at", "1")["writer/draft"] == "[redacted]"
    for text in (b"X reduces Y.", b"Second draft", b"a lost draft"):
        assert text not in files(team)
    assert cli("verify", team).code == 0


def test_the_receipt_as_json(cli: Cli, team: Path) -> None:
    """The same facts as one object."""
    assert cli("redact", team, "--matching", "confidence", *ASKED, "--json").records == [
        {
            "events": 2,
            "names": 0,
            "rewritten": 1,
            "deleted": 0,
            "runs": ["main"],
            "wal_emptied": True,
            "names_left": [],
            "runs_left": [],
            "positions_left": [],
            "reserved": 0,
            "not_reached": "backups, exports, other copies of the file, and what was read from it before",
        }
    ]


def test_history_and_log_say_who_and_why(cli: Cli, team: Path) -> None:
    """The redaction is an event like any other."""
    cli("redact", team, "--position", "2", *ASKED)
    shown = cli("history", team, "researcher/source").out
    assert "dpo" in shown
    assert "request 17" in shown
    (record,) = cli("log", team, "--type", "Redacted", "--json").records
    assert (record["agent"], record["key"]) == ("dpo", "researcher/source")
    assert record["detail"] == {"revisions": [2], "names": 0, "reason": "request 17"}


def test_a_name_is_erased(cli: Cli, team: Path) -> None:
    """The entry under it goes with it, and no answer holds it any more."""
    done = cli("redact", team, "--name", "scratch/todo", *ASKED)
    assert done.code == 0
    assert "no texts and 1 name erased" in done.out
    assert "deleted with the name of" in done.out
    assert b"scratch/todo" not in files(team)
    for words in (["log", team], ["state", team, "--at", "0"], ["export", team]):
        shown = cli(*words)
        assert shown.code == 0
        assert "scratch/todo" not in shown.out
    assert cli("verify", team).code == 0


def test_names_that_stay_are_listed(cli: Cli, team: Path) -> None:
    """By pattern only texts are erased."""
    done = cli("redact", team, "--matching", "researcher", *ASKED)
    assert done.code == 0
    assert "found in names too, which stay (erase them with --name): " in done.out
    assert "'researcher/findings'" in done.out


def test_all_of_a_run_is_erased_when_that_is_meant(cli: Cli, team: Path) -> None:
    """--run alone needs --yes where nobody can be asked."""
    done = cli("redact", team, "--run", "main", "--yes", *ASKED)
    assert done.code == 0
    assert set(values(cli, team).values()) == {"[redacted]"}


def test_a_position_is_spelled_as_in_addresses(cli: Cli, team: Path) -> None:
    """With or without the @."""
    assert cli("redact", team, "--position", "@1", *ASKED, "--json").records[0]["events"] == 1
    assert cli("redact", team, "--position", "2", *ASKED, "--json").records[0]["events"] == 1


def test_names_of_runs_are_listed_as_what_stays(cli: Cli, team: Path) -> None:
    """They cannot be erased, so no option is named for it, and what stays is not said to be gone."""
    cli("fork", team, "--as", "Second-try")
    done = cli("redact", team, "--matching", "Second", *ASKED)
    assert "found in names of runs too, which cannot be erased: 'Second-try'" in done.out
    assert "found in names too" not in done.out
    assert "the file and its WAL hold what was erased no longer, and what stays still" in done.out


def test_where_nothing_was_erased_nothing_is_said_to_be_gone(cli: Cli, team: Path) -> None:
    """It may have been found nowhere, or only where it stays."""
    done = cli("redact", team, "--matching", "quite unheard of", *ASKED)
    assert done.code == 0
    assert "hold them no longer" not in done.out
    cli("restore", team, "--at", "1", "--reason", "the merger")
    done = cli("redact", team, "--matching", "merger", *ASKED)
    assert "found in events too, which stay: @11" in done.out
    assert "no longer" not in done.out


def test_reserved_records_are_counted(cli: Cli, team: Path, open_team: Callable[..., Any]) -> None:
    """Whoever erases a checkpoint or an approval learns that it is of no use any more."""
    with open_team(team) as log:
        log.execute([Write("__oma_checkpoint__/r/1", "token"), Write("k", "token")], run="main")
    done = cli("redact", team, "--matching", "token", *ASKED)
    assert "1 reserved record among them; what they belong to cannot be resumed from them" in done.out


def test_one_run_is_narrowed_down(cli: Cli, team: Path) -> None:
    """--run, --key and --matching together."""
    cli("fork", team, "--as", "side")
    assert (
        cli("redact", team, "--run", "side", "--key", "writer/draft", *ASKED, "--json").records[0]["events"]
        == 0
    )
    assert cli("redact", team, "--run", "main", "--matching", "Second", *ASKED, "--json").records[0][
        "runs"
    ] == [
        "main",
        "side",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--key", "nope", *ASKED], "no run that ever had a key 'nope'"),
        (["--key", "writer", *ASKED], "no run that ever had a key 'writer'"),
        (
            ["--run", "main", *ASKED],
            "--run alone erases everything that run 'main' recorded; if so, say --yes",
        ),
        (["--matching", "", *ASKED], "matches the empty string"),
        (["--matching", "z*", *ASKED], "matches the empty string"),
        (["--matching", r"\b", *ASKED], "matches the empty string"),
        (["--run", "main", "--matching", "", *ASKED], "matches the empty string"),
        (["--position", "@99", *ASKED], "no event at position 99"),
        (["--key", "k"], "--as"),
        (["--key", "k", "--as", "dpo"], "--reason"),
        ([*ASKED], "state either"),
        (["--key", "k", "--name", "n", *ASKED], "state either"),
        (["--key", "k", "--as", "dpo", "--reason", ""], "reason"),
        (["--position", "99", *ASKED], "no event at position 99"),
        (["--position", "0", *ASKED], "0"),
        (["--position", "9", *ASKED], "holds no text"),
        (["--run", "nowhere", *ASKED], "no run"),
        (["--name", "nobody", *ASKED], "no name 'nobody'"),
        (["--name", "main", *ASKED], "name of a run"),
        (["--matching", "(", *ASKED], "regular expression"),
        (["--matching", "request", *ASKED], "reason holds what is to be erased"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_cannot_be_done_is_refused(cli: Cli, team: Path, words: list[str], says: str) -> None:
    """With a sentence and another exit code than that of work left to do."""
    before = cli("log", team, "--json").out
    done = cli("redact", team, *words)
    assert done.code == 2
    assert says in done.err
    assert cli("log", team, "--json").out == before


def test_a_missing_file_is_not_made(cli: Cli, tmp_path: Path) -> None:
    """As with every verb but those that begin a log."""
    done = cli("redact", tmp_path / "none.db", "--key", "k", *ASKED)
    assert done.code == 2
    assert not (tmp_path / "none.db").exists()


_PIN = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("begin")
db.execute("select count(*) from events").fetchone()
print("pinned", flush=True)
sys.stdin.readline()
"""


def test_a_pinned_wal_is_told_of(cli: Cli, team: Path) -> None:
    """Exit code 1 while another process reads; asked again, the rest is done."""
    with closing(driver().connect(team)) as db:  # so that the WAL is there to be pinned
        db.execute("select count(*) from events").fetchone()
    reader = subprocess.Popen(
        [sys.executable, "-c", _PIN, team], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "pinned\n"
        done = cli("redact", team, "--matching", "Second draft", *ASKED)
        assert done.code == 1
        assert "1 text and no names erased" in done.out
        assert "ask again later" in done.out
        assert "hold them no longer" not in done.out
    finally:
        reader.communicate("\n", timeout=30)
    done = cli("redact", team, "--matching", "Second draft", *ASKED)
    assert done.code == 0
    assert "no texts and no names erased" in done.out
    assert "hold no old copies of what was erased before" in done.out
    assert b"Second draft" not in files(team)
