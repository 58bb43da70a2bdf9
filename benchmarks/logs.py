"""Logs to measure on: so many events over so many keys, turns advancing evenly."""

from __future__ import annotations

from pathlib import Path

import turnlog
from turnlog.eventlog import AdvanceTurn, CompareAndSet, Write

VALUE = "x" * 256
"""The value written by every benchmark, bytes."""

RUN = "bench"
BATCH = 2_000

Asked = tuple[str, dict[str, str]]
"""A key, and the metadata that goes with its value."""


def agent(number: int) -> str:
    """An agent's name."""
    return f"researcher-{number % 7}"


def key(number: int) -> str:
    """A key as agents make them."""
    return f"{agent(number)}/finding-{number:06d}"


def asked(keys: int) -> list[Asked]:
    """So many keys with their metadata, in an order that is not theirs."""
    return [
        (key(number), {"agent": agent(number)}) for number in (each * 7_919 % keys for each in range(keys))
    ]


def write(number: int, keys: int, value: str = VALUE) -> Write:
    """The command that writes the key of that number."""
    number %= keys
    return Write(key(number), value, {"agent": agent(number)})


def build(path: Path, *, events: int, keys: int, turns: int = 100, value: str = VALUE) -> turnlog.EventLog:
    """A log of about `events` writes, round robin over `keys`, with `turns` turns at even distances."""
    log = turnlog.open(path, durability="os")
    store = turnlog.EventSourcedStore(log, RUN)
    per_turn = max(1, events // turns)
    for first in range(0, events, BATCH):
        commands: list[object] = []
        for number in range(first, min(events, first + BATCH)):
            commands.append(write(number, keys, value))
            if (number + 1) % per_turn == 0:
                commands.append(AdvanceTurn())
        store.execute(commands)  # pyright: ignore[reportArgumentType]
    return log


def refuse(log: turnlog.EventLog, name: str, times: int) -> None:
    """Let `times` compare-and-sets of one key be refused."""
    store = turnlog.EventSourcedStore(log, RUN)
    for _ in range(0, times, BATCH):
        store.execute([CompareAndSet(name, "not this", VALUE)] * BATCH)
