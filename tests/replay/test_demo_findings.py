"""What the demo's surveyors take for a finding, and what its critics make of it."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import pytest

import turnlog
from turnlog.memory.shared import SharedMemory
from turnlog.replay.demo import main
from turnlog.replay.demo_files import choose_files
from turnlog.replay.demo_findings import Survey, look, recheck


@pytest.mark.parametrize(
    ("text", "upheld", "rejected"),
    [
        pytest.param("try:\n    x = 1\nexcept:\n    x = 2\n", ["bare except"], [], id="a bare except"),
        pytest.param(
            "s = '''\nexcept:\n'''\n",
            [],
            [("bare except", "text inside a string, not code")],
            id="a bare except in a string",
        ),
        pytest.param("def _f(x=[]):\n    pass\n", ["mutable default"], [], id="a mutable default"),
        pytest.param("def _f(*, x=dict()):\n    pass\n", ["mutable default"], [], id="a keyword-only one"),
        pytest.param(
            "def _f(x=None): y = []\n",
            [],
            [("mutable default", "no parameter has a list, dict or set for its default")],
            id="a list after the signature",
        ),
        pytest.param("y = 1\nx = y == None\n", ["comparison with None"], [], id="a comparison with None"),
        pytest.param(
            "x = 1  # not == None\n",
            [],
            [("comparison with None", "text of a comment")],
            id="a comparison in a comment",
        ),
        pytest.param("x = 1  # TODO: y\n", ["to do"], [], id="a to do"),
        pytest.param("TODO = 1\n", [], [("to do", "not in a comment")], id="a name"),
        pytest.param(
            '"""\nFIXME\n"""\n',
            [],
            [("to do", "text inside a string, not code")],
            id="a to do in a docstring",
        ),
        pytest.param("class A:\n    x = 1\n", ["no docstring"], [], id="no docstring"),
        pytest.param(
            "def f(\n    x,\n):\n    '''Yes.'''\n",
            [],
            [("no docstring", "it has one, a little further down")],
            id="a docstring below a long signature",
        ),
        pytest.param(
            "def _f():\n    def g():\n        pass\n",
            [],
            [("no docstring", "local to a function, so nobody else sees it")],
            id="a local function",
        ),
        pytest.param("def _f():\n    pass\n", [], [], id="a private function"),
        pytest.param("def _f():\n" + "    x = 1\n" * 60, ["long function"], [], id="a long function"),
        pytest.param(
            "def _f():\n" + "    # x\n\n" * 30 + "    x = 1\n",
            [],
            [("long function", "only 2 of these lines are code")],
            id="a function long of comments",
        ),
        pytest.param("def _f():\n" + "    x = 1\n" * 59, [], [], id="a function of 60 lines"),
        pytest.param("x = (\n", ["unreadable"], [], id="a syntax error"),
        pytest.param("x = '\0'\n", ["unreadable"], [], id="a NUL"),
        pytest.param("# coding: rot13\nx = 1\n", ["unreadable"], [], id="an encoding of no text"),
        pytest.param("# coding: no-such\nx = 1\n", ["unreadable"], [], id="an unknown encoding"),
        pytest.param("x = " + "-" * 100_000 + "1\n", ["unreadable"], [], id="nested too deep"),
        pytest.param("x = 1\n" * 100_000, ["unreadable"], [], id="too large"),
        pytest.param("", [], [], id="nothing"),
    ],
)
def test_findings(tmp_path: Path, text: str, upheld: list[str], rejected: list[tuple[str, str]]) -> None:
    """A quick look takes lines for what they seem; a careful one tells why some are not."""
    (tmp_path / "a.py").write_text(text)
    folder = choose_files(str(tmp_path))
    held, fell = recheck(folder, "a.py", look(folder, "a.py"))
    assert [finding.kind for finding in held] == upheld
    assert [(finding.kind, finding.why) for finding in fell] == rejected


def test_what_exhausts_the_parser_is_told(tmp_path: Path) -> None:
    """An error of the parser that has no words of its own is put into some."""
    (tmp_path / "a.py").write_text("x = " + "not " * 50_000 + "1\n")
    (finding,) = look(choose_files(str(tmp_path)), "a.py").findings
    assert finding.kind == "unreadable"
    assert re.fullmatch(r"cannot be parsed: \w.*", finding.what)


def test_measures(tmp_path: Path) -> None:
    """Lines, functions, classes, the longest function and the one of most branches are counted."""
    (tmp_path / "a.py").write_text(
        "class A:\n    def f(self):\n        if 1:\n            return [x for x in self]\n\n"
        "async def g():\n    a = 1\n    b = 2\n    c = 3\n    return a\n"
    )
    folder = choose_files(str(tmp_path))
    survey = look(folder, "a.py")
    assert (survey.lines, survey.functions, survey.classes) == (10, 2, 1)
    assert survey.longest is not None
    assert survey.branchiest is not None
    assert (survey.longest.name, survey.longest.line, survey.longest.lines) == ("g", 6, 5)
    assert (survey.branchiest.name, survey.branchiest.line, survey.branchiest.branches) == ("f", 2, 2)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        pytest.param("y = 1\n", "the file has changed since the survey", id="changed"),
        pytest.param(None, "cannot be read: No such file or directory", id="gone"),
    ],
)
def test_a_file_that_changes_after_the_survey(tmp_path: Path, after: str | None, why: str) -> None:
    """What was found in a file that is another one by now does not hold, and the reason is told."""
    file = tmp_path / "a.py"
    file.write_text("x = 1  # TODO\n")
    folder = choose_files(str(tmp_path))
    survey = look(folder, "a.py")
    if after is None:
        file.unlink()
    else:
        file.write_text(after)
    held, fell = recheck(folder, "a.py", survey)
    assert held == []
    assert [(finding.kind, finding.why) for finding in fell] == [("to do", why)]


def test_a_file_full_of_findings_lists_some_and_counts_the_rest(tmp_path: Path) -> None:
    """The record of one file is bounded, and says how much it leaves out."""
    (tmp_path / "a.py").write_text("# TODO\n" * 1000)
    survey = look(choose_files(str(tmp_path)), "a.py")
    assert len(survey.findings) == 300
    assert survey.unlisted == 700


def test_which_files_are_chosen(tmp_path: Path) -> None:
    """Files below the folder in order; links, pipes, hidden and virtual environments are passed by."""
    for name in ("b.py", "a.py", "sub/c.py", ".git/d.py", "__pycache__/e.py", "venv/f.py", "venv/lib/g.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to("a.py")
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(tmp_path / "pipe.py")
    chosen = choose_files(str(tmp_path))
    assert chosen.names == ("a.py", "b.py", "sub/c.py")
    assert not chosen.more


def test_a_large_folder_is_worked_on_in_part(tmp_path: Path) -> None:
    """The number of files is bounded, and the choice says that there are more."""
    for number in range(70):
        (tmp_path / f"{number:03}.py").write_text("")
    chosen = choose_files(str(tmp_path))
    assert chosen.names == tuple(f"{number:03}.py" for number in range(60))
    assert chosen.more


def test_large_files_are_worked_on_in_part(tmp_path: Path) -> None:
    """The amount of text is bounded too."""
    for number in range(5):
        (tmp_path / f"{number}.py").write_text("x = 1\n" * 40_000)
    chosen = choose_files(str(tmp_path))
    assert chosen.names == ("0.py", "1.py", "2.py", "3.py")
    assert chosen.more


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """A file that has become something else is a finding, not a wait."""
    (tmp_path / "a.py").write_text("")
    folder = choose_files(str(tmp_path))
    (tmp_path / "a.py").unlink()
    os.mkfifo(tmp_path / "a.py")
    assert [finding.what for finding in look(folder, "a.py").findings] == ["no longer a file"]


def test_old_spellings_are_no_errors(tmp_path: Path) -> None:
    """What Python only warns about does not keep a file from being read, even where warnings are errors."""
    (tmp_path / "a.py").write_text("x = '\\d'\nif x is 1: pass\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        main(str(tmp_path), str(tmp_path / "demo.db"))
    with turnlog.open(tmp_path / "demo.db", create=False) as log:
        survey = SharedMemory(turnlog.EventSourcedStore(log, "survey")).read("surveyor-1/a.py", schema=Survey)
    assert survey is not None
    assert survey.value.lines == 2
    assert survey.value.findings == ()
