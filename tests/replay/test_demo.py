"""The demo: what its team leaves in the log, and what it says of it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlite_utils.utils import sqlite3

import turnlog
from turnlog.eventlog import EntryWritten, NotFound, NotOurs, StorageError, TurnAdvanced, WriteRefused
from turnlog.memory.shared import SharedMemory
from turnlog.replay import Timeline
from turnlog.replay.cli import turnlog as command_line
from turnlog.replay.demo import main
from turnlog.replay.demo_files import choose_files
from turnlog.replay.demo_findings import look, recheck
from turnlog.replay.demo_report import Report, Verdict, merge
from turnlog.replay.verification import verify

FILES = {
    "engine.py": '''"""An engine."""


def start(parts=[]):
    """Start."""
    try:
        parts.append("key")
    except:
        return None
    # TODO: stop
''',
    "pkg/texts.py": '''"""Texts that look like code.

    except:
TODO in a text is none.
"""


def shout(
    text,
):
    """Shout."""
    return text if text == None else text.upper()


class Quiet:
    pass
''',
    "pkg/broken.py": "def (:\n",
    "pkg/empty.py": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small folder of Python files with known faults."""
    root = tmp_path / "sources"
    (root / "pkg").mkdir(parents=True)
    for name, text in FILES.items():
        (root / name).write_text(text)
    return root


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """Where the demo is to log to."""
    return tmp_path / "demo.db"


def test_what_surveyors_find_and_critics_make_of_it(folder: Path, db: Path) -> None:
    """The report counts exactly the faults that the files have, and the findings that were none."""
    main(str(folder), str(db))
    with turnlog.open(db, create=False) as log:
        memory = SharedMemory(turnlog.EventSourcedStore(log, "survey"))
        entry = memory.read("team/report", schema=Report)
        text = memory.read("writer/report")
    assert entry is not None
    assert text is not None
    assert entry.value.files == 4
    assert entry.value.upheld == {
        "mutable default": 1,
        "bare except": 1,
        "to do": 1,
        "comparison with None": 1,
        "no docstring": 1,
        "unreadable": 1,
    }
    assert entry.value.rejected == {"bare except": 1, "to do": 1, "no docstring": 1}
    assert "pkg/texts.py:4 to do: TODO in a text is none. (text inside a string, not code)" in text.value
    assert "pkg/broken.py:1 unreadable: cannot be parsed: invalid syntax" in text.value


def test_the_report_equals_a_recomputation_of_the_files_one_by_one(folder: Path, db: Path) -> None:
    """No merge was lost to contention: the shared report is what one agent alone would have made."""
    for number in range(30):
        (folder / f"more_{number}.py").write_text(
            f"def f{number}(x={{}}):\n    return x == None\n" * (number + 1)
        )
    main(str(folder), str(db))
    files = choose_files(str(folder))
    alone = Report()
    for name in files.names:
        survey = look(files, name)
        upheld, rejected = recheck(files, name, survey)
        verdict = Verdict(survey=None, upheld=tuple(upheld), rejected=tuple(rejected))
        alone = merge(alone, name, survey, verdict, "alone")
    with turnlog.open(db, create=False) as log:
        entry = SharedMemory(turnlog.EventSourcedStore(log, "survey")).read("team/report", schema=Report)
    assert entry is not None
    assert sum(entry.value.merges.values()) == len(files.names) == 34
    assert len(entry.value.merges) == 3
    assert entry.value.model_copy(update={"merges": {"alone": 34}}) == alone


