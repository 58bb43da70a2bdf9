"""The longer the history, the slower it opens and reads, until start-up takes in all of it."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, Timeline, Write

README = Path(__file__).resolve().parents[2] / "README.md"
KEYS = 100


def grow(path: Path, events: int) -> None:
    """So many events over a hundred keys."""
    with turnlog.open(path, durability="os") as log:
        for first in range(0, events, 1000):
            numbers = range(first, min(events, first + 1000))
            log.execute([Write(f"k{number % KEYS}", f"value {number}") for number in numbers], run="main")


def quickest(action: Callable[[], Any], times: int = 5) -> float:
    """Seconds that it takes when nothing is in its way."""
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append(time.perf_counter() - began)
    return min(found)


def costs(path: Path) -> dict[str, float]:
    """Seconds to open, get, list, and see a past state."""
    found = {"open": quickest(lambda: turnlog.open(path).close())}
    with turnlog.open(path) as log:
        store = EventSourcedStore(log)
        timeline = Timeline(log)
        middle = len(store.list()) * 10
        found["get"] = quickest(lambda: store.get("k7"))
        found["list"] = quickest(store.list)
        found["state"] = quickest(lambda: timeline.state(position=middle))
    return found


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(15_000, id="15 thousand"),
        pytest.param(1_000_000, id="a million", marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
def test_reading_does_not_depend_on_the_length(path: Path, tmp_path: Path, events: int) -> None:
    """Many times the history costs no more to open and read, but for what two more levels of an index do."""
    grow(path, events)
    short = tmp_path / "short.db"
    grow(short, 2_000)
    few, many = costs(short), costs(path)
    print({name: (f"{few[name] * 1000:.2f} ms", f"{many[name] * 1000:.2f} ms") for name in few})
    for name in few:
        assert many[name] < 5 * few[name] + 0.02, (name, few, many)
    each = (path.stat().st_size - short.stat().st_size) / (events - 2_000)
    print(f"{each:.0f} bytes for each event")
    assert each < 400


def test_replay_holds_a_page_at_a_time(path: Path) -> None:
    """Folding and reading the whole log takes no more memory for ten times the events."""
    peaks: list[int] = []
    for events in (1_500, 7_500):
        grow(path, events)
        with turnlog.open(path) as log:
            tracemalloc.start()
            Timeline(log).folded()
            for _ in log.read():
                pass
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0], peaks


def test_that_nothing_is_pruned_is_said() -> None:
    """Whoever needs a log that forgets finds in the README that this one does not by itself."""
    assert "Nothing is ever pruned" in README.read_text("utf-8")
