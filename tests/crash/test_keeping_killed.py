"""Killed in the middle of anchoring, backing up, rebuilding or sweeping: what is there is whole."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import Write
from turnlog.projections import rebuild
from turnlog.replay import anchor, backup, verify

ROUNDS = 40

KEEPING = """
import sys, turnlog
from turnlog.eventlog import AdvanceTurn, Write
from turnlog.projections import rebuild
from turnlog.replay import anchor, backup, sweep
path, folder, name = sys.argv[1:]
with turnlog.open(path) as log:
    print(flush=True)
    number = 0
    while True:
        number += 1
        log.execute([Write(f"key {number % 50}", "v", expires_at_turn=number % 9), AdvanceTurn()], run=name)
        rebuild(log)
        anchor(log, f"{folder}/team.anchor")
        backup(log, f"{folder}/{name}-{number}.db")
        sweep(log)
"""

KILLED_IN_A_REBUILD = """
import os, signal, sys, turnlog
from turnlog.projections import rebuild
with turnlog.open(sys.argv[1]) as log:
    rebuild(log, progress=lambda folded: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_process_killed_in_a_rebuild(tmp_path: Path) -> None:
    """The table that was there is still there, nothing is left over, and the next rebuild is as any."""
    path = tmp_path / "team.db"
    with turnlog.open(path) as log:
        log.execute([Write(f"key {number}", "v") for number in range(100)], run="main")
    command = [sys.executable, "-c", KILLED_IN_A_REBUILD, path]
    assert subprocess.run(command, check=False, timeout=60).returncode == -9
    with turnlog.open(path) as log:
        assert verify(log).ok
        assert rebuild(log) == ["entries"]
        with log.reading() as db:
            names = {name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
        assert names == {"runs", "names", "events", "projections", "entries"}


@pytest.mark.long
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """After each kill the log verifies against its anchor, so does each backup, and all goes on."""
    path, folder, moments = tmp_path / "team.db", tmp_path / "kept", random.Random(11)
    folder.mkdir()
    with turnlog.open(path) as log:
        log.execute([Write(f"key {number}", "v" * 200) for number in range(3000)], run="main")
        anchor(log, folder / "team.anchor")
    for number in range(ROUNDS):
        command = [sys.executable, "-c", KEEPING, path, folder, f"round-{number}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as keeping:
            assert keeping.stdout is not None
            keeping.stdout.readline()
            time.sleep(moments.uniform(0, 0.4))  # the moment is what is tried
            keeping.kill()
        with turnlog.open(path) as log:
            assert verify(log, anchor=folder / "team.anchor").problems == []
            anchor(log, folder / "team.anchor")
            backup(log, folder / f"after-{number}.db")
        for copy in folder.glob("*.db"):
            with turnlog.open(copy, read_only=True) as copied:
                assert verify(copied).ok
            copy.unlink()
