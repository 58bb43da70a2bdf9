"""Tasks that write while something is in the way: a lock, a failing disk, an interrupt, the loop's end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    Busy,
    Closed,
    Conflict,
    EntryWritten,
    EventLog,
    Limits,
    OutcomeUnknown,
    StorageError,
    Write,
)
from turnlog.memory import AsyncEventSourcedStore, EventSourcedStore
from turnlog.projections import first_difference

_FLUSHED_BY_US = pytest.mark.skipif(sys.platform != "linux", reason="SQLite flushes by itself here")

_HOLD_THE_LOCK = """
import sys
from turnlog.eventlog.driver import driver
db = driver().connect(sys.argv[1], isolation_level=None)
db.execute("begin immediate")
print("held", flush=True)
sys.stdin.readline()
db.execute("rollback")
"""


@contextmanager
def holding(path: str) -> Iterator[Callable[[], None]]:
    """Another process holds the write lock of the log at `path`; what is given lets it go."""
    command = [sys.executable, "-c", _HOLD_THE_LOCK, path]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.stdin.close


async def lateness(action: Awaitable[Any]) -> tuple[Any, float]:
    """What `action` gives, and by how many seconds a task that wakes every millisecond was late at worst."""
    worst, over = 0.0, False

    async def beat() -> None:
        nonlocal worst
        while not over:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - due)

    heart = asyncio.create_task(beat())
    result = await action
    over = True
    await heart
    return result, worst


# -- somebody else holds the lock


def test_the_loop_goes_on_while_another_process_holds_the_lock(disk_log: EventLog) -> None:
    """Writes wait for it, other tasks do not, and when it lets go every write comes through."""
    store = AsyncEventSourcedStore(disk_log)
    with holding(disk_log.path) as let_go:

        async def main() -> tuple[list[Any], float]:
            writes = asyncio.gather(*(store.set(f"k{number}", "v") for number in range(300)))
            asyncio.get_running_loop().call_later(2, let_go)
            began = time.perf_counter()
            versions, worst = await lateness(writes)
            assert time.perf_counter() - began > 1.9
            return versions, worst

        versions, worst = asyncio.run(main())
    assert versions == list(range(1, 301))
    assert worst < 1, "the loop waited for the lock"  # how late it is in earnest, the benchmark says


def test_every_writer_waits_for_the_lock_as_long_as_was_said(tmp_path: Path) -> None:
    """Then it is `Busy` for all who have waited that long, however many they are, and nothing was written."""
    with turnlog.open(tmp_path / "team.db", busy_timeout_s=0.3) as log:
        store = AsyncEventSourcedStore(log)

        told: list[str] = []

        async def write(key: str) -> float:
            began = time.perf_counter()
            with pytest.raises(Busy, match=r"more than 0.3 s"):
                await store.set(key, "v")
            told.append(key)
            return time.perf_counter() - began

        async def main() -> list[list[float]]:
            early = asyncio.gather(*(write(f"k{number}") for number in range(1_000)))
            await asyncio.sleep(0.2)
            late = asyncio.gather(*(write(f"late{number}") for number in range(10)))
            return await asyncio.gather(early, late)

        with holding(log.path):
            early, late = asyncio.run(main())
        assert min(early + late) >= 0.3
        # Nobody waits for those before him as well, and they are told in turn.
        assert max(early + late) < 10
        assert [key for key in told[:1_000] if key.startswith("late")] == []
        assert log.head("main") is None
        assert asyncio.run(store.set("k", "v")) == 1


def test_a_lock_that_is_free_in_between_makes_nobody_busy(tmp_path: Path, outsider: Any) -> None:
    """The limit is for the time that the lock was held at a stretch, not for the time in line."""
    with turnlog.open(tmp_path / "team.db", busy_timeout_s=0.2, durability="os") as log:
        store = AsyncEventSourcedStore(log)

        async def hold_again_and_again() -> None:
            for _ in range(4):
                outsider.execute("begin immediate")
                await asyncio.sleep(0.12)
                outsider.execute("rollback")
                await asyncio.sleep(0.005)

        async def main() -> list[int]:
            await store.set("k", "v")
            holding = asyncio.create_task(hold_again_and_again())
            await asyncio.sleep(0)
            versions: list[int] = []
            while not holding.done():
                versions += await asyncio.gather(*(store.set("k", "v") for _ in range(5)))
            return versions

        versions = asyncio.run(main())
        assert versions == list(range(2, len(versions) + 2))
        assert len(versions) >= 20


# -- the disk fails


@_FLUSHED_BY_US
def test_a_flush_that_fails_is_told_to_all_whom_it_concerns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell what became of its group's writes; all others are refused until the log is reopened."""

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "team.db"
    with turnlog.open(path) as log:
        store = AsyncEventSourcedStore(log)

        async def main() -> list[Any]:
            await store.set("k", "before")
            monkeypatch.setattr(os, "fdatasync", failing)
            lists = [[Write(f"k{number}", "perhaps")] for number in range(300)]
            lists[5] = [Write("k", "conflict", expected_version=9)]
            results = await asyncio.gather(*map(store.execute, lists), return_exceptions=True)
            monkeypatch.undo()
            results += await asyncio.gather(store.set("k", "refused"), return_exceptions=True)
            assert (await store.get("k")).value == "before"
            return results

        results = asyncio.run(main())
        assert type(results[5]) is Conflict, "this one was refused, whatever became of its neighbours"
        unknown = [number for number, each in enumerate(results) if isinstance(each, OutcomeUnknown)]
        committed = len(unknown) + 1
        assert committed in (128, 256), "one group was committed, or another while the flush was out"
        assert unknown == [number for number in range(committed) if number != 5]
        assert {type(each) for each in results[committed:]} == {StorageError}
    with turnlog.open(path) as log:
        assert asyncio.run(AsyncEventSourcedStore(log).set("k", "after")) == committed + 2
        values = [one.event.value for one in log.read(key="k", type=EntryWritten)]
        assert values == ["before", "after"]
        with log.reading() as db:
            assert first_difference(db) is None


