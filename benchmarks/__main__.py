"""`python -m benchmarks [NAME …] [--quick]`: run benchmarks and write what they found to RESULTS.md."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from .bench import Bench
from .machine import stamp

CASES = ("set", "get", "threads", "tasks", "processes", "bulk", "replay", "past", "guard")
RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = "# Results\n\nWritten by `python -m benchmarks`; every section says when, where and how it was taken."
LIMITS = Path(__file__).with_name("LIMITS.md")
"""Written by hand: which targets were missed, and why. It stands in front of the results."""
PLOTS = Path(__file__).with_name("plots")


def main() -> None:
    """Run the cases named, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"which: {', '.join(CASES)}; all by default")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes; prints, and leaves RESULTS.md alone"
    )
    parser.add_argument(
        "--folder", type=Path, default=_folder(), help="where files are made (default: %(default)s)"
    )
    given = parser.parse_args()
    unknown = [name for name in given.name if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was begun is cleaned up
    with tempfile.TemporaryDirectory(prefix="turnlog-benchmarks-", dir=given.folder) as folder:
        bench = Bench(Path(folder), quick=given.quick, plots=None if given.quick else PLOTS)
        for name in given.name or CASES:
            section = _section(name, bench)
            print("\n".join(section), flush=True)
            if not given.quick:
                _write(section)


def _section(name: str, bench: Bench) -> list[str]:
    case = importlib.import_module(f"{__package__}.{name}")
    print(f"{name} …", file=sys.stderr, flush=True)
    head = stamp()
    begin = time.monotonic()
    lines = case.run(bench)
    command = f"`python -m benchmarks {name}{' --quick' if bench.quick else ''}`"
    return [
        f"## {case.TITLE}",
        "",
        *lines,
        "",
        f"<sub>{command}, {time.monotonic() - begin:.0f} s. {head}</sub>",
        "",
    ]


def _folder() -> str | None:
    """A folder whose files are on a disk; those of the usual one for temporary files are often in memory."""
    lasting = Path("/var/tmp")
    return None if os.environ.get("TMPDIR") or not lasting.is_dir() else str(lasting)


def _write(section: list[str]) -> None:
    """Replace the section that was measured, and keep the others, in the order of the cases."""
    old = RESULTS.read_text("utf-8").split("\n## ")[1:] if RESULTS.exists() else []
    kept = {part.splitlines()[0]: part.rstrip() for part in old}
    title = section[0].removeprefix("## ")
    kept[title] = "\n".join([title, *section[1:]]).rstrip()
    titles = [importlib.import_module(f"{__package__}.{name}").TITLE for name in CASES]
    limits = LIMITS.read_text("utf-8").rstrip()
    parts = [HEAD, limits, *(f"## {kept[title]}" for title in titles if title in kept)]
    RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


main()
