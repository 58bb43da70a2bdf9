"""A file store whose process is killed, forked, or out of disk space: the file is whole, old or new."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from turnlog import Busy, Closed, FileStore

# Newer Pythons warn of what is tested here: that a process with threads may fork.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

_WRITE_ON = """
import sys
from turnlog import FileStore
with FileStore(sys.argv[1]) as store:
    number = len(store.list())
    print("open", number, flush=True)
    while True:
        number += 1
        store.set(f"key {number % 7}", f"{number} " + "x" * (number * 7919 % 20_000))
        print("ack", number, flush=True)
"""
_HOLD = """
import sys
from turnlog import FileStore
with FileStore(sys.argv[1]) as store:
    store.set("holder", "1")
    print("held", flush=True)
    sys.stdin.read()
"""


def started(program: str, path: Path) -> subprocess.Popen[str]:
    """A Python process on the store at `path`, whose first line has been read."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().split()[0] in ("open", "held")
    return process


def number_of(value: str) -> int:
    """Which write a value is of; it is whole."""
    number, _, rest = value.partition(" ")
    assert rest == "x" * (int(number) * 7919 % 20_000)
    return int(number)


@pytest.mark.parametrize(
    "rounds", [pytest.param(4, id="short"), pytest.param(60, id="long", marks=pytest.mark.long)]
)
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path, rounds: int) -> None:
    """Killed at a random moment, it leaves all it acknowledged and at most one write more, and no lock."""
    path = tmp_path / "memory.json"
    chance = random.Random(rounds)
    for _ in range(rounds):
        path.unlink(missing_ok=True)
        process = started(_WRITE_ON, path)
        assert process.stdout is not None
        acknowledged = 0
        for _ in range(chance.randrange(40)):
            acknowledged = int(process.stdout.readline().split()[1])
        # So far the test waited for a write; up to here a kill would come just after one. Now for in between.
        for _ in range(chance.randrange(20_000)):
            pass
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read()  # what was read ahead included
        process.communicate(timeout=30)
        acknowledged = max([acknowledged, *(int(line.split()[1]) for line in rest.splitlines())])
        with FileStore(path) as store:
            numbers = [number_of(entry.value) for entry in store.list()]
            newest = max(numbers, default=0)
            assert newest in (acknowledged, acknowledged + 1)
            assert sorted(numbers) == list(range(max(1, newest - 6), newest + 1))
            store.clear()
        assert sorted(each.name for each in tmp_path.iterdir()) == ["memory.json", "memory.json.lock"]


def test_two_processes_on_one_file(tmp_path: Path) -> None:
    """The second is told who holds it and writes nothing; when the first is killed, the next may."""
    path = tmp_path / "memory.json"
    process = started(_HOLD, path)
    before = path.read_bytes()
    with pytest.raises(Busy, match=rf"\(process {process.pid}\).*EventSourcedStore"):
        FileStore(path)
    assert path.read_bytes() == before
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    with FileStore(path) as store:
        store.set("next", "1")
        assert [entry.key for entry in store.list()] == ["holder", "next"]


_RACE = """
import sys
from turnlog import Busy, FileStore
sys.stdin.readline()
try:
    with FileStore(sys.argv[1]) as store:
        store.set(sys.argv[2], "1")
        print("won", flush=True)
        sys.stdin.read()
except Busy:
    print("busy", flush=True)
"""


def test_of_processes_that_open_at_once_one_wins(tmp_path: Path) -> None:
    """Nobody's write is lost: one has the file, the others have an error."""
    path = tmp_path / "memory.json"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACE, str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.stdout.readline().strip() for racer in racers if racer.stdout is not None]
    for racer in racers:
        racer.communicate(timeout=30)
    assert sorted(said) == ["busy", "busy", "busy", "won"]
    assert [entry["key"] for entry in json.loads(path.read_text())["entries"]] == [str(said.index("won"))]


def test_a_child_of_a_fork_neither_uses_nor_holds_the_file(tmp_path: Path) -> None:
    """In the child the store is Closed; the parent's goes on, and is free when only the child still lives."""
    path = tmp_path / "memory.json"
    done, told = os.pipe()
    stay, go = os.pipe()
    store = FileStore(path)
    store.set("parent", "1")
    child = os.fork()
    if child == 0:
        refusals = 0
        for attempt in (store.list, store.clear, lambda: store.get("a"), lambda: store.set("child", "1")):
            try:
                attempt()
            except Closed as error:
                refusals += "forked; open it anew" in str(error)
        store.close()
        try:
            FileStore(path)
        except Busy:
            refusals += 1
        os.write(told, bytes([refusals]))
        os.close(go)
        os.read(stay, 1)
        os._exit(0)
    try:
        assert os.read(done, 1) == bytes([5])
        store.set("parent", "2")
        store.close()
        with closing(FileStore(path)) as again:  # the child lives, and had the lock's open file
            assert [entry.value for entry in again.list()] == ["2"]
    finally:
        os.close(go)
        os.waitpid(child, 0)
        for end in (done, told, stay):
            os.close(end)


@pytest.mark.parametrize("moment", ["opened", "locked"])
def test_a_fork_while_the_lock_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Another thread may fork at any moment of it: the child does not keep the lock alive."""
    path, lock = tmp_path / "memory.json", tmp_path / "memory.json.lock"
    told, tell = os.pipe()
    forking = threading.Event()

    def fork() -> None:
        forking.set()
        child = os.fork()
        if child == 0:
            os.write(tell, b"shared" if _has_open(lock) else b"closed")
            os._exit(0)
        os.waitpid(child, 0)

    thread = threading.Thread(target=fork)
    name, of = ("open", os) if moment == "opened" else ("flock", fcntl)
    call = getattr(of, name)

    def begin_to_fork(*arguments: Any, **named: Any) -> Any:
        result = call(*arguments, **named)
        if not forking.is_set() and (moment == "locked" or str(arguments[0]).endswith(".lock")):
            thread.start()
            forking.wait(20)
            thread.join(0.2)  # it forks now, or waits until the lock is known
        return result

    monkeypatch.setattr(of, name, begin_to_fork)
    try:
        with closing(FileStore(path)):
            thread.join(20)
            assert os.read(told, 6) == b"closed"
    finally:
        os.close(tell)
        os.close(told)


def _has_open(path: Path) -> bool:
    """Whether this process has a descriptor of the file at `path`."""
    there = path.stat()
    for descriptor in range(256):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), there):
                return True
    return False


_FULL_DISK = """
import resource, sys
from turnlog import FileStore, StorageError
with FileStore(sys.argv[1]) as store:
    store.set("a", "1")
    before = open(sys.argv[1]).read()
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
    for attempt in (
        lambda: store.set("b", "x" * 20_000),
        lambda: store.compare_and_set("a", "1", "x" * 20_000),
        lambda: store.set_with_expiry("b", "x" * 20_000, 1),
    ):
        try:
            attempt()
        except StorageError as error:
            assert "memory.json could not be written: File too large" in str(error), error
        else:
            raise SystemExit("the limit did not bite")
        assert [entry.value for entry in store.list()] == ["1"]
        assert open(sys.argv[1]).read() == before
    store.set("c", "small enough")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.set("b", "x" * 20_000)
"""


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """The error names the file, file and memory are as before, no draft is left, and later all is well."""
    path = tmp_path / "memory.json"
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", _FULL_DISK, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with FileStore(path) as store:
        assert [entry.key for entry in store.list()] == ["a", "c", "b"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["memory.json", "memory.json.lock"]
