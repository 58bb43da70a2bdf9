"""What surrounds a log: the SQLite that reads it, its settings, its file. Nothing here changes anything."""

from __future__ import annotations

import platform
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..eventlog import Corrupt, EventLog
from ..eventlog.driver import Connection, driver
from ..eventlog.files import companions, own_file
from ..eventlog.schema import SCHEMA_VERSION
from ..projections import EntriesProjection
from .verification import schema_problems

__all__ = ["Finding", "examine", "has_reset_race"]

Level = Literal["fine", "warning", "wrong"]

_LARGE_WAL = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes:
        what: its name.
        value: what was found.
        level: `fine`; `warning`: works, but could be better; `wrong`: must not stay so.
        advice: what to do, unless it is fine.
    """

    what: str
    value: str
    level: Level = "fine"
    advice: str = ""


def examine(log: EventLog) -> Iterator[Finding]:
    """Look at everything, quick things first; `turnlog verify` is what reads the events."""
    yield _sqlite()
    with log.reading() as db:
        yield _journal(db)
        yield Finding("durability", _durability(log))
        yield Finding("format", f"version {_pragma(db, 'user_version')}")
        yield from _file(db, own_file(log.path))
    yield _guarded(log, "schema", _schema)
    yield _guarded(log, "projection", _projection)
    yield _guarded(log, "integrity", _integrity)


def _durability(log: EventLog) -> str:
    """What a write through `turnlog.open` promises here; a program may ask for less."""
    if log.durability == "os":
        return "os: a write survives a killed process, not a power cut"
    who = "turnlog flushes after each commit" if log.flushes_itself else "SQLite flushes within each commit"
    return f"disk: a write returns once it is flushed and survives a power cut ({who})"


def has_reset_race(version: tuple[int, ...]) -> bool:
    """Whether this SQLite can lose a commit when a WAL file is reset while another connection checkpoints it.

    Mended in 3.51.3, and in 3.50.7 and 3.44.6 for those who stay on these (https://www.sqlite.org/wal.html).
    """
    mended: dict[tuple[int, ...], int] = {(3, 50): 7, (3, 44): 6}
    if version[:2] in mended:
        return version[2] < mended[version[:2]]
    return version < (3, 51, 3)


def _sqlite() -> Finding:
    module = driver()
    version: tuple[int, ...] = module.sqlite_version_info
    value = f"{module.sqlite_version}, by {module.__name__}, Python {platform.python_version()}"
    if has_reset_race(version):
        advice = (
            "with several connections a commit can be lost in a rare race while the WAL file is reset; "
            "use SQLite 3.51.3 or newer, which the package pysqlite3 brings where it has wheels"
        )
        return Finding("sqlite", value, "warning", advice)
    return Finding("sqlite", value)


def _journal(db: Connection) -> Finding:
    mode = str(_pragma(db, "journal_mode"))
    if mode != "wal":
        return Finding("journal", mode, "warning", "it should be wal; opening the log to write sets it")
    return Finding("journal", mode)


def _file(db: Connection, path: Path) -> Iterator[Finding]:
    facts = path.stat()
    wal, *_ = companions(path)
    yield Finding("size", _bytes(facts.st_size))
    yield _wal_size(wal.stat().st_size if wal.exists() else 0)
    free, page = _pragma(db, "freelist_count"), _pragma(db, "page_size")
    yield Finding("free pages", f"{free:,} ({_bytes(free * page)})")
    mode = stat.S_IMODE(facts.st_mode)
    if mode & 0o077:
        who = " and ".join(name for name, bits in (("its group", 0o070), ("others", 0o007)) if mode & bits)
        yield Finding(
            "permissions",
            f"{mode:04o}",
            "warning",
            f"{who} can get at what agents wrote; if that is not meant: chmod 600, also for -wal and -shm",
        )
    else:
        yield Finding("permissions", f"{mode:04o}")
    yield _folder(path.parent)


def _folder(folder: Path) -> Finding:
    """Whoever can write the folder can put another file in the log's place."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o022 and not mode & stat.S_ISVTX:
        who = " and ".join(name for name, bit in (("its group", 0o020), ("others", 0o002)) if mode & bit)
        advice = (
            f"{who} can put another file in the place of the log; if that is not meant: chmod go-w {folder}"
        )
        return Finding("folder", f"{mode:04o}", "warning", advice)
    return Finding("folder", f"{mode:04o}")


def _wal_size(size: int) -> Finding:
    if size > _LARGE_WAL:
        advice = (
            "a reader that never ends, or a backup under way, keeps it from being moved into the file; "
            "it shrinks when the last program closes the log"
        )
        return Finding("wal size", _bytes(size), "warning", advice)
    return Finding("wal size", _bytes(size))


def _schema(db: Connection) -> Finding:
    found = [problem.what for problem in schema_problems(db)]
    if found:
        advice = (
            "somebody altered the file. `turnlog rebuild` mends the live table; for the rest, if the events "
            "verify, `turnlog export` and `import` make a whole file; else restore a backup"
        )
        return Finding("schema", "; ".join(found), "wrong", advice)
    if _pragma(db, "user_version") != SCHEMA_VERSION:
        return Finding("schema", "older, and whole; opening the log to write lifts it")
    return Finding(
        "schema", "whole: every table, index, view and append-only guard is as turnlog declares it"
    )


def _projection(db: Connection) -> Finding:
    present = EntriesProjection()
    query = "select version, stale_from from projections where name = ?"
    state = db.execute(query, (present.name,)).fetchone()
    if state is None or state[0] != present.version:
        found = "not there yet" if state is None else f"version {state[0]}, this build has {present.version}"
    elif state[1] is not None:
        (behind,) = db.execute("select count(*) from events where position >= ?", (state[1],)).fetchone()
        found = f"stale from position {state[1]} on: it lacks {behind:,} event{'' if behind == 1 else 's'}"
    else:
        return Finding("projection", "in step with the log")
    return Finding("projection", found, "warning", "opening the log to write brings it into step")


def _integrity(db: Connection) -> Finding:
    lines = [line for (line,) in db.execute("pragma quick_check(3)").fetchall()]
    if lines == ["ok"]:
        return Finding("integrity", "the quick check found nothing")
    return Finding("integrity", "; ".join(lines), "wrong", "the file is damaged; restore it from a backup")


def _guarded(log: EventLog, what: str, look: Callable[[Connection], Finding]) -> Finding:
    try:
        with log.reading() as db:
            return look(db)
    except Corrupt as error:
        return Finding(what, str(error), "wrong", "restore the file from a backup")


def _pragma(db: Connection, name: str) -> int:
    return db.execute(f"pragma {name}").fetchone()[0]


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
