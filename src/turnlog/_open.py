"""Opening a log the usual way: with the projection that stores read."""

from __future__ import annotations

import os
from typing import Literal

from turnlog.eventlog import EventLog, Limits
from turnlog.projections import EntriesProjection

__all__ = ["open"]


def open(  # noqa: A001 - `turnlog.open`, as `io.open` and `dbm.open`
    path: str | os.PathLike[str],
    *,
    durability: Literal["disk", "os"] = "disk",
    busy_timeout_s: float = 5.0,
    read_only: bool = False,
    create: bool = True,
    limits: Limits | None = None,
) -> EventLog:
    """Open the log at `path`; make it, with mode 0600, if it is missing.

    Args:
        path: one file; its folder must exist. While it is open SQLite keeps `<path>-wal` and `<path>-shm`
            beside it.
        durability: what an acknowledged write has survived: `"disk"` (default) a power cut, because it was
            flushed; `"os"` a killed process only, several times faster.
        busy_timeout_s: seconds to wait for another writer before `Busy`.
        read_only: open to read; the file must exist and is not changed. In a place where nothing may be
            written, as a folder of somebody else's, it is read as it lies, without locks
            (`EventLog.as_it_lies`): every read looks anew, but what is written while one is under way it
            does not see, and may fail on.
        create: make the file if it is missing.
        limits: sizes above which a command is refused; see `Limits`.

    Raises:
        TypeError, ValueError: an argument that cannot be.
        StorageError: missing, a folder, or not to be opened or created.
        NotOurs, TooNew, Corrupt: not a file this build can work with; it is left untouched.
        Busy: another process kept the lock while the file was being prepared.
    """
    return EventLog(
        path,
        projections=(EntriesProjection(),),
        durability=durability,
        busy_timeout_s=busy_timeout_s,
        read_only=read_only,
        create=create,
        limits=limits,
    )
