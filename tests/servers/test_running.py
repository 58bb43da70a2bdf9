"""The servers that tests start are stopped whatever happens, and leave nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.servers

HERE = Path(__file__).parent

# Starts a server, says where it is, and waits until it is killed.
HOLD = """
import sys
from running import {server}
with {server}() as address:
    print(address, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder that another user may enter, with a short path."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.mark.parametrize("server", ["valkey", "postgres"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, None], ids=["killed", "interrupted", "done"])
def test_nothing_is_left_behind(server: str, end: signal.Signals | None, place: Path) -> None:
    """Server and folder are gone, whether a run ends, is interrupted or is killed."""
    env = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(HERE)}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(server=server)],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,  # which the keeper and the server have too
        text=True,
    )
    assert holder.stdout is not None
    address = holder.stdout.readline()
    folder = re.search(r"/\S*turnlog-\w+", address)
    assert folder is not None, holder.communicate()
    assert list(place.iterdir()) == [Path(folder[0])]
    if end is not None:
        holder.send_signal(end)
    holder.communicate(timeout=60)  # ends when the last of them has let go of standard error
    assert list(place.iterdir()) == []
