"""What docs/custom-stores.md shows is run as it stands, and what it quotes is what the examples hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "custom-stores.md").read_text("utf-8")


class Block(NamedTuple):
    """A fenced block: its language, its first line, and all of it."""

    language: str
    title: str
    text: str


BLOCKS = [
    Block(language, text.split("\n", 1)[0], text)
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
]
FILES = {
    block.title.removeprefix("# "): block.text for block in BLOCKS if re.fullmatch(r"# \w+\.py", block.title)
}
QUOTES = [block for block in BLOCKS if block.language in ("lua", "sql") or block.title.startswith("# from ")]


def pytest_in(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run pytest on the files, in a folder of their own and with every warning an error."""
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=110)


def test_every_block_of_the_page_is_checked() -> None:
    """A block is a file, a quotation, a program that uses a server, or what is printed."""
    programs = [block for block in BLOCKS if block.title == "# uses a server"]  # run in tests/servers
    printed = [block for block in BLOCKS if block.language == "text"]
    assert (len(FILES), len(QUOTES), len(programs), len(printed)) == (3, 4, 2, 3)
    assert len(BLOCKS) == 12


def test_the_stores_of_the_page_keep_the_contract(tmp_path: Path) -> None:
    """The smallest store and its asynchronous form pass every test they are not skipped for."""
    done = pytest_in(tmp_path, FILES)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 100


def test_a_store_that_forgets_births_is_told_what_the_page_says(tmp_path: Path) -> None:
    """The failure on the page is that of the store on the page, with one mistake in it."""
    right = "self._notes[key][2] if key in self._notes else now"
    assert right in FILES["notes.py"]
    done = pytest_in(tmp_path, FILES | {"notes.py": FILES["notes.py"].replace(right, "now")})
    assert done.returncode == 1
    said = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    shown = next(block.text for block in BLOCKS if block.text.startswith("AssertionError"))
    for line in shown.splitlines():
        assert line in said


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: quote.title[:40])
def test_what_the_page_quotes_is_what_an_example_holds(quote: Block) -> None:
    """Line by line, so that neither goes on without the other."""
    text = quote.text.removeprefix(f"{quote.title}\n") if quote.title.startswith("# from ") else quote.text
    examples = [path.name for path in (ROOT / "examples").glob("*.py") if text in path.read_text("utf-8")]
    assert len(examples) == 1


def test_the_examples_that_the_page_names_exist() -> None:
    """And no example goes unnamed."""
    named = set(re.findall(r"`examples/(\w+\.py)`", PAGE))
    assert named == {path.name for path in (ROOT / "examples").glob("*.py")}
