"""The shared report of the demo: what editors merge into it, and the text a writer makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from pydantic import Field

from .cli_text import escaped
from .demo_findings import KINDS, Finding, Function, Kind, Record, Rejection, Survey

__all__ = ["Report", "Verdict", "merge", "render"]

K = TypeVar("K", bound=str)

TOP = 3  # functions named in each ranking
GRAVEST = 4  # findings quoted
QUOTE = 50  # characters of each
_COMMON: tuple[Kind, ...] = ("long function", "no docstring")


class Verdict(Record):
    """What a critic found of a survey: the findings that hold, and those that do not.

    Attributes:
        survey: the version of the survey that was checked.
    """

    survey: int | None
    upheld: tuple[Finding, ...]
    rejected: tuple[Rejection, ...]


class Place(Record):
    """A finding, in its file; `why` only where it was rejected."""

    file: str
    line: int
    kind: Kind
    what: str
    why: str | None = None


class Ranked(Record):
    """A function in a ranking by `number`."""

    file: str
    line: int
    name: str
    number: int


class Report(Record):
    """What the team knows of all files merged so far. In which order they were merged makes no difference.

    Attributes:
        files, lines, functions, classes: how many.
        upheld, rejected: how many findings of each kind hold, and do not.
        unlisted: how many findings were too many to list, and so were never checked.
        longest, branchiest: the functions of most lines, and of most branches.
        gravest: the gravest findings that hold, but for long functions and missing docstrings.
        overturned: for each kind the first finding that does not hold.
        merges: how many files each editor merged.
    """

    files: int = 0
    lines: int = 0
    functions: int = 0
    classes: int = 0
    upheld: dict[Kind, int] = Field(default_factory=dict[Kind, int])
    rejected: dict[Kind, int] = Field(default_factory=dict[Kind, int])
    unlisted: int = 0
    longest: tuple[Ranked, ...] = ()
    branchiest: tuple[Ranked, ...] = ()
    gravest: tuple[Place, ...] = ()
    overturned: dict[Kind, Place] = Field(default_factory=dict[Kind, Place])
    merges: dict[str, int] = Field(default_factory=dict[str, int])


def merge(report: Report, name: str, survey: Survey, verdict: Verdict, editor: str) -> Report:
    """`report` with one more file in it."""
    file = escaped(name)
    grave = (_place(file, finding) for finding in verdict.upheld if finding.kind not in _COMMON)
    return Report(
        files=report.files + 1,
        lines=report.lines + survey.lines,
        functions=report.functions + survey.functions,
        classes=report.classes + survey.classes,
        upheld=_counted(report.upheld, (finding.kind for finding in verdict.upheld)),
        rejected=_counted(report.rejected, (finding.kind for finding in verdict.rejected)),
        unlisted=report.unlisted + survey.unlisted,
        longest=_ranking(report.longest, file, survey.longest, by_lines=True),
        branchiest=_ranking(report.branchiest, file, survey.branchiest, by_lines=False),
        gravest=tuple(sorted((*report.gravest, *grave), key=_gravity)[:GRAVEST]),
        overturned=_examples(report.overturned, [_place(file, finding) for finding in verdict.rejected]),
        merges=_counted(report.merges, (editor,)),
    )


def render(report: Report, title: str) -> str:
    """The report as text for people."""
    size = f"{report.files:,} files, {report.lines:,} lines, {report.functions:,} functions"
    lines = [f"# A survey of {escaped(title)}", "", f"{size}, {report.classes:,} classes.", ""]
    lines.append(f"{'Findings':24}{'hold':>8}{'rejected':>10}")
    for kind in KINDS:
        held, rejected = report.upheld.get(kind, 0), report.rejected.get(kind, 0)
        if held or rejected:
            lines.append(f"{kind:24}{held:8,}{rejected:10,}")
    if report.unlisted:
        lines.append(f"{report.unlisted:,} more were not listed.")
    lines += _section(
        "Longest functions", (f"{_at(each)} {each.name}: {each.number} lines" for each in report.longest)
    )
    lines += _section(
        "Most branches", (f"{_at(each)} {each.name}: {each.number} branches" for each in report.branchiest)
    )
    lines += _section("Also found", (f"{_at(each)} {each.kind}: {each.what}" for each in report.gravest))
    overturned = (report.overturned[kind] for kind in KINDS if kind in report.overturned)
    lines += _section(
        "Rejected by the critics, for example",
        (f"{_at(each)} {each.kind}: {each.what} ({each.why})" for each in overturned),
    )
    return "\n".join(lines) + "\n"


def _section(title: str, items: Iterable[str]) -> list[str]:
    listed = [f"- {item}" for item in items]
    return ["", title, *listed] if listed else []


def _at(place: Place | Ranked) -> str:
    return f"{place.file}:{place.line}"


def _place(file: str, finding: Finding) -> Place:
    why = finding.why if isinstance(finding, Rejection) else None
    quote = finding.what if len(finding.what) <= QUOTE else f"{finding.what[: QUOTE - 1]}…"
    return Place(file=file, line=finding.line, kind=finding.kind, what=quote, why=why)


def _gravity(place: Place) -> tuple[int, str, int]:
    return KINDS.index(place.kind), place.file, place.line


def _counted(counts: Mapping[K, int], more: Iterable[K]) -> dict[K, int]:
    total = dict(counts)
    for each in more:
        total[each] = total.get(each, 0) + 1
    return total


def _ranking(
    ranking: tuple[Ranked, ...], file: str, function: Function | None, *, by_lines: bool
) -> tuple[Ranked, ...]:
    if function is None:
        return ranking
    number = function.lines if by_lines else function.branches
    ranked = Ranked(file=file, line=function.line, name=function.name, number=number)
    return tuple(sorted((*ranking, ranked), key=lambda each: (-each.number, each.file, each.line))[:TOP])


def _examples(examples: Mapping[Kind, Place], more: Iterable[Place]) -> dict[Kind, Place]:
    first = dict(examples)
    for place in more:
        known = first.get(place.kind)
        if known is None or (place.file, place.line) < (known.file, known.line):
            first[place.kind] = place
    return first
