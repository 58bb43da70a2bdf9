"""A process that writes: `python -m benchmarks.writing KIND PATH SECONDS NUMBER`, for the case `processes`.

It says that it is ready, reads from standard input when to begin (`time.monotonic`), and prints the
nanoseconds of each write as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import turnlog

from .bare import Bare
from .logs import RUN, VALUE, Asked, asked, write
from .loop import by_tasks

KEYS = 1_000
TASKS = 16
LIST = 1_000


def main() -> None:
    """Write for the given time."""
    kind, path, seconds, number = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    keys = asked(KEYS)[number * 17 % KEYS :]
    if kind == "tasks":
        with turnlog.open(path, busy_timeout_s=30) as log:
            turnlog.EventSourcedStore(log, RUN).set(keys[0][0], VALUE, keys[0][1])
            _wait()
            load, _ = asyncio.run(by_tasks(_sharing(log), TASKS, seconds, keys))
            spent = [one for writer in load.spent for one in writer]
    else:
        with _ALONE[kind](path) as act:
            act(keys[0])
            _wait()
            spent = _alone(act, keys, seconds)
    print(json.dumps(spent))


def _wait() -> None:
    print("ready", flush=True)
    start = float(sys.stdin.readline())
    time.sleep(max(0.0, start - time.monotonic()))


def _alone(act: Callable[[Asked], object], keys: list[Asked], seconds: float) -> list[int]:
    clock, spent, number = time.perf_counter_ns, list[int](), 0
    deadline = clock() + int(seconds * 1e9)
    while (begin := clock()) < deadline:
        act(keys[number % len(keys)])
        spent.append(clock() - begin)
        number += 1
    return spent


def _sharing(log: turnlog.EventLog) -> Callable[[Asked], Awaitable[object]]:
    store = turnlog.AsyncEventSourcedStore(log, RUN)
    return lambda one: store.set(one[0], VALUE, one[1])


@contextmanager
def _lone(path: Path) -> Iterator[Callable[[Asked], object]]:
    with turnlog.open(path, busy_timeout_s=30) as log:
        store = turnlog.EventSourcedStore(log, RUN)
        yield lambda one: store.set(one[0], VALUE, one[1])


@contextmanager
def _bulk(path: Path) -> Iterator[Callable[[Asked], object]]:
    with turnlog.open(path, busy_timeout_s=30) as log:
        store = turnlog.EventSourcedStore(log, RUN)
        commands = [write(number, KEYS) for number in range(LIST)]
        yield lambda _: store.execute(commands)


@contextmanager
def _bare(path: Path) -> Iterator[Callable[[Asked], object]]:
    with closing(Bare(path, "disk", busy_timeout_s=30)) as bare:
        yield bare.set


_ALONE = {"lone": _lone, "bulk": _bulk, "bare": _bare}

main()
