"""Which files are taken for a log: ours and new ones; any other is refused and left as it was."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from turnlog.eventlog import Corrupt, EventLog, Limits, NotOurs, StorageError, TooNew, TurnlogError, Write
from turnlog.eventlog.driver import driver
from turnlog.eventlog.schema import APPLICATION_ID, SCHEMA_VERSION


def sql(path: Path, *statements: str) -> None:
    """Carry out statements on a file as some other program would."""
    with closing(driver().connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def crash(path: Path, *statements: str) -> None:
    """The same, by a process that is killed before it can tidy up."""
    program = (
        "import os, signal, sys\n"
        "from turnlog.eventlog.driver import driver\n"
        "db = driver().connect(sys.argv[1], isolation_level=None)\n"
        "for statement in sys.argv[2:]: db.execute(statement)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path, *statements], check=False)
    assert done.returncode == -signal.SIGKILL


def ours(path: Path) -> None:
    """A log with something in it."""
    with EventLog(path) as log:
        log.execute([Write(f"key {n}", "v" * 100) for n in range(100)], run="main")


def truncated(path: Path, size: int) -> None:
    """A log of which only the first bytes are left."""
    ours(path)
    os.truncate(path, size)


def overwritten(path: Path, at: int, content: bytes) -> None:
    """A log in which some bytes were overwritten."""
    ours(path)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def folder(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file beside `path`: content, time of change and mode."""
    return {
        file.name: (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode)
        for file in path.parent.iterdir()
        if file.is_file() and not file.name.endswith("-shm")  # an index SQLite makes anew at any time
    }


_NEWER = f"pragma user_version = {SCHEMA_VERSION + 1}"
_FOREIGN_WAL = ("pragma journal_mode = wal", "create table t (a)", "insert into t values (1)")

_REFUSED = [
    pytest.param(lambda path: path.write_bytes(b"\n"), NotOurs, "not a turnlog file", id="one byte"),
    pytest.param(lambda path: path.write_bytes(b"\0"), NotOurs, "not a turnlog file", id="a zero byte"),
    pytest.param(lambda path: path.write_text("hello"), NotOurs, "not a SQLite file", id="a short text"),
    pytest.param(lambda path: path.write_text("x" * 9999), NotOurs, "not a SQLite file", id="a long text"),
    pytest.param(lambda path: path.write_bytes(bytes(8192)), NotOurs, "not a SQLite file", id="zeros"),
    pytest.param(
        lambda path: path.write_bytes(b"SQLite format 3\0"), NotOurs, "not a SQLite file", id="magic"
    ),
    pytest.param(
        lambda path: sql(path, "create table t (a)"),
        NotOurs,
        "another application's SQLite file .application_id 0, user_version 0, 1 schema objects",
        id="a table, but no application",
    ),
    pytest.param(
        lambda path: sql(path, "pragma application_id = 252006674", "create table t (a)"),
        NotOurs,
        "another application's SQLite file .application_id 252006674",
        id="another application",
    ),
    pytest.param(
        lambda path: sql(path, "pragma application_id = 77"),
        NotOurs,
        "application_id 77",
        id="another application's empty file",
    ),
    pytest.param(
        lambda path: sql(path, "pragma user_version = 3"),
        NotOurs,
        "user_version 3",
        id="somebody's empty file of version 3",
    ),
    pytest.param(
        lambda path: sql(path, f"pragma application_id = {APPLICATION_ID}"),
        NotOurs,
        "format version 0, which no release wrote",
        id="our application without version",
    ),
    pytest.param(
        lambda path: sql(path, f"pragma application_id = {APPLICATION_ID}", "pragma user_version = -1"),
        NotOurs,
        "format version -1, which no release wrote",
        id="a version below 0",
    ),
    pytest.param(
        lambda path: (ours(path), sql(path, _NEWER)),
        TooNew,
        f"has format version {SCHEMA_VERSION + 1}; this build reads up to {SCHEMA_VERSION}",
        id="a newer version",
    ),
    pytest.param(
        lambda path: (ours(path), crash(path, _NEWER)),
        TooNew,
        f"has format version {SCHEMA_VERSION + 1}",
        id="a newer version that crashed",
    ),
    pytest.param(
        lambda path: sql(path, *_FOREIGN_WAL), NotOurs, "another application's", id="another's in WAL mode"
    ),
    pytest.param(
        lambda path: crash(path, *_FOREIGN_WAL), NotOurs, "another application's", id="another's crashed WAL"
    ),
    pytest.param(
        lambda path: crash(
            path,
            "create table t (a)",
            "insert into t values (zeroblob(100000))",
            "pragma cache_size = 1",
            "begin",
            "insert into t select a from t, (values (1), (2), (3))",
        ),
        NotOurs,
        "another application's",
        id="another's crashed transaction",
    ),
    pytest.param(lambda path: truncated(path, 100), (Corrupt, NotOurs), "damaged|SQLite", id="only a header"),
    pytest.param(lambda path: truncated(path, 4096), Corrupt, "damaged", id="cut after the first page"),
    pytest.param(lambda path: truncated(path, 20000), Corrupt, "damaged", id="cut in the middle"),
    pytest.param(
        lambda path: overwritten(path, 0, b"x"), NotOurs, "not a SQLite file", id="magic overwritten"
    ),
    pytest.param(
        lambda path: overwritten(path, 100, b"\xff" * 400), Corrupt, "damaged", id="schema overwritten"
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), _REFUSED)
@pytest.mark.parametrize("read_only", [False, True], ids=["to write", "to read"])
def test_what_is_not_a_log_of_ours_is_refused_untouched(
    path: Path, make: Callable[[Path], Any], error: Any, message: str, read_only: bool
) -> None:
    """A file we cannot work with is a typed error that says why; not a byte, time or mode has changed."""
    make(path)
    os.utime(path, ns=(10**18, 10**18))
    before = folder(path)
    with pytest.raises(error, match=message) as caught:
        EventLog(path, read_only=read_only)
    assert str(path) in str(caught.value)
    assert {name: kept for name, kept in folder(path).items() if name in before} == before
    if not read_only:
        assert folder(path) == before, "nothing was left beside it either"


