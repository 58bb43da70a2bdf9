"""A process that reads a whole log once: `python -m benchmarks.whole KIND PATH`, for the case `replay`.

It prints, as JSON, the events, the seconds they took, and the greatest resident memory of the process in MB.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import turnlog
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.integrity import check_log
from turnlog.projections import fold
from turnlog.replay.verification import verify

from .logs import RUN


def main() -> None:
    """Read it all."""
    kind, path = sys.argv[1:]
    with turnlog.open(path, read_only=True) as log:
        head = log.head(RUN)
        begin = time.perf_counter()
        KINDS[kind](log)
        seconds = time.perf_counter() - begin
    events = 0 if head is None else head.position
    print(json.dumps({"events": events, "seconds": seconds, "mb": _greatest_mb()}))


def _fold(log: turnlog.EventLog) -> None:
    with log.reading() as db:
        fold(db, log.lineage(RUN))


def _read(log: turnlog.EventLog) -> None:
    for _ in log.read(run=RUN):
        pass


def _check(log: turnlog.EventLog) -> None:
    with log.reading() as db:
        problems = list(check_log(db))
    if problems:
        raise SystemExit(f"{log.path}: {problems[0]}")


def _verify(log: turnlog.EventLog) -> None:
    found = verify(log)
    if not found.ok:
        raise SystemExit(f"{log.path}: {found.problems[0]}")


def _export(log: turnlog.EventLog) -> None:
    for _ in export_lines(log):
        pass


def _greatest_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():  # of this program alone; what getrusage says begins with the process it came from
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 20 if sys.platform == "darwin" else 1 << 10
    )


KINDS: dict[str, Callable[[turnlog.EventLog], None]] = {
    "fold": _fold,
    "read": _read,
    "check": _check,
    "verify": _verify,
    "export": _export,
}

if __name__ == "__main__":
    main()
