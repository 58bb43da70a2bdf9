"""Writing an anchor of a log to a file, and reading it back. Processes that do so at once take turns."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from ..eventlog import BadAnchor, EventLog, StorageError
from ..eventlog.driver import Connection
from ..eventlog.text import read_text
from .anchors import Anchor, AnchoredHead, Standing, contradictions, last_anchor, line_of

__all__ = ["anchor", "read_anchor", "standing"]

_COMPANIONS = ("", "-wal", "-shm", "-journal")
_HEADS = """
select runs.uid, names.text, events.revision, events.hash
from runs join names on names.id = runs.name
join events on events.run = runs.id and events.revision =
    (select max(revision) from events where run = runs.id)
order by runs.id
"""
_COUNT = "select count(*) from events"
_HASHES = "select hash from events where position <= ? order by position"
_FOUND = """
select (select max(revision) from events where run = runs.id),
    (select hash from events where run = runs.id and revision = ?)
from runs where uid = ?
"""
_RUNS = "select uid, coalesce((select max(revision) from events where run = runs.id), 0) from runs"


def anchor(
    log: EventLog, path: str | os.PathLike[str], *, clock_s: Callable[[], float] = time.time
) -> Anchor:
    """Append to the file at `path` what `log` has come to: the newest event of each run, and their order.

    The file is made with mode 0600 if it is missing, and flushed before this returns. Keep it where whoever
    can write the log cannot write it; `verify(log, anchor=path)` then notices what no log can tell of itself.

    Args:
        log: an open log.
        path: the anchor file, of this log alone.
        clock_s: seconds since 1970, for the line's date; to be replaced in tests only.

    Returns:
        The line that was appended.

    Raises:
        BadAnchor: the file was damaged, or the log is not one that went on from its last line; nothing was
            appended.
        StorageError: the file cannot be read or written, or belongs to the log itself.
    """
    target = Path(path).absolute()
    _refuse_the_log(log, target)
    with _open_alone(target, os.O_RDWR | os.O_CREAT | os.O_APPEND, fcntl.LOCK_EX) as file:
        newest, previous = last_anchor(_content(file), str(target))
        when = datetime.fromtimestamp(clock_s(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with log.reading() as db:
            db.execute("begin")
            try:
                if newest is not None:
                    _refuse_what_contradicts(newest, db, f"{target}: nothing was appended, since {log.path}")
                made = _anchor(db, 1 if newest is None else newest.counter + 1, previous, when)
            finally:
                db.execute("rollback")
        _flush(log)
        _append(file, line_of(made), target)
    return made


def read_anchor(path: str | os.PathLike[str]) -> Anchor:
    """The last line of an anchor file, all its lines having been checked.

    Raises:
        BadAnchor: the file was damaged, cut off, or is empty.
        StorageError: it cannot be read.
    """
    target = Path(path).absolute()
    with _open_alone(target, os.O_RDONLY, fcntl.LOCK_SH) as file:
        newest, _ = last_anchor(_content(file), str(target))
    if newest is None:
        raise BadAnchor(f"{target} is empty: there is no anchor in it")
    return newest


def standing(db: Connection, expected: Anchor) -> Standing:
    """What the log holds of that which `expected` asks for; `db` must see one moment of it."""
    (events,) = db.execute(_COUNT).fetchone()
    runs: dict[str, tuple[int, bytes | None]] = {uid: (newest, None) for uid, newest in db.execute(_RUNS)}
    for head in expected.heads:
        found = db.execute(_FOUND, (head.revision, head.uid)).fetchone()
        if found is not None:
            runs[head.uid] = (found[0] or 0, found[1])
    order = None if events < expected.events else _order(db, expected.events)
    return Standing(events, order, runs)


def _anchor(db: Connection, counter: int, previous: str, when: str) -> Anchor:
    (events,) = db.execute(_COUNT).fetchone()
    heads = tuple(AnchoredHead(uid, read_text(name), *rest) for uid, name, *rest in db.execute(_HEADS))
    return Anchor(counter, previous, when, events, _order(db, events), heads)


def _order(db: Connection, events: int) -> str:
    """The hash over the hashes of the first `events` events."""
    digest = sha256()
    for (each,) in db.execute(_HASHES, (events,)):
        digest.update(each)
    return digest.hexdigest()


def _refuse_what_contradicts(newest: Anchor, db: Connection, what: str) -> None:
    wrong = next(contradictions(newest, standing(db, newest)), None)
    if wrong is not None:
        raise BadAnchor(f"{what} contradicts it: {wrong}")


def _refuse_the_log(log: EventLog, target: Path) -> None:
    """Opening and closing a file of the log would let go of SQLite's locks on it."""
    for ending in _COMPANIONS:
        with suppress(OSError):
            if target.samefile(os.path.realpath(log.path) + ending):
                raise StorageError(f"{target} belongs to the log itself; keep the anchor in another file")


def _flush(log: EventLog) -> None:
    """Let what was just read survive a power cut: a reader may see a commit a moment before it is flushed."""
    with suppress(FileNotFoundError):  # the WAL goes only when all of it is in the file, and flushed
        wal = os.open(f"{os.path.realpath(log.path)}-wal", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(wal)
        finally:
            os.close(wal)


@contextmanager
def _open_alone(target: Path, flags: int, lock: int) -> Generator[int]:
    """The file, nobody else adding to it meanwhile."""
    try:
        file = os.open(target, flags | os.O_CLOEXEC, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise StorageError(f"{target} is not a file; an anchor is kept in one")
            fcntl.flock(file, lock)
            yield file
        finally:
            os.close(file)
    except OSError as error:
        raise StorageError(f"{target}: {error.strerror or error}") from error


def _content(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as whole:
        whole.seek(0)
        return whole.read()


def _append(file: int, line: bytes, target: Path) -> None:
    """Add the whole line and flush it, or leave the file as it was."""
    before = os.fstat(file).st_size
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except BaseException:
        os.ftruncate(file, before)
        raise
    if before == 0:
        folder = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
