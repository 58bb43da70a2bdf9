"""Group commit of threads: what an interrupt, wherever it comes, must not do to the others in line."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    Command,
    CompareAndSet,
    Conflict,
    Delete,
    EventLog,
    Once,
    SetTurn,
    StorageError,
    Write,
    tail,
)
from turnlog.eventlog import group as group_module
from turnlog.eventlog.batch import Actor
from turnlog.eventlog.group import GroupCommit
from turnlog.eventlog.writer import Commands
from turnlog.projections import EntriesProjection, first_difference
from turnlog.replay.verification import verify

_INTERRUPTED = """
import _thread, signal, sys, threading, time, turnlog
from turnlog.eventlog import Write
armed = False
def on_interrupt(number, frame):
    global interrupts
    if armed and frame.f_code.co_filename != "<string>":  # in what is tried, not in this program itself
        interrupts += 1
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, on_interrupt)
with turnlog.open(sys.argv[1], durability="os") as log:
    stop, interrupts = threading.Event(), 0
    def work(name):
        while not stop.is_set():
            log.execute([Write(name, "v")], run="main")
    def interrupt():
        while not stop.wait(0.003):
            _thread.interrupt_main()
    threads = [threading.Thread(target=work, args=(f"k{n}",)) for n in range(6)]
    threads.append(threading.Thread(target=interrupt))
    [thread.start() for thread in threads]
    armed, end = True, time.monotonic() + 1.5
    while time.monotonic() < end or interrupts <= 20:
        try:
            while time.monotonic() < end or interrupts <= 20:
                log.execute([Write("main", "v")], run="main")
        except KeyboardInterrupt:
            pass
    armed = False
    stop.set()
    [thread.join() for thread in threads]
    log.execute([Write("after", "v")], run="main")
    assert log.head("main") is not None
"""


def test_interrupts_of_one_thread_leave_the_line_going(tmp_path: Path) -> None:
    """A thread that is interrupted again and again, in line or in the lead, stops nobody."""
    path = tmp_path / "team.db"
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, str(path)],
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with turnlog.open(path) as log:
        assert verify(log).ok
        assert list(log.read(key="after"))


def test_everybody_in_line_is_woken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those answered together each wakes the next, the last passes on the lead: nobody is forgotten."""
    monkeypatch.setattr(group_module, "_PATIENCE_S", 3_600)  # else somebody forgotten would help himself
    done: list[int] = []

    def work(name: str) -> None:
        for number in range(60):
            if number % 7 == 3:
                with suppress(Conflict):
                    log.execute([Write(name, "v", expected_version=9**9)], run="main")
            else:
                log.execute([Write(name, str(number))], run="main")
        done.append(1)

    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        threads = [threading.Thread(target=work, args=(f"k{n}",), daemon=True) for n in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(done) == 24
        assert len(list(log.read())) == 24 * 60


def test_a_group_that_fails_is_told_so_and_the_next_goes_on(tmp_path: Path) -> None:
    """While one commits, five line up; their transaction fails, which each is told; the sixth writes."""
    with EventLog(tmp_path / "team.db", durability="os") as log:
        begun, may_go_on = threading.Event(), threading.Event()
        commit, sizes = log._writer.commit, list[int]()
        told: list[BaseException] = []

        def failing(requests: Any) -> None:
            sizes.append(len(requests))
            if len(sizes) == 1:
                begun.set()
                assert may_go_on.wait(20)
            if len(sizes) == 2:
                raise StorageError("no")
            commit(requests)

        line = GroupCommit(failing)

        def submit(name: str) -> None:
            request = Commands("main", (Write(name, "v"),), Actor())
            try:
                line.submit(request)
            except StorageError as error:
                told.append(error)

        threads = [threading.Thread(target=submit, args=(f"k{n}",), daemon=True) for n in range(6)]
        threads[0].start()
        assert begun.wait(20)
        for thread in threads[1:]:
            thread.start()
        while len(line._line) < 5:
            time.sleep(0.001)
        may_go_on.set()
        for thread in threads:
            thread.join(20)
        submit("afterwards")
        assert sizes == [1, 5, 1]
        assert len(set(map(id, told))) == 5
        assert [one.event.key for one in log.read()] == ["k0", "afterwards"]


class Interrupted(BaseException):
    """What a thread is interrupted with."""


def raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    """Let `error` be raised in `thread` at its next opportunity."""
    ident = ctypes.c_ulong(thread.ident or 0)
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(error)) == 1