@_FLUSHED_BY_US
def test_a_flush_after_one_that_failed_acknowledges_nothing(
    disk_log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two loops have committed when the flush of the first fails: that of the other cannot make up for it."""
    first_flushes, second_committed = threading.Event(), threading.Event()
    flush = os.fdatasync
    calls: list[int] = []

    def first_fails(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            first_flushes.set()
            assert second_committed.wait(20)
            raise OSError(5, "Input/output error")
        flush(descriptor)

    results: dict[str, Any] = {}

    def write(name: str) -> None:
        try:
            results[name] = asyncio.run(AsyncEventSourcedStore(disk_log).set(name, "v"))
        except BaseException as error:  # noqa: BLE001 - told to the test
            results[name] = error

    monkeypatch.setattr(os, "fdatasync", first_fails)
    threads = [threading.Thread(target=write, args=(name,)) for name in ("first", "second")]
    threads[0].start()
    assert first_flushes.wait(20)
    threads[1].start()
    while EventSourcedStore(disk_log).get("second") is None:
        time.sleep(0.001)
    second_committed.set()
    for thread in threads:
        thread.join(20)
    assert {name: type(result) for name, result in results.items()} == {
        "first": OutcomeUnknown,
        "second": OutcomeUnknown,
    }


def run(script: str, path: Path, *arguments: object, seconds: float = 30) -> str:
    """What a Python program prints that gets the log's path; it ends well, and in time."""
    command = [sys.executable, "-W", "error", "-c", script, str(path), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


_NO_DESCRIPTORS_LEFT = """
import asyncio, os, resource, sys
import turnlog
from turnlog import Write

async def main(log):
    await log.aexecute([Write("k", "v")], run="main")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 2, hard))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    many = [Write(f"k{number}", "v") for number in range(5_000)]
    print(await log.aexecute(many, run="main") == list(range(2, 5_002)))
    for descriptor in held:
        os.close(descriptor)
    print(await log.aexecute([Write("k", "v")], run="main"))

with turnlog.open(sys.argv[1], durability=sys.argv[2]) as log:
    asyncio.run(main(log))
"""


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="counts open files in /dev/fd")
@pytest.mark.parametrize("durability", ["disk", "os"])
def test_what_is_committed_does_not_fail_for_the_work_after_it(tmp_path: Path, durability: str) -> None:
    """The WAL has grown and should be moved into the file, which fails: the writes stand, and are told so."""
    assert run(_NO_DESCRIPTORS_LEFT, tmp_path / "team.db", durability) == "True\n[5002]\n"


# -- interrupts


@dataclass
class Raising:
    """A command that raises, so many times, and else does nothing."""

    error: type[BaseException]
    times: float
    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: Any) -> Sequence[Any]:
        """Raise, or nothing."""
        self.times -= 1
        if self.times >= 0:
            raise self.error
        return []

    def outcome(self, recorded: Sequence[Any]) -> str:
        """A word."""
        return "done"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("times", [1, 2, 99], ids=["once", "twice", "always"])
