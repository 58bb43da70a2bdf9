"""Merely looking at a log writes beside it and fails in a read-only place; importing makes a folder.

`tests/eventlog/test_connections.py` does it as a user whom permissions stop.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnlog
from turnlog import EventSourcedStore, StorageError, Timeline
from turnlog.replay.cli import turnlog as command_line

OLD = Path(__file__).parents[1] / "golden" / "format-1.db"


def state(path: Path) -> tuple[bytes, int]:
    """Content and time of change."""
    return path.read_bytes(), path.stat().st_mtime_ns


@pytest.mark.parametrize("wal", [False, True], ids=["closed", "left by a crash"])
def test_reading_changes_nothing(path: Path, wal: bool) -> None:
    """With and without a -wal beside it, of a file that nobody may write: no byte and no time changes."""
    with turnlog.open(path) as log:
        EventSourcedStore(log).set("k", "1")
    if wal:
        program = (
            "import os, sys, turnlog; log = turnlog.open(sys.argv[1]);"
            " turnlog.EventSourcedStore(log).set('k', '2'); os.kill(os.getpid(), 9)"
        )
        done = subprocess.run([sys.executable, "-c", program, path], check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
    path.chmod(0o444)
    before = state(path)
    with turnlog.open(path, read_only=True) as log:
        assert [each.value for each in Timeline(log).state().values()] == ["2" if wal else "1"]
        with pytest.raises(StorageError, match="read only; nothing was written") as caught:
            EventSourcedStore(log).set("k", "3")
        assert str(path) in str(caught.value)
    for verb in ("log", "state", "verify", "runs", "doctor"):
        assert CliRunner().invoke(command_line, [verb, str(path)]).exit_code == 0
    assert state(path) == before
    path.chmod(0o600)


def test_importing_has_no_side_effects(tmp_path: Path) -> None:
    """Without a home, in an empty folder: nothing is made."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")
    }
    program = "import turnlog; [getattr(turnlog, name) for name in turnlog.__all__]"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


_UNPRIVILEGED = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # drop CAP_DAC_OVERRIDE, by which root writes where it must not
os.execv(sys.argv[1], sys.argv[1:])
"""
_TRY = """
import json, sys
import turnlog
from turnlog.projections import rebuild
from turnlog.replay import anchor, backup, redact, sweep
path, old, place = sys.argv[1:]
told = {}

def attempt(verb, action):
    try:
        action()
    except turnlog.TurnlogError as error:
        told[verb] = [type(error).__name__, str(error)]
    else:
        told[verb] = None

with turnlog.open(path, read_only=True) as log:
    attempt("redact", lambda: redact(log, key="k", reason="asked for", by="dpo"))
    attempt("redact by name", lambda: redact(log, name="k", reason="asked for", by="dpo"))
    attempt("sweep", lambda: sweep(log))
    attempt("rebuild", lambda: rebuild(log))
    attempt("anchor", lambda: anchor(log, f"{place}/team.anchor"))
    attempt("backup", lambda: backup(log, f"{place}/copy.db"))
attempt("open", lambda: turnlog.open(path))
attempt("migrate", lambda: turnlog.open(old))
attempt("read an old file", lambda: list(turnlog.open(old, read_only=True).read()))
print(json.dumps(told))
"""


def test_every_verb_says_that_it_cannot_write(tmp_path: Path) -> None:
    """Whatever would write gives an error of ours that names the file; nothing is left, nothing changes."""
    place = tmp_path / "archive"
    place.mkdir()
    path, old = place / "team.db", place / "old.db"
    shutil.copy(OLD, old)
    with turnlog.open(path) as log:
        EventSourcedStore(log).set("k", "1")
    for each in (path, old):
        each.chmod(0o444)
    place.chmod(0o555)
    before = {each: state(each) for each in place.iterdir()}
    command = [sys.executable, "-c", _UNPRIVILEGED, sys.executable, "-c", _TRY, path, old, place]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    place.chmod(0o755)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("read an old file") is None
    written = {"anchor": place / "team.anchor", "backup": place / "copy.db", "migrate": old}
    for verb, found in told.items():
        assert found is not None, verb
        assert found[0] == "StorageError", verb
        assert str(written.get(verb, path)) in found[1], verb
    assert {each: state(each) for each in place.iterdir()} == before
    path.chmod(0o600)


@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["to write", "to read"])
def test_a_folder_that_is_missing(tmp_path: Path, options: dict[str, Any]) -> None:
    """It is not made, and the error names the path."""
    path = tmp_path / "missing" / "team.db"
    with pytest.raises(StorageError) as caught:
        turnlog.open(path, **options)
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []
