"""Several processes on one file: creating it together, waiting for each other, and forking."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import CompareAndSet, EventLog, StorageError, TurnlogError, Write

PROCESSES = 8

# Newer Pythons warn of what is tested here: that a process with threads may fork.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


_OPEN_AND_WRITE = """
import json, sys, time
import turnlog
from turnlog.eventlog import CompareAndSet, StorageError, Write
from turnlog.eventlog.driver import driver

path, number = sys.argv[1:]
driver()
print("ready", flush=True)
start = float(sys.stdin.readline())
while time.monotonic() < start:
    pass
with turnlog.open(path, busy_timeout_s=20) as log:
    commands = [Write(f"from {number}", "v"), CompareAndSet("first", None, number)]
    print(json.dumps(log.execute(commands, run="main", agent=f"process {number}")))
"""


def all_at_once(path: Path, meanwhile: Callable[[], None] = lambda: None) -> list[Any]:
    """Let processes open the log at the same moment and write once each; their answers."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _OPEN_AND_WRITE, path, str(number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(PROCESSES)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        start = time.monotonic() + 0.1
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{start}\n")
            process.stdin.flush()
        meanwhile()
        answers = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    return [json.loads(answer) for answer in answers]


def check(path: Path, answers: list[Any]) -> None:
    """Everybody wrote once, one of them was first, and the log is whole."""
    assert sorted(first for _, first in answers) == [False] * (PROCESSES - 1) + [True]
    with turnlog.open(path) as log:
        recorded = list(log.read())
        assert [event.position for event in recorded] == list(range(1, 2 * PROCESSES + 1))
        assert [event.revision for event in recorded] == list(range(1, 2 * PROCESSES + 1))
        assert [info.run.name for info in log.runs()] == ["main"]
        with log.reading() as db:
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)
            assert turnlog.projections.first_difference(db) is None


@pytest.mark.long
@pytest.mark.parametrize("attempt", range(3))
def test_eight_processes_create_one_file(path: Path, attempt: int) -> None:
    """Eight processes that open a missing file at the same moment all write to one log."""
    check(path, all_at_once(path))