def test_an_interrupt_within_a_step_leaves_nobody_hanging(
    disk_log: EventLog, outsider: Any, error: type[BaseException], times: int
) -> None:
    """Whoever was decided with it is decided again and written; what raises it each time is cancelled."""
    store, bad = AsyncEventSourcedStore(disk_log), Raising(error, times)
    told: list[BaseException] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    def go_on(future: Awaitable[Any]) -> Any:
        while True:
            try:
                return loop.run_until_complete(future)
            except (KeyboardInterrupt, SystemExit) as interrupt:  # as a shell that goes on after Ctrl-C
                told.append(interrupt)

    async def main() -> list[Any]:
        writes: list[Awaitable[Any]] = [store.set(f"k{number}", "v") for number in range(20)]
        writes.insert(7, store.execute([bad]))
        return await asyncio.wait_for(asyncio.gather(*writes, return_exceptions=True), 20)

    try:
        results = go_on(loop.create_task(main()))
        outcome = results.pop(7)
        assert outcome == ["done"] if times == 1 else isinstance(outcome, asyncio.CancelledError)
        assert results == list(range(1, 21))
        assert [type(each) for each in told] == [error] * min(times, 2)
        outsider.execute("begin immediate")
        outsider.execute("rollback")
        assert go_on(loop.create_task(store.set("afterwards", "v"))) == 21
    finally:
        loop.close()


def test_ctrl_c_ends_a_loop_with_writes_under_way(disk_log: EventLog, outsider: Any) -> None:
    """`asyncio.run` ends with `KeyboardInterrupt`, each write is there or is not, and the log goes on."""
    store = AsyncEventSourcedStore(disk_log)
    acknowledged: list[int] = []

    async def work(number: int) -> None:
        while True:
            acknowledged.append(await store.set(f"k{number}", "v"))
            if len(acknowledged) == 500:
                signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        await asyncio.gather(*map(work, range(40)))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    outsider.execute("begin immediate")
    outsider.execute("rollback")
    assert set(acknowledged) <= {one.position for one in disk_log.read()}
    assert asyncio.run(store.set("afterwards", "v")) > max(acknowledged)


# -- the end


@_FLUSHED_BY_US
def test_a_loop_that_is_closed_while_a_flush_is_out(
    disk_log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is left to be answered; that hurts nobody, and the log goes on in another loop."""
    flush, may_flush = os.fdatasync, threading.Event()

    def held_up(descriptor: int) -> None:
        assert may_flush.wait(20)
        flush(descriptor)

    async def main() -> None:
        write = asyncio.create_task(AsyncEventSourcedStore(disk_log).set("k", "v"))
        while await AsyncEventSourcedStore(disk_log).get("k") is None:
            await asyncio.sleep(0)
        assert not write.done()

    monkeypatch.setattr(os, "fdatasync", held_up)
    asyncio.run(main())
    may_flush.set()  # what goes wrong in the worker now makes the test fail
    assert asyncio.run(AsyncEventSourcedStore(disk_log).set("k", "v")) == 2


_ENDS_WITH_WRITES_IN_LINE = """
import asyncio, sys
import turnlog

async def main(log):
    store = turnlog.AsyncEventSourcedStore(log)
    await store.set("k", "v")
    for number in range(500):
        asyncio.get_running_loop().create_task(store.set(f"k{number}", "v"))
    for _ in range(int(sys.argv[2])):
        await asyncio.sleep(0)

log = turnlog.open(sys.argv[1])
if sys.argv[3] == "closed":
    asyncio.run(main(log))
else:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main(log))
log.execute([turnlog.Write("last", "v")], run="main")
print("end", flush=True)
"""


@pytest.mark.parametrize(
    ("passes", "loop"), [(1, "closed"), (2, "closed"), (3, "closed"), (2, "left as it is")]
)
def test_a_loop_that_ends_with_writes_in_line(tmp_path: Path, passes: int, loop: str) -> None:
    """The log can still be written, the process ends at once and quietly, and leaves no write half done."""
    path = tmp_path / "team.db"
    assert run(_ENDS_WITH_WRITES_IN_LINE, path, passes, loop, seconds=10) == "end\n"
    with turnlog.open(path) as log:
        keys = [one.event.key for one in log.read()]
        assert keys == ["k", *(f"k{number}" for number in range(len(keys) - 2)), "last"]
        with log.reading() as db:
            assert first_difference(db) is None


def test_a_log_that_is_closed_with_writes_in_line(disk_log: EventLog) -> None:
    """What was committed is acknowledged, the rest is refused, and no thread stays behind."""
    store = AsyncEventSourcedStore(disk_log)

    async def main() -> list[Any]:
        writes = [asyncio.create_task(store.set(f"k{number}", "v")) for number in range(400)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        disk_log.close()
        assert "turnlog-flush" not in {thread.name for thread in threading.enumerate()}
        results = await asyncio.gather(*writes, return_exceptions=True)
        return [*results, *await asyncio.gather(store.set("k", "v"), return_exceptions=True)]

    results = asyncio.run(main())
    versions = [each for each in results if isinstance(each, int)]
    assert versions == list(range(1, 129)), "one group had been committed"
    assert {type(each) for each in results[128:]} == {Closed}
    with turnlog.open(disk_log.path) as log:
        assert len(list(log.read())) == 128


@pytest.mark.parametrize("attempt", range(10))
def test_a_log_that_is_closed_by_a_thread_while_tasks_write(disk_log: EventLog, attempt: int) -> None:
    """Nobody hangs, and everything that was acknowledged is there."""
    store = AsyncEventSourcedStore(disk_log)
    acknowledged: list[int] = []

    async def work(number: int) -> None:
        with suppress(Closed):
            while True:
                acknowledged.append(await store.set(f"k{number}", "v"))

    async def main() -> None:
        threading.Timer(0.01 + attempt / 1_000, disk_log.close).start()
        await asyncio.wait_for(asyncio.gather(*map(work, range(40))), 20)

    asyncio.run(main())
    with turnlog.open(disk_log.path) as log:
        assert set(acknowledged) <= {one.position for one in log.read()}


_NO_THREAD_TO_BE_HAD = """
import asyncio, sys, threading
import turnlog

