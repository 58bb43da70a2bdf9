"""Awkward text on its way to a terminal, a pipe and a program: shown as escapes, and never a crash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import CompareAndSet, EventLog, Write
from turnlog.replay import Timeline
from turnlog.replay.cli_text import cut, escaped, json_line, width_of

Cli = Callable[..., Any]
Start = Callable[..., Any]
Open = Callable[[Path], EventLog]

HOSTILE = (
    "a\nb\tc\r\x1b[31md\x00e\x7f\x9bf\u202eg\u2028h\u2066i\ufeffj\U000e0041k\ud83dl[bold]m[/bold]:smile:"
)
HOSTILE_BYTES = HOSTILE.encode("utf-8", "surrogatepass")
ACTS_ON_A_TERMINAL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

VERBS = [
    ["runs"],
    ["turns"],
    ["log"],
    ["show", "@1"],
    ["show", "@2"],
    ["show", "@3"],
    ["state"],
    ["diff", "@0", "head"],
    ["history", HOSTILE],
    ["blame"],
    ["bisect", f"{HOSTILE}~{HOSTILE[:5]}"],
    ["bisect", f"{HOSTILE}~nothing like it"],
    ["get", HOSTILE],
    ["get", HOSTILE + "?"],
    ["state", "--run", HOSTILE + "?"],
    ["state", "--at", HOSTILE],
    ["verify"],
    ["doctor"],
    ["fork", "--as", HOSTILE + "2"],
    ["restore", "--at", "@1", "--as", HOSTILE, "--reason", HOSTILE],
    [HOSTILE],
]


@pytest.fixture
def hostile(tmp_path: Path, open_team: Open) -> Path:
    """A file in which every name and value is as awkward as can be."""
    path = tmp_path / "team.db"
    with open_team(path) as log:
        log.execute([Write(HOSTILE, HOSTILE, {"agent": HOSTILE, HOSTILE: HOSTILE})], run=HOSTILE)
        log.execute([CompareAndSet(HOSTILE, "not that", "x")], run=HOSTILE, agent=HOSTILE)
        Timeline(log, HOSTILE).restore(position=1, by=HOSTILE, reason=HOSTILE)
        log.execute(
            [Write("plain", '{"x": "\\ud83d\\u202e"}', {"sharedMemoryValueEncoding": "json"})], run=HOSTILE
        )
    return path


def called(verb: list[str], path: Path) -> list[Any]:
    """The words of a call."""
    return [verb[0], path, *verb[1:]]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: escaped(" ".join(verb))[:30])
def test_nothing_acts_on_a_terminal(cli: Cli, hostile: Path, verb: Any) -> None:
    """No verb prints a control character, a change of direction or half an emoji, on either stream."""
    done = cli(*called(verb, hostile))
    text = done.out + done.err
    if verb == ["get", HOSTILE]:
        text = text.replace("\t", "")  # a value by itself keeps its lines and tabs
    assert text
    assert ACTS_ON_A_TERMINAL.findall(text) == []


def test_nothing_can_forge_a_line(cli: Cli, hostile: Path) -> None:
    """However many line breaks there are in what agents wrote, each event is one line."""
    assert len(cli("log", hostile).lines) == 1 + len(cli("log", hostile, "--json").records)
    assert len(cli("state", hostile).lines) == 3
    assert len(cli("history", hostile, HOSTILE).lines) == 3
    assert (
        r"a\nb\tc\r\x1b[31md\x00e\x7f\x9bf\u202eg\u2028h\u2066i\ufeffj\U000e0041k\ud83dl[bold]"
        in cli("log", hostile).out
    )


@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if verb[0] not in {"fork", "restore", HOSTILE}], ids=str
)
def test_json_is_exact_and_harmless(cli: Cli, hostile: Path, verb: Any) -> None:
    """With --json the same text comes through whole, in valid UTF-8 that no terminal would act on."""
    done = cli(*called(verb, hostile), "--json")
    assert ACTS_ON_A_TERMINAL.findall(done.out) == []
    done.out.encode("utf-8", "strict")
    for record in done.records:
        assert record.get("key") in (None, HOSTILE, "plain")
        assert record.get("run") in (HOSTILE, None)


def test_json_values_come_through_whole(cli: Cli, hostile: Path) -> None:
    """Keys, values, metadata, agents and reasons are what was written."""
    first, refused, restored, plain = cli("log", hostile, "--json").records
    assert first["value"] == first["agent"] == first["key"] == HOSTILE
    assert first["metadata"] == {"agent": HOSTILE, HOSTILE: HOSTILE}
    assert refused["agent"] == HOSTILE
    assert restored["detail"]["reason"] == HOSTILE
    assert plain["value"] == {"x": "\ud83d\u202e"}


def test_raw_is_exact(process: Start, hostile: Path, open_team: Open) -> None:
    """`get --raw` gives the very bytes, half an emoji as its three, and no line end."""
    with open_team(hostile) as log:
        log.execute([Write("key", HOSTILE)], run=HOSTILE)
    found = process("get", hostile, "key", "--raw")
    assert found.communicate(timeout=30) == (HOSTILE_BYTES, b"")


@pytest.mark.parametrize(
    ("encoding", "verb"), [("ascii", "log"), ("ascii", "get"), ("latin-1", "state"), ("utf-8", "get")]
)
def test_any_encoding_of_the_output_will_do(
    process: Start, tmp_path: Path, open_team: Open, encoding: str, verb: Any
) -> None:
    """What the output's encoding lacks is printed as an escape, in tables, values and JSON alike."""
    path = tmp_path / "team.db"
    value = "naïve 中文 \ud83d"
    with open_team(path) as log:
        log.execute([Write("key", value)], run="rün")
    arguments = [verb, path, *(["key"] if verb == "get" else [])]
    started = [process(*arguments, *more, env={"PYTHONIOENCODING": encoding}) for more in ([], ["--json"])]
    (text, error), (line, _) = (each.communicate(timeout=30) for each in started)
    assert (started[0].returncode, started[1].returncode, error) == (0, 0, b"")
    shown = value.replace("\ud83d", r"\ud83d").encode(encoding, "backslashreplace")
    assert shown in text
    assert json.loads(line.decode("utf-8"))["value"] == value


