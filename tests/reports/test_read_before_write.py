"""A transaction that has read before it writes fails at once as locked, whatever wait was allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import turnlog

_APPEND = """
import json, sys, time
import turnlog
path, times, name = sys.argv[1:]
errors = []
with turnlog.open(path, durability="os", busy_timeout_s=30) as log:
    store = turnlog.EventSourcedStore(log)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(times)):
        began = time.monotonic()
        try:
            head = log.head("main")
            store.set(name, f"{number} after {head and head.position}")
        except turnlog.TurnlogError as error:
            errors.append([time.monotonic() - began, str(error)])
print(json.dumps(errors))
"""


@pytest.mark.parametrize("times", [50, pytest.param(500, marks=pytest.mark.long)])
def test_reading_the_head_before_each_append_costs_nobody_the_lock(
    path: Path, together: Callable[..., list[str]], times: int
) -> None:
    """Two processes that read the head before each append get through without a single error."""
    turnlog.open(path).close()
    assert [json.loads(printed) for printed in together(_APPEND, 2, path, times)] == [[], []]
    with turnlog.open(path) as log:
        assert sum(1 for _ in log.read()) == 2 * times
