"""What else keeps an agent's memory in SQLite, each with the driver and the settings it has by itself.

Only the durability is made the same: `disk` is synchronous=FULL, `os` is NORMAL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .logs import VALUE, Asked

__all__ = ["DiskCache", "LangGraph"]


class DiskCache:
    """`diskcache.Cache`; the agent goes in as the tag, which is what it has for metadata."""

    def __init__(self, folder: Path, durability: str) -> None:
        import diskcache

        self._cache: Any = diskcache.Cache(str(folder), sqlite_synchronous=2 if durability == "disk" else 1)

    def set(self, asked: Asked) -> None:
        """Write one key."""
        name, metadata = asked
        self._cache.set(name, VALUE, tag=metadata["agent"])

    def get(self, name: str) -> object:
        """Read one key."""
        return self._cache.get(name, tag=True)

    def close(self) -> None:
        """Release the files."""
        self._cache.close()


class LangGraph:
    """LangGraph's `SqliteStore`, on a connection as its own `from_conn_string` makes it, but in WAL mode.

    Args:
        durability: None leaves the connection as it is made: with a rollback journal, and FULL.
    """

    def __init__(self, path: Path, durability: str | None) -> None:
        import sqlite3

        from langgraph.store.sqlite import SqliteStore

        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        if durability is not None:
            self._db.execute("pragma journal_mode = wal").fetchone()
            self._db.execute(f"pragma synchronous = {'full' if durability == 'disk' else 'normal'}")
        self._store: Any = SqliteStore(self._db)
        self._store.setup()

    def set(self, asked: Asked) -> None:
        """Write one key."""
        name, metadata = asked
        self._store.put(("bench",), name, {"value": VALUE, "metadata": metadata})

    def get(self, name: str) -> object:
        """Read one key."""
        return self._store.get(("bench",), name)

    def close(self) -> None:
        """Release the file."""
        self._db.close()
