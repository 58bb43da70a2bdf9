"""The README's example is run as it stands, and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def block(language: str) -> str:
    """The first fenced block in that language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert found is not None, language
    return found[1]


def run(folder: Path, *arguments: str) -> str:
    """What a Python process prints in `folder`."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    """Fifteen lines, run in an empty folder."""
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 15
    assert run(tmp_path, "-c", block("python")) == block("text")


def test_the_other_examples_print_what_the_readme_says(tmp_path: Path) -> None:
    """Each further Python block, run in an empty folder, prints the block that follows it."""
    pairs = re.findall(r"^```python\n(.*?)^```$\s+^```text\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert len(pairs) == README.count("```python")
    for code, printed in pairs[1:]:
        assert run(tmp_path, "-c", code) == printed


def test_the_commands_print_what_the_readme_says(tmp_path: Path) -> None:
    """Each command of the README, on the example's file; times, hashes and spacing aside."""

    def shape(text: str) -> list[str]:
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
        text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)
        return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]

    run(tmp_path, "-c", block("python"))
    session = README.split("The same file, afterwards:")[1]
    found = re.search(r"^```console\n(.*?)^```$", session, re.DOTALL | re.MULTILINE)
    assert found is not None
    steps = re.findall(r"^\$ turnlog ([^\n]+)\n(.*?)(?=^\$ |\Z)", found[1], re.DOTALL | re.MULTILINE)
    assert len(steps) >= 5
    for command, printed in steps:
        assert shape(run(tmp_path, "-m", "turnlog", *command.split())) == shape(printed), command


def test_the_make_targets_it_names_exist() -> None:
    """`make demo` and `make test` are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"^\$ make (\S+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
