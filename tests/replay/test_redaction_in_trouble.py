"""Redaction among readers, other writers, and after a kill."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import (
    Write,
)
from turnlog.eventlog.integrity import count_erased
from turnlog.replay import redact
from turnlog.replay.verification import verify

from .erased import SECRET, WHY, check_whole, files, files_elsewhere, open_log


def test_a_reader_that_stays_is_told_of(tmp_path: Path) -> None:
    """Old pages cannot go while it reads; asking again does the rest."""
    path = tmp_path / "team.db"
    with turnlog.open(path, durability="os", busy_timeout_s=0.2) as log, open_log(path) as reader:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        with reader.reading() as db:
            db.execute("begin")
            db.execute("select count(*) from events").fetchone()
            assert not redact(log, matching=SECRET, **WHY).wal_emptied
            assert not redact(log, name=SECRET, **WHY).wal_emptied
            assert SECRET.encode() in files_elsewhere(path)
            db.execute("rollback")
        assert redact(log, name=SECRET, **WHY).wal_emptied
        assert SECRET.encode() not in files_elsewhere(path)
        check_whole(log, [SECRET])


_REDACT = """
import sys
import turnlog
from turnlog.replay import redact

with turnlog.open(sys.argv[1], durability="os", busy_timeout_s=60) as log:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(3):
        redact(log, matching="sk-", reason="leaked", by=sys.argv[2])
"""


def test_two_processes_redact_at_once(tmp_path: Path) -> None:
    """Each text is erased once, and the log is whole."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write(f"k{number % 40}", f"{SECRET} {number}") for number in range(600)], run="main")
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", _REDACT, path, f"process {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for process in asking:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in asking:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(timeout=60) for process in asking] == [0, 0]
    for process in asking:
        process.communicate()
    assert SECRET.encode() not in files(path)
    with open_log(path) as log, log.reading() as db:
        assert count_erased(db) == 600
        assert verify(log).ok


_KILLED = """
import os, signal, sys, threading, time
import turnlog
from turnlog.replay import redact

def kill():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)

with turnlog.open(sys.argv[1]) as log:
    threading.Thread(target=kill, daemon=True).start()
    redact(log, matching="sk-", reason="leaked", by="dpo")
"""


@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.long)])
def test_a_redaction_that_is_killed_is_whole_or_absent(tmp_path: Path, rounds: int) -> None:
    """At whatever moment; asking again completes it."""
    chance = random.Random(7)
    path = tmp_path / "team.db"
    number = 300
    for _ in range(rounds):
        for each in tmp_path.iterdir():
            each.unlink()
        with open_log(path) as log:
            log.execute([Write(f"k{each % 40}", f"{SECRET} {each}") for each in range(number)], run="main")
        subprocess.run(
            [sys.executable, "-c", _KILLED, path, str(chance.uniform(0, 0.15))], check=False, timeout=60
        )
        with open_log(path) as log:
            with log.reading() as db:
                assert count_erased(db) in (0, number)
            assert verify(log).ok
            assert redact(log, matching="sk-", **WHY).wal_emptied
            with log.reading() as db:
                assert count_erased(db) == number
        assert SECRET.encode() not in files(path)
