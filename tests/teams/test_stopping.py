"""Stopping a run from outside or inside: nothing is left running, nothing is half-written."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import Agent, AsyncEventSourcedStore, EventSourcedStore, Task, Team, arun_tasks, run_tasks
from turnlog.projections import first_difference

from .conftest import Way, as_coroutine, says


def agents_at_work() -> list[str]:
    """Threads of ours that are still there."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("turnlog-agent")]


def check_whole(log: turnlog.EventLog) -> None:
    """Every result has its turn, and log and table agree."""
    store = EventSourcedStore(log)
    results = [entry for entry in store.list() if ":result" in entry.key]
    assert len(results) == store.get_turn()
    with log.reading() as db:
        assert first_difference(db) is None


class Stop(BaseException):
    """What is no `Exception`."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, Stop])
def test_what_is_no_exception_stops_the_run(
    way: Way, made: Callable[..., Agent], error: type[BaseException]
) -> None:
    """It is raised as it is; the others are cancelled or waited for; nothing more is begun or recorded."""
    at_work = threading.Barrier(3, timeout=30)
    seen: list[str] = []

    def raises(prompt: str, memory: Any, context: Any) -> str:
        at_work.wait()
        raise error("enough")

    def function(prompt: str, memory: Any, context: Any) -> str:
        at_work.wait()
        while not context.is_cancelled:
            threading.Event().wait(0.001)
        seen.append("function was told")
        return "too late"

    async def coroutine(prompt: str, memory: Any, context: Any) -> str:
        try:
            await asyncio.to_thread(at_work.wait)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            seen.append("coroutine was cancelled")
            raise
        return "never"

    def raises_in_thread(prompt: str, memory: Any, context: Any) -> Any:
        return raises(prompt, memory, context)

    async def raises_on_loop(prompt: str, memory: Any, context: Any) -> str:
        await asyncio.to_thread(at_work.wait)
        raise error("enough")

    is_function = not made("x", says("")).is_async
    team = way.team(
        Agent("raises", raises_in_thread if is_function else raises_on_loop),
        Agent("function", function),
        Agent("coroutine", coroutine),
    )
    tasks = [Task(name, "", name) for name in team.agents]
    with pytest.raises(error, match="enough"):
        way.run(team, [*tasks, Task("later", "", "function", depends_on=["function"])])
    assert sorted(seen) == ["coroutine was cancelled", "function was told"]
    assert (way.entries(), way.turn()) == ({}, 0)
    assert agents_at_work() == []
    check_whole(way.log)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Stop])
def test_so_does_what_a_function_s_coroutine_raises(way: Way, error: type[BaseException]) -> None:
    """A function may return a coroutine, and that raise what is no `Exception`."""
    at_work = threading.Barrier(2, timeout=30)
    seen: list[str] = []

    async def raises() -> str:
        await asyncio.to_thread(at_work.wait)
        raise error("enough")

    async def waits(prompt: str, memory: Any, context: Any) -> str:
        try:
            await asyncio.to_thread(at_work.wait)
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")
        return "never"

    team = way.team(Agent("raises", lambda *_: raises()), Agent("waits", waits))
    with pytest.raises(error, match="enough"):
        way.run(team, [Task("a", "", "raises"), Task("b", "", "waits")])
    assert seen == ["cancelled"]
    assert agents_at_work() == []


def test_an_agent_that_cancels_itself_has_failed(way: Way) -> None:
    """A `CancelledError` that is not our doing is that task's failure, and repeated like any other."""

    async def run(prompt: str, memory: Any, context: Any) -> str:
        if context.attempt == 1:
            raise asyncio.CancelledError("of my own")
        return "done"

    team = way.team(Agent("ann", run))
    assert way.run(team, [Task("a", "", "ann", max_retries=1, retry_delay_s=0)])["a"].attempts == 2
    failed = way.run(team, [Task("a", "", "ann")])["a"]
    assert failed.error is not None
    assert "cancelled by something of its own" in failed.error.message


