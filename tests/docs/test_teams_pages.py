"""The examples of docs/approvals.md and docs/checkpoints.md are run as they stand, and print what is said."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("approvals.md", "checkpoints.md")


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of every fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


def shape(text: str) -> list[str]:
    """The lines, times and ids and spacing aside."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]


def run(folder: Path, *arguments: str) -> str:
    """What a Python process prints in `folder`, every warning being an error."""
    command = [sys.executable, "-W", "error", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_print_what_the_page_says(tmp_path: Path, page: str) -> None:
    """Each program in turn, in one folder that is empty at first, and each command on the files they left."""
    left = blocks(page)
    while left:
        (language, text), *left = left
        if language == "python":
            (printing, printed), *left = left
            assert (printing, run(tmp_path, "-c", text)) == ("text", printed)
        else:
            assert language == "console"
            command, *shown = text.splitlines()
            words = command.removeprefix("$ turnlog ").split()
            assert shape(run(tmp_path, "-m", "turnlog", *words)) == shape("\n".join(shown))
