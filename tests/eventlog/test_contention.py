"""Many writers, one counter: compare-and-set loses nothing, whoever takes part."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import EntryWritten, EventLog, WriteRefused
from turnlog.memory import EventSourcedStore
from turnlog.projections import first_difference
from turnlog.replay import Timeline

EACH = 100
"""Increments of each writer, where a test does not say otherwise."""

_COUNT_UP = """
import json, sys, time
import turnlog
from turnlog.eventlog import EventLog
from turnlog.memory import EventSourcedStore, acting_as

path, name, times = sys.argv[1:]
with turnlog.open(path, durability="os", busy_timeout_s=60) as log, acting_as(name):
    store = EventSourcedStore(log)
    print("ready", flush=True)
    sys.stdin.readline()
    refused = 0
    for _ in range(int(times)):
        while True:
            held = store.get("counter").value
            time.sleep(0.0005)  # long enough for others to come in between
            if store.compare_and_set("counter", held, str(int(held) + 1)):
                break
            refused += 1
print(json.dumps(refused))
"""


def check(log: EventLog, writers: int, refused: int, times: int = EACH) -> None:
    """Each increment happened once, each refusal is a fact, and the log is whole."""
    assert refused > 0, "nobody was in anybody's way, so this has shown nothing"
    assert [entry.value for entry in EventSourcedStore(log).list()] == [str(writers * times)]
    events = list(Timeline(log).history("counter"))
    written = [each for each in events if isinstance(each.event, EntryWritten)]
    values = [each.event.value for each in written if isinstance(each.event, EntryWritten)]
    assert values == [str(number) for number in range(writers * times + 1)]
    assert sum(isinstance(each.event, WriteRefused) for each in events) == refused
    by_writer = [sum(each.agent == f"writer {number}" for each in written) for number in range(writers)]
    assert by_writer == [times] * writers
    with log.reading() as db:
        assert first_difference(db) is None


@pytest.mark.parametrize(
    ("writers", "times"),
    [pytest.param(4, EACH, id="400"), pytest.param(8, 200, id="1600", marks=pytest.mark.long)],
)
def test_processes_count_together(tmp_path: Path, writers: int, times: int) -> None:
    """Processes that raise one counter by compare-and-set end at exactly the sum of what each did."""
    path = tmp_path / "team.db"
    with turnlog.open(path) as log, ExitStack() as stack:
        EventSourcedStore(log).set("counter", "0")
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _COUNT_UP, path, f"writer {number}", str(times)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(writers)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=100)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * writers
        check(log, writers, sum(map(json.loads, answers)), times)


@pytest.mark.parametrize("objects", [1, 2], ids=["one-object", "an-object-each"])
def test_two_threads_count_to_two_hundred(tmp_path: Path, objects: int) -> None:
    """Two threads that raise one counter, on one log object or on two, end at exactly 200."""
    path = tmp_path / "team.db"
    refused: list[int] = []
    failed: list[BaseException] = []
    together = threading.Barrier(2)

    def count_up(store: EventSourcedStore, name: str) -> None:
        try:
            with turnlog.memory.acting_as(name):
                together.wait(timeout=30)
                done = 0
                while done < EACH:
                    entry: Any = store.get("counter")
                    time.sleep(0.0005)
                    if store.compare_and_set("counter", entry.value, str(int(entry.value) + 1)):
                        done += 1
                    else:
                        refused.append(1)
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    with ExitStack() as stack:
        logs = [
            stack.enter_context(turnlog.open(path, durability="os", busy_timeout_s=60))
            for _ in range(objects)
        ]
        EventSourcedStore(logs[0]).set("counter", "0")
        threads = [
            threading.Thread(
                target=count_up, args=(EventSourcedStore(logs[number % objects]), f"writer {number}")
            )
            for number in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert failed == []
        check(logs[0], 2, len(refused))