@pytest.mark.parametrize("read_only", [False, True])
def test_what_lies_behind_a_link_is_refused_untouched(path: Path, read_only: bool) -> None:
    """A symbolic link does not hide what a crash left beside the file it leads to."""
    crash(path, *_FOREIGN_WAL)
    (path.parent / "links").mkdir()
    link = path.parent / "links" / "team.db"
    link.symlink_to(path)
    before = folder(path)
    with pytest.raises(NotOurs):
        EventLog(link, read_only=read_only)
    assert folder(path) == before


@pytest.mark.parametrize("read_only", [False, True])
def test_a_refusal_is_repeatable(path: Path, read_only: bool) -> None:
    """Being refused once does not make a file acceptable the next time."""
    crash(path, *_FOREIGN_WAL)
    for _ in range(3):
        with pytest.raises(NotOurs):
            EventLog(path, read_only=read_only)
    with closing(driver().connect(path)) as db:
        assert db.execute("select a from t").fetchall() == [(1,)]


def test_a_log_that_crashed_is_opened(path: Path) -> None:
    """A log whose process was killed opens with all that was acknowledged."""
    program = (
        "import os, signal, sys, turnlog\n"
        "from turnlog.eventlog import Write\n"
        "log = turnlog.open(sys.argv[1])\n"
        "log.execute([Write('k', 'v')], run='main')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, path], check=False)
    assert path.with_name(path.name + "-wal").stat().st_size > 0
    with EventLog(path, read_only=True) as log:
        assert len(list(log.read())) == 1
    with EventLog(path) as log:
        assert log.execute([Write("k", "w")], run="main") == [2]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder_is_no_log(tmp_path: Path, read_only: bool) -> None:
    """A folder is refused, and the message says what a log is."""
    with pytest.raises(StorageError, match=r"is a folder; a log is one file, for example .*/team\.db"):
        EventLog(tmp_path, read_only=read_only)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_no_log(path: Path) -> None:
    """What is neither file nor folder is refused at once."""
    os.mkfifo(path)
    with pytest.raises(StorageError, match="is not a file"):
        EventLog(path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param({"create": False}, "does not exist; it was not created", id="create=False"),
        pytest.param({"read_only": True}, "does not exist; it was not created", id="read only"),
    ],
)
def test_a_missing_file_is_not_created_to_be_read(path: Path, options: dict[str, bool], error: str) -> None:
    """Opening to read never makes a file."""
    with pytest.raises(StorageError, match=error):
        EventLog(path, **options)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("options", [{}, {"create": False}, {"read_only": True}])