def test_a_key_can_be_given_as_the_bytes_of_half_an_emoji(
    process: Start, tmp_path: Path, open_team: Open
) -> None:
    """What a shell cannot write as text it can write as bytes."""
    path = tmp_path / "team.db"
    with open_team(path) as log:
        log.execute([Write("half \ud83d", "found")], run="main")
    found = process("get", path, b"half \xed\xa0\xbd")
    assert found.communicate(timeout=30) == (b"found\n", b"")
    broken = process("get", path, b"half \xff")
    out, error = broken.communicate(timeout=30)
    assert (out, broken.returncode) == (b"", 2)
    assert b"it is not UTF-8" in error


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("a\\nb", "a\\nb", id="a backslash"),
        pytest.param("\n\r\t", r"\n\r\t", id="white space"),
        pytest.param("\x00\x1b\x7f", r"\x00\x1b\x7f", id="C0"),
        pytest.param("\x80\x9b", r"\x80\x9b", id="C1"),
        pytest.param("\u202e\u2066\u200f", r"\u202e\u2066\u200f", id="direction"),
        pytest.param("\u2028\u2029", r"\u2028\u2029", id="line ends"),
        pytest.param("\ud83d\ude00", r"\ud83d\ude00", id="two halves"),
        pytest.param("\U000e0041", r"\U000e0041", id="a tag"),
        pytest.param("👨\u200d👩 می\u200cخوری", "👨\u200d👩 می\u200cخوری", id="joiners that writing needs"),
        pytest.param("é e\u0301 中文 😀", "é e\u0301 中文 😀", id="letters"),
    ],
)
def test_escapes(text: str, shown: str) -> None:
    """What a terminal might act on is written as in Python; what people read is left alone."""
    assert escaped(text) == shown


def test_json_lines_of_halves_that_belong_together() -> None:
    """Two halves of an emoji that stand apart have no JSON of their own; the line is still valid."""
    line = json_line({"a": "\ud83d\ude00 \ud83d"})
    assert line == '{"a":"\\ud83d\\ude00 \\ud83d"}'
    line.encode("utf-8", "strict")


@pytest.mark.parametrize(
    ("text", "width", "focus", "shown"),
    [
        pytest.param("short", 5, 0, "short", id="fits"),
        pytest.param("longer text", 7, 0, "longer…", id="cut"),
        pytest.param("中文中文", 8, 0, "中文中文", id="wide, fits"),
        pytest.param("中文中文", 7, 0, "中文中…", id="wide, cut"),
        pytest.param("中文中文", 6, 0, "中文…", id="a wide character does not fit by half"),
        pytest.param("a" * 50 + "X" + "b" * 50, 12, 50, "…aaaaXbbbbb…", id="in the middle"),
        pytest.param("a" * 50 + "X", 12, 50, "…aaaaX", id="at the end"),
    ],
)
def test_cutting(text: str, width: int, focus: int, shown: str) -> None:
    """A text that is too wide is cut where it shows, around what matters."""
    assert cut(text, width, focus=focus) == shown
    assert width_of(shown) <= width
