"""Everything at once: tasks of several loops, threads and processes write, fail and give up at random."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Conflict, EntryRestored, EventLog, StorageError, Write
from turnlog.memory import AsyncEventSourcedStore, EventSourcedStore
from turnlog.projections import first_difference

_HOLD_AGAIN_AND_AGAIN = """
import random, sys, time
from turnlog.eventlog.driver import driver
db = driver().connect(sys.argv[1], isolation_level=None, timeout=10)
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    db.execute("begin immediate")
    time.sleep(random.random() * 0.02)
    db.execute("rollback")
    time.sleep(random.random() * 0.05)
"""
_WRITE_AGAIN_AND_AGAIN = """
import sys, time, turnlog
until = time.monotonic() + float(sys.argv[2])
with turnlog.open(sys.argv[1], durability=sys.argv[3], busy_timeout_s=60) as log:
    store = turnlog.EventSourcedStore(log)
    while time.monotonic() < until:
        store.set("elsewhere", "v")
        time.sleep(0.002)
"""


@dataclass(frozen=True)
class Unstorable:
    """A command whose fact no check stops, and no table takes: the place of the first entry is taken."""

    agent: str | None = None

    def check(self, limits: Any) -> None:
        """Nothing is checked."""

    def decide(self, view: Any) -> Sequence[Any]:
        """An entry in the place of another."""
        return [EntryRestored("unstorable", 1, 1, 0, None)]

    def outcome(self, recorded: Sequence[Any]) -> None:
        """Nothing to tell."""


class Team:
    """Writers, who note the versions they were told of each pair of keys, and what happened how often."""

    def __init__(self, log: EventLog, until: float) -> None:
        self.log = log
        self.until = until
        self.acknowledged: dict[str, list[int]] = {}
        self.happened: Counter[str] = Counter()
        self.failed: list[BaseException] = []

    async def attempt(self, store: AsyncEventSourcedStore, name: str, rng: random.Random) -> None:
        """One write of some kind, and whether it was answered as it must be."""
        pair = [Write(f"{name}/left", name), Write(f"{name}/right", name)]
        kind = rng.choices(["pair", "conflict", "unstorable", "counter"], [6, 1, 1, 2])[0]
        if kind == "pair":
            self.acknowledged[name] = await store.execute(pair)
        elif kind == "conflict":
            with pytest.raises(Conflict):
                await store.execute([*pair, Write("first", "w", expected_version=10**9)])
        elif kind == "unstorable":
            with pytest.raises(StorageError):
                await store.execute([*pair, Unstorable()])
        else:
            held = await store.get("counter")
            assert held is not None
            if await store.compare_and_set("counter", held.value, str(int(held.value) + 1)):
                kind = "raised"
        self.happened[kind] += 1

    async def work(self, name: str, rng: random.Random, until: float) -> None:
        """Attempts, one after the other, of which some are cancelled."""
        store = AsyncEventSourcedStore(self.log)
        while time.monotonic() < until:
            self.happened["attempts"] += 1
            attempt = asyncio.create_task(
                self.attempt(store, f"{name}.{self.happened['attempts']}.{rng.random()}", rng)
            )
            if rng.random() < 0.15:
                await asyncio.sleep(rng.choice((0, 0, rng.uniform(0, 0.003))))
                attempt.cancel()
            with suppress(asyncio.CancelledError):
                await attempt

    async def one_loop(self, name: str, rng: random.Random) -> None:
        """Thirty tasks; the loop ends with them, or under them."""
        until = min(self.until, time.monotonic() + rng.uniform(0.3, 1))
        tasks = [asyncio.create_task(self.work(f"{name}.{each}", rng, until)) for each in range(30)]
        if rng.random() < 0.5:
            await asyncio.gather(*tasks)
        else:
            await asyncio.sleep(rng.uniform(0.1, 0.5))

    def loops(self, name: str, seed: int) -> None:
        """One loop after another."""
        rng, number = random.Random(seed), 0
        while time.monotonic() < self.until:
            number += 1
            asyncio.run(self.one_loop(f"{name}.{number}", rng))

    def thread(self, name: str, seed: int) -> None:
        """Pairs, written with the synchronous class."""
        store, rng, number = EventSourcedStore(self.log), random.Random(seed), 0
        while time.monotonic() < self.until:
            number += 1
            pair = [Write(f"{name}.{number}/left", "v"), Write(f"{name}.{number}/right", "v")]
            self.acknowledged[f"{name}.{number}"] = store.execute(pair)
            time.sleep(rng.random() * 0.002)

    def noting(self, action: Any, *arguments: Any) -> None:
        """Carry out `action`, and note what it raises."""
        try:
            action(*arguments)
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failed.append(error)


@pytest.mark.long
@pytest.mark.parametrize("durability", ["disk", "os"])
def test_everything_at_once(tmp_path: Path, durability: Any) -> None:
    """Each write is answered truly, pairs are never apart, the counter counts, and nobody hangs."""
    seconds = 10.0
    with turnlog.open(tmp_path / "team.db", durability=durability, busy_timeout_s=60) as log:
        store = EventSourcedStore(log)
        store.set("first", "v")
        store.set("counter", "0")
        team = Team(log, time.monotonic() + seconds)
        processes = [
            subprocess.Popen([sys.executable, "-c", script, log.path, str(seconds), durability])
            for script in (_HOLD_AGAIN_AND_AGAIN, _WRITE_AGAIN_AND_AGAIN)
        ]
        threads = [
            threading.Thread(target=team.noting, args=(action, f"{action.__name__} {number}", number))
            for number, action in enumerate([team.loops, team.loops, team.loops, team.thread, team.thread])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 60)
        assert [process.wait(60) for process in processes] == [0, 0]
        assert not any(thread.is_alive() for thread in threads)
        assert team.failed == []
        entries = {entry.key: entry for entry in store.list()}
        halves: dict[str, list[str]] = {"left": [], "right": []}
        for key in entries:
            name, slash, half = key.partition("/")
            if slash:
                halves[half].append(name)
        assert sorted(halves["left"]) == sorted(halves["right"])
        for name, versions in team.acknowledged.items():
            assert [entries[f"{name}/{half}"].version for half in halves] == versions
        assert team.happened["raised"] <= int(entries["counter"].value)
        assert min(team.happened[kind] for kind in ("pair", "conflict", "unstorable", "raised")) > 10
        with log.reading() as db:
            assert first_difference(db) is None
