"""Tasks that write while something is in the way: a lock, a disk that fails, an interrupt, the end of the loop."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Busy, Closed, EventLog, Limits, OutcomeUnknown, Write
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
print("let go", flush=True)
"""


class Holder:
    """Another process, which holds the write lock until it is told to let go."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def say(self, word: str) -> None:
        """Wait until it says so."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"

    def let_go(self) -> None:
        """Tell it."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def holding(path: str) -> Iterator[Holder]:
    """A process that holds the write lock of the log at `path`."""
    command = [sys.executable, "-c", _HOLD_THE_LOCK, path]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        holder = Holder(process)
        holder.say("held")
        try:
            yield holder
        finally:
            with suppress(OSError):
                holder.let_go()


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
    with holding(disk_log.path) as holder:

        async def main() -> tuple[list[Any], float]:
            writes = asyncio.gather(*(store.set(f"k{number}", "v") for number in range(300)))
            asyncio.get_running_loop().call_later(0.3, holder.let_go)
            began = time.perf_counter()
            versions, worst = await lateness(writes)
            assert time.perf_counter() - began > 0.25
            return versions, worst

        versions, worst = asyncio.run(main())
    assert versions == list(range(1, 301))
    assert worst < 0.05, "something held up the loop"


def test_every_writer_waits_for_the_lock_as_long_as_was_said(tmp_path: Path) -> None:
    """Then it is `Busy` for all who have waited that long, however many they are, and nothing was written."""
    with turnlog.open(tmp_path / "team.db", busy_timeout_s=0.3) as log:
        store = AsyncEventSourcedStore(log)

        async def write(key: str) -> float:
            began = time.perf_counter()
            with pytest.raises(Busy, match=r"more than 0.3 s"):
                await store.set(key, "v")
            return time.perf_counter() - began

        async def main() -> tuple[list[float], float]:
            early = asyncio.gather(*(write(f"k{number}") for number in range(1_000)))
            await asyncio.sleep(0.2)
            late = asyncio.gather(*(write(f"late{number}") for number in range(10)))
            (waited, waited_late), worst = await lateness(asyncio.gather(early, late))
            return [min(waited), max(waited), min(waited_late), max(waited_late)], worst

        with holding(log.path):
            waited, worst = asyncio.run(main())
        assert min(waited) >= 0.3
        assert max(waited) < 0.3 + 0.25, waited
        assert worst < 0.05
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
    """Nobody can tell what became of the group's writes; those after it are refused until the log is reopened."""

    def failing(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "team.db"
    with turnlog.open(path) as log:
        store = AsyncEventSourcedStore(log)

        async def main() -> list[Any]:
            await store.set("k", "before")
            monkeypatch.setattr(os, "fdatasync", failing)
            group = [store.set(f"k{number}", "perhaps") for number in range(200)]
            results = await asyncio.gather(*group, return_exceptions=True)
            monkeypatch.undo()
            results += await asyncio.gather(store.set("k", "refused"), return_exceptions=True)
            assert (await store.get("k")).value == "before"
            return results

        assert {type(each) for each in asyncio.run(main())} == {OutcomeUnknown}
        with pytest.raises(OutcomeUnknown, match="opened again"):
            log.execute([Write("k", "refused")], run="main")
    with turnlog.open(path) as log:
        assert asyncio.run(AsyncEventSourcedStore(log).set("k", "after")) > 1
        values = [one.event.value for one in log.read(key="k")]
        assert values == ["before", "after"]
        with log.reading() as db:
            assert first_difference(db) is None


@_FLUSHED_BY_US
def test_a_flush_after_one_that_failed_acknowledges_nothing(
    disk_log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two loops have committed when the flush of the first fails; that of the second would not reach its frames."""
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


def test_a_wal_that_cannot_be_moved_fails_no_write(tmp_path: Path) -> None:
    """The WAL has grown and must be moved into the file, which has no room; what was committed was committed."""
    script = """
import asyncio, resource, signal, sys
import turnlog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

async def main(log):
    store = turnlog.AsyncEventSourcedStore(log)
    await store.set("k", "v")
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
    ...
"""
    assert script
