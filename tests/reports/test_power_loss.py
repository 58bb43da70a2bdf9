"""A write was acknowledged and is gone after a power cut, since nobody had asked for a flush.

`tests/crash/test_power_cut.py` replays power cuts; `tests/eventlog/test_connections.py` looks at the settings
of every connection.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnlog
from turnlog import EventSourcedStore
from turnlog.eventlog.driver import driver
from turnlog.replay.cli import turnlog as command_line

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere SQLite flushes inside COMMIT")
@pytest.mark.parametrize(("options", "flushed"), [({}, True), ({"durability": "os"}, False)])
def test_an_acknowledgement_is_flushed_as_promised(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, flushed: bool
) -> None:
    """By default each write is flushed before it returns; with "os" none is."""
    flushes: list[int] = []
    flush = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: (flushes.append(descriptor), flush(descriptor)))
    with turnlog.open(path, **options) as log:
        store = EventSourcedStore(log)
        for number in range(3):
            before = len(flushes)
            store.set("k", str(number))
            assert (len(flushes) > before) == flushed


def test_the_command_line_promises_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a verb writes is flushed too, and `doctor` says which SQLite runs and what a write promises."""
    with turnlog.open(path) as log:
        EventSourcedStore(log).set("k", "v")
    flushes: list[int] = []
    flush = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: (flushes.append(descriptor), flush(descriptor)))
    assert CliRunner().invoke(command_line, ["restore", str(path), "--at", "0"]).exit_code == 0
    assert flushes or sys.platform != "linux"
    told = CliRunner().invoke(command_line, ["doctor", str(path)]).stdout
    assert driver().sqlite_version in told
    assert "survives a power cut" in told


def test_the_promise_and_its_limits_are_written_down() -> None:
    """README and docs/reliability.md say what a returned write means, and where it does not hold."""
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "What an acknowledged write promises" in readme
    assert "Network shares are not supported" in readme
    limits = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    assert "3.51.3" in limits
