"""What several processes saw of one store could have come from one register, one operation at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

import turnlog
from turnlog.replay.verification import verify

from .linearizability import Operation, is_linearizable

END = float("inf")


def get(called: float, returned: float, answer: str | None) -> Operation:
    """A read."""
    return Operation(called, returned, "get", answer)


def put(called: float, returned: float, value: str) -> Operation:
    """A write."""
    return Operation(called, returned, "set", None, value)


def swap(called: float, returned: float, expected: str | None, value: str, answer: bool) -> Operation:
    """A compare-and-set."""
    return Operation(called, returned, "compare_and_set", answer, value, expected)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="nothing"),
        pytest.param([get(0, 1, None), put(2, 3, "a"), get(4, 5, "a")], id="one after the other"),
        pytest.param([put(0, 9, "a"), get(1, 2, None), get(3, 4, "a")], id="within its call"),
        pytest.param([put(0, 9, "a"), put(0, 9, "b"), get(1, 2, "b"), get(3, 4, "a")], id="two at once"),
        pytest.param(
            [swap(0, 9, None, "a", True), swap(0, 9, None, "b", False), get(10, 11, "a")],
            id="one of two wins",
        ),
        pytest.param([put(0, END, "a"), get(1, 2, None), get(3, 4, "a")], id="outcome unknown, it happened"),
        pytest.param([put(0, END, "a"), get(1, 2, None), get(3, 4, None)], id="outcome unknown, it did not"),
        pytest.param(
            [put(0, 1, "a"), swap(2, 9, "a", "b", True), swap(2, 9, "b", "c", True), get(3, 8, "a")],
            id="a chain within one span",
        ),
    ],
)
def test_right_histories_are_accepted(history: list[Operation]) -> None:
    """A history that one register could have made is taken for one."""
    assert is_linearizable(history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([put(0, 1, "a"), get(2, 3, None)], id="a lost write"),
        pytest.param([put(0, 1, "a"), put(2, 3, "b"), get(4, 5, "a")], id="a stale read"),
        pytest.param([get(0, 1, "a"), put(2, 3, "a")], id="read before it was written"),
        pytest.param([get(0, 1, "a")], id="a value from nowhere"),
        pytest.param(
            [put(0, 9, "a"), get(1, 2, "a"), get(3, 4, None)], id="seen by one, and by the next no longer"
        ),
        pytest.param(
            [swap(0, 9, None, "a", True), swap(0, 9, None, "b", True)], id="two win what one can win"
        ),
        pytest.param([swap(0, 1, None, "a", False)], id="refused without a reason"),
        pytest.param([put(0, 1, "a"), swap(2, 3, "x", "b", True)], id="won against another value"),
        pytest.param(
            [put(0, 1, "0"), swap(2, 9, "0", "1", True), swap(2, 9, "0", "1", True), get(10, 11, "1")],
            id="a lost increment",
        ),
        pytest.param([put(0, END, "a"), get(1, 2, "a"), get(3, 4, None)], id="outcome unknown, taken back"),
    ],
)
def test_wrong_histories_are_rejected(history: list[Operation]) -> None:
    """A history that no register could have made is found, whatever order is tried."""
    assert not is_linearizable(history)


_CLIENT = """
import json, random, sys, time
import turnlog
from turnlog.memory import EventSourcedStore

path, name, times = sys.argv[1:]
rng = random.Random(name)
clock = time.monotonic_ns  # one for all processes of a machine
history = []
with turnlog.open(path, durability="os", busy_timeout_s=60) as log:
    store = EventSourcedStore(log)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(times)):
        key, kind = rng.choice("abc"), rng.choice(["get", "set", "compare_and_set"])
        value = f"{name}.{number}"
        held = store.get(key) if kind == "compare_and_set" else None
        expected = None if held is None else held.value
        called = clock()
        if kind == "get":
            entry = store.get(key)
            answer = None if entry is None else entry.value
        elif kind == "set":
            answer = store.set(key, value) and None
        else:
            answer = store.compare_and_set(key, expected, value)
        history.append([key, called, clock(), kind, answer, value, expected])
print(json.dumps(history))
"""


@pytest.mark.parametrize(
    ("processes", "times"),
    [pytest.param(3, 60, id="three"), pytest.param(6, 400, id="six", marks=pytest.mark.long)],
)
def test_what_processes_saw_is_linearizable(tmp_path: Path, processes: int, times: int) -> None:
    """Reads, writes and compare-and-sets of several processes fit into one order, on every key."""
    path = tmp_path / "team.db"
    turnlog.open(path).close()
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _CLIENT, path, str(number), str(times)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(processes)
        ]
        for client in clients:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("go\n")
            client.stdin.flush()
        answers = [client.communicate(timeout=100)[0] for client in clients]
    histories: dict[str, list[Operation]] = defaultdict(list)
    for key, *operation in (each for answer in answers for each in json.loads(answer)):
        histories[key].append(Operation(*operation))
    overlapping = refused = 0
    for history in histories.values():
        history.sort(key=lambda each: each.called)
        overlapping += sum(a.returned > b.called for a, b in pairwise(history))
        refused += sum(each.kind == "compare_and_set" and each.answer is False for each in history)
        assert is_linearizable(history)
        # The search has something to say of it: with a read that comes too late for its value it is none.
        first, *later = [each for each in history if each.kind == "set"]
        assert any(each.called > first.returned for each in later)
        assert not is_linearizable([*history, get(1e30, 2e30, first.value)])
    assert overlapping > 0, "nothing happened at the same time, so this has shown nothing"
    with turnlog.open(path) as log:
        assert verify(log).problems == []
