"""A save that was interrupted leaves half a file, and the next start begins empty.

`tests/crash/test_kills.py` does this to every operation, in 240 rounds; here it is seen as a user sees it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, SharedMemory, Write

_WORK = """
import itertools, sys, turnlog
with turnlog.open(sys.argv[1]) as log:
    memory = turnlog.SharedMemory(turnlog.EventSourcedStore(log))
    snapshot = memory.snapshot()
    for number in itertools.count():
        memory.write("a", "k", number)
        memory.compare_and_set("a", "k", number, [number])
        memory.restore(snapshot)
        print(number, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_start_goes_on(path: Path, start: Callable[..., Any], number: signal.Signals) -> None:
    """Everything that was acknowledged is in the history, and the memory is one that was."""
    worker = start(_WORK, path)
    done = [int(worker.stdout.readline()) for _ in range(15)][-1]
    worker.send_signal(number)
    worker.wait(30)
    with turnlog.open(path) as log:
        written = [
            each.event.value
            for each in turnlog.Timeline(log).history("a/k")
            if isinstance(each.event, turnlog.eventlog.EntryWritten)
        ]
        for each in range(done + 1):
            assert written[2 * each : 2 * each + 2] == [str(each), f"[{each}]"]
        entry = SharedMemory(EventSourcedStore(log)).read("a/k")
        assert entry is None or entry.value in (done + 1, [done + 1], done + 2)


def test_an_export_is_replaced_whole(path: Path, tmp_path: Path) -> None:
    """Whenever the export is killed, under its name lies the old one or the new one."""
    with turnlog.open(path, durability="os") as log:
        log.execute([Write(f"k{number}", "v" * 100) for number in range(3000)], run="main")
    target = tmp_path / "team.jsonl"
    target.write_text("the old one")
    command = [sys.executable, "-m", "turnlog", "export", str(path), "-o", str(target), "--force"]
    export = subprocess.Popen(command)
    while export.poll() is None and not list(tmp_path.glob("*.partial")):
        pass
    assert export.poll() is None, "it had ended before it could be killed"
    export.kill()
    export.wait(30)
    if target.read_text("utf-8") != "the old one":
        last = json.loads(target.read_text("utf-8").splitlines()[-1])
        assert (last["kind"], last["events"]) == ("end", 3000)
    for left in tmp_path.glob("*.partial"):
        left.unlink()
    subprocess.run(command, check=True, timeout=60)
    assert len(target.read_text("utf-8").splitlines()) > 3000
