"""What the demo's agents see in a Python file: a surveyor's quick look, and a critic's careful one.

The quick look measures the file from its syntax tree, and takes every line for a finding that reads like one.
The careful look asks the tree and the tokens whether the finding is so. The two disagree where text inside a
string looks like code, where a docstring does not come in the very next line, where comments make a function
look long: these are the findings that critics reject.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from .cli_text import escaped
from .demo_files import SourceFolder, Unreadable
from .demo_source import Source

__all__ = ["KINDS", "Finding", "Function", "Kind", "Record", "Rejection", "Survey", "look", "recheck"]

Kind = Literal[
    "unreadable",
    "bare except",
    "mutable default",
    "comparison with None",
    "long function",
    "to do",
    "no docstring",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Every kind of finding, the gravest first."""

LONG = 60  # lines of a function
MAX_FINDINGS = 300  # of one file

_TO_DO = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_NONE = re.compile(r"[=!]=\s*None\b")
_SIGNS: dict[Kind, re.Pattern[str]] = {
    "bare except": re.compile(r"^\s*except\s*:"),
    "mutable default": re.compile(r"^\s*(?:async\s+)?def\s.*=\s*(?:\[|\{|(?:list|dict|set)\()"),
    "comparison with None": _NONE,
    "to do": _TO_DO,
}
_PUBLIC_DEFINITION = re.compile(r"^\s*(?:async\s+def|def|class)\s+[A-Za-z]\w*")
_QUOTE = re.compile(r"^\s*[rRuU]?[\"']")


class Record(BaseModel):
    """What agents write into memory is read back in the same shape, or not at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Function(Record):
    """A function as measured: its lines from first to last, and the places where its course can branch."""

    name: str
    line: int
    lines: int
    branches: int


class Finding(Record):
    """Something that a look at a file found in a line; `what` is that line, or says what is wrong."""

    kind: Kind
    line: int
    what: str


class Rejection(Finding):
    """A finding that does not hold, and why."""

    why: str


class Survey(Record):
    """What a quick look at a file found.

    Attributes:
        digest: SHA-256 of what was looked at, hex; empty where it could not be read.
        lines, functions, classes: how many there are.
        longest, branchiest: the function of most lines, and of most branches.
        findings: in the order of their lines.
        unlisted: how many more findings there are.
    """

    digest: str
    lines: int = 0
    functions: int = 0
    classes: int = 0
    longest: Function | None = None
    branchiest: Function | None = None
    findings: tuple[Finding, ...] = ()
    unlisted: int = 0


def look(folder: SourceFolder, name: str) -> Survey:
    """A surveyor's quick look at a file."""
    digest = ""
    try:
        data = folder.read(name)
        digest = hashlib.sha256(data).hexdigest()
        source = Source(data)
    except Unreadable as error:
        finding = Finding(kind="unreadable", line=error.line, what=_shown(str(error)))
        return Survey(digest=digest, findings=(finding,))
    measured = [Function(name=name, line=line, lines=n, branches=b) for name, line, n, b in source.measures()]
    suspicions = sorted(_suspicions(source, measured))
    return Survey(
        digest=digest,
        lines=len(source.lines),
        functions=len(measured),
        classes=source.classes,
        longest=max(measured, key=lambda each: (each.lines, -each.line), default=None),
        branchiest=max(measured, key=lambda each: (each.branches, -each.line), default=None),
        findings=tuple(
            Finding(kind=KINDS[rank], line=line, what=_shown(what))
            for line, rank, what in suspicions[:MAX_FINDINGS]
        ),
        unlisted=max(0, len(suspicions) - MAX_FINDINGS),
    )


def recheck(folder: SourceFolder, name: str, survey: Survey) -> tuple[list[Finding], list[Rejection]]:
    """A critic's careful look: which findings of a survey hold, and which do not, and why."""
    try:
        data = folder.read(name)
        if hashlib.sha256(data).hexdigest() != survey.digest:
            return [], [
                _rejected(finding, "the file has changed since the survey") for finding in survey.findings
            ]
        source = Source(data)
        verdicts = [(finding, _CHECKS[finding.kind](source, finding.line)) for finding in survey.findings]
    except Unreadable as error:
        verdicts = [
            (finding, None if finding.kind == "unreadable" else str(error)) for finding in survey.findings
        ]
    upheld = [finding for finding, why in verdicts if why is None]
    return upheld, [_rejected(finding, why) for finding, why in verdicts if why is not None]


def _suspicions(source: Source, measured: Iterable[Function]) -> Iterator[tuple[int, int, str]]:
    """Line, rank of the kind, and what it is about, of everything that reads like a finding."""
    for number, line in enumerate(source.lines, 1):
        for kind, sign in _SIGNS.items():
            if sign.search(line):
                yield number, KINDS.index(kind), line
        if _PUBLIC_DEFINITION.match(line):
            following = next((each for each in source.lines[number : number + 5] if each.strip()), "")
            if not _QUOTE.match(following):
                yield number, KINDS.index("no docstring"), line
    for function in measured:
        if function.lines > LONG:
            yield function.line, KINDS.index("long function"), f"{function.name}: {function.lines} lines"


def _is_unreadable(source: Source, line: int) -> str | None:  # noqa: ARG001 - as the other checks
    return "it can be read now"


def _is_bare_except(source: Source, line: int) -> str | None:
    return None if line in source.bare_excepts else _text(source, line) or "no handler begins here"


def _has_mutable_default(source: Source, line: int) -> str | None:
    why = "no parameter has a list, dict or set for its default"
    return None if line in source.mutable_defaults else _text(source, line) or why


def _compares_with_none(source: Source, line: int) -> str | None:
    if line in source.none_comparisons:
        return None
    if _NONE.search(source.comments.get(line, "")):
        return "text of a comment"
    return _text(source, line) or "nothing is compared with None"


def _is_to_do(source: Source, line: int) -> str | None:
    if _TO_DO.search(source.comments.get(line, "")):
        return None
    return _text(source, line) or "not in a comment"


def _is_long_function(source: Source, line: int) -> str | None:
    lines = source.code_lines(line)
    return None if lines > LONG else f"only {lines} of these lines are code"


def _lacks_docstring(source: Source, line: int) -> str | None:
    documented = source.definitions.get(line)
    if documented is None:
        return _text(source, line) or "nothing is defined here"
    if documented:
        return "it has one, a little further down"
    return "local to a function, so nobody else sees it" if line in source.local_definitions else None


_CHECKS: dict[Kind, Callable[[Source, int], str | None]] = {
    "unreadable": _is_unreadable,
    "bare except": _is_bare_except,
    "mutable default": _has_mutable_default,
    "comparison with None": _compares_with_none,
    "long function": _is_long_function,
    "to do": _is_to_do,
    "no docstring": _lacks_docstring,
}


def _text(source: Source, line: int) -> str | None:
    """Why the line is no code at all; None if it may be."""
    return "text inside a string, not code" if line in source.text_lines else None


def _rejected(finding: Finding, why: str) -> Rejection:
    return Rejection(kind=finding.kind, line=finding.line, what=finding.what, why=why)


def _shown(text: str) -> str:
    """At most 100 characters of `text`, escaped, without the white space around it."""
    text = escaped(text.strip()[:101])
    return text if len(text) <= 100 else f"{text[:99]}…"
