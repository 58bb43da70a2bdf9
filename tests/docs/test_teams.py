"""The examples of docs/teams.md are run as they stand, and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "teams.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_every_block_of_the_page_is_an_example_with_its_output() -> None:
    """Nothing on the page goes unchecked."""
    assert len(EXAMPLES) == 2
    assert len(re.findall(r"^```\w+$", PAGE, re.MULTILINE)) == 2 * len(EXAMPLES)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_prints_what_the_page_says(tmp_path: Path, code: str, printed: str) -> None:
    """Run in an empty folder, with every warning an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed
