"""The programs of docs/custom-stores.md that use a server print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

pytestmark = pytest.mark.servers

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "custom-stores.md").read_text("utf-8")
PROGRAMS = re.findall(
    r"^```python\n# uses a server\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize(("code", "printed"), PROGRAMS, ids=["redis", "postgres"])
def test_a_program_prints_what_the_page_says(
    code: str, printed: str, valkey_url: str, postgres_conninfo: str, tmp_path: Path
) -> None:
    """Run as it stands, but for the address of the server."""
    with psycopg.connect(postgres_conninfo, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS turnlog_entries")
    for address, real in (
        ("redis://localhost:6379/0", valkey_url),
        ("postgresql://localhost/team", postgres_conninfo),
    ):
        code = code.replace(address, real)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "examples")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed
