"""How a log connects: what every connection promises, and what reading leaves alone."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import Busy, Closed, EventLog, NotOurs, OutcomeUnknown, StorageError, Write
from turnlog.eventlog.driver import driver

_FULL, _NORMAL = 2, 1
# On Linux we flush the WAL ourselves after the commit, when the lock is free again; SQLite then need not.
_DISK = _NORMAL if sys.platform == "linux" else _FULL
_FLUSHED_BY_US = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere SQLite flushes inside COMMIT (synchronous=FULL)"
)


@pytest.fixture
def connections(path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """One connection of each kind that a log of the given options uses."""
    with ExitStack() as stack:

        def connections(**options: Any) -> dict[str, Any]:
            with EventLog(path):
                pass
            log = stack.enter_context(EventLog(path, **options))
            found = {"first reader": stack.enter_context(log.reading())}
            found["second reader"] = stack.enter_context(log.reading())
            if not log.read_only:
                log.transact(lambda db: found.update(writer=db))
            return found

        yield connections


@pytest.mark.parametrize(
    ("options", "synchronous"),
    [
        pytest.param({}, _DISK, id="default"),
        pytest.param({"durability": "disk"}, _DISK, id="disk"),
        pytest.param({"durability": "os"}, _NORMAL, id="os"),
        pytest.param({"read_only": True}, _DISK, id="read only"),
    ],
)
def test_every_connection_keeps_the_promises(
    connections: Callable[..., dict[str, Any]], options: dict[str, Any], synchronous: int
) -> None:
    """Each works in WAL mode, flushes as asked, erases what it deletes, and trusts no schema."""
    for kind, db in connections(**options).items():
        settings = {
            name: db.execute(f"pragma {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete", "fullfsync", "trusted_schema")
        }
        assert settings == {
            "journal_mode": "wal",
            "synchronous": synchronous,
            "secure_delete": 1,
            "fullfsync": 1,
            "trusted_schema": 0,
        }, kind


@_FLUSHED_BY_US
@pytest.mark.parametrize("through", ["the file itself", "a symbolic link"])
@pytest.mark.parametrize(("durability", "flushed"), [("disk", True), ("os", False)])
def test_an_acknowledged_write_has_been_flushed(
    path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any, flushed: bool, through: str
) -> None:
    """With "disk" the WAL is flushed between the commit and the return of every write, with "os" not."""
    opened = path
    if through == "a symbolic link":
        opened = path.with_name("link.db")
        opened.symlink_to(path)
        path.touch()
    flushes: list[tuple[int, int]] = []
    flush = os.fdatasync

    def recorded(descriptor: int) -> None:
        found = os.fstat(descriptor)
        with EventLog(path, read_only=True) as reader:  # what is being flushed has been committed
            head = reader.head("main")
        flushes.append((found.st_ino, head.position if head else 0))
        flush(descriptor)

    with EventLog(opened, durability=durability) as log:
        monkeypatch.setattr(os, "fdatasync", recorded)
        for number in range(1, 4):
            log.execute([Write("k", str(number))], run="main")
            wal = path.with_name(f"{path.name}-wal").stat().st_ino
            assert flushes[-1:] == ([(wal, number)] if flushed else [])


@_FLUSHED_BY_US
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_a_log_that_was_never_closed_leaves_no_file_open(path: Path) -> None:
    """When nobody holds it any more, what it had open is closed, the WAL it flushes included."""
    descriptors = Path("/proc/self/fd")
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
    gc.collect()
    before = {number.name for number in descriptors.iterdir()}
    for _ in range(3):
        log = EventLog(path)
        log.execute([Write("k", "v")], run="main")
        del log
        gc.collect()
    left = {number.name for number in descriptors.iterdir()} - before
    assert [name for name in left if path.name in os.path.realpath(descriptors / name)] == []


@_FLUSHED_BY_US
def test_a_log_closed_under_readers_leaves_no_file_open(path: Path) -> None:
    """Threads that read without a pause are refused from then on; what they had borrowed is closed too."""

    def read_on(log: EventLog) -> None:
        while True:
            assert log.ask("select count(*) > 0 from events", ()) == [(1,)]

    for _ in range(20):
        log = EventLog(path, durability="os")
        log.execute([Write("k", "v")], run="main")
        begun = threading.Barrier(4, timeout=30)

        def read(log: EventLog = log, begun: threading.Barrier = begun) -> None:
            log.ask("select 1", ())
            begun.wait()
            with pytest.raises(Closed):
                read_on(log)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun.wait()
        log.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        descriptors = Path("/proc/self/fd")
        open_files = [os.path.realpath(descriptors / number.name) for number in descriptors.iterdir()]
        assert [name for name in open_files if path.name in name] == []


@_FLUSHED_BY_US
def test_a_flush_that_fails_leaves_the_outcome_open_and_ends_writing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is told that nobody can tell, further writes are refused, and opening again helps."""

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with EventLog(path) as log:
        log.execute([Write("k", "before")], run="main")
        monkeypatch.setattr(os, "fdatasync", failing)
        with pytest.raises(OutcomeUnknown, match="could not be flushed"):
            log.execute([Write("k", "perhaps")], run="main")
        monkeypatch.undo()
        with pytest.raises(StorageError, match="open the log again"):
            log.execute([Write("k", "refused")], run="main")
    with EventLog(path) as log:
        log.execute([Write("k", "after")], run="main")
        values = [recorded.event.value for recorded in log.read(key="k")]
        assert values == ["before", "perhaps", "after"]


_IOERR_FSYNC = 10 | 4 << 8


def test_a_flush_that_fails_inside_commit_leaves_the_outcome_open(path: Path) -> None:
    """Where SQLite flushes by itself, only a commit can be left open so; no other statement can."""
    error = driver().OperationalError("disk I/O error")
    error.sqlite_errorcode = _IOERR_FSYNC

    class Device:
        """A connection to a device that does not flush."""

        def execute(self, statement: str) -> None:
            """Fail as SQLite does."""
            raise error

    with EventLog(path) as log:
        with pytest.raises(OutcomeUnknown):
            log._database.commit(Device())  # type: ignore[arg-type]
        assert type(log._database.error(error)) is StorageError


def test_secure_delete_counts_from_creation(path: Path) -> None:
    """What is deleted is overwritten: no trace of an entry's row stays in free space."""
    with EventLog(path) as log:

        def write_and_drop(db: Any) -> None:
            db.execute("create table scratch (a)")
            db.execute("insert into scratch values ('SECRET-THAT-GOES')")
            db.execute("drop table scratch")

        log.transact(write_and_drop)
    assert b"SECRET-THAT-GOES" not in path.read_bytes()


def test_a_read_that_fails_half_way_keeps_nobody_in_the_past(log: EventLog) -> None:
    """The cursor it was reading with is not lent again: the next read sees what was written since."""

    log.execute([Write("k", "v")] * 4, run="main")
    log.execute([Write("k", "no JSON")], run="main")
    with pytest.raises(StorageError, match="malformed JSON"):
        log.ask("select case value when 'v' then 1 else json(value) end from events order by position", ())
    log.execute([Write("k", "v")] * 5, run="main")
    assert log.ask("select count(*) from events", ()) == [(10,)]
    with log.reading() as db:
        busy, _, _ = db.execute("pragma wal_checkpoint(truncate)").fetchone()
        assert busy == 0
    with pytest.raises(StorageError, match="no such table: missing"):
        log.ask("select count(*) from missing", ())
    assert log.ask("select count(*) from events", ()) == [(10,)]


def test_readers_are_used_again(log: EventLog) -> None:
    """Reading over and over does not open connection after connection."""
    with log.reading() as first:
        pass
    with log.reading() as second:
        assert second is first


def test_a_file_that_was_replaced_is_noticed(path: Path) -> None:
    """A log whose file was moved away or replaced says so, instead of reading one and writing another."""
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
        path.rename(path.with_name("moved.db"))
        with pytest.raises(StorageError, match="was moved or replaced since it was opened"):
            list(log.read())
        with EventLog(path), pytest.raises(StorageError, match="was moved or replaced since it was opened"):
            list(log.read())


# -- read only


def state(path: Path) -> dict[str, Any]:
    """The file itself: content, time and mode."""
    status = path.stat()
    return {"content": path.read_bytes(), "mtime": status.st_mtime_ns, "mode": status.st_mode}


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(lambda log: log.execute([Write("k", "w")], run="main"), id="execute"),
        pytest.param(lambda log: log.fork("main", 1, run="b", turn=0), id="fork"),
        pytest.param(lambda log: log.transact(lambda db: None), id="transact"),
    ],
)
def test_a_log_opened_to_read_refuses_to_write(path: Path, attempt: Callable[[EventLog], Any]) -> None:
    """Every way to write is refused before anything happens, and the file stays as it was."""
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
    before = state(path)
    with EventLog(path, read_only=True) as log:
        with pytest.raises(StorageError, match="was opened to be read only; nothing was written"):
            attempt(log)
        assert len(list(log.read())) == 1
        assert log.read_only
    assert state(path) == before


def test_a_log_opened_to_read_sees_what_others_write(log: EventLog, path: Path) -> None:
    """Read only is not read once."""
    log.execute([Write("k", "v")], run="main")
    with EventLog(path, read_only=True) as reader:
        assert len(list(reader.read())) == 1
        log.execute([Write("k", "w")], run="main")
        assert len(list(reader.read())) == 2


def test_opening_to_read_does_not_wait_for_a_writer(log: EventLog, connect: Callable[..., Any]) -> None:
    """A reader neither takes the write lock nor minds who holds it."""
    log.execute([Write("k", "v")], run="main")
    connect().execute("begin immediate")
    with EventLog(log.path, read_only=True, busy_timeout_s=0) as reader:
        assert len(list(reader.read())) == 1


def test_an_empty_file_has_nothing_to_read(path: Path) -> None:
    """An empty file becomes a log only when it is opened to write."""
    path.touch()
    with pytest.raises(NotOurs, match="is empty: no turnlog has been written there"):
        EventLog(path, read_only=True)
    assert path.read_bytes() == b""


def test_a_busy_file_is_not_read_without_locks(path: Path, connect: Callable[..., Any]) -> None:
    """Where a lock is in the way of reading, that is said; the file is never read past it."""
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
    outsider = connect()
    outsider.execute("pragma journal_mode = delete")
    outsider.execute("begin exclusive")
    with pytest.raises(Busy):
        EventLog(path, read_only=True, busy_timeout_s=0)


_AS_NOBODY = """
import os, sys, tempfile
from pathlib import Path
from turnlog.eventlog import EventLog, StorageError, Write

with tempfile.TemporaryDirectory() as folder, EventLog(folder + "/warm.db") as log:
    log.execute([Write("k", "v")], run="main")  # loads what this user may load and the next one may not
path = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


def as_nobody(path: Path, program: str) -> None:
    """Run a program as a user whom permissions stop, root excepted."""
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY + program, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def everything_in(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Each file of a folder: content, time of change and mode."""
    return {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode)
        for file in folder.iterdir()
    }


@pytest.fixture
def shared() -> Iterator[Path]:
    """A log in a folder where everybody may read and nobody may write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "team.db")
        with EventLog(path) as log:
            log.execute([Write("k", "v")], run="main")
        path.chmod(0o444)
        path.parent.chmod(0o555)
        yield path
        path.parent.chmod(0o700)


def test_a_log_in_a_read_only_folder_can_be_read(shared: Path) -> None:
    """Where nothing may be written, a log that was closed can still be read, and nothing changes."""
    before = everything_in(shared.parent)
    as_nobody(
        shared,
        """
with EventLog(path, read_only=True) as log:
    assert [recorded.event.value for recorded in log.read()] == ["v"]
    assert log.head("main").position == 1
""",
    )
    assert everything_in(shared.parent) == before


def test_a_log_read_as_it_lies_is_looked_at_anew(shared: Path) -> None:
    """What somebody else wrote and closed is seen by the next read, though no lock could be had."""
    program = """
with EventLog(path, read_only=True) as log:
    assert log.as_it_lies
    for _ in range(2):
        print(log.head("main").position, len(list(log.read())), flush=True)
        sys.stdin.readline()
"""
    command = [sys.executable, "-c", _AS_NOBODY + program, shared]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        try:
            assert reader.stdout.readline() == "1 1\n"
            shared.parent.chmod(0o755)
            shared.chmod(0o644)
            with EventLog(shared) as log:
                assert not log.as_it_lies
                log.execute([Write("k", "w"), Write("l", "v")], run="main")
            shared.parent.chmod(0o555)
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == "3 3\n"
            reader.communicate("\n", timeout=30)
        finally:
            reader.kill()
    assert reader.returncode == 0


def test_a_log_in_a_read_only_folder_cannot_be_written(shared: Path) -> None:
    """Opening such a log to write is a storage error that says why, and nothing changes."""
    before = everything_in(shared.parent)
    as_nobody(
        shared,
        """
try:
    EventLog(path)
except StorageError as error:
    assert "read-only" in str(error) or "cannot be opened" in str(error), error
else:
    raise SystemExit("it was opened")
""",
    )
    assert everything_in(shared.parent) == before


def test_a_new_log_needs_a_folder_it_may_write(shared: Path) -> None:
    """Making a log where nothing may be made is a storage error that says why."""
    as_nobody(
        shared.with_name("new.db"),
        """
try:
    EventLog(path)
except StorageError as error:
    assert "cannot be created: Permission denied" in str(error), error
else:
    raise SystemExit("it was created")
""",
    )
    assert not shared.with_name("new.db").exists()


@pytest.mark.parametrize("options", ["{}", "{'read_only': True}"])
def test_a_log_in_a_closed_folder_is_a_storage_error(shared: Path, options: str) -> None:
    """A folder that may not be entered is a storage error that says why."""
    shared.parent.chmod(0o000)
    as_nobody(
        shared,
        f"""
try:
    EventLog(path, **{options})
except StorageError as error:
    assert "cannot be opened: Permission denied" in str(error), error
else:
    raise SystemExit("it was opened")
""",
    )


@pytest.mark.parametrize("options", ["{}", "{'read_only': True}"])
def test_a_log_of_somebody_else_is_a_storage_error(shared: Path, options: str) -> None:
    """A file that may not be read is named, and the message says why."""
    shared.chmod(0o000)
    as_nobody(
        shared,
        f"""
try:
    EventLog(path, **{options})
except StorageError as error:
    assert str(error) == f"{{path}} cannot be opened: Permission denied", error
else:
    raise SystemExit("it was opened")
