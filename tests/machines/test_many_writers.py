"""Threads on two log objects of one file, all writing at once: what each was told is what happened."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    Conflict,
    EntryWritten,
    EventLog,
    RunExists,
    SetTurn,
    Write,
)
from turnlog.eventlog.limits import MAX_TURN
from turnlog.memory import EventSourcedStore, acting_as
from turnlog.replay import Timeline
from turnlog.replay.verification import verify

THREADS = 6
KEYS = ("a", "b", "caf\u00e9", "\ud83d")


class Writer:
    """One thread's doings: in a run of its own, and in one that all share.

    Attributes:
        mine: what its own run must hold.
        told: run, key and value of every write that was acknowledged, by its version.
        failed: what went wrong.
    """

    def __init__(self, log: EventLog, number: int, seed: int) -> None:
        self.log = log
        self.number = number
        self.random = random.Random(seed * THREADS + number)
        self.own = EventSourcedStore(log, f"run {number}")
        self.shared = EventSourcedStore(log, "shared")
        self.mine: dict[str, str] = {}
        self.told: dict[int, tuple[str, str, str]] = {}
        self.failed: list[BaseException] = []

    def run(self, steps: int) -> None:
        """Carry out random steps; any surprise is kept for the test."""
        kinds = (
            self.write,
            self.share,
            self.swap,
            self.conflict,
            self.overrun,
            self.restore,
            self.fork,
            self.look,
        )
        try:
            with acting_as(f"writer {self.number}"):
                self.shared.advance_turn()
                for step in range(steps):
                    self.random.choice(kinds)(self.random.choice(KEYS), f"{self.number}.{step}")
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failed.append(error)

    def write(self, key: str, value: str) -> None:
        self.told[self.own.set(key, value)] = (self.own.run, key, value)
        self.mine[key] = value

    def share(self, key: str, value: str) -> None:
        version, _ = self.shared.execute([Write(key, value), AdvanceTurn()])
        self.told[version] = ("shared", key, value)

    def swap(self, key: str, value: str) -> None:
        entry = self.shared.get(key)
        if self.shared.compare_and_set(key, entry and entry.value, value) and self.random.random() < 0.2:
            self.shared.clear()

    def conflict(self, key: str, value: str) -> None:
        with pytest.raises(Conflict):
            self.own.execute([Write(key, "never"), Write("x", value, expected_version=1)])

    def overrun(self, key: str, value: str) -> None:
        with pytest.raises(ValueError, match="turn must lie within"):
            self.own.execute([Write(key, value), SetTurn(MAX_TURN), AdvanceTurn()])

    def seen(self, timeline: Timeline) -> int:
        """Some position that is not inside a batch."""
        while True:
            position = self.random.randrange(timeline.point().position)
            if not timeline.point(position=position).inside_batch:
                return position

    def restore(self, key: str, value: str) -> None:
        timeline = Timeline(self.log, "shared")
        timeline.restore(position=self.seen(timeline), reason=value)

    def fork(self, key: str, value: str) -> None:
        timeline = Timeline(self.log, "shared")
        name = f"fork {self.random.randrange(8)}"
        try:
            timeline.fork(run=name, position=self.seen(timeline))
        except RunExists:
            EventSourcedStore(self.log, name).set(key, value)

    def look(self, key: str, value: str) -> None:
        assert {entry.key: entry.value for entry in self.own.list()} == self.mine


@pytest.mark.parametrize("seed", range(3))
def test_what_every_thread_was_told_is_what_happened(tmp_path: Path, seed: int) -> None:
    """Every acknowledged write is at its version, no refused list left a trace, and every run is whole."""
    path = tmp_path / "team.db"
    with (
        turnlog.open(path, durability="os", busy_timeout_s=60) as one,
        turnlog.open(path, durability="os", busy_timeout_s=60) as other,
    ):
        writers = [Writer((one, other)[number % 2], number, seed) for number in range(THREADS)]
        threads = [threading.Thread(target=writer.run, args=(60,)) for writer in writers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [error for writer in writers for error in writer.failed] == []
        recorded = {each.position: each for each in one.read()}
        assert [*recorded] == list(range(1, len(recorded) + 1))
        for writer in writers:
            for version, (run, key, value) in writer.told.items():
                each = recorded[version]
                assert isinstance(each.event, EntryWritten)
                assert (each.run, each.agent) == (run, f"writer {writer.number}")
                assert (each.event.key, each.event.value) == (key, value)
        assert "never" not in {
            each.event.value for each in recorded.values() if isinstance(each.event, EntryWritten)
        }
        assert verify(one).problems == []
        for info in other.runs():
            timeline = Timeline(other, info.run.name)
            state = timeline.state(all=True)
            assert [*state.items()] == [*timeline.folded().items()]
            assert [*state.values()] == EventSourcedStore(one, info.run.name).list()