def refuse(*given):
    raise RuntimeError("can't start new thread")

async def main(log):
    store = turnlog.AsyncEventSourcedStore(log)
    threading._start_new_thread = refuse
    print(await asyncio.wait_for(asyncio.gather(store.set("a", "v"), store.set("b", "v")), 5))

with turnlog.open(sys.argv[1]) as log:
    asyncio.run(main(log))
"""


def test_where_no_thread_is_to_be_had(tmp_path: Path) -> None:
    """The loop flushes by itself."""
    assert run(_NO_THREAD_TO_BE_HAD, tmp_path / "team.db") == "[1, 2]\n"


_FORKS_BETWEEN_LOOPS = """
import asyncio, os, sys, warnings
import turnlog
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of a fork beside any thread

async def main(log, name):
    store = turnlog.AsyncEventSourcedStore(log)
    print(*await asyncio.gather(*(store.set(f"{name} {number}", "v") for number in range(3))), flush=True)

with turnlog.open(sys.argv[1]) as log:
    asyncio.run(main(log, "before"))
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
    asyncio.run(main(log, "after" if child else "child"))
"""
_FORKS_WITHIN_A_LOOP = """
import asyncio, os, sys, warnings
import turnlog
warnings.simplefilter("ignore", DeprecationWarning)

async def main(log):
    store = turnlog.AsyncEventSourcedStore(log)
    writes = [asyncio.create_task(store.set(f"before {number}", "v")) for number in range(200)]
    for _ in range(int(sys.argv[2])):
        await asyncio.sleep(0)
    child = os.fork()
    if not child:
        turnlog.EventSourcedStore(log).set("child", "v")
        log.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(set(await asyncio.gather(*writes))) == 200
    print(await store.set("after", "v"))

with turnlog.open(sys.argv[1]) as log:
    asyncio.run(main(log))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_a_process_that_forks_after_its_tasks_have_written(tmp_path: Path) -> None:
    """Both sides go on, with loops of their own."""
    path = tmp_path / "team.db"
    assert run(_FORKS_BETWEEN_LOOPS, path) == "1 2 3\n4 5 6\n7 8 9\n"
    with turnlog.open(path) as log:
        keys = [entry.key for entry in EventSourcedStore(log).list()]
        assert keys == [f"{who} {number}" for who in ("before", "child", "after") for number in range(3)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
@pytest.mark.parametrize("passes", [1, 2])
def test_a_process_that_forks_while_its_tasks_write(tmp_path: Path, passes: int) -> None:
    """The tasks of the parent go on; the child has none of their writes, and writes for itself."""
    path = tmp_path / "team.db"
    assert run(_FORKS_WITHIN_A_LOOP, path, passes) == "202\n"
    with turnlog.open(path) as log:
        keys = {entry.key for entry in EventSourcedStore(log).list()}
        assert keys == {"child", "after", *(f"before {number}" for number in range(200))}
        with log.reading() as db:
            assert first_difference(db) is None