@pytest.mark.long
@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_eight_processes_create_one_file_while_somebody_holds_its_lock(
    path: Path, connect: Callable[..., Any], journal_mode: str
) -> None:
    """While another program holds the lock of the still empty file, all eight wait, and then write."""
    outsider = connect()
    outsider.execute(f"pragma journal_mode = {journal_mode}")
    outsider.execute("begin immediate")

    def let_go() -> None:
        time.sleep(0.5)
        outsider.execute("rollback")

    check(path, all_at_once(path, let_go))


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_threads_create_one_file_while_somebody_holds_its_lock(
    path: Path, connect: Callable[..., Any], journal_mode: str
) -> None:
    """The same with objects of their own in the threads of one process."""
    outsider = connect(check_same_thread=False)
    outsider.execute(f"pragma journal_mode = {journal_mode}")
    outsider.execute("begin immediate")
    answers: list[Any] = []

    def open_and_write(number: int) -> None:
        with turnlog.open(path, busy_timeout_s=20) as log:
            commands = [Write(f"from {number}", "v"), CompareAndSet("first", None, str(number))]
            answers.append(log.execute(commands, run="main"))

    threads = [threading.Thread(target=open_and_write, args=(number,)) for number in range(PROCESSES)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    outsider.execute("rollback")
    for thread in threads:
        thread.join(30)
    check(path, answers)


def test_threads_share_one_log(path: Path) -> None:
    """Many threads on one object: every write is there once, and of those who compete one wins each round."""
    rounds, won = 20, []
    with turnlog.open(path, durability="os") as log:

        def work(number: int) -> None:
            for round_ in range(rounds):
                _, first = log.execute(
                    [Write(f"{number}", str(round_)), CompareAndSet(f"round {round_}", None, str(number))],
                    run="main",
                )
                if first:
                    won.append(round_)
                sum(1 for _ in log.read(run="main", limit=50))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(won) == list(range(rounds))
        assert [recorded.revision for recorded in log.read()] == list(range(1, 6 * rounds * 2 + 1))
        with log.reading() as db:
            assert turnlog.projections.first_difference(db) is None


# -- forked children


def in_child(action: Callable[[], None]) -> None:
    """Carry out `action` in a forked child; fails if it did."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            action()
            status = 0
        except BaseException:  # noqa: BLE001 - a child must never go on with the parent's tests
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def values(path: Path) -> list[str]:
    """What was written to the log, read by a process that has nothing to do with this one."""
    program = (
        "import json, sys, turnlog\n"
        "with turnlog.open(sys.argv[1]) as log:\n"
        "    print(json.dumps([recorded.event.value for recorded in log.read()]))\n"
        "    with log.reading() as db:\n"
        "        assert db.execute('pragma integrity_check').fetchone() == ('ok',)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_child_draws_salts_of_its_own(path: Path) -> None:
    """No salt drawn before the fork is used on both sides: one that is erased could be read off the other."""
    many = [Write(f"k{number}", "v") for number in range(20)]
    with turnlog.open(path) as log:
        log.execute(many, run="main")
        in_child(lambda: log.execute(many, run="main") and None)
        log.execute(many, run="main")
        with log.reading() as db:
            salts = db.execute("select salt from events union all select salt from names").fetchall()
    assert len(salts) == len(set(salts)) == 60 + 21


def test_a_forked_child_writes_through_the_same_object(path: Path) -> None:
    """Child and parent go on with the object, and nothing is lost."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "parent before")], run="main")

        def child() -> None:
            assert [recorded.position for recorded in log.read()] == [1]
            assert log.execute([Write("k", "child")], run="main") == [2]
            assert log.lineage("main").run.name == "main"
            log.close()

        in_child(child)
        assert log.execute([Write("k", "parent after")], run="main") == [3]
        with log.reading() as db:
            assert turnlog.projections.first_difference(db) is None
    assert values(path) == ["parent before", "child", "parent after"]


@pytest.mark.parametrize("opens", ["the same object", "the file anew"])
def test_what_a_child_writes_after_its_parent_has_closed_is_kept(path: Path, opens: str) -> None:
    """The child does not depend on the parent: writes acknowledged to it survive the parent's closing."""
    log = turnlog.open(path)
    log.execute([Write("k", "parent")], run="main")
    has_written, may_go_on = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            own = log if opens == "the same object" else turnlog.open(path)
            own.execute([Write("k", "child")], run="main")
            os.write(has_written[1], b"!")
            os.read(may_go_on[0], 1)
            own.execute([Write("k", "child again")], run="main")
            status = 0
        except BaseException:  # noqa: BLE001 - a child must never go on with the parent's tests
            traceback.print_exc()
        finally:
            os._exit(status)
    os.read(has_written[0], 1)
    log.close()
    os.write(may_go_on[1], b"!")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert values(path) == ["parent", "child", "child again"]
    for descriptor in (*has_written, *may_go_on):
        os.close(descriptor)


@pytest.mark.parametrize("at_work", ["writing", "reading"])
def test_a_fork_waits_for_threads_at_work(path: Path, at_work: str) -> None:
    """A thread in the middle of a transaction or a query ends it first; then the child can work."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "v")], run="main")
        inside, go_on = threading.Event(), threading.Event()

        def work(db: Any) -> None:
            inside.set()
            assert go_on.wait(20)
            assert db.execute("select count(*) from events").fetchone() == (1,)

        def read() -> None:
            with log.reading() as db:
                work(db)

        thread = threading.Thread(target=read) if at_work == "reading" else None
        thread = thread or threading.Thread(target=log.transact, args=(work,))
        thread.start()
        assert inside.wait(20)
        threading.Timer(0.1, go_on.set).start()
        in_child(lambda: log.execute([Write("k", "child")], run="main"))
        assert go_on.is_set()
        thread.join(20)
        log.execute([Write("k", "parent")], run="main")
    assert values(path) == ["v", "child", "parent"]


@pytest.mark.parametrize("at_work", ["writing", "reading"])
def test_a_child_forked_in_the_middle_of_work_refuses_the_file(path: Path, at_work: str) -> None:
    """Forked by the very thread that reads or writes, the child says that it cannot work; the parent can."""
    with turnlog.open(path) as log, turnlog.open(path) as same:
        log.execute([Write("k", "v")], run="main")

        def child() -> None:
            for use in (
                lambda: log.execute([Write("k", "child")], run="main"),
                lambda: list(log.read()),
                lambda: list(same.read()),
                lambda: turnlog.open(path),
            ):
                with pytest.raises(
                    StorageError, match="was being read or written when this process was forked"
                ):
                    use()
            log.close()
            same.close()

        def fork(db: Any) -> None:
            in_child(child)
            assert db.execute("select count(*) from events").fetchone() == (1,)

        if at_work == "reading":
            with log.reading() as db:
                fork(db)
        else:
            log.transact(fork)
        log.execute([Write("k", "parent")], run="main")
    assert values(path) == ["v", "parent"]


def test_a_fork_does_not_wait_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a thread keeps at it, the fork happens, and the child refuses that file; other files are fine."""
    monkeypatch.setattr("turnlog.eventlog.processes.PATIENCE_S", 0.1)
    other = path.with_name("other.db")
    with turnlog.open(path) as log, turnlog.open(other) as free:
        inside, go_on = threading.Event(), threading.Event()

        def read() -> None:
            with log.reading():
                inside.set()
                assert go_on.wait(20)

        def child() -> None:
            with pytest.raises(StorageError, match="was being read or written"):
                log.execute([Write("k", "child")], run="main")
            free.execute([Write("k", "child")], run="main")

        thread = threading.Thread(target=read)
        thread.start()
        assert inside.wait(20)
        in_child(child)
        go_on.set()
        thread.join(20)
        log.execute([Write("k", "parent")], run="main")
    assert (values(path), values(other)) == (["parent"], ["child"])


def test_threads_go_on_while_the_process_forks(path: Path) -> None:
    """Forks in between neither stop nor break the threads that read and write."""
    with turnlog.open(path, durability="os") as log:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for count in range(30):
                    log.execute([Write(f"{number}", str(count))], run="main")
                    sum(1 for _ in log.read(limit=20))
            except BaseException as error:  # noqa: BLE001 - handed to the test
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            in_child(lambda: log.execute([Write("child", "v")], run="main"))
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert [recorded.revision for recorded in log.read()] == list(range(1, 96))
    assert len(values(path)) == 95


def test_ctrl_c_while_a_fork_waits_does_not_let_a_connection_through(path: Path) -> None:
    """Interrupted while it waits for a reader, the fork goes on, and the child refuses the file."""
    program = (
        "import os, signal, sys, threading\n"
        "import turnlog\n"
        "from turnlog.eventlog import StorageError, Write\n"
        "log = turnlog.open(sys.argv[1])\n"
        "log.execute([Write('k', 'before')], run='main')\n"
        "inside, go_on = threading.Event(), threading.Event()\n"
        "def read():\n"
        "    with log.reading():\n"
        "        inside.set()\n"
        "        go_on.wait(30)\n"
        "thread = threading.Thread(target=read)\n"
        "thread.start()\n"
        "inside.wait(30)\n"
        "threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGINT)).start()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        log.execute([Write('k', 'child')], run='main')\n"
        "    except StorageError:\n"
        "        os._exit(0)\n"
        "    os._exit(1)\n"
        "go_on.set()\n"
        "thread.join()\n"
        "log.execute([Write('k', 'after')], run='main')\n"
        "log.close()\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    options = ["-W", "ignore::DeprecationWarning", "-c", program, str(path)]
    done = subprocess.run([sys.executable, *options], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "KeyboardInterrupt" in done.stderr
    assert values(path) == ["before", "after"]


class Slow:
    """A projection that takes its time to prepare, as a rebuild of a long log would."""

    name = "slow"

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile

    def prepare(self, db: Any) -> None:
        """Do what the test wants."""
        self.meanwhile()

    def apply(self, db: Any, steps: Any) -> None:
        """Keep nothing."""


@pytest.mark.parametrize("patience_s", [pytest.param(20, id="waits"), pytest.param(0.1, id="refuses")])
def test_a_fork_sees_a_log_that_is_being_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float
) -> None:
    """A fork waits for a thread that opens a log; if that takes too long, the child refuses that file."""
    monkeypatch.setattr("turnlog.eventlog.processes.PATIENCE_S", patience_s)
    waits = patience_s > 1
    inside, go_on = threading.Event(), threading.Event()
    opened: list[EventLog] = []

    def meanwhile() -> None:
        inside.set()
        assert go_on.wait(20)

    thread = threading.Thread(
        target=lambda: opened.append(EventLog(path, projections=[Slow(meanwhile)])), daemon=True
    )
    thread.start()
    assert inside.wait(20)

    def child() -> None:
        if waits:
            assert opened[0].execute([Write("k", "child")], run="main") == [1]
        else:
            with pytest.raises(StorageError, match="was being read or written when this process was forked"):
                turnlog.open(path)

    if waits:
        threading.Timer(0.1, go_on.set).start()
    in_child(child)
    go_on.set()
    thread.join(20)
    opened[0].execute([Write("k", "parent")], run="main")
    opened[0].close()
    assert values(path) == (["child", "parent"] if waits else ["parent"])


def test_a_child_forked_in_the_middle_of_an_opening_refuses_the_file(path: Path) -> None:
    """Forked by the very thread that opens a log, at once, the child is refused; the parent opens it."""
    began = time.monotonic()

    def child() -> None:
        with pytest.raises(StorageError, match="was being read or written when this process was forked"):
            turnlog.open(path)

    with EventLog(path, projections=[Slow(lambda: in_child(child))]) as log:
        assert time.monotonic() - began < 4
        log.execute([Write("k", "parent")], run="main")
    assert values(path) == ["parent"]


def test_an_opening_that_outlives_a_fork_in_it_is_refused_in_the_child(path: Path) -> None:
    """A child that goes on with the opening it was forked in gets an error, and commits nothing of it."""
    wal = path.with_name(f"{path.name}-wal")
    pids: list[int] = []
    sizes: list[int] = []

    class Forking(Slow):
        def prepare(self, db: Any) -> None:
            if not pids:
                sizes.append(wal.stat().st_size)
                pids.append(os.fork())
                if pids != [0]:
                    os.waitid(os.P_PID, pids[0], os.WEXITED | os.WNOWAIT)
                    sizes.append(wal.stat().st_size)

    try:
        log = EventLog(path, projections=[Forking(lambda: None)])
    except BaseException as error:
        if pids != [0]:
            raise
        os._exit(not isinstance(error, TurnlogError))  # a child must never go on with the parent's tests
    if pids == [0]:
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0
    assert sizes[0] == sizes[1]
    log.execute([Write("k", "parent")], run="main")
    log.close()
    assert values(path) == ["parent"]


def test_logs_are_opened_and_closed_while_the_process_forks(path: Path) -> None:
    """Threads that open and close without a pause stop no fork, and every child can work."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "v")], run="main")
    stop = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                turnlog.open(path).close()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    def child() -> None:
        with turnlog.open(path) as log:
            log.execute([Write("k", "child")], run="main")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_child(child)
    finally:
        stop.set()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert values(path) == ["v", *["child"] * 10]