@pytest.mark.parametrize("store", [EventSourcedStore, AsyncEventSourcedStore])
def test_a_cancelled_run_leaves_nothing_behind(log: turnlog.EventLog, store: Any) -> None:
    """Coroutines are cancelled and may clean up, functions are told and waited for, retries dropped."""
    seen: list[str] = []
    function_began = threading.Event()

    async def coroutine(prompt: str, memory: Any, context: Any) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await memory.write("last words", "x")
            seen.append("coroutine")
        return "never"

    def function(prompt: str, memory: Any, context: Any) -> str:
        function_began.set()
        while not context.is_cancelled:
            threading.Event().wait(0.001)
        memory.write("last words", "x")
        seen.append("function")
        return "too late"

    def fails(prompt: str, memory: Any, context: Any) -> str:
        raise RuntimeError("no luck")

    async def main() -> None:
        retrying = asyncio.Event()

        def told(event: Any) -> None:
            if event.kind == "retried":
                retrying.set()

        team = Team(
            [Agent("coroutine", coroutine), Agent("function", function), Agent("fails", fails)],
            shared_memory_store=store(log),
        )
        tasks = [Task(name, "", name, max_retries=1, retry_delay_s=30) for name in team.agents]
        run = asyncio.create_task(arun_tasks(team, tasks, on_event=told))
        await retrying.wait()
        await asyncio.to_thread(function_began.wait)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert sorted(seen) == ["coroutine", "function"]
    assert sorted(entry.key for entry in EventSourcedStore(log).list()) == [
        "coroutine/last words",
        "function/last words",
    ]
    assert agents_at_work() == []
    check_whole(log)


@pytest.mark.parametrize("store", [EventSourcedStore, AsyncEventSourcedStore])
def test_cancelling_at_any_moment_writes_whole_results_only(log: turnlog.EventLog, store: Any) -> None:
    """After any number of steps of the loop: results and turns agree, and another writer is not held up."""

    async def main(steps: int) -> None:
        team = Team(
            [Agent("ann", as_coroutine(says("x"))), Agent("bob", says("y"))], shared_memory_store=store(log)
        )
        tasks = [Task("a", "", "ann"), Task("b", "", "bob"), Task("c", "", "ann", depends_on=["a"])]
        run = asyncio.create_task(arun_tasks(team, tasks))
        for _ in range(steps):
            await asyncio.sleep(0)
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        assert len(asyncio.all_tasks()) == 1

    for steps in range(40):
        asyncio.run(main(steps))
        results = {event.event.key for event in log.read() if hasattr(event.event, "key")}
        assert results <= {"ann/task:a:result", "bob/task:b:result", "ann/task:c:result"}
        turns = sum(type(event.event).__name__ == "TurnAdvanced" for event in log.read())
        written = sum(type(event.event).__name__ == "EntryWritten" for event in log.read())
        assert turns == written == EventSourcedStore(log).get_turn()
    assert agents_at_work() == []


def test_a_coroutine_that_comes_too_late_is_not_begun(way: Way) -> None:
    """A function that returns one when the run is being stopped holds nothing up, and nobody awaits it."""
    began = threading.Event()

    async def endless() -> str:
        await asyncio.Event().wait()
        return "never"

    def late(prompt: str, memory: Any, context: Any) -> Any:
        began.set()
        while not context.is_cancelled:
            threading.Event().wait(0.001)
        return endless()

    def stops(prompt: str, memory: Any, context: Any) -> str:
        assert began.wait(30)
        raise Stop

    with pytest.raises(Stop):
        way.run(
            way.team(Agent("late", late), Agent("stops", stops)),
            [Task("late", "", "late"), Task("stops", "", "stops")],
        )
    assert agents_at_work() == []


