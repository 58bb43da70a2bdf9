"""Entries stamped with one and the same time come in a random order, and pages repeat or skip some."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, InMemoryStore, Write
from turnlog.eventlog import Delete, EventLog
from turnlog.eventlog.driver import driver
from turnlog.projections import EntriesProjection


def fill(store: Any) -> list[str]:
    """A thousand keys, some overwritten, some deleted; those that stay, in the order of their births."""
    store.execute([Write(f"k{number * 7919 % 1000}", "v") for number in range(1000)])
    store.execute([Write(f"k{number}", "w") for number in range(0, 1000, 3)])
    store.execute([Delete(f"k{number}") for number in range(0, 1000, 10)])
    store.execute([Write("k500", "born again")])
    order = [f"k{number * 7919 % 1000}" for number in range(1000)]
    return [key for key in order if int(key[1:]) % 10] + ["k500"]


def test_there_is_one_order_everywhere(path: Path) -> None:
    """Births decide, in every backend, in every way to list, before and after VACUUM."""
    memory = InMemoryStore(clock=lambda: 1000)
    expected = fill(memory)
    assert [entry.key for entry in memory.list()] == expected
    with EventLog(path, projections=(EntriesProjection(),), clock=lambda: 1000) as log:
        assert fill(EventSourcedStore(log)) == expected
    for _ in range(2):
        with turnlog.open(path) as log:
            store = EventSourcedStore(log)
            assert [entry.key for entry in store.list()] == expected
            assert [entry.key for entry in store.scan()] == expected
            assert [*turnlog.Timeline(log).state()] == expected
            assert [entry.key for entry in turnlog.Timeline(log).folded().values()] == expected
        with closing(driver().connect(path, isolation_level=None)) as db:
            db.execute("vacuum")


def test_pages_neither_skip_nor_repeat(log: EventLog, store: EventSourcedStore) -> None:
    """Of what existed throughout, each entry is on exactly one page, whatever is written meanwhile."""
    keys = [f"k{number}" for number in range(200)]
    store.execute([Write(key, "v") for key in keys])
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for number in itertools.count():
                if stop.is_set():
                    return
                store.set(f"k{number % 200}", str(number))
                store.set(f"new {number % 50}", "v")
                store.delete(f"new {(number + 25) % 50}")
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            seen: list[str] = []
            while page := [entry.key for entry in store.scan("k", seen[-1] if seen else None, 7)]:
                seen += page
            assert seen == keys
    finally:
        stop.set()
        writer.join(30)
    assert failed == []


@pytest.mark.parametrize("limit", [1, 7, 512])
def test_pages_of_the_log(log: EventLog, store: EventSourcedStore, limit: int) -> None:
    """Reading on behind the last position gives each event once, in order."""
    store.execute([Write(f"k{number}", "v") for number in range(30)])
    seen: list[int] = []
    while page := [each.position for each in log.read(after=seen[-1] if seen else 0, limit=limit)]:
        seen += page
    assert seen == list(range(1, 31))
