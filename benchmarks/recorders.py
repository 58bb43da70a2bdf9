"""Event stores of others, each as fast as it can be driven: by threads, since both wait in native code."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from .logs import VALUE, Asked

__all__ = ["EventSourcing", "UmaDB"]


class EventSourcing:
    """The SQLite recorder of pyeventsourcing: one event, one transaction; synchronous=FULL, its default.

    Args:
        path: the file.
        writers: how many threads write; each has a stream of its own, so that none is refused.
    """

    def __init__(self, path: Path, writers: int) -> None:
        from eventsourcing.persistence import StoredEvent
        from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

        self._event = StoredEvent
        self._datastore = SQLiteDatastore(str(path), max_overflow=writers, pool_timeout=30, lock_timeout=30)
        self._recorder = SQLiteApplicationRecorder(self._datastore)
        self._recorder.create_table()
        self._streams = [(uuid.uuid4(), [0]) for _ in range(writers)]

    def append(self, writer: int, asked: Asked) -> None:
        """Record one write."""
        name, metadata = asked
        stream, version = self._streams[writer]
        version[0] += 1
        state = json.dumps({"key": name, "value": VALUE, "metadata": metadata}).encode()
        self._recorder.insert_events([self._event(stream, version[0], "memory:EntryWritten", state)])

    def close(self) -> None:
        """Release the file."""
        self._datastore.close()


# The server ends when its standard input does, so that it cannot outlive the process that started it.
_SERVE = """
import os, sys, threading
import umadb

def watch():
    sys.stdin.read()
    os._exit(0)

threading.Thread(target=watch, daemon=True).start()
umadb.run_server_from_args(sys.argv)
"""


class UmaDB:
    """UmaDB's server in a process of its own, on a free port of the loopback interface; it flushes always."""

    def __init__(self, path: Path) -> None:
        import umadb

        self._event = umadb.Event
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        command = [sys.executable, "-c", _SERVE, "--listen", address, "--db-path", str(path)]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            self._client = self._connect(f"http://{address}")
        except BaseException:
            self._stop()
            raise

    def append(self, writer: int, asked: Asked) -> None:  # noqa: ARG002 - all share one connection
        """Record one write; the key is its tag, by which it can be found."""
        name, metadata = asked
        self._client.append([self._event("EntryWritten", VALUE.encode(), [name], None, metadata)])

    def close(self) -> None:
        """Stop the server."""
        self._client.close()
        self._stop()

    def _connect(self, url: str) -> Any:
        import umadb

        deadline = time.monotonic() + 20
        while True:
            try:
                client = umadb.Client(url)
                client.check_health()
            except umadb.TransportError:
                if self._server.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return client

    def _stop(self) -> None:
        self._server.terminate()
        try:
            self._server.wait(10)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait(10)
        if self._server.stdin is not None:
            self._server.stdin.close()
