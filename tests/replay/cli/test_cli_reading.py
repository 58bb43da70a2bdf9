"""What the reading verbs tell of a log."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import Delete, EventLog, Write
from turnlog.replay import Timeline

Cli = Callable[..., Any]
Open = Callable[[Path], EventLog]

LOG_FIELDS = [
    "position",
    "run",
    "revision",
    "turn",
    "type",
    "agent",
    "activity",
    "key",
    "value",
    "metadata",
    "recorded_at",
    "hash",
]

READING = [
    pytest.param(["runs"], id="runs"),
    pytest.param(["turns"], id="turns"),
    pytest.param(["log"], id="log"),
    pytest.param(["show", "@1"], id="show"),
    pytest.param(["get", "writer/draft"], id="get"),
    pytest.param(["state"], id="state"),
    pytest.param(["diff", "0", "head"], id="diff"),
    pytest.param(["history", "writer/draft"], id="history"),
    pytest.param(["blame"], id="blame"),
    pytest.param(["bisect", "writer/draft"], id="bisect"),
    pytest.param(["verify"], id="verify"),
    pytest.param(["export"], id="export"),
    pytest.param(["doctor"], id="doctor"),
]


def with_file(arguments: list[str], path: Path) -> list[Any]:
    """The verb, the file, and what follows."""
    verb, *rest = arguments
    return [verb, path, *rest]


@pytest.mark.parametrize("arguments", READING)
def test_a_reading_verb_changes_nothing(cli: Cli, team: Path, arguments: list[str]) -> None:
    """The file is byte for byte the same after every verb that only reads."""
    before = hashlib.sha256(team.read_bytes()).digest()
    done = cli(*with_file(arguments, team))
    assert (done.code, done.err) == (0, "")
    assert hashlib.sha256(team.read_bytes()).digest() == before


@pytest.mark.parametrize("arguments", READING)
def test_a_reading_verb_never_makes_a_file(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    """A file that is missing is named in the error and stays missing."""
    done = cli(*with_file(arguments, tmp_path / "missing.db"))
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path / 'missing.db'} does not exist" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", READING)
def test_a_file_that_is_not_ours_is_refused(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    """Another file is refused in one line and left as it was."""
    other = tmp_path / "notes.txt"
    other.write_text("not a log, but long enough to look into " * 20)
    done = cli(*with_file(arguments, other))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "is not a SQLite file" in done.err
    assert other.read_text().startswith("not a log")


@pytest.mark.parametrize(
    "arguments",
    [each for each in READING if each.id in {"turns", "get", "state", "diff", "history", "blame", "bisect"}],
)
def test_the_run_must_be_chosen_where_there_are_several(
    cli: Cli, team: Path, open_team: Open, arguments: list[str]
) -> None:
    """A verb about one run lists those there are, if it was not told which or told a wrong one."""
    with open_team(team) as log:
        Timeline(log, "main").fork(run="what-if")
    verb = with_file(arguments, team)
    done = cli(*verb)
    assert (done.code, done.out) == (2, "")
    assert "--run: 'main', 'what-if'" in done.err
    assert cli(*verb, "--run", "main").code == 0
    wrong = cli(*verb, "--run", "other")
    assert (wrong.code, "it has 'main', 'what-if'" in wrong.err) == (2, True)


def test_a_log_without_runs_is_said_to_have_none(cli: Cli, tmp_path: Path, open_team: Open) -> None:
    """A fresh file is read without complaint, and a run in it cannot be chosen."""
    path = tmp_path / "fresh.db"
    open_team(path).close()
    assert [cli(verb, path).out for verb in ("runs", "log")] == ["", ""]
    assert "no runs yet" in cli("state", path).err


def test_runs(cli: Cli, team: Path, open_team: Open) -> None:
    """`runs` tells where each run stands, how many entries agents see, and where it came from."""
    with open_team(team) as log:
        Timeline(log, "main").fork(turn=0, run="what-if")
        log.execute([Write("__turnlog__/hidden", "")], run="main")
    main, fork = cli("runs", team, "--json").records
    assert main == {
        "run": "main",
        "turn": 2,
        "revision": 11,
        "entries": 2,
        "created_at": "2026-11-30T02:13:00.000Z",
        "parent": None,
    }
    assert (fork["run"], fork["turn"], fork["revision"], fork["entries"], fork["parent"]) == (
        "what-if",
        0,
        4,
        3,
        "main",
    )
    assert [line.split()[0] for line in cli("runs", team).lines] == ["run", "main", "what-if"]


def test_turns(cli: Cli, team: Path, open_team: Open) -> None:
    """`turns` lists the visits with their events, and a turn visited again once more."""
    with open_team(team) as log:
        Timeline(log, "main").restore(turn=1)
    found = cli("turns", team, "--json").records
    assert [(visit["address"], visit["first_position"], visit["events"]) for visit in found] == [
        ("0.1", 1, 3),
        ("1.1", 4, 4),
        ("2.1", 8, 3),
        ("1.2", 11, 3),
    ]
    assert [line.split()[0] for line in cli("turns", team).lines] == ["at", "0.1", "1.1", "2.1", "1.2"]


def test_the_log_as_json(cli: Cli, team: Path) -> None:
    """Each event is one object with the documented fields; structured values are decoded."""
    records = cli("log", team, "--json").records
    assert [record["position"] for record in records] == list(range(1, 11))
    assert list(records[0]) == LOG_FIELDS
    assert records[0]["value"] == {"claim": "X reduces Y", "confidence": 0.8}
    assert records[0]["recorded_at"] == "2026-11-30T02:13:00.000Z"
    assert (records[3]["type"], records[3]["turn"], records[3]["key"], records[3]["value"]) == (
        "TurnAdvanced",
        1,
        None,
        None,
    )
    assert (records[4]["value"], records[4]["agent"]) == ("X reduces Y.\nSee table 3.", "writer")
    assert records[5]["detail"] == {"reason": "value differs", "found_version": 5, "length": 12}
    assert all(set(LOG_FIELDS) <= set(record) and len(record["hash"]) == 64 for record in records)


def test_the_log_for_people(cli: Cli, team: Path) -> None:
    """Piped, the log has one line for each event, its columns aligned and its values whole."""
    lines = cli("log", team).lines
    assert len(lines) == 11
    assert (
        len(
            {
                line.index(word)
                for line, word in zip(lines[:3], ["event", "EntryWritten", "EntryWritten"], strict=True)
            }
        )
        == 1
    )
    assert lines[5].endswith(r"X reduces Y.\nSee table 3.")
    assert "value differs (found @5); 12 bytes not written" in lines[6]
    assert not any(char in "".join(lines) for char in "│┃|…")


@pytest.mark.parametrize(
    ("options", "positions"),
    [
        pytest.param(["--last", 3], [8, 9, 10], id="last"),
        pytest.param(["--last", 0], [], id="last none"),
        pytest.param(["--last", 99], list(range(1, 11)), id="last more than there are"),
        pytest.param(["--agent", "writer"], [5], id="agent"),
        pytest.param(["--agent", "nobody"], [], id="agent unknown"),
        pytest.param(["--key", "writer/draft"], [5, 6, 10], id="key"),
        pytest.param(["--key", "writer/draft", "--last", 2], [6, 10], id="key and last"),
        pytest.param(["--type", "TurnAdvanced"], [4, 8], id="type"),
        pytest.param(["--type", "writerefused"], [6], id="type in any case"),
        pytest.param(["--since", "@7"], [8, 9, 10], id="since a position"),
        pytest.param(["--since", "1"], [8, 9, 10], id="since the end of a turn"),
        pytest.param(["--since", "0.1", "--type", "EntryWritten"], [5, 7, 10], id="since a visit, and type"),
        pytest.param(["--since", "head"], [], id="since now"),
        pytest.param(["--since", "2026-11-30T02:13:07Z"], [9, 10], id="since a time"),
        pytest.param(["--since", "2026-11-30T03:13:07+01:00"], [9, 10], id="since a time elsewhere"),
        pytest.param(["--since", "1999-01-01T00:00Z"], list(range(1, 11)), id="since long ago"),
        pytest.param(["--since", "@3", "--last", 1], [10], id="since and last"),
        pytest.param(["--run", "main"], list(range(1, 11)), id="run"),
    ],
)
def test_the_log_can_be_narrowed(cli: Cli, team: Path, options: list[Any], positions: list[int]) -> None:
    """Each option of `log`, and them together, leave the events they describe, in order."""
    assert [record["position"] for record in cli("log", team, "--json", *options).records] == positions


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--type", "Written"], "none of EntryWritten", id="type"),
        pytest.param(["--since", "7"], "never was at turn 7", id="turn"),
        pytest.param(["--since", "yesterday"], "is no address", id="address"),
        pytest.param(["--since", "2026-11-30T02:13"], "names no zone", id="time without zone"),
        pytest.param(["--since", "2026-99-30T02:13Z"], "is no time", id="no such day"),
        pytest.param(["--since", "@99999999999999999999"], "lies ahead", id="position beyond all"),
        pytest.param(["--last", "-1"], "-1", id="negative"),
        pytest.param(["--run", "nope"], "it has 'main'", id="run"),
    ],
)
def test_the_log_cannot_be_narrowed_by_nonsense(cli: Cli, team: Path, options: list[Any], said: str) -> None:
    """A filter that cannot be is an error that says what could."""
    done = cli("log", team, *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_the_log_of_several_runs_names_the_run(cli: Cli, team: Path, open_team: Open) -> None:
    """All runs are shown in the order of the file, with the run's name; one run alone can be asked for."""
    with open_team(team) as log:
        Timeline(log, "main").fork(turn=0, run="what-if")
    done = cli("log", team)
    assert done.lines[0].split()[4:6] == ["run", "event"]
    assert "from @3 of run main" in done.lines[-1]
    assert [record["run"] for record in cli("log", team, "--json", "--run", "what-if").records] == ["what-if"]
    assert "choose one with --run" in cli("log", team, "--since", "1").err
    assert len(cli("log", team, "--json", "--since", "@9").records) == 2


