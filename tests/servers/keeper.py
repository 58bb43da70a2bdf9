"""Keeps a server for as long as somebody holds the other end of this process's standard input.

    keeper.py FOLDER USER COMMAND...

Runs COMMAND in FOLDER, as USER if that is not empty. Prints `ready`, or `failed` and what the server said.
When standard input ends, because it was closed or because whoever held it is gone, however that came about,
the server is stopped and FOLDER removed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from typing import IO, Any

PATIENCE_S = 15


def main(folder: str, user: str, *command: str) -> None:
    """See the module."""
    identity: dict[str, Any] = {"user": user, "extra_groups": []} if user else {}
    server = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **identity,
    )
    assert server.stdout is not None
    threading.Thread(target=watch, args=(server.stdout,), daemon=True).start()
    try:
        sys.stdin.read()
    finally:
        stop(server)
        shutil.rmtree(folder, ignore_errors=True)


def watch(output: IO[str]) -> None:
    """Tell when the server is ready, and read on, so that it is never held up by a full pipe."""
    said: deque[str] = deque(maxlen=20)
    for line in output:
        said.append(line)
        if "ready to accept connections" in line.lower():
            print("ready", flush=True)
    print("failed", "".join(said).replace("\n", " | "), flush=True)


def stop(server: subprocess.Popen[str]) -> None:
    """End the server: gently, for PostgreSQL without waiting for clients, and if need be by force."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
