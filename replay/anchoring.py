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

from ..eventlog import BadAnchor, Busy, EventLog, StorageError
from ..eventlog.driver import Connection
from ..eventlog.files import belongs_to, companions, flush_folder, own_file
from ..eventlog.text import read_text
from .anchors import Anchor, AnchoredHead, AnchorFile, Standing, contradictions, last_anchor, line_of

__all__ = ["anchor", "read_anchor", "standing"]

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

    The file is made with mode 0600 if it is missing, and flushed before this returns. Half a line at its end,
    which an interrupted call left, is taken away. Keep it where whoever
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
        Busy: somebody else held the file, or the log, for longer than the log's `busy_timeout_s`.
        OutcomeUnknown: the file was made, but whether a power cut would spare its name cannot be told.
    """
    target = Path(os.path.realpath(path))
    if belongs_to(target, log.path):  # opening and closing it would let go of SQLite's locks on it
        raise StorageError(f"{target} belongs to the log itself; keep the anchor in another file")
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    with _held(target, flags, fcntl.LOCK_EX, log.busy_timeout_s) as file:
        read = last_anchor(_content(file), str(target))
        newest = read.newest
        when = datetime.fromtimestamp(clock_s(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        with log.reading() as db:
            db.execute("begin")
            try:
                if newest is not None:
                    _refuse_what_contradicts(newest, db, f"{target}: nothing was appended, since {log.path}")
                made = _anchor(db, 1 if newest is None else newest.counter + 1, read.previous, when)
            finally:
                db.execute("rollback")
        _flush(log)
        _append(file, line_of(made), read, target)
    return made


def read_anchor(path: str | os.PathLike[str], *, busy_timeout_s: float = 5.0) -> Anchor:
    """The last line of an anchor file, all its lines having been checked.

    Raises:
        BadAnchor: the file was damaged or cut off, is empty, or holds half a line that an interrupted
            `anchor` left; the next `anchor` takes that away.
        Busy: somebody else held it for longer than `busy_timeout_s`.
        StorageError: it cannot be read.
    """
    target = Path(path).absolute()
    with _held(target, os.O_RDONLY, fcntl.LOCK_SH, busy_timeout_s) as file:
        content = _content(file)
    read = last_anchor(content, str(target))
    if read.size < len(content) or not read.ended:
        number = content.count(b"\n") + 1
        raise BadAnchor(
            f"{target}, line {number}: the line has no end: an interrupted `turnlog anchor` left it, or the "
            "file was cut off. The next `turnlog anchor` goes on from the last whole line"
        )
    if read.newest is None:
        raise BadAnchor(f"{target} is empty: there is no anchor in it")
    return read.newest


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


def _flush(log: EventLog) -> None:
    """Let what was just read survive a power cut: a reader may see a commit a moment before it is flushed."""
    with suppress(FileNotFoundError):  # the WAL goes only when all of it is in the file, and flushed
        wal = os.open(companions(own_file(log.path))[0], os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(wal)
        finally:
            os.close(wal)


@contextmanager
def _held(target: Path, flags: int, lock: int, busy_timeout_s: float) -> Generator[int]:
    """The file, nobody else adding to it meanwhile; one that was made for this goes again if it fails."""
    try:
        file, made = _locked(target, flags, lock, busy_timeout_s)
        try:
            yield file
        except BaseException:
            if made and os.fstat(file).st_size == 0:
                target.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
    except OSError as error:
        raise StorageError(f"{target}: {error.strerror or error}") from error


def _locked(target: Path, flags: int, lock: int, busy_timeout_s: float) -> tuple[int, bool]:
    """The file, open and locked, and whether it was made."""
    deadline = time.monotonic() + busy_timeout_s
    while True:
        file, made = _opened(target, flags)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise StorageError(f"{target} is not a file; an anchor is kept in one")
            while not _is_taken(file, lock):
                if time.monotonic() > deadline:
                    raise Busy(
                        f"{target}: somebody else held it for more than {busy_timeout_s:g} s; try again"
                    )
                time.sleep(0.005)
            with suppress(FileNotFoundError):
                if os.path.samestat(target.stat(), os.fstat(file)):
                    return file, made
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # whoever had it has removed it, since nothing was written


def _opened(target: Path, flags: int) -> tuple[int, bool]:
    flags |= os.O_NONBLOCK | os.O_CLOEXEC  # nobody may ever come to the other end of a named pipe
    if flags & os.O_CREAT:
        with suppress(FileExistsError):
            return os.open(target, flags | os.O_EXCL, 0o600), True
    return os.open(target, flags, 0o600), False


def _is_taken(file: int, lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(file, lock | fcntl.LOCK_NB)
        return True
    return False


def _content(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as whole:
        whole.seek(0)
        return whole.read()


def _append(file: int, line: bytes, read: AnchorFile, target: Path) -> None:
    """Add the whole line behind what counts of the file, and flush it; or leave what counts as it was."""
    before = read.size
    try:
        os.ftruncate(file, before)
        rest = memoryview(line if read.ended else b"\n" + line)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except BaseException:
        os.ftruncate(file, before)
        raise
    if before == 0:
        flush_folder(target)
