"""Two processes that open a file at the same moment fail, or one takes it for damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import turnlog
from turnlog.replay.verification import verify

_OPEN = """
import json, sys
import turnlog
folder, count, number = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
versions = []
for file in range(int(count)):
    with turnlog.open(f"{folder}/{file}.db", durability="os", busy_timeout_s=30) as log:
        versions.append(turnlog.EventSourcedStore(log).set(number, "v"))
print(json.dumps(versions))
"""


@pytest.mark.parametrize(
    ("processes", "files"), [(2, 10), pytest.param(8, 50, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_processes_open_missing_files_together(
    tmp_path: Path, together: Callable[..., list[str]], processes: int, files: int
) -> None:
    """All of them succeed, each file is made once, and what each wrote is in it."""
    told = [json.loads(printed) for printed in together(_OPEN, processes, tmp_path, files)]
    for file in range(files):
        with turnlog.open(tmp_path / f"{file}.db") as log:
            assert verify(log).problems == []
            assert {each.position for each in log.read()} == {versions[file] for versions in told}
            assert len(log.runs()) == 1