def test_a_deadline_ends_a_run(log: turnlog.EventLog) -> None:
    """`asyncio.timeout` works around it."""

    async def waits(prompt: str, memory: Any, context: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    async def main() -> None:
        team = Team([Agent("ann", waits)], shared_memory_store=AsyncEventSourcedStore(log))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await arun_tasks(team, [Task("a", "", "ann")])

    asyncio.run(main())
    check_whole(log)


def test_a_second_cancellation_does_not_leave_a_function_running() -> None:
    """Whoever cancels twice still waits for what cannot be cancelled."""
    began, go = threading.Event(), threading.Event()
    ended: list[str] = []

    def stubborn(prompt: str, memory: Any, context: Any) -> str:
        began.set()
        assert go.wait(30)
        ended.append("ended")
        return "too late"

    async def main() -> None:
        run = asyncio.create_task(arun_tasks(Team([Agent("ann", stubborn)]), [Task("a", "", "ann")]))
        await asyncio.to_thread(began.wait)
        for _ in range(3):
            run.cancel()
            await asyncio.sleep(0)
        assert not run.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended == ["ended"]

    asyncio.run(main())


_INTERRUPTED = """
import asyncio, signal, sys, threading
import turnlog
from turnlog import *

def function(prompt, memory, context):
    meeting.wait()
    while not context.is_cancelled:
        threading.Event().wait(0.001)
    seen.append("function told")
    return "late"

async def coroutine(prompt, memory, context):
    try:
        await asyncio.to_thread(meeting.wait)
        await asyncio.Event().wait()
    finally:
        seen.append("coroutine cancelled")

def listener():
    meeting.wait()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

seen = []
meeting = threading.Barrier(3)
other = threading.Thread(target=listener)
other.start()
with turnlog.open(sys.argv[1]) as log:
    team = Team(
        [Agent("quick", lambda *_: "x"), Agent("function", function), Agent("coroutine", coroutine)],
        shared_memory_store=EventSourcedStore(log),
    )
    tasks = [
        Task("quick", "", "quick"),
        Task("function", "", "function", depends_on=["quick"]),
        Task("coroutine", "", "coroutine", depends_on=["quick"]),
    ]
    try:
        asyncio.run(arun_tasks(team, tasks)) if sys.argv[2] == "loop" else run_tasks(team, tasks)
    except KeyboardInterrupt:
        other.join()
        print(*sorted(seen), f"{threading.active_count()} thread left", sep="\\n")
"""


@pytest.mark.parametrize("way", ["threads", "loop"])
def test_an_interrupt_ends_a_run(tmp_path: Path, way: str) -> None:
    """Ctrl-C: coroutines are cancelled, functions told and waited for; what was completed stays."""
    path = tmp_path / "team.db"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _INTERRUPTED, str(path), way],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["coroutine cancelled", "function told", "1 thread left"]
    with turnlog.open(path) as log:
        assert [entry.key for entry in EventSourcedStore(log).list()] == ["quick/task:quick:result"]
        check_whole(log)


def test_an_interrupt_at_any_line_is_whole_or_absent(log: turnlog.EventLog) -> None:
    """Interrupted at many different lines of the scheduler and the memory, results and turns still agree."""
    tasks = [Task("a", "", "ann"), Task("b", "", "bob", depends_on=["a"]), Task("c", "", "ann")]
    interrupted = 0
    for run, line in enumerate(range(1, 2000, 23)):
        store = EventSourcedStore(log, f"run {run}")
        agents = [Agent("ann", says("x")), Agent("bob", as_coroutine(says("y")))]
        sys.settrace(interrupting_at(line))
        try:
            run_tasks(Team(agents, shared_memory_store=store), tasks)
            break
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        assert len(store.list()) == store.get_turn()
    assert interrupted > 20
    check_whole(log)


def interrupting_at(line: int) -> Any:
    """A trace function that raises `KeyboardInterrupt` in this thread, at that line of teams and memory."""
    left = line
    packages = (str(Path(turnlog.teams.__file__).parent), str(Path(turnlog.memory.__file__).parent))

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(packages):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    return trace


def test_what_a_listener_raises_ends_the_run(way: Way, made: Callable[..., Agent]) -> None:
    """An error in `on_event` is raised like that of a store: afterwards, and not swallowed."""
    broken = ZeroDivisionError("in the listener")

    def told(event: Any) -> None:
        if event.kind == "completed":
            raise broken

    with pytest.raises(ZeroDivisionError, match="in the listener") as raised:
        way.run(
            way.team(made("ann", says("x"))),
            [Task("a", "", "ann"), Task("b", "", "ann", depends_on=["a"])],
            on_event=told,
        )
    assert raised.value is broken
    assert list(way.entries()) == ["ann/task:a:result"]
    check_whole(way.log)
