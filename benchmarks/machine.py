"""Where and with what a figure was taken."""

from __future__ import annotations

import datetime as dt
import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from turnlog.eventlog.driver import driver

__all__ = ["stamp"]

PEERS = ("diskcache", "langgraph-checkpoint-sqlite", "eventsourcing", "umadb")


def stamp() -> str:
    """Date, machine, its load and the versions of everything, for the head of a report."""
    import sqlite3

    now = dt.datetime.now(dt.UTC)
    load = f", load average {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return (
        f"{now:%Y-%m-%d %H:%M} UTC; {os.cpu_count()} cores ({_processor()}), {platform.system()} "
        f"{platform.release()} {platform.machine()}{load}. turnlog {version('turnlog')}, "
        f"CPython {platform.python_version()}, SQLite {driver().sqlite_version} ({driver().__name__}) for "
        f"turnlog and the bare loop, {sqlite3.sqlite_version} (sqlite3) for the others; {_peers()}."
    )


def _peers() -> str:
    found: list[str] = []
    for name in PEERS:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found) or "no peers installed"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"