def test_show(cli: Cli, team: Path) -> None:
    """`show` prints everything there is of one event, also what `log` leaves out."""
    record = cli("show", team, "@6", "--json").records[0]
    assert set(LOG_FIELDS) < set(record)
    assert (len(record["attempt"]["digest"]), record["batch_offset"]) == (64, 0)
    text = cli("show", team, "@1").out
    assert '{"claim":"X reduces Y","confidence":0.8}' in text
    assert record["hash"] in cli("show", team, "6").out


@pytest.mark.parametrize(
    ("position", "said"),
    [
        pytest.param("@11", "from 1 to 10", id="ahead"),
        pytest.param("@0", "from 1 to 10", id="zero"),
        pytest.param("head", "write it like @120", id="not a position"),
    ],
)
def test_show_of_no_event(cli: Cli, team: Path, position: str, said: str) -> None:
    """A position without an event is an error that says which there are."""
    done = cli("show", team, position)
    assert (done.code, said in done.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        pytest.param(["writer/draft"], "Second draft\n", id="now"),
        pytest.param(["writer/draft", "--at", "1"], "X reduces Y.\nSee table 3.\n", id="lines stay lines"),
        pytest.param(["writer/draft", "--at", "@5", "--raw"], "X reduces Y.\nSee table 3.", id="raw"),
        pytest.param(["researcher/findings"], '{"claim":"X reduces Y","confidence":0.9}\n', id="structured"),
        pytest.param(
            ["researcher/findings", "--raw"],
            '{"claim": "X reduces Y", "confidence": 0.9}',
            id="structured, raw",
        ),
        pytest.param(["scratch/todo", "--at", "1"], "look at table 3\n", id="not yet expired"),
        pytest.param(
            ["researcher/source", "--at", "2026-11-30T02:13:01Z"], "https://example.org\n", id="then"
        ),
    ],
)
def test_get(cli: Cli, team: Path, arguments: list[str], out: str) -> None:
    """`get` prints the value as agents saw it."""
    done = cli("get", team, *arguments)
    assert (done.code, done.out, done.err) == (0, out, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["writer/drift"], "did you mean 'writer/draft'", id="never"),
        pytest.param(["draft"], "never had a key 'draft'; did you mean 'writer/draft'?", id="no agent"),
        pytest.param(["writer"], "never had a key 'writer'; did you mean 'writer/draft'", id="no key"),
        pytest.param(["researcher/source"], "was deleted at position 9, turn 2 by critic", id="deleted"),
        pytest.param(["scratch/todo"], "expired at turn 2", id="expired"),
        pytest.param(["writer/draft", "--at", "0"], "did not exist yet at turn 0", id="not yet"),
        pytest.param(["writer/draft", "--at", "9"], "it visited 0-2", id="bad address"),
        pytest.param(["writer/draft", "--raw", "--json"], "exclude each other", id="raw and json"),
    ],
)
def test_get_of_nothing(cli: Cli, team: Path, arguments: list[str], said: str) -> None:
    """A key that shows nothing is an error that says why."""
    done = cli("get", team, *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_get_of_an_empty_value(cli: Cli, team: Path, open_team: Open) -> None:
    """The empty text is printed as the empty text; in a table it can be told from nothing."""
    with open_team(team) as log:
        log.execute([Write("empty", "")], run="main")
    assert [cli("get", team, "empty").out, cli("get", team, "empty", "--raw").out] == ["\n", ""]
    assert cli("state", team).lines[-1].endswith('""')


STATE_FIELDS = ["key", "value", "metadata", "created_at", "expires_at_turn", "version", "agent"]


@pytest.mark.parametrize(
    ("at", "keys"),
    [
        pytest.param([], ["researcher/findings", "writer/draft"], id="now"),
        pytest.param(["--at", "head"], ["researcher/findings", "writer/draft"], id="head"),
        pytest.param(["--at", "0"], ["researcher/findings", "researcher/source", "scratch/todo"], id="turn"),
        pytest.param(["--at", "@1"], ["researcher/findings"], id="position"),
        pytest.param(["--at", "@0"], [], id="before everything"),
        pytest.param(
            ["--at", "2026-11-30T02:13:01Z"], ["researcher/findings", "researcher/source"], id="time"
        ),
    ],
)
def test_state(cli: Cli, team: Path, at: Any, keys: list[str]) -> None:
    """`state` shows what agents saw at a point, in the order of births."""
    assert [record["key"] for record in cli("state", team, "--json", *at).records] == keys
    assert [line.split()[0] for line in cli("state", team, *at).lines[1:]] == keys


def test_state_as_json(cli: Cli, team: Path) -> None:
    """Each entry has the documented fields, also as `get` gives it."""
    record = cli("state", team, "--json").records[0]
    assert list(record) == STATE_FIELDS
    assert record == {
        "key": "researcher/findings",
        "value": {"claim": "X reduces Y", "confidence": 0.9},
        "metadata": {"agent": "researcher", "sharedMemoryValueEncoding": "json"},
        "created_at": "2026-11-30T02:13:00.000Z",
        "expires_at_turn": None,
        "version": 7,
        "agent": "researcher",
    }
    assert cli("get", team, "researcher/findings", "--json").records == [record]


def test_state_with_all(cli: Cli, team: Path, open_team: Open) -> None:
    """--all shows expired and reserved entries too, and marks them."""
    with open_team(team) as log:
        log.execute([Write("__turnlog__/lease", "held")], run="main", agent="scheduler")
    marks = {
        record["key"]: (record["expired"], record["reserved"])
        for record in cli("state", team, "--all", "--json").records
    }
    assert marks == {
        "researcher/findings": (False, False),
        "scratch/todo": (True, False),
        "writer/draft": (False, False),
        "__turnlog__/lease": (False, True),
    }
    text = cli("state", team, "--all").out
    assert "expired 2" in text
    assert "reserved" in text
    assert "__turnlog__" not in cli("state", team).out


def test_a_state_that_nobody_saw_is_marked(cli: Cli, team: Path, open_team: Open) -> None:
    """A position inside a batch is shown with a remark beside it; the end of a turn there needs none."""
    with open_team(team) as log:
        log.execute([Write("a", "1"), Delete("writer/draft")], run="main")
    done = cli("state", team, "--at", "@11", "--json")
    assert [record["key"] for record in done.records] == ["researcher/findings", "writer/draft", "a"]
    assert "inside a batch" in done.err
    assert cli("state", team, "--at", "@12").err == ""


def test_help_of_every_verb_has_an_example(cli: Cli) -> None:
    """Every verb says in its help what it is for and how it is called."""
    verbs = re.findall(r"^  ([a-z]+)  +[A-Z]", cli("--help").out, re.MULTILINE)
    assert len(verbs) >= 17
    for verb in verbs:
        done = cli(verb, "--help")
        assert (done.code, done.err) == (0, "")
        assert f"\n  turnlog {verb}" in done.out


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        pytest.param("restore", "--as WHO Who asks for it: any name, kept in the history.", id="restore"),
        pytest.param("sweep", "--as WHO Who asks for it: any name, kept in the history.", id="sweep"),
        pytest.param(
            "redact", "--as WHO Who asks for it: any name, kept in the history. [required]", id="redact"
        ),
        pytest.param(
            "fork", "--as NAME What the new run is called; not who asks for it. [required]", id="fork"
        ),
        pytest.param(
            "approvals", "--as WHO decide: who decides: any name, kept in the record.", id="approvals"
        ),
        pytest.param("state", "or a UTC time (2026-11-30T02:13Z); left out, now.", id="when"),
        pytest.param(
            "blame", "KEY is one whole key, agent and slash included; left out, all of them.", id="blame"
        ),
        pytest.param("blame", "--at A looks at what was there then", id="blame then"),
        pytest.param("", "A KEY is whole: agent, slash, the agent's own key (writer/draft).", id="keys"),
    ],
)
def test_the_help_says_what_words_mean(cli: Cli, verb: str, said: str) -> None:
    """Where a word of the command line could be taken for something else."""
    assert said in " ".join(cli(*verb.split(), "--help").out.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["gat", "x.db"], "'get'? Try `turnlog --help`.", id="a question"),
        pytest.param(["gat", "x.db"], "Did you mean 'get'", id="unknown verb"),
        pytest.param(["get", "x.db"], "Missing argument 'KEY'", id="missing argument"),
        pytest.param(["get", "x.db", "k", "--rum", "a"], "--rum", id="unknown option"),
        pytest.param(["--nonsense"], "--nonsense", id="unknown option of all"),
        pytest.param(["state", "a\0b"], "is no path", id="no path"),
    ],
)
def test_usage_errors_are_one_line(cli: Cli, arguments: list[str], said: str) -> None:
    """What was typed wrongly is told in one line that says where to read on, with exit code 2."""
    done = cli(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert done.err.startswith("turnlog: ")


def test_a_folder_is_refused(cli: Cli, tmp_path: Path) -> None:
    """A folder in the place of the file is told to be one."""
    assert "is a folder" in cli("runs", tmp_path).err


def test_the_version(cli: Cli) -> None:
    """--version names the program and its version."""
    assert cli("--version").out.startswith("turnlog 0.")
