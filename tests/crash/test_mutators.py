"""Whatever fails while a log is changed, by whatever method: a typed error, nothing changed, and it goes on.

Each test goes over `MUTATORS`, the table of every public method that changes a log.
"""

from __future__ import annotations

import inspect
import itertools
import re
import resource
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Busy, Closed, EventLog, NotFound, StorageError, TurnlogError, Write
from turnlog.eventlog.driver import driver
from turnlog.eventlog.export import export_lines
from turnlog.replay import backup, sweep, verify

from ..interruption import Interruption
from .mutators import ELSEWHERE, MUTATORS, NOT_ON_A_LOG, READERS, prepare

# The log has a checkpoint, of which a restore of the memory alone says that it stays.
pytestmark = pytest.mark.filterwarnings("ignore:.*the checkpoint at @.*stays:UserWarning")

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_EACH = pytest.mark.parametrize("name", MUTATORS)
_QUICK = {
    "EventLog.execute",
    "EventLog.aexecute",
    "EventLog.fork",
    "EventLog.transact",
    "SharedMemory.restore",
    "Timeline.fork",
    "Timeline.restore",
    "redact",
}
"""What every other method ends in, for what would take long to do with all of them."""

_QUICK_FIRST = [name if name in _QUICK else pytest.param(name, marks=pytest.mark.long) for name in MUTATORS]
_CONNECT = driver().connect
_OLD = Path(__file__).parents[1] / "golden" / "format-1.db"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log that every attempt is made on, a copy each."""
    path = tmp_path_factory.mktemp("prepared") / "team.db"
    prepare(path)
    return path


@pytest.fixture
def path(prepared: Path, tmp_path: Path) -> Path:
    """A copy, with an export to import beside it."""
    shutil.copy(prepared.with_name("arriving.jsonl"), tmp_path)
    return Path(shutil.copy(prepared, tmp_path / "team.db"))


def contents(path: Path) -> dict[str, list[str]]:
    """Every row of every table, as another program reads them; it could also write at once."""
    with closing(_CONNECT(path, isolation_level=None, timeout=0)) as db:
        db.execute("begin immediate")  # busy if a lock was left
        tables = db.execute("select name from sqlite_schema where type = 'table'").fetchall()
        found = {table: sorted(map(repr, db.execute(f"select * from {table}"))) for (table,) in tables}
        db.execute("rollback")
    return found


def raised_by(action: Callable[[], Any]) -> TurnlogError | None:
    """The error of ours that an action ends in, if it does."""
    try:
        action()
    except TurnlogError as error:
        return error
    return None


def cause(error: BaseException) -> Any:
    """Where it began."""
    return error if error.__cause__ is None else cause(error.__cause__)


def check_whole(log: EventLog) -> None:
    """The log holds together, and takes the next write."""
    assert verify(log).problems == []
    log.execute([Write("next", "v")], run="main")


def methods(thing: type) -> set[str]:
    """The public methods and properties of a class, inherited ones too."""
    return {
        name
        for name in dir(thing)
        if not name.startswith("_")
        and (callable(getattr(thing, name)) or isinstance(inspect.getattr_static(thing, name), property))
    }


def test_the_table_is_the_public_surface() -> None:
    """Every public function, and method of every public class, is in the table or among those that read."""
    listed = {name.split(",")[0] for name in MUTATORS}
    listed |= {f"{kind}.{method}".lstrip(".") for kind, methods in READERS.items() for method in methods}
    listed |= ELSEWHERE
    found = {"import_lines"}  # what the command line imports with
    for name in turnlog.__all__:
        thing = getattr(turnlog, name)
        if inspect.isclass(thing) and not issubclass(thing, Exception) and name not in NOT_ON_A_LOG:
            found |= {f"{name}.{method}" for method in methods(thing)}
    for part in (turnlog, turnlog.projections, turnlog.replay, turnlog.teams):
        found |= {name for name in part.__all__ if inspect.isfunction(getattr(part, name))}
    assert found == listed


@_EACH
def test_each_changes_something(path: Path, name: str) -> None:
    """Else the other tests of this file would show nothing of it."""
    before = contents(path)
    with turnlog.open(path, durability="os") as log:
        if name in ("EventLog.transact", "rebuild"):
            log.transact(lambda db: db.execute("delete from entries"))
            before = contents(path)
        MUTATORS[name](log)
        assert contents(path) != before
        check_whole(log)


# -- statements that fail


@dataclass
class Fault:
    """An I/O error at the statement of that number, on any connection of the log's.

    Attributes:
        at: its number; 0: none.
        count: how many statements there were.
        hit: the error, once it has come.
    """

    at: int = 0
    count: int = 0
    hit: Exception | None = field(default=None)

    def is_due(self, statement: str) -> bool:
        """Whether this statement is to fail."""
        if statement == "rollback":
            return False
        self.count += 1
        return self.count == self.at

    def fail(self) -> None:
        """As SQLite does when the disk reports an error."""
        error = driver().OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = 10, "SQLITE_IOERR"
        self.hit = error
        raise error


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Fault:
    """A fault to come; connections made from now on can have it."""
    fault = Fault()

    class Failing(driver().Connection):  # type: ignore[misc]
        def execute(self, statement: str, *given: Any) -> Any:
            if fault.is_due(statement):
                fault.fail()
            return super().execute(statement, *given)

        def executemany(self, statement: str, rows: Sequence[Any]) -> Any:
            if fault.is_due(statement):
                super().executemany(statement, rows[: len(rows) // 2])
                fault.fail()
            return super().executemany(statement, rows)

    monkeypatch.setattr(driver(), "connect", partial(_CONNECT, factory=Failing))
    return fault


@pytest.mark.parametrize("name", _QUICK_FIRST)
def test_whichever_statement_fails_nothing_has_changed(path: Path, fault: Fault, name: str) -> None:
    """For each statement of each method: an error that names the file, all as before, and it goes on."""
    before = contents(path)
    for at in itertools.count(1):
        attempt = Path(shutil.copy(path, path.with_name("attempt.db")))
        fault.at, fault.hit = 0, None
        with turnlog.open(attempt, durability="os") as log:
            fault.at, fault.count = at, 0
            error = raised_by(lambda log=log: MUTATORS[name](log))
            fault.at = 0
            assert fault.hit is (error and cause(error)), "it was swallowed"
            if error is None:
                break
            assert type(error) is StorageError
            assert str(attempt) in str(error)
            assert "disk I/O error" in str(error)
            # What was written stands when only old pages cannot be thrown away afterwards.
            only_cleaning = "the texts are erased, but" in str(error)
            assert (contents(attempt) == before) is not only_cleaning
            with suppress(*[NotFound] * only_cleaning):  # a name that is erased cannot be found again
                MUTATORS[name](log)
            check_whole(log)
    assert at > 3


def test_a_new_log_is_made_whole_or_not_at_all(tmp_path: Path, fault: Fault) -> None:
    """Whichever statement of the first opening fails: a storage error, and opening again makes the log."""
    for at in itertools.count(1):
        path = tmp_path / f"{at}.db"
        fault.at, fault.count, fault.hit = at, 0, None
        error = raised_by(lambda path=path: turnlog.open(path).close())
        fault.at = 0
        assert fault.hit is (error and cause(error)), "it was swallowed"
        if error is None:
            break
        assert type(error) is StorageError
        assert str(path) in str(error)
        with turnlog.open(path, busy_timeout_s=0) as log:
            check_whole(log)
    assert at > 20


# -- a full disk


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes; Python ignores SIGXFSZ from its start."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limit_pages(log: EventLog, spare: int | None) -> None:
    """Let the file grow by so many pages more, or as it likes."""

    def limit(db: Any) -> None:
        (count,) = db.execute("pragma page_count").fetchone()
        db.execute(f"pragma max_page_count = {4294967294 if spare is None else count + spare}")

    log.transact(limit)


GROWING: dict[str, Callable[[EventLog], Any]] = {
    "append": lambda log: log.execute([Write(f"key {n}", "v" * 3000) for n in range(20)], run="main"),
    "fork": lambda log: turnlog.Timeline(log, "main").fork(run="new"),
    "restore": lambda log: turnlog.Timeline(log, "main").restore(position=400),
    "restore a snapshot": lambda log: turnlog.SharedMemory(turnlog.EventSourcedStore(log)).restore(
        {
            "version": 1,
            "turnCount": 0,
            "entries": [
                {"key": f"w/{n}", "value": "v" * 300, "createdAt": "2026-11-30T02:13:00.123Z"}
                for n in range(100)
            ],
        }
    ),
    "import": MUTATORS["import_lines"],
    "rebuild": lambda log: log.transact(turnlog.projections.EntriesProjection().rebuild),
    "rebuild beside others": turnlog.projections.rebuild,
    "redact": lambda log: turnlog.redact(log, matching="^w+$", reason="asked for", by="dpo"),
    "sweep": lambda log: sweep(log, "old"),
}
"""What needs room for many pages."""

_PAGES, _SIZE = "of the file's pages", "of the size of files"
_NEEDS_NO_PAGES = ("rebuild beside others", _PAGES)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of many entries, then cleared and compact; and one to import from."""
    path = tmp_path_factory.mktemp("grown") / "team.db"
    with turnlog.open(path, durability="os") as log:
        log.execute([Write(f"key {number}", "v" * 20) for number in range(400)], run="main")
        log.execute([turnlog.Clear()], run="main")
        log.execute([Write(f"key {number}", "w" * 20) for number in range(300)], run="main")
        log.execute([Write(f"key {number}", "v", expires_at_turn=1) for number in range(300)], run="old")
        log.execute([turnlog.AdvanceTurn()], run="old")
    with turnlog.open(path.with_name("source.db"), durability="os") as log:
        log.execute([Write(f"key {number}", "v" * 300) for number in range(100)], run="arriving")
        path.with_name("arriving.jsonl").write_text("\n".join(export_lines(log)), "utf-8")
    return path


_WITHOUT_TABLE = ("delete from projections", "drop view current_entries", "drop table entries", "vacuum")


@pytest.mark.parametrize(
    ("name", "limit"),
    # A table that is made anew takes the room of the old one: only the WAL grows.
    [(name, limit) for name in GROWING for limit in (_PAGES, _SIZE) if (name, limit) != _NEEDS_NO_PAGES],
)
def test_a_full_disk_changes_nothing(grown: Path, tmp_path: Path, name: str, limit: str) -> None:
    """However little room there is: it says that it is full, all is as before, and later it goes on."""
    shutil.copy(grown.with_name("arriving.jsonl"), tmp_path)
    path = Path(shutil.copy(grown, tmp_path / "team.db"))
    failed, opened = 0, turnlog.open
    if name == "rebuild":  # of a table that is not there: one that is would leave its room
        opened = EventLog
        with closing(_CONNECT(path, isolation_level=None)) as db:
            for statement in _WITHOUT_TABLE:
                db.execute(statement)
    with opened(path, durability="os") as log:
        log.execute([Write("first", "v")], run="main")
        before = contents(path)
        for step in itertools.count():
            if limit == _PAGES:
                limit_pages(log, step * 5)
                error = raised_by(lambda: GROWING[name](log))
            else:
                with limited_files(path.with_name("team.db-wal").stat().st_size + step * 5 * 4096):
                    error = raised_by(lambda: GROWING[name](log))
            if error is None:
                break
            failed += 1
            assert type(error) is StorageError
            assert str(path) in str(error)
            assert "full" in str(error)
            assert cause(error).sqlite_errorname in ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR")
            if "the texts are erased, but" in str(error):
                before = contents(path)
            assert contents(path) == before
        assert failed > 0
        if limit == _PAGES:
            limit_pages(log, None)
        check_whole(log)


