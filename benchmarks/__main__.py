"""`python -m benchmarks [NAME …] [--quick]`: run benchmarks and write what they found to RESULTS.md."""

from __future__ import annotations

import argparse
import datetime
import importlib
import sys
from pathlib import Path

from .measure import machine

CASES = ("past",)
RESULTS = Path(__file__).with_name("RESULTS.md")


def main() -> None:
    """Run the cases named, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*CASES, []], help=f"which: {', '.join(CASES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes; prints, and leaves RESULTS.md alone")
    given = parser.parse_args()
    sections: dict[str, list[str]] = {}
    for name in given.name or CASES:
        case = importlib.import_module(f"{__package__}.{name}")
        print(f"{case.TITLE} …", file=sys.stderr, flush=True)
        sections[name] = [f"## {case.TITLE}", "", *_stamp(name), "", *case.run(quick=given.quick), ""]
        print("\n".join(sections[name]), flush=True)
    if not given.quick:
        _write(sections)


def _stamp(name: str) -> list[str]:
    today = datetime.datetime.now(datetime.UTC).date()
    return [f"{today}, {machine()}; `python -m benchmarks {name}`"]


def _write(sections: dict[str, list[str]]) -> None:
    """Replace the sections that were measured and keep the others."""
    old = RESULTS.read_text().split("\n## ")[1:] if RESULTS.exists() else []
    kept = {f"## {section.splitlines()[0]}": f"## {section}".rstrip() for section in old}
    kept.update({lines[0]: "\n".join(lines).rstrip() for lines in sections.values()})
    head = "# Results\n\nWritten by `python -m benchmarks`; every section says when, where and how it was measured.\n"
    RESULTS.write_text("\n\n".join([head.rstrip(), *kept.values()]) + "\n")


main()
