"""`export` and `import`: to the same hashes, or not at all."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import EventLog, Write
from turnlog.replay import Timeline

Cli = Callable[..., Any]
Open = Callable[[Path], EventLog]


def heads(cli: Cli, path: Path) -> dict[str, str]:
    """The head of each run."""
    return {head["run"]: head["hash"] for head in cli("verify", path, "--json").records[0]["heads"]}


@pytest.fixture
def branched(team: Path, open_team: Open) -> Path:
    """The team's file with a fork, and with half an emoji in a key and a value."""
    with open_team(team) as log:
        Timeline(log, "main").fork(turn=1, run="what-if")
        log.execute([Write("half \ud83d", "\ude00 other half")], run="what-if")
    return team


def test_an_export_makes_the_same_log_again(cli: Cli, branched: Path, tmp_path: Path) -> None:
    """What is exported to a file and imported into a new log has the same hashes and memory."""
    export, copy = tmp_path / "team.jsonl", tmp_path / "copy.db"
    done = cli("export", branched, "-o", export)
    assert (done.code, done.out, done.err) == (0, "", "")
    done = cli("import", copy, export)
    assert (done.code, done.err) == (0, "")
    assert [line.split(":")[0] for line in done.lines] == ["run main", "run what-if"]
    assert heads(cli, copy) == heads(cli, branched)
    assert (
        cli("state", copy, "--run", "what-if", "--json").out
        == cli("state", branched, "--run", "what-if", "--json").out
    )


def test_an_export_can_be_piped(cli: Cli, branched: Path, tmp_path: Path) -> None:
    """Standard output of one is standard input of the other; every line is JSON in UTF-8."""
    exported = cli("export", branched)
    assert [json.loads(line)["kind"] for line in exported.lines][:: len(exported.lines) - 1] == [
        "turnlog-export",
        "end",
    ]
    done = cli("import", tmp_path / "copy.db", "-", "--json", stdin=exported.out)
    assert {record["run"]: record["hash"] for record in done.records} == heads(cli, branched)


def test_one_run_with_its_ancestors(cli: Cli, branched: Path, open_team: Open, tmp_path: Path) -> None:
    """--run takes along what a run was forked from, and brings it into a log that has others."""
    other = tmp_path / "other.db"
    with open_team(other) as log:
        log.execute([Write("a", "1")], run="here already")
    exported = cli("export", branched, "--run", "what-if").out
    assert cli("import", other, "--run", "what-if", stdin=exported).code == 0
    assert heads(cli, other)["what-if"] == heads(cli, branched)["what-if"]
    assert "here already" in heads(cli, other)


@pytest.mark.parametrize(
    ("mangle", "said"),
    [
        pytest.param(lambda lines: lines[:-1], "incomplete", id="cut off"),
        pytest.param(lambda lines: [*lines[:5], *lines[6:]], "line", id="a line gone"),
        pytest.param(
            lambda lines: [line.replace("Second", "Forged") for line in lines], "hash", id="altered"
        ),
        pytest.param(lambda lines: [*lines[:5], "{", *lines[5:]], "line 6", id="not JSON"),
    ],
)
def test_a_broken_export_is_refused_whole(
    cli: Cli, branched: Path, tmp_path: Path, mangle: Callable[[list[str]], list[str]], said: str
) -> None:
    """An export that is not as it was written is one line of error, and not an event of it is taken in."""
    lines = cli("export", branched).lines
    done = cli("import", tmp_path / "copy.db", stdin="\n".join(mangle(lines)) + "\n")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy.db")] == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello\n", id="text"),
        pytest.param(b'{"kind":"other"}\n', id="JSON"),
        pytest.param(b"\xff\xfe\x00", id="bytes"),
    ],
)
def test_what_is_no_export_makes_no_log(cli: Cli, tmp_path: Path, content: bytes) -> None:
    """Something else is refused before the file is made."""
    done = cli("import", tmp_path / "copy.db", stdin=content)
    assert (done.code, "is no export" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_no_text(cli: Cli, branched: Path, tmp_path: Path) -> None:
    """A line that is not UTF-8 is named by its number."""
    lines = cli("export", branched).out.encode().splitlines(keepends=True)
    lines[7] = b"\xff\n"
    done = cli("import", tmp_path / "copy.db", stdin=b"".join(lines))
    assert (done.code, "line 8: it is not UTF-8" in done.err) == (2, True)


def test_a_missing_export_makes_no_log(cli: Cli, tmp_path: Path) -> None:
    """A FILE that is not there is told, and no log is made."""
    done = cli("import", tmp_path / "copy.db", tmp_path / "missing.jsonl")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "missing.jsonl: No such file" in done.err
    assert list(tmp_path.iterdir()) == []


def test_an_export_is_as_private_as_the_log(cli: Cli, team: Path, tmp_path: Path) -> None:
    """A new export can be read by its owner only; one that is replaced keeps its mode."""
    export = tmp_path / "team.jsonl"
    cli("export", team, "-o", export)
    assert stat.S_IMODE(export.stat().st_mode) == 0o600
    export.chmod(0o640)
    cli("export", team, "-o", export)
    assert stat.S_IMODE(export.stat().st_mode) == 0o640


def test_an_export_that_fails_leaves_what_was_there(cli: Cli, team: Path, tmp_path: Path) -> None:
    """The file appears only once it is complete, so that an old export survives a failed new one."""
    export = tmp_path / "team.jsonl"
    export.write_text("the old one")
    assert cli("export", team, "--run", "nope", "-o", export).code == 2
    assert export.read_text() == "the old one"
    assert cli("export", team, "-o", tmp_path / "no folder" / "x.jsonl").code == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("team.j")) == [
        "team.jsonl"
    ]


def test_an_export_never_replaces_the_log(cli: Cli, team: Path) -> None:
    """The log itself, by whatever name, is refused as the place to write to."""
    before = team.read_bytes()
    done = cli("export", team, "-o", team.parent / "." / team.name)
    assert (done.code, "belongs to the log itself" in done.err) == (2, True)
    assert team.read_bytes() == before


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_an_export_never_takes_the_place_of_what_belongs_to_the_log(
    cli: Cli, team: Path, tmp_path: Path, ending: str
) -> None:
    """Opened through a link, its companions are those of the file that the link leads to, there or not."""
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(team)
    place = team.with_name(team.name + ending)
    for _ in range(2):
        done = cli("export", link, "-o", place, "--force")
        assert (done.code, "belongs to the log itself" in done.err) == (2, True)
        place.write_bytes(b"")


def test_nothing_is_imported_beside_what_another_file_left(tmp_path: Path, team: Path, cli: Cli) -> None:
    """A -wal that a crash left would be played back over the import: it is refused, and left alone."""
    export = tmp_path / "team.jsonl"
    assert cli("export", team, "-o", export).code == 0
    target = tmp_path / "new.db"
    left = tmp_path / "new.db-wal"
    left.write_bytes(b"left by a crash")
    done = cli("import", target, export)
    assert done.code == 2
    assert "was left by another file" in done.err
    assert not target.exists()
    assert left.read_bytes() == b"left by a crash"
