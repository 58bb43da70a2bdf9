"""Two processes that open a file at the same moment fail, or one takes it for damaged."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest

import turnlog
from turnlog.eventlog.driver import driver
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


OLD = Path(__file__).parents[1] / "golden" / "format-1.db"


class Outsider:
    """Another program, which holds the lock for writing until it is told to let go."""

    def __init__(self, path: Path) -> None:
        self._db = driver().connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("begin immediate")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *given: object) -> None:
        self._db.close()

    def let_go(self) -> None:
        """End the transaction; until then the file is of the old version."""
        assert self._db.execute("pragma user_version").fetchone() == (1,)
        self._db.execute("rollback")


@pytest.mark.parametrize("locked", [False, True], ids=["free", "while another program holds the lock"])
@pytest.mark.parametrize(
    ("processes", "files"), [(2, 5), pytest.param(8, 50, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_processes_open_old_files_together(
    tmp_path: Path, together: Callable[..., list[str]], processes: int, files: int, locked: bool
) -> None:
    """All of them succeed, each file climbs once, keeps its runs, and what each process wrote is in it."""
    paths = [tmp_path / f"{file}.db" for file in range(files)]
    for path in paths:
        shutil.copy(OLD, path)
    with ExitStack() as stack:
        outsiders = [stack.enter_context(Outsider(path)) for path in paths] if locked else []

        def let_go() -> None:
            for outsider in outsiders:
                time.sleep(0.05)  # not to wait for anything: so long it stands in the way of all of them
                outsider.let_go()

        told = [json.loads(each) for each in together(_OPEN, processes, tmp_path, files, meanwhile=let_go)]
    with turnlog.open(shutil.copy(OLD, tmp_path / "old.db"), read_only=True) as log:
        before = [(info.run.name, info.head) for info in log.runs()]
    for file, path in enumerate(paths):
        with turnlog.open(path) as log:
            assert verify(log).problems == []
            with log.reading() as db:
                assert db.execute("pragma user_version").fetchone() == (2,)
            assert [(info.run.name, info.head) for info in log.runs()][: len(before)] == before
            assert {each.position for each in log.read(run="main")} == {versions[file] for versions in told}