def test_those_behind_a_leader_who_is_interrupted_are_written_without_him(tmp_path: Path) -> None:
    """Ctrl-C before the commit ends for its leader only: the others line up again, in their order."""
    with EventLog(tmp_path / "team.db", durability="os") as log:
        begun, may_go_on = threading.Event(), threading.Event()
        commit, sizes, told = log._writer.commit, list[int](), list[BaseException]()

        def interrupted(requests: Any) -> None:
            sizes.append(len(requests))
            if len(sizes) == 1:
                begun.set()
                assert may_go_on.wait(20)
            if len(sizes) == 2:
                raise KeyboardInterrupt
            commit(requests)

        line = GroupCommit(interrupted)

        def submit(name: str) -> None:
            try:
                line.submit(Commands("main", (Write(name, "v"),), Actor()))
            except KeyboardInterrupt as error:
                told.append(error)

        threads = [threading.Thread(target=submit, args=(f"k{n}",), daemon=True) for n in range(6)]
        threads[0].start()
        assert begun.wait(20)
        for number, thread in enumerate(threads[1:]):
            thread.start()
            while len(line._line) <= number:
                time.sleep(0.0005)
        may_go_on.set()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert (sizes, len(told)) == ([1, 5, 4], 1)
        assert [one.event.key for one in log.read()] == ["k0", "k2", "k3", "k4", "k5"]


