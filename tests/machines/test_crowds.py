"""Crowds: many processes and threads that write at once, and readers beside them."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

import turnlog
from turnlog import EventSourcedStore, Write
from turnlog.eventlog import EntryWritten
from turnlog.replay.verification import verify

_WRITE = """
import hashlib, json, random, sys
import turnlog

path, name, times = sys.argv[1:]
rng = random.Random(name)
with turnlog.open(path, durability="os", busy_timeout_s=60) as log:
    store = turnlog.EventSourcedStore(log)
    print("ready", flush=True)
    sys.stdin.readline()
    written = {}
    for number in range(int(times)):
        size = 1_000_000 if number == 7 else 1 if number == 8 else int(10 ** rng.uniform(0, 6))
        value = rng.randbytes(size // 2 + 1).hex()[:size]
        store.set(f"{name}/{number}", value)
        written[f"{name}/{number}"] = hashlib.sha256(value.encode()).hexdigest()
print(json.dumps(written))
"""

_READ = """
import json, sys
import turnlog
from turnlog.eventlog import EntryWritten

path = sys.argv[1]
seen, looks, newest = [], 0, 0
with turnlog.open(path, read_only=True) as log:
    store = turnlog.EventSourcedStore(log)
    print("ready", flush=True)
    last = 0
    while newest >= 0:
        looks += 1
        entries = {entry.key: entry.value for entry in store.list()}
        assert len(set(entries.values())) <= 1, entries  # of a batch all or nothing
        value = int(next(iter(entries.values()), 0))
        assert value >= newest or value < 0, (value, newest)  # and never backwards
        newest = value
        batch = [recorded for recorded in log.read(after=last)]
        if batch:
            assert [each.position for each in batch] == list(range(last + 1, last + len(batch) + 1))
            assert batch[0].batch == 0 and batch[-1].batch == 2, batch  # begins and ends with whole ones
            last = batch[-1].position
            seen += [each.event.value for each in batch]
print(json.dumps([looks, seen]))
"""


def start(stack: ExitStack, program: str, *arguments: object) -> subprocess.Popen[str]:
    """A process, once it is ready."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    started = stack.enter_context(
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


@pytest.mark.parametrize(
    ("processes", "times"),
    [pytest.param(2, 9, id="two"), pytest.param(16, 100, id="sixteen", marks=pytest.mark.long)],
)
def test_processes_that_write_values_of_all_sizes(tmp_path: Path, processes: int, times: int) -> None:
    """Values of one byte to a megabyte, from all sides at once: each is there, whole."""
    path = tmp_path / "team.db"
    turnlog.open(path).close()
    with ExitStack() as stack:
        writers = [start(stack, _WRITE, path, number, times) for number in range(processes)]
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        answers = [json.loads(writer.communicate(timeout=100)[0]) for writer in writers]
    expected = {key: digest for answer in answers for key, digest in answer.items()}
    assert len(expected) == processes * times
    with turnlog.open(path) as log:
        found = {
            entry.key: hashlib.sha256(entry.value.encode()).hexdigest()
            for entry in EventSourcedStore(log).scan()
        }
        assert found == expected
        assert verify(log).problems == []


def test_thirty_two_threads_on_one_object(tmp_path: Path) -> None:
    """Each thread reads back what it was told it wrote, and nothing of anybody's is missing at the end."""
    failed: list[BaseException] = []
    told: dict[int, tuple[str, str]] = {}
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        store = EventSourcedStore(log)
        together = threading.Barrier(32)

        def work(number: int) -> None:
            try:
                together.wait(30)
                for count in range(20):
                    key, value = f"{number}/{count % 3}", str(count)
                    told[store.set(key, value)] = (key, value)
                    entry = store.get(key)
                    assert entry is not None
                    assert entry.value == value
            except BaseException as error:  # noqa: BLE001 - told to the test
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert failed == []
        assert len(told) == 32 * 20
        for recorded in log.read():
            assert isinstance(recorded.event, EntryWritten)
            assert told[recorded.position] == (recorded.event.key, recorded.event.value)
        assert verify(log).problems == []


@pytest.mark.parametrize(
    "batches", [pytest.param(80, id="some"), pytest.param(3000, id="many", marks=pytest.mark.long)]
)
def test_readers_see_whole_batches_in_order(tmp_path: Path, batches: int) -> None:
    """In the live table and in the log: of a batch all or nothing, in the order of commits, each once."""
    path = tmp_path / "team.db"
    rng = random.Random(batches)
    with ExitStack() as stack, turnlog.open(path, durability="os") as log:
        log.execute([Write(key, "0") for key in "abc"], run="main")
        readers = [start(stack, _READ, path) for _ in range(2)]
        for number in [*range(1, batches + 1), -1]:
            log.execute([Write(key, str(number)) for key in rng.sample("abc", 3)], run="main")
        answers = [json.loads(reader.communicate(timeout=100)[0]) for reader in readers]
    everything = [str(number) for number in [*range(batches + 1), -1] for _ in "abc"]
    for looks, seen in answers:
        assert looks > 3, "it looked too seldom to have seen anything in between"
        assert seen == everything[: len(seen)]
        assert len(seen) == len(everything)