def test_editors_contend_and_the_log_says_who_was_refused(
    folder: Path, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attempts on the shared report were refused, are told apart by agent, and are counted on the screen."""
    main(str(folder), str(db))
    with turnlog.open(db, create=False) as log:
        history = list(Timeline(log, "survey").history("team/report"))
        events = list(log.read())
    refused = [each for each in history if isinstance(each.event, WriteRefused)]
    written = [each for each in history if isinstance(each.event, EntryWritten)]
    assert [each.agent for each in written[:1]] == ["lead"]
    assert len(written) == 1 + 4
    # All editors had read the report before any of them wrote, so but for one they came too late at first.
    first = {each.agent: type(each.event) for each in reversed(history[1:])}
    assert first.keys() == {"editor-1", "editor-2", "editor-3"}
    assert Counter(first.values()) == {EntryWritten: 1, WriteRefused: 2}
    assert {(each.turn, each.event.reason) for each in refused if isinstance(each.event, WriteRefused)} == {
        (2, "value differs")
    }
    out = capsys.readouterr().out
    assert f"4 files, {4 + len(refused)} attempts, {len(refused)} refused" in out
    assert f"The history of team/report: 5 writes, {len(refused)} refused attempts" in out
    assert (
        f"{len(events)} events, {sum(isinstance(each.event, EntryWritten) for each in events)} writes" in out
    )
    assert re.search(r"^@\d+ .* editor-[123] +refused: value differs \(found @\d+\)$", out, re.MULTILINE)
    assert "6 upheld, 3 rejected" in out


def test_notes_expire_and_stay_in_the_past(folder: Path, db: Path) -> None:
    """Scratch notes are gone from memory after two turns, and still there in the turns that had them."""
    main(str(folder), str(db))
    with turnlog.open(db, create=False) as log:
        timeline = Timeline(log, "survey")
        memory = SharedMemory(turnlog.EventSourcedStore(log, "survey"))
        turns = [recorded.turn for recorded in log.read(type=TurnAdvanced)]
        assert turns == [1, 2, 3, 4]
        assert memory.read("surveyor-1/notes") is None
        assert memory.read("critic-1/notes") is None
        assert [timeline.entry("surveyor-1/notes", turn=turn) is not None for turn in range(5)] == [
            True,
            True,
            False,
            False,
            False,
        ]
        assert "critic-1/notes" in timeline.state(turn=2)
        removed = {each.key for each in timeline.diff("1", "3") if each.change == "removed"}
    assert removed >= {"surveyor-1/notes", "critic-1/notes", "critic-2/notes"}


def test_every_agent_is_to_blame_for_its_own(folder: Path, db: Path) -> None:
    """Each entry but the shared one was written by the owner of its key, in the turn of the owner's task."""
    main(str(folder), str(db))
    turn_of = {"surveyor": 0, "critic": 1, "writer": 3}
    with turnlog.open(db, create=False) as log:
        blame = Timeline(log, "survey").blame()
    report = blame.pop("team/report")
    assert report.agent in {"editor-1", "editor-2", "editor-3"}
    assert report.turn == 2
    assert Counter(key.partition("/")[0].partition("-")[0] for key in blame) == {
        "surveyor": 4,
        "critic": 4,
        "writer": 1,
    }
    for key, recorded in blame.items():
        owner = key.partition("/")[0]
        assert recorded.agent == owner
        assert recorded.turn == turn_of[owner.partition("-")[0]]
        assert recorded.activity == f"turn-{recorded.turn}:{owner}"


def test_the_default_works_on_the_standard_library(
    db: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without arguments it surveys a real package in good time, in a new folder; some findings fall."""
    monkeypatch.setenv("TMPDIR", str(db.parent))
    monkeypatch.setattr("tempfile.tempdir", None)
    began = time.monotonic()
    main(None, None)
    seconds = time.monotonic() - began
    out = capsys.readouterr().out
    found = re.search(r"^Its memory is run 'survey' of (.*turnlog-demo\.db)$", out, re.MULTILINE)
    assert found
    assert Path(found[1]).is_relative_to(db.parent)
    with turnlog.open(found[1], create=False) as log:
        assert verify(log).ok
        refused = list(log.read(key="team/report", type=WriteRefused))
        entry = SharedMemory(turnlog.EventSourcedStore(log, "survey")).read("team/report", schema=Report)
    assert entry is not None
    assert 15 <= entry.value.files <= 60
    assert "unreadable" not in entry.value.upheld
    assert sum(entry.value.rejected.values()) > 0
    assert len(refused) >= 2
    assert seconds < 10


@pytest.mark.parametrize("runs", [pytest.param(1, id="the only run"), pytest.param(2, id="one of two")])
def test_printed_commands_show_the_same(
    folder: Path, db: Path, capsys: pytest.CaptureFixture[str], runs: int
) -> None:
    """Every command printed at the end runs, and finds what the demo showed."""
    db = db.with_name("a log's #1 %.db")
    for _ in range(runs):
        main(str(folder), str(db))
    out = capsys.readouterr().out
    commands = [shlex.split(line) for line in out[out.rindex("See for yourself:") :].splitlines()[1:]]
    shown: dict[str, str] = {}
    for command in commands:
        assert command[:3] == [sys.executable, "-m", "turnlog"]
        done = CliRunner().invoke(command_line, command[3:])
        assert (done.exit_code, done.stderr) == (0, ""), command
        shown[command[3]] = done.stdout
    assert list(shown) == ["get", "state", "diff", "history", "log", "blame", "bisect", "turns", "verify"]
    assert "# A survey of" in shown["get"]
    assert "critic-1/notes" in shown["state"]
    assert "writer/report" not in shown["state"]
    assert "writer/report" in shown["diff"]
    assert shown["history"].count("refused: value differs") == shown["log"].count("WriteRefused") > 0
    assert "writer/report" in shown["blame"]
    assert "turn 2" in shown["bisect"]
    assert any("--run" in command for command in commands) == (runs == 2)


def test_a_printed_command_runs_as_it_stands(
    folder: Path, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line can be given to a shell."""
    main(str(folder), str(db.with_name("it's # 1.db")))
    command = capsys.readouterr().out.splitlines()[-1]
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_existing_log_gets_one_run_more(
    folder: Path, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing that a log holds is touched: each demo on it begins a run of its own."""
    with turnlog.open(db) as log:
        turnlog.EventSourcedStore(log, "survey").set("mine", "1")
        before = log.head("survey")
    main(str(folder), str(db))
    main(str(folder), str(db))
    out = capsys.readouterr().out
    assert "run 'survey-2'" in out
    assert "run 'survey-3'" in out
    with turnlog.open(db, create=False) as log:
        assert log.head("survey") == before
        assert [info.run.name for info in log.runs()] == ["survey", "survey-2", "survey-3"]
        assert verify(log).ok


def test_a_file_of_somebody_else_is_left_alone(folder: Path, db: Path) -> None:
    """A database that is not a log is refused and stays as it is."""
    with closing(sqlite3.connect(db)) as other:
        other.execute("create table theirs (a)")
        other.commit()
    before = db.read_bytes()
    with pytest.raises(NotOurs):
        main(str(folder), str(db))
    assert db.read_bytes() == before


def test_a_log_that_fails_verification_ends_with_status_1(
    folder: Path, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody has altered an older event of the file: the demo says so, and ends with status 1."""
    with turnlog.open(db) as log:
        turnlog.EventSourcedStore(log, "older").set("price", "100")
    with closing(sqlite3.connect(db)) as forger:
        triggers = forger.execute("select name from sqlite_schema where type = 'trigger'").fetchall()
        definitions = forger.execute("select sql from sqlite_schema where type = 'trigger'").fetchall()
        for (name,) in triggers:
            forger.execute(f"drop trigger {name}")
        forger.execute("update events set value = '999' where value = '100'")
        for (definition,) in definitions:
            forger.execute(definition)
        forger.commit()
    with pytest.raises(SystemExit) as ended:
        main(str(folder), str(db))
    assert ended.value.code == 1
    assert "NOT verified" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        pytest.param(lambda path: path.mkdir(), NotFound, "has no Python files", id="an empty folder"),
        pytest.param(
            lambda path: (path.mkdir(), (path / "a.txt").write_text("x")),
            NotFound,
            "has no Python files",
            id="a folder of other files",
        ),
        pytest.param(
            lambda path: (
                path.mkdir(),
                (path / ".hidden").mkdir(),
                (path / ".hidden" / "a.py").write_text("x"),
            ),
            NotFound,
            "has no Python files",
            id="a folder with hidden ones only",
        ),
        pytest.param(lambda path: None, StorageError, "No such file", id="no folder"),
        pytest.param(lambda path: path.write_text("x = 1"), StorageError, "Not a directory", id="a file"),
    ],
)
def test_a_folder_without_python_files_is_a_clear_error(
    tmp_path: Path, db: Path, make: object, error: type[Exception], message: str
) -> None:
    """The error names the folder and says what is wrong, and no log is begun."""
    path = tmp_path / "there"
    assert callable(make)
    make(path)
    with pytest.raises(error, match=message) as raised:
        main(str(path), str(db))
    assert str(path) in str(raised.value)
    assert not db.exists()


def test_no_name_is_no_folder(db: Path) -> None:
    """An empty name, as from a variable that is not set, does not mean the current folder."""
    with pytest.raises(StorageError, match="''"):
        main("", str(db))


def test_file_names_with_odd_characters(tmp_path: Path, db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of any characters are keys to the letter, and cannot act on the terminal."""
    names = [
        "line\nbreak.py",
        "\x1b[31mred.py",
        "\u202eyp.redro.py",
        "per%cent & \u00fc \U0001f600.py",
        os.fsdecode(b"caf\xe9.py"),
    ]
    root = tmp_path / "od\nd\x1b[2J"
    root.mkdir()
    for name in names:
        (root / name).write_text("def \u00e4(): pass\ntry: 1\nexcept: '\x1b[31m'\n")
    main(str(root), str(db))
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\u202e\r")
    assert not re.search("[\ud800-\udfff]", out)
    assert "caf\\udce9.py:3 bare except: except: '\\x1b[31m'" in out
    with turnlog.open(db, create=False) as log:
        keys = set(Timeline(log, "survey").state())
    for name in names:
        surveys = [key for key in keys if key.startswith("surveyor-") and key.endswith(f"/{name}")]
        assert len(surveys) == 1, name
        assert any(key.startswith("critic-") and key.endswith(f"/{surveys[0]}") for key in keys), name


def test_a_single_file_has_no_contention(
    tmp_path: Path, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one editor is enough nothing is refused, and the demo does not pretend otherwise."""
    (tmp_path / "one.py").write_text('"""One."""\n')
    main(str(tmp_path), str(db))
    out = capsys.readouterr().out
    assert "1 file, 1 attempt, 0 refused" in out
    assert "2 writes, 0 refused attempts" in out