""",
    )


# -- waiting


def test_busy_names_file_and_wait_and_writes_nothing(
    path: Path, connect: Callable[..., Any], everything: Callable[[], Any]
) -> None:
    """When another writer keeps the lock too long that is a typed error; once it lets go writing goes on."""
    with EventLog(path, busy_timeout_s=0.2) as log:
        log.execute([Write("k", "v")], run="main")
        before = everything()
        outsider = connect()
        outsider.execute("begin immediate")
        started = time.monotonic()
        with pytest.raises(Busy, match=r"another writer held the lock for more than 0\.2 s") as caught:
            log.execute([Write("k", "w"), Write("other", "x")], run="main")
        assert 0.15 < time.monotonic() - started < 3
        assert str(path) in str(caught.value)
        outsider.execute("rollback")
        assert everything() == before
        assert log.execute([Write("k", "w")], run="main") == [2]


def test_every_thread_that_waited_is_told_busy(
    path: Path, connect: Callable[..., Any], everything: Callable[[], Any]
) -> None:
    """When the lock is not to be had, each of several waiting threads gets its own typed error."""
    with EventLog(path, busy_timeout_s=0.1) as log:
        log.execute([Write("k", "v")], run="main")
        before = everything()
        outsider = connect()
        outsider.execute("begin immediate")
        with ThreadPoolExecutor(6) as pool:
            attempts = [pool.submit(log.execute, [Write("k", str(n))], run="main") for n in range(6)]
            errors = [attempt.exception() for attempt in attempts]
        assert [type(error) for error in errors] == [Busy] * 6
        assert len({id(error) for error in errors}) == 6
        outsider.execute("rollback")
        assert everything() == before
        assert log.execute([Write("k", "w")], run="main") == [2]


def test_readers_do_not_wait_for_writers(path: Path, connect: Callable[..., Any]) -> None:
    """While another writer holds the lock everything can be read."""
    with EventLog(path, busy_timeout_s=0) as log:
        log.execute([Write("k", "v")], run="main")
        connect().execute("begin immediate")
        assert len(list(log.read())) == 1
        assert [info.run.name for info in log.runs()] == ["main"]
        assert log.head("main") is not None


@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["to write", "to read"])
def test_opening_waits_for_whoever_has_the_file_for_himself(
    path: Path, connect: Callable[..., Any], options: dict[str, Any]
) -> None:
    """A file held exclusively, as by a process that closes it as the last, is opened once it is free."""
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
    outsider = connect(check_same_thread=False)
    outsider.execute("pragma journal_mode = delete")
    outsider.execute("begin exclusive")
    threading.Timer(0.2, outsider.execute, args=("rollback",)).start()
    started = time.monotonic()
    with EventLog(path, **options) as log:
        assert time.monotonic() - started > 0.1
        assert len(list(log.read())) == 1


@pytest.mark.parametrize("options", [{}, {"read_only": True}], ids=["to write", "to read"])
def test_opening_waits_where_it_only_looks(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """A lock that comes between connecting and the look at what the file is, is waited for like any other."""
    with EventLog(path):
        pass
    locked = 3

    class Locked(driver().Connection):  # type: ignore[misc]
        def execute(self, statement: str, *given: Any) -> Any:
            nonlocal locked
            if "pragma_application_id" in statement and locked:
                locked -= 1
                error = driver().OperationalError("database is locked")
                error.sqlite_errorcode, error.sqlite_errorname = 5, "SQLITE_BUSY"
                raise error
            return super().execute(statement, *given)

    monkeypatch.setattr(driver(), "connect", partial(driver().connect, factory=Locked))
    with EventLog(path, **options):
        assert locked == 0


def test_opening_waits_no_longer_than_asked(path: Path, connect: Callable[..., Any]) -> None:
    """A log that is being prepared by somebody else is `Busy` after the wait that was asked for."""
    connect().execute("begin immediate")  # on an empty file: the lock of whoever is just creating it
    started = time.monotonic()
    with pytest.raises(Busy, match=r"more than 0\.1 s"):
        EventLog(path, busy_timeout_s=0.1)
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("gone", ["moved", "deleted", "replaced"])
def test_nothing_is_acknowledged_for_a_file_that_is_gone(path: Path, gone: str) -> None:
    """A write to a log whose file was moved, deleted or replaced meanwhile is refused: it would be lost."""
    with EventLog(path) as log:
        log.execute([Write("k", "before")], run="main")
        if gone == "deleted":
            path.unlink()
        else:
            path.rename(path.with_name("elsewhere.db"))
        if gone == "replaced":
            path.write_bytes(b"something else")
        with pytest.raises(StorageError, match="was moved or replaced"):
            log.execute([Write("k", "lost")], run="main")
    if gone == "replaced":
        assert path.read_bytes() == b"something else"
