"""The examples of the guides are run as they stand, and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import turnlog
from turnlog import AsyncSharedMemory, SharedMemory

DOCS = Path(__file__).resolve().parents[2] / "docs"
GUIDES = ("async.md", "from-open-multi-agent.md", "shared-memory.md", "teams.md")


def examples(guide: str) -> list[tuple[str, str]]:
    """Each block of Python of a guide, and the block of text behind it."""
    page = (DOCS / guide).read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("guide", GUIDES)
def test_every_block_of_a_guide_is_an_example_with_its_output(guide: str) -> None:
    """Nothing on the page goes unchecked."""
    page = (DOCS / guide).read_text("utf-8")
    assert len(examples(guide)) >= 2
    assert len(re.findall(r"^```\w+$", page, re.MULTILINE)) == 2 * len(examples(guide))


@pytest.mark.parametrize("guide", GUIDES)
def test_the_examples_of_a_guide_print_what_it_says(tmp_path: Path, guide: str) -> None:
    """Each in an empty folder and a process of its own, with every warning an error."""
    running: list[tuple[subprocess.Popen[str], str]] = []
    for number, (code, printed) in enumerate(examples(guide)):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append((process, printed))
    told = [(process.communicate(timeout=60), process.returncode) for process, _ in running]
    assert [out for (out, _), _ in told] == [printed for _, printed in running]
    assert [(error, code) for (_, error), code in told] == [("", 0)] * len(told)


def test_the_guides_name_what_is_there() -> None:
    """Every method that the tables give for a class of ours exists there."""
    page = (DOCS / "from-open-multi-agent.md").read_text("utf-8")
    memory = page.split("## Shared memory")[1].split("```")[0]
    rows = [line.split(" | ")[1] for line in memory.splitlines() if line.startswith("| ")][1:]
    named = [name for row in rows for name in re.findall(r"`(?:await )?([a-z_]+)[(`]", row)]
    assert len(named) > 12
    kinds = (SharedMemory, AsyncSharedMemory)
    assert {name for name in named if not any(hasattr(kind, name) for kind in kinds)} == set()
    stores = set(re.findall(r"`([A-Z]\w+Store)\b", page))
    assert {"FileStore", "RedactingStore", "EventSourcedStore"} <= stores <= set(dir(turnlog))