def test_a_missing_folder_is_not_created(tmp_path: Path, options: dict[str, bool]) -> None:
    """The folder of a log must exist."""
    with pytest.raises(StorageError, match=r"cannot be created|does not exist"):
        EventLog(tmp_path / "missing" / "team.db", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_nowhere_is_no_log(path: Path) -> None:
    """A dangling symbolic link is an error, not a file somewhere else."""
    path.symlink_to(path.parent / "elsewhere.db")
    with pytest.raises(StorageError, match="cannot be opened"):
        EventLog(path)
    assert not path.exists()


def test_a_link_to_a_log_is_followed(path: Path) -> None:
    """A symbolic link to a log opens that log."""
    ours(path)
    link = path.with_name("link.db")
    link.symlink_to(path)
    with EventLog(link) as log:
        assert len(list(log.read(limit=200))) == 100


def test_a_name_that_is_too_long_is_a_storage_error(path: Path) -> None:
    """What the operating system says of a path comes in our terms."""
    with pytest.raises(StorageError, match="name too long"):
        EventLog(path.with_name("x" * 300))


_NAMES = [
    "plain.db",
    "no suffix",
    "a#b.db",
    "a?b=c&mode=ro.db",
    "100%.db",
    "%2e%2e%2fup.db",
    "with  spaces .db",
    "memo Notizbücher 記憶 🧠.db",
    "new\nline.db",
    "quote'\".db",
    "semi;colon.db",
    "back\\slash.db",
    "-wal",
    os.fsdecode(b"not utf-8 \xff.db"),
]


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("as_text", [False, True], ids=["Path", "str"])
def test_any_file_name_will_do(tmp_path: Path, name: str, as_text: bool) -> None:
    """Whatever the file system allows as a name is a name for a log, of exactly that file."""
    path = tmp_path / name
    with EventLog(str(path) if as_text else path) as log:
        log.execute([Write("k", "v")], run="main")
        assert log.path == str(path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    with EventLog(path, read_only=True) as log:
        assert len(list(log.read())) == 1


def test_a_relative_path_is_fixed_at_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connect: Callable[..., Any]
) -> None:
    """A log goes on in its file though the working folder changes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with EventLog("team.db") as log:
        monkeypatch.chdir(tmp_path / "elsewhere")
        log.execute([Write("k", "v")], run="main")
        assert len(list(log.read())) == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        pytest.param("", ValueError, "is no path of a file", id="empty"),
        pytest.param("a\0b", ValueError, "is no path of a file", id="NUL"),
        pytest.param(":memory:", ValueError, "use turnlog.InMemoryStore", id="memory"),
        pytest.param(b"team.db", TypeError, "must be a str", id="bytes"),
        pytest.param(None, TypeError, "str", id="None"),
        pytest.param(7, TypeError, "str", id="a file descriptor"),
    ],
)
def test_what_is_no_path_is_refused(path: Any, error: type[Exception], message: str) -> None:
    """Only a path of a file will do."""
    with pytest.raises(error, match=message):
        EventLog(path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param({"durability": "none"}, ValueError, id="durability"),
        pytest.param({"busy_timeout_s": -1}, ValueError, id="negative wait"),
        pytest.param({"busy_timeout_s": float("nan")}, ValueError, id="no number"),
        pytest.param({"busy_timeout_s": float("inf")}, ValueError, id="endless"),
    ],
)
def test_options_are_checked(path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    """An option that cannot be is refused before a file is made."""
    with pytest.raises(error):
        EventLog(path, **options)
    assert not path.exists()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_log_is_for_its_owner_alone(path: Path, umask: int) -> None:
    """The file and its companions are readable and writable by the owner only, whatever the umask allows."""
    before = os.umask(umask)
    try:
        with EventLog(path) as log:
            log.execute([Write("k", "v")], run="main")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"team.db": 0o600, "team.db-wal": 0o600, "team.db-shm": 0o600}


def test_a_mode_that_was_chosen_is_kept(path: Path) -> None:
    """An empty file made by its owner keeps the mode it was given, and its companions follow it."""
    path.touch()
    path.chmod(0o660)
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o660}


def test_the_file_says_what_it_is(path: Path, log: EventLog) -> None:
    """Application id and version stand in the header, where `file` and SQLite find them."""
    log.close()
    header = path.read_bytes()[:100]
    assert header[:16] == b"SQLite format 3\0"
    assert header[68:72] == b"turn"
    assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION == 2


def test_all_refusals_are_turnlog_errors() -> None:
    """One `except` catches whatever opening a file can say."""
    assert {error.__base__ for error in (NotOurs, TooNew, Corrupt, StorageError)} == {TurnlogError}


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_an_empty_file_is_not_lifted_where_nothing_is_to_be_made(
    path: Path, options: dict[str, bool]
) -> None:
    """It stays empty, and the message says what is wrong."""
    path.touch()
    with pytest.raises(NotOurs, match="is empty: no turnlog has been written there"):
        EventLog(path, **options)
    assert path.stat().st_size == 0


@pytest.mark.parametrize(
    ("misuse", "error", "message"),
    [
        (
            lambda path: EventLog(path, busy_timeout_s=cast("Any", "1")),
            TypeError,
            "number of seconds, not '1'",
        ),
        (lambda path: Limits(key=-1), ValueError, "key is a number of bytes, and must not be negative: -1"),
        (lambda path: Limits(value=cast("Any", "x")), TypeError, "value must be an int.* not 'x'"),
    ],
    ids=["waiting", "a size below nothing", "no size"],
)
def test_arguments_that_cannot_be_are_refused_with_what_can(
    path: Path, misuse: Callable[[Path], object], error: type[Exception], message: str
) -> None:
    """The message says what was meant."""
    with pytest.raises(error, match=message):
        misuse(path)


def test_one_command_is_no_list_of_commands(path: Path) -> None:
    """The message shows how a list of one is written."""
    with (
        EventLog(path) as log,
        pytest.raises(TypeError, match=r"a list of commands, as \[Write\(key, value\)\], not Write"),
    ):
        log.execute(cast("Any", Write("k", "v")), run="main")
