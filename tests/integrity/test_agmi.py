"""The edits of a public suite for the integrity of agents' memory: none goes unnoticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

NOTICED = {
    "T1 content tamper": "REPORTED",
    "T2 tail truncation": "REPORTED",
    "T3 middle deletion": "REPORTED",
    "T4 reordering": "REPORTED",
    "T5 forged insertion": "REPORTED",
    "T6 cross-context replay": "REPORTED",
    "T7 rollback replay": "REPORTED",
    "T8 metadata tamper": "REPORTED",
    "T9 snapshot rollback": "REPORTED",
}


@pytest.mark.parametrize(
    ("adapter", "expected", "code"),
    [
        pytest.param("TurnlogAdapter", NOTICED, 0, id="with the anchor"),
        pytest.param(
            "WithoutAnchor",
            NOTICED | {"T2 tail truncation": "ACCEPTED", "T9 snapshot rollback": "ACCEPTED"},
            1,
            id="without it",
        ),
    ],
)
def test_the_public_suite(tmp_path: Path, adapter: str, expected: dict[str, str], code: int) -> None:
    """`agmi-check` reports all nine edits; without the anchor a clean cut and an older copy pass."""
    result = tmp_path / "result.json"
    command = [sys.executable, "-m", "agmi.check", "--adapter", f"agmi_adapter:{adapter}", "--json", result]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(HERE), "GITHUB_ACTIONS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == code, done.stdout + done.stderr
    table = json.loads(result.read_text("utf-8"))["edits"]
    assert {row["edit"]: row["verdict"] for row in table} == expected, table
