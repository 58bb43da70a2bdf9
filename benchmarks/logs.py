"""Logs to measure on: so many events over so many keys, turns advancing evenly."""

from __future__ import annotations

from pathlib import Path

import turnlog
from turnlog.eventlog import AdvanceTurn, CompareAndSet, Write

VALUE = "x" * 256
"""The value written by every benchmark, bytes."""

BATCH = 2_000


def key(number: int) -> str:
    """A key as agents make them."""
    return f"researcher-{number % 7}/finding-{number:06d}"


def build(path: Path, *, events: int, keys: int, turns: int = 100) -> turnlog.EventLog:
    """A log of about `events` writes, round robin over `keys`, with `turns` turns at even distances."""
    log = turnlog.open(path, durability="os")
    store = turnlog.EventSourcedStore(log, "bench")
    per_turn = max(1, events // turns)
    for first in range(0, events, BATCH):
        commands: list[object] = []
        for number in range(first, min(events, first + BATCH)):
            commands.append(Write(key(number % keys), VALUE, {"agent": f"researcher-{number % 7}"}))
            if (number + 1) % per_turn == 0:
                commands.append(AdvanceTurn())
        store.execute(commands)  # pyright: ignore[reportArgumentType]
    return log


def refuse(log: turnlog.EventLog, name: str, times: int) -> None:
    """Let `times` compare-and-sets of one key be refused."""
    store = turnlog.EventSourcedStore(log, "bench")
    for _ in range(0, times, BATCH):
        store.execute([CompareAndSet(name, "not this", VALUE)] * BATCH)
