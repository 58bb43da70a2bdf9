"""Processes that write to one file as fast as they can, durably."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from .bench import Bench
from .load import Load, Rounds
from .logs import VALUE
from .measure import table

TITLE = "Processes on one file, `disk`"

ROWS = {
    "turnlog, a lone caller each": "lone",
    "turnlog, 16 tasks each": "tasks",
    "bare, SQLite's own waiting for the lock": "bare",
}
MANY = 4
BESIDE = "turnlog, 3 lone callers beside one that writes lists of 1,000"


def run(bench: Bench) -> list[str]:
    """Measure; returns lines of Markdown."""
    probe = bench.probe()
    seconds = bench.choose(1.5, 0.5)
    found = {(name, count): Rounds(name) for name in ROWS for count in (1, MANY)}
    beside = Rounds(BESIDE)
    with bench.room() as room:
        for _ in range(bench.choose(3, 1)):
            for (name, count), rounds in found.items():
                path = room / ("bare.db" if ROWS[name] == "bare" else "turnlog.db")
                rounds.loads.append(_write(path, [ROWS[name]] * count, seconds))
                probe()
            together = _write(room / "turnlog.db", ["bulk", *["lone"] * (MANY - 1)], seconds)
            beside.loads.append(Load(together.seconds, together.spent[1:]))
            probe()
    rows = [_row(rounds, count, found[name, 1]) for (name, count), rounds in found.items()]
    rows.append(_row(beside, MANY - 1, None))
    head = (
        "",
        "processes",
        "writes/s, all together (rounds)",
        "one process alone = 1",
        "least share",
        "ms p50 / p99",
        "ms longest",
    )
    about = (
        f"Each process writes a value of {len(VALUE)} bytes again and again, {seconds:g} s a round; all"
        " begin at one moment. The least share is what the least successful process got done as a part"
        " of what the most successful one did, in the worst round."
    )
    return [
        about,
        "",
        *table(head, rows),
        "",
        str(probe),
    ]


def _row(rounds: Rounds, count: int, alone: Rounds | None) -> tuple[str, ...]:
    spread = rounds.spread
    many = alone is not None and alone is not rounds
    return (
        rounds.name,
        str(count),
        rounds.rates,
        str(rounds.over(alone)) if many and alone is not None else "",
        f"{rounds.share:.2f}" if count > 1 else "",
        spread.ms,
        f"{spread.longest / 1e3:,.1f}",
    )


def _write(path: Path, kinds: list[str], seconds: float) -> Load:
    """Let a process of each kind write, all at one moment."""
    with ExitStack() as stack:
        processes = [_start(stack, kind, path, seconds, number) for number, kind in enumerate(kinds)]
        for process in processes:
            _await_ready(process)
        begin = time.monotonic() + 0.1
        for process in processes:
            _tell(process, f"{begin}\n")
        answers = [process.communicate(timeout=seconds + 90)[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("a process that writes has failed; what it said is above")
    return Load(seconds, [json.loads(answer) for answer in answers])


def _start(stack: ExitStack, kind: str, path: Path, seconds: float, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.writing", kind, str(path), str(seconds), str(number)]
    folder = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def _tell(process: subprocess.Popen[str], text: str) -> None:
    if process.stdin is not None:
        process.stdin.write(text)
        process.stdin.flush()


def _await_ready(process: subprocess.Popen[str]) -> None:
    line = "" if process.stdout is None else process.stdout.readline()
    if line != "ready\n":
        raise RuntimeError("a process that writes did not get ready; what it said is above")
