"""The examples of docs/redaction.md are run as they stand, and print what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import turnlog
from turnlog import EventSourcedStore

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "redaction.md").read_text("utf-8")


def block(language: str) -> str:
    """The one block of the page in that language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return found


def run(folder: Path, *arguments: str) -> str:
    """What Python prints in `folder`, with every warning an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_python_example_prints_what_the_page_says(tmp_path: Path) -> None:
    """Run in an empty folder."""
    assert run(tmp_path, "-c", block("python")) == block("text")


def test_the_command_prints_what_the_page_says(tmp_path: Path) -> None:
    """On a file in which a token has leaked."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        EventSourcedStore(log).set("ops/config", "token sk-4f9a81cc02")
    command, _, printed = block("console").partition("\n")
    assert run(tmp_path, "-m", *shlex.split(command.removeprefix("$ "))) == printed
