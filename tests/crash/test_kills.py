"""Processes killed at random moments: what was acknowledged is there, and the rest is whole or absent."""

from __future__ import annotations

import json
import os
import random
import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import turnlog
from turnlog.eventlog.driver import driver
from turnlog.replay.verification import verify

from .operations import OPERATIONS, Aftermath, prepare

ROUNDS_PER_LOG = 10
_VERIFIER = Path(__file__).parents[2] / "docs" / "verify_example.py"
OPENING_S = 0.5
"""What the next opening may take, as a median over the rounds."""


class Told(NamedTuple):
    """What a worker reported of an operation; `told` is None until it is acknowledged."""

    kind: str
    told: Any = None
    acknowledged: bool = False


@dataclass
class Workers:
    """The workers of `worker.py`, and everything they have reported."""

    server: subprocess.Popen[bytes]
    told: dict[str, Told] = field(default_factory=dict)
    acknowledgements: Counter[str] = field(default_factory=Counter)
    pids: dict[str, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    unread: bytes = b""

    def begin(self, name: str, **order: Any) -> None:
        """Start a worker."""
        self._order(name=name, **order)
        self.until(lambda: name in self.pids)

    def kill(self, name: str, number: signal.Signals) -> None:
        """Kill a worker and wait for its end; what it reported before is known then."""
        pid = self.pids.pop(name)
        os.kill(pid, number)
        self._order(reap=pid)
        self.until(lambda: pid in self.statuses)
        expected = (-number,) if number == signal.SIGKILL else (143, -number)
        assert self.statuses.pop(pid) in expected

    def until(self, reached: Callable[[], bool], timeout_s: float = 60) -> None:
        """Take in what is reported until it is enough."""
        assert self.server.stdout is not None
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.server.stdout, selectors.EVENT_READ)
            while not reached():
                assert selector.select(max(0, deadline - time.monotonic())), "a worker hangs"
                read = os.read(self.server.stdout.fileno(), 1 << 16)
                assert read, "the workers' server has ended"
                *lines, self.unread = (self.unread + read).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))

    def _take(self, report: dict[str, Any]) -> None:
        if "began" in report:
            self.pids[report["name"]] = report["began"]
        elif "reaped" in report:
            self.statuses[report["reaped"]] = report["status"]
        elif "begins" in report:
            self.told[report["tag"]] = Told(report["begins"])
        else:
            self.told[report["tag"]] = Told(report["ends"], report["told"], acknowledged=True)
            self.acknowledgements[report["worker"]] += 1

    def _order(self, **order: Any) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(order).encode() + b"\n")
        self.server.stdin.flush()


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[bytes]]:
    """The program that forks workers; it has imported everything already."""
    program = Path(__file__).with_name("worker.py")
    with subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        yield server
        assert server.stdin is not None
        server.stdin.close()


@dataclass
class Campaign:
    """Rounds of killing, ten on each log.

    Attributes:
        interrupted: how often each operation was cut off.
        openings_s: how long each next opening took.
    """

    workers: Workers
    folder: Path
    random: random.Random
    number: signal.Signals
    processes: int
    interrupted: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    openings_s: list[float] = field(default_factory=list)

    def carry_out(self, rounds: int) -> None:
        """So many rounds; in every second one, the workers do one kind only: one that was rarely cut off."""
        kinds = [*OPERATIONS]
        self.random.shuffle(kinds)
        for number in range(rounds):
            path = self.folder / f"{number // ROUNDS_PER_LOG}" / "team.db"
            if not path.parent.exists():
                path.parent.mkdir()
                prepare(path)
                self.workers.told.clear()
            chosen = kinds if number % 2 else [min(kinds, key=self._cut_off)]
            before = set(self.workers.told)
            self._kill(path, f"r{number}", chosen)
            self._check(path, before)

    def _cut_off(self, kind: str) -> int:
        return self.interrupted[kind]

    def _kill(self, path: Path, round_: str, kinds: list[str]) -> None:
        workers, rng = self.workers, self.random
        workers.acknowledgements.clear()
        names = [f"{round_}w{number}" for number in range(self.processes)]
        durability = rng.choice(["disk", "os"])
        for name in names:
            seed = rng.random()
            workers.begin(name, path=str(path), seed=seed, operations=kinds, durability=durability)
        enough = rng.randrange(6)
        workers.until(lambda: workers.acknowledgements.total() >= enough)
        time.sleep(rng.random() * 0.01)  # not to wait for anything: the moment is to be any
        victim, *others = rng.sample(names, len(names))
        workers.kill(victim, self.number)
        # Whatever the dead one was at, nothing of it is in the way of those who live.
        seen = {name: workers.acknowledgements[name] for name in others}
        workers.until(lambda: all(workers.acknowledgements[name] > seen[name] for name in others))
        for name in others:
            workers.kill(name, self.number)

    def _check(self, path: Path, before: set[str]) -> None:
        began = time.perf_counter()
        log = turnlog.open(path)
        self.openings_s.append(time.perf_counter() - began)
        with log:
            with closing(driver().connect(path, isolation_level=None, timeout=0)) as outsider:
                outsider.execute("begin immediate")
                outsider.execute("rollback")
            assert verify(log).problems == []
            after = Aftermath(path, log)
            for tag, (kind, told, acknowledged) in self.workers.told.items():
                if tag in before:
                    if kind in ("set", "compare_and_set", "batch") and acknowledged:
                        assert tag in after.batches
                    continue
                became = OPERATIONS[kind].became(after, tag, told)
                assert became or not acknowledged, f"{kind} {tag} was acknowledged and is gone"
                self.acknowledged += acknowledged
                self.interrupted.update([kind] * (not acknowledged))
        if after.gone:
            self._check_gone(path, after.gone)
        if self.number == signal.SIGTERM:
            assert list(path.parent.glob("*.partial*")) == []

    def _check_gone(self, path: Path, texts: list[str]) -> None:
        """Not a byte of `texts` is left, and the program that knows the format alone finds all in order."""
        for file in path.parent.glob(f"{path.name}*"):
            content = file.read_bytes()
            assert [each for each in texts if each.encode() in content] == [], file
        judged = subprocess.run(
            [sys.executable, "-I", _VERIFIER, path], capture_output=True, check=False, text=True, timeout=60
        )
        assert (judged.returncode, judged.stdout.splitlines()[-1:]) == (0, ["ok"]), judged

    def report(self) -> str:
        """What there is to say of it."""
        openings = self.openings_s
        return (
            f"{len(openings)} rounds, {self.acknowledged} acknowledged, "
            f"{self.interrupted.total()} cut off ({dict(self.interrupted)}); next opening: "
            f"median {statistics.median(openings) * 1000:.1f} ms, longest {max(openings) * 1000:.1f} ms"
        )


@pytest.mark.parametrize("processes", [1, 3], ids=["one process", "three processes"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="few"), pytest.param(60, id="many", marks=pytest.mark.long)]
)
def test_a_killed_process_leaves_every_operation_whole_or_absent(
    server: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals, processes: int, rounds: int
) -> None:
    """Whenever it was: what was acknowledged is there, all else whole or absent, the next opening quick."""
    seed = rounds * 100 + number * 10 + processes
    campaign = Campaign(Workers(server), tmp_path, random.Random(seed), number, processes)
    campaign.carry_out(rounds)
    print(campaign.report())
    assert statistics.median(campaign.openings_s) < OPENING_S
    assert campaign.interrupted.total() > 0, "nothing was ever cut off, so this has shown nothing"
    if rounds >= 2 * len(OPERATIONS):
        assert set(campaign.interrupted) == set(OPERATIONS), "something was never cut off"
