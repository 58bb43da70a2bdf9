"""Reading a whole log: how fast, and in how much memory, as it grows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .bench import Bench
from .measure import table
from .plots import Line

TITLE = "Replay, verification and export of a whole log"
KEYS = 10_000

ROWS = {
    "fold": "fold of every event by `evolve`",
    "read": "`EventLog.read`",
    "check": "check of the chain and all commitments",
    "verify": "`verify`: SQLite's own check, the chain, and the live table against a fold",
    "export": "export as JSON lines",
}


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    sizes = bench.choose((10_000, 100_000, 1_000_000), (10_000, 50_000))
    found = {(kind, size): _read(kind, bench.log(size, KEYS)) for size in sizes for kind in ROWS}
    rows: list[tuple[str, ...]] = []
    for kind, name in ROWS.items():
        longest = found[kind, sizes[-1]]
        memory = [f"{found[kind, size]['mb']:.1f}" for size in sizes]
        rows.append((name, f"{longest['events'] / longest['seconds']:,.0f}", *memory))
    lines = [Line(kind, {size: found[kind, size]["mb"] for size in sizes}) for kind in ROWS]
    about = (
        f"Logs of {KEYS:,} keys; each figure from a process of its own. The memory is the greatest"
        " resident memory of that process, Python and all."
    )
    return [
        about,
        "",
        *table(("", f"events/s, {sizes[-1]:,} events", *(f"MB, {size:,} events" for size in sizes)), rows),
        *bench.plot("memory", "Memory against length of the log", ("events", "MB resident, at most"), lines),
    ]


def _read(kind: str, path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.whole", kind, str(path)],
        cwd=Path(__file__).resolve().parents[1],
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)