def test_a_full_disk_keeps_an_old_file_as_it_was(tmp_path: Path) -> None:
    """A file of the first format climbs whole or not at all, however little room there is."""
    path, failed = tmp_path / "team.db", 0
    shutil.copy(_OLD, path)
    before = contents(path)
    for room in itertools.count(0, 8192):
        error: TurnlogError | None
        with limited_files(room):
            error = raised_by(lambda: turnlog.open(path).close())
        if error is None:
            break
        failed += 1
        assert type(error) is StorageError
        assert str(path) in str(error)
        assert "full" in str(error)
        with closing(_CONNECT(path)) as db:
            assert db.execute("pragma user_version").fetchone() == (1,)
        assert contents(path) == before
    assert failed > 1
    with turnlog.open(path) as log:
        check_whole(log)


def test_a_full_disk_leaves_no_backup(grown: Path, tmp_path: Path) -> None:
    """However little room there is: it says so, nothing is left where the backup was to be; later it is."""
    copy, failed = tmp_path / "copy.db", 0
    with turnlog.open(grown, read_only=True) as log:
        for room in itertools.count(0, 5 * 4096):
            with limited_files(room):
                error = raised_by(lambda: backup(log, copy))
            if error is None:
                break
            failed += 1
            assert type(error) is StorageError
            assert str(copy) in str(error)
            assert "full" in str(error)
            assert list(tmp_path.iterdir()) == []
    assert failed > 1
    with turnlog.open(copy) as log:
        check_whole(log)


# -- whatever else stands in the way


@_EACH
def test_a_lock_that_is_not_to_be_had(path: Path, name: str) -> None:
    """While another program writes, each is Busy in the time allowed, and says for which file."""
    before = contents(path)
    with turnlog.open(path, durability="os", busy_timeout_s=0) as log:
        with closing(_CONNECT(path, isolation_level=None)) as outsider:
            outsider.execute("begin immediate")
            with pytest.raises(Busy, match="another writer held the lock") as caught:
                MUTATORS[name](log)
        assert str(path) in str(caught.value)
        assert contents(path) == before
        MUTATORS[name](log)
        check_whole(log)


@_EACH
def test_a_log_that_is_only_read_or_closed(path: Path, name: str) -> None:
    """A log opened to be read, or closed, refuses each by name of the file, and stays as it was."""
    before = contents(path)
    bytes_before = path.read_bytes()
    with turnlog.open(path, read_only=True) as log:
        with pytest.raises(StorageError, match="was opened to be read only; nothing was written") as caught:
            MUTATORS[name](log)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == bytes_before
    with pytest.raises(Closed, match="was closed") as closed:
        MUTATORS[name](log)
    assert str(path) in str(closed.value)
    assert contents(path) == before


@pytest.mark.parametrize(
    ("name", "gone"),
    [*((name, "deleted") for name in MUTATORS), *((name, "replaced") for name in sorted(_QUICK))],
)
def test_a_file_that_is_gone(path: Path, name: str, gone: str) -> None:
    """Once the file was deleted or replaced, each says so, and what lies there now is left alone."""
    with turnlog.open(path, durability="os") as log:
        log.execute([Write("k", "v")], run="main")
        path.unlink()
        if gone == "replaced":
            path.write_bytes(b"something else")
        with pytest.raises(StorageError, match="was moved or replaced since it was opened") as caught:
            MUTATORS[name](log)
        assert str(path) in str(caught.value)
    assert path.exists() == (gone == "replaced")
    if gone == "replaced":
        assert path.read_bytes() == b"something else"


# -- interrupts

# Python's own loops and thread pools do not survive Ctrl-C at any line of theirs. What a cancelled task, or a
# team that is stopped, leaves behind is tried in tests/memory and tests/teams.
_NOT_OURS_ALONE = {"EventLog.aexecute", "arun_tasks", "run_tasks"}
_SYNCHRONOUS = [name for name in MUTATORS if not name.startswith("Async") and name not in _NOT_OURS_ALONE]
_INTERRUPTED = [
    *(pytest.param(name, 6, id=f"{name}, some") for name in _SYNCHRONOUS if name in _QUICK),
    *(
        pytest.param(name, 200 if name in _QUICK else 60, id=f"{name}, many", marks=pytest.mark.long)
        for name in _SYNCHRONOUS
    ),
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in Python's own tempfile
@pytest.mark.parametrize(("name", "times"), _INTERRUPTED)
def test_an_interrupt_at_any_line_of_any_method(path: Path, name: str, times: int) -> None:
    """Ctrl-C at a line, ours or the library's: whole or absent, no lock left, and the log goes on."""
    attempt = path.with_name("attempt.db")
    shutil.copy(path, attempt)
    undisturbed = Interruption(0)
    with turnlog.open(attempt, durability="os") as log:
        undisturbed.during(lambda: MUTATORS[name](log))
        after = shape(attempt)
    before = shape(path)
    for at in itertools.count(1, undisturbed.lines // times + 1):
        shutil.copy(path, attempt)
        with turnlog.open(attempt, durability="os") as log:
            try:
                Interruption(at).during(lambda log=log: MUTATORS[name](log))
                break
            except KeyboardInterrupt:
                assert shape(attempt) in (before, after)
            check_whole(log)
    assert at > 1


def shape(path: Path) -> list[tuple[Any, ...]]:
    """The events but for what differs from one attempt to the next: time, salt and hash."""
    contents(path)
    with closing(_CONNECT(path)) as db:
        rows = db.execute(
            "select run, revision, batch, turn, type, key, agent, value, metadata, content, expires_at_turn"
            " from events order by position"
        ).fetchall()
    return [tuple(_TIME.sub("TIME", each) if isinstance(each, str) else each for each in row) for row in rows]