@pytest.mark.parametrize("gone", [1, 4], ids=["in the middle", "last"])
def test_those_beside_one_who_was_interrupted_do_not_wait_for_him(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    """Somebody of a group that is being committed goes: the others are woken at once, and the next writes."""
    patience_s = 1.5
    monkeypatch.setattr(group_module, "_PATIENCE_S", patience_s)
    with EventLog(tmp_path / "team.db", durability="os") as log:
        begun = [threading.Event(), threading.Event()]
        may_go_on = [threading.Event(), threading.Event()]
        commit, sizes = log._writer.commit, list[int]()

        def slow(requests: Any) -> None:
            sizes.append(len(requests))
            if len(sizes) <= 2:
                begun[len(sizes) - 1].set()
                assert may_go_on[len(sizes) - 1].wait(20)
            commit(requests)

        line = GroupCommit(slow)

        def submit(name: str) -> None:
            with suppress(Interrupted):
                line.submit(Commands("main", (Write(name, "v"),), Actor()))

        threads = [threading.Thread(target=submit, args=(f"k{n}",), daemon=True) for n in range(6)]
        threads[0].start()
        assert begun[0].wait(20)
        for number, thread in enumerate(threads[1:]):
            thread.start()
            while len(line._line) <= number:
                time.sleep(0.0005)
        may_go_on[0].set()
        assert begun[1].wait(20)
        interrupted = threads[1 + gone]
        raise_in(interrupted, Interrupted)
        interrupted.join(20)
        time.sleep(0.1)  # until the patience of the others has begun anew as well
        released = time.monotonic()
        may_go_on[1].set()
        for thread in threads:
            thread.join(20)
        submit("afterwards")
        assert time.monotonic() - released < patience_s / 2
        assert sizes == [1, 5, 1]


def test_a_request_decided_again_forgets_its_first_answer(tmp_path: Path) -> None:
    """Of two attempts at a request, of which the first came to nothing, only the second is told."""
    with EventLog(tmp_path / "team.db") as log:
        log.execute([Write("k", "v")], run="main")
        request = Commands("main", (CompareAndSet("k", "v", "w"),), Actor())
        request.error = ValueError("from an attempt before")
        GroupCommit(log._writer.commit).submit(request)
        assert request.error is None
        assert request.outcomes == [True]


def test_a_key_made_in_the_same_transaction_is_known_when_names_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few names are remembered: what is decided after a write sees it, and so do later writes."""
    monkeypatch.setattr(tail, "MAX_ENTRIES", 0)
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        log.execute([Write(f"k{number}", "v") for number in range(5)], run="main")
        requests = [
            Commands("main", (Write("x", "first"),), Actor()),
            Commands("main", (Once("once", Write("y", "v")),), Actor(), repeats=True),
            Commands("main", (Delete("x"),), Actor()),
        ]
        log._writer.commit(requests)
        assert [request.error for request in requests] == [None] * 3
        assert requests[2].outcomes == [True]
        assert log.execute([CompareAndSet("y", None, "stolen")], run="main") == [False]


def test_runs_of_one_family_may_write_the_same_new_key_at_once(tmp_path: Path) -> None:
    """A name is interned once for the whole family, also when two of its runs bring it in one transaction."""
    with turnlog.open(tmp_path / "team.db") as log:
        log.execute([Write("k", "v")], run="main")
        log.fork("main", 1, run="fork", turn=0)
        commits: list[int] = []
        commit = log._writer._commit

        def counted(db: Any, requests: Any, *, patient: bool) -> None:
            commits.append(len(requests))
            commit(db, requests, patient=patient)

        log._writer._commit = counted  # type: ignore[method-assign]
        requests = [Commands(run, (Write("new", run),), Actor()) for run in ("main", "fork")]
        log._writer.commit(requests)
        assert commits == [2]
        assert [request.outcomes for request in requests] == [[3], [4]]
        with log.reading() as db:
            assert first_difference(db) is None


# Each depends on those before it: on their values, versions, births, turns, names and runs.
_ONE_AFTER_THE_OTHER: list[tuple[str, list[Command[Any]]]] = [
    ("main", [Write("a", "1", {"n": 1}), Write("b", "1", expires_at_turn=9)]),
    ("main", [CompareAndSet("a", "1", "2"), CompareAndSet("b", "1", "2", {"by": "b"})]),
    ("main", [Write("b", "3", {"n": 3}, expires_at_turn=8), CompareAndSet("b", "3", "4"), AdvanceTurn()]),
    ("new run", [Write("a", "1", expected_version=0), CompareAndSet("a", "x", "2")]),
    ("main", [Write("a", "3", expected_version=5), Delete("b"), Write("b", "5"), SetTurn(7)]),
    ("main", [Write("lost", "x"), Write("a", "x", expected_version=1)]),
    ("new run", [CompareAndSet("a", "1", "2"), Write("c", ""), Clear(), Delete("c")]),
    ("cleared", [Write("x", "1", expires_at_turn=1), Write("y", "1")]),
    ("cleared", [Delete("x"), Clear(), Write("x", "2")]),
    ("main", [Once("request 1", Write("a", "4")), AdvanceTurn()]),
    ("main", [Once("request 1", Write("a", "4"))]),
    ("main", [Once("request 1", Write("a", "5"))]),
    ("main", [CompareAndSet("a", "4", "5"), AdvanceTurn(), Write("c", "1"), Clear()]),
    ("another", []),
    ("main", [Delete("a"), Write("a", "anew"), CompareAndSet("a", "anew", "old")]),
]


def answers(log: EventLog, *, together: bool) -> list[Any]:
    """What each list of commands is answered, all in one transaction or each in its own."""
    lists = [(run, commands) for run, commands in _ONE_AFTER_THE_OTHER if commands]
    requests = [log._request(commands, run, "writer", f"task {n}") for n, (run, commands) in enumerate(lists)]
    for group in [requests] if together else [[request] for request in requests]:
        log._writer.commit([request for request in group if request is not None])
    return [request and (str(request.error), request.outcomes) for request in requests]


def test_lists_of_one_transaction_see_each_other(tmp_path: Path) -> None:
    """A group leaves the answers, the events and the table that its lists leave one after the other."""
    found: list[Any] = []
    for together in (True, False):
        uids = itertools.count()
        with EventLog(
            tmp_path / f"{together}.db",
            projections=[EntriesProjection()],
            clock=lambda: 1000,
            new_uid=lambda uids=uids: f"{next(uids):032x}",
            random_bytes=bytes,
        ) as log:
            told = answers(log, together=together)
            afterwards = log.execute([CompareAndSet("a", "old", "new"), AdvanceTurn()], run="main")
            found.append((told, afterwards, list(log.read()), log.runs()))
            assert verify(log).ok
            with log.reading() as db:
                assert first_difference(db) is None
    assert found[0] == found[1]


def test_what_an_interrupted_leader_had_committed_is_not_done_twice(tmp_path: Path) -> None:
    """Ctrl-C that comes right after the commit: the others are answered, their turns counted once."""
    with EventLog(tmp_path / "team.db") as log:
        writer = log._writer
        flush = writer.flush
        interrupted = threading.Event()

        def interrupt_once() -> None:
            flush()
            if not interrupted.is_set():
                interrupted.set()
                raise KeyboardInterrupt

        writer.flush = interrupt_once  # type: ignore[method-assign]
        requests = [Commands("main", (AdvanceTurn(),), Actor()) for _ in range(3)]
        with suppress(KeyboardInterrupt):
            writer.commit(requests)
        assert interrupted.is_set()
        assert all(request.settled for request in requests)
        head = log.head("main")
        assert head is not None
        assert head.turn == 3
