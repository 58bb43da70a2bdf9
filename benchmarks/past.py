"""What it costs to look into the past of a run, as the run grows.

One key at a past turn and blame must not grow with the log, nor with refused writes; the whole state must grow
with the number of distinct keys only.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from turnlog.replay import Timeline

from .logs import build, key, refuse
from .measure import fsync_probe, timed

TITLE = "The past: one key, blame and whole state against the length of the log"


def run(*, quick: bool) -> list[str]:
    """Measure; returns lines of Markdown."""
    sizes = (10_000, 100_000) if quick else (10_000, 1_000_000)
    lines = [
        "| log | one key at a turn, µs p50 / p99 | blame of one key, µs | diff of adjacent turns of 1,000 events,"
        " µs | whole state, ms p50 / p99 | ... keys |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for events in sizes:
            for keys in (100, 10_000):
                lines.append(_row(Path(folder) / f"{events}-{keys}.db", events, keys))
        lines.append(_refused(Path(folder) / "refused.db", quick=quick))
        lines += ["", f"fsync probe: {fsync_probe(Path(folder))} µs (p50 / p99)."]
    return lines


def _row(path: Path, events: int, keys: int) -> str:
    with build(path, events=events, keys=keys, turns=events // 1_000) as log:
        return _measure(Timeline(log, "bench"), f"{events:,} events", keys)


def _refused(path: Path, *, quick: bool) -> str:
    times = 10_000 if quick else 100_000
    with build(path, events=10_000, keys=100, turns=10) as log:
        refuse(log, key(7), times)
        timeline = Timeline(log, "bench")
        return _measure(timeline, f"10,000 events, then {times:,} refusals of the key", 100, only=key(7))


def _measure(timeline: Timeline, title: str, keys: int, only: str | None = None) -> str:
    rng = random.Random(1)
    last = timeline.point().turn
    picks = [(only or key(rng.randrange(keys)), rng.randrange(last)) for _ in range(2_000)]
    entry = timed(lambda pick: timeline.entry(pick[0], turn=pick[1]), picks)
    blame = timed(lambda pick: timeline.blame(pick[0]), picks)
    diff = timed(lambda turn: timeline.diff(str(turn), str(turn + 1)), range(1, min(last, 50) - 1))
    state = timed(lambda turn: timeline.state(turn=turn), [rng.randrange(1, last) for _ in range(10)])
    return (
        f"| {title} | {entry} | {blame} | {diff} | {state.p50 / 1000:,.2f} / {state.p99 / 1000:,.2f} | {keys:,} |"
    )
