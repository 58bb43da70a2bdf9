"""Anchors: what a log had come to, kept where whoever can write the log cannot (docs/format.md, "Anchors").

Nothing here reads a file or a log: lines are made, read back and held against each other, and an anchor
against what a log is found to hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, cast

from ..eventlog import BadAnchor
from ..eventlog.integrity import Problem

__all__ = ["Anchor", "AnchorFile", "AnchoredHead", "Standing", "contradictions", "last_anchor", "line_of"]

_KIND = "turnlog-anchor"
_VERSION = 1
_NO_LINE = "0" * 64
_WRONG = (ValueError, KeyError, TypeError, RecursionError)  # what a line that cannot be raises
_HEX = frozenset("0123456789abcdef")


class AnchoredHead(NamedTuple):
    """The newest event of a run when it was anchored. `hash` has 32 bytes."""

    uid: str
    name: str
    revision: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Anchor:
    """One line of an anchor file.

    Attributes:
        counter: 1 for the first line, one more for each that follows.
        previous: hash of the line before, 64 hex digits.
        anchored_at: UTC, ISO 8601; for people.
        events: how many events the log had.
        order: hash over the hashes of these events in the order of the file, 64 hex digits.
        heads: the newest event of each run.
    """

    counter: int
    previous: str
    anchored_at: str
    events: int
    order: str
    heads: tuple[AnchoredHead, ...]


class Standing(NamedTuple):
    """What a log is found to hold, as far as an anchor asks.

    Attributes:
        events: how many events it has.
        order: `Anchor.order` over as many events as were anchored; None if it has fewer.
        runs: by uid, the newest revision, and the hash at the one that was anchored, None if it is missing.
    """

    events: int
    order: str | None
    runs: Mapping[str, tuple[int, bytes | None]]


class AnchorFile(NamedTuple):
    """What an anchor file says.

    Attributes:
        newest: its last line; None if it has none.
        previous: the hash that the next line must state as `previous`.
        size: how many of its bytes count; behind them is what an append that was interrupted left.
        ended: whether they are none, or end with the end of a line.
    """

    newest: Anchor | None
    previous: str
    size: int
    ended: bool


def line_of(anchor: Anchor) -> bytes:
    """The line that states `anchor`, its end included."""
    heads = [head._asdict() | {"hash": head.hash.hex()} for head in anchor.heads]
    facts = {
        "anchored_at": anchor.anchored_at,
        "events": anchor.events,
        "order": anchor.order,
        "heads": heads,
    }
    return _beginning(anchor.counter, anchor.previous) + b"," + _json(facts)[1:] + b"\n"


def last_anchor(content: bytes, name: str) -> AnchorFile:
    """The last line of an anchor file, once all its lines have been found to follow each other.

    What a killed process left of a line is not one, since nobody was told that it is there; it is known by
    its beginning, which is that of the line to follow. A line that lacks nothing but its end counts.

    Args:
        content: the whole file.
        name: what to call it in messages.

    Raises:
        BadAnchor: the file was damaged; names the line.
    """
    *lines, rest = content.split(b"\n")
    read = AnchorFile(None, _NO_LINE, 0, ended=True)
    for number, line in enumerate(lines, start=1):
        try:
            read = _followed(read, line, len(line) + 1, ended=True)
        except _WRONG as error:
            raise BadAnchor(f"{name}, line {number}: the anchor file was damaged: {error}") from error
    if rest:
        try:
            return _followed(read, rest, len(rest), ended=False)
        except _WRONG as error:
            begun = _beginning(1 if read.newest is None else read.newest.counter + 1, read.previous)
            if not rest.startswith(begun) and not begun.startswith(rest):
                raise BadAnchor(
                    f"{name}, line {len(lines) + 1}: the anchor file was damaged: the line has no end, and "
                    "does not begin as one that an interrupted `turnlog anchor` left"
                ) from error
    return read


def contradictions(anchor: Anchor, log: Standing) -> Iterator[Problem]:
    """In what the log is not one that went on from `anchor`; nothing if it is."""
    if anchor.heads and not any(head.uid in log.runs for head in anchor.heads):
        yield Problem(f"anchor {anchor.counter} knows none of the runs in this log: it is of another log")
        return
    found = False
    for head in anchor.heads:
        what = _wrong_run(anchor, head, log)
        if what is not None:
            found = True
            yield Problem(what, run=head.name)
    if log.events < anchor.events:
        found = True
        yield Problem(f"there are {log.events} events, though anchor {anchor.counter} saw {anchor.events}")
    if not found and log.order != anchor.order:
        yield Problem(
            f"up to position {anchor.events} the events are not in the order that anchor {anchor.counter} saw"
        )


def _beginning(counter: int, previous: str) -> bytes:
    """How the line begins that has this counter and follows the line with the hash `previous`."""
    facts = {"kind": _KIND, "version": _VERSION, "counter": counter, "previous": previous}
    return _json(facts)[:-1]


def _json(facts: Mapping[str, object]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode("ascii")


def _followed(read: AnchorFile, line: bytes, size: int, *, ended: bool) -> AnchorFile:
    """What the file says with one more line, of so many bytes with its end."""
    anchor = _read(line)
    _check_follows(read.newest, anchor, read.previous)
    return AnchorFile(anchor, sha256(line).hexdigest(), read.size + size, ended)


def _wrong_run(anchor: Anchor, head: AnchoredHead, log: Standing) -> str | None:
    if head.uid not in log.runs:
        return f"is gone, though anchor {anchor.counter} saw its revision {head.revision}"
    newest, there = log.runs[head.uid]
    if newest < head.revision:
        return (
            f"ends at revision {newest}, though anchor {anchor.counter} saw revision {head.revision}: "
            "its end was cut off, or an older copy of the log was put back"
        )
    if there != head.hash:
        return (
            f"revision {head.revision} is not the one that anchor {anchor.counter} saw: "
            "its past was made anew"
        )
    return None


def _read(line: bytes) -> Anchor:
    facts = _members(json.loads(line))
    if facts["kind"] != _KIND:
        raise ValueError("it is no anchor")
    if facts["version"] != _VERSION:
        raise ValueError(f"anchors of version {facts['version']} are not known; upgrade turnlog")
    heads = facts["heads"]
    if not isinstance(heads, list):
        raise TypeError("its heads are no list")
    return Anchor(
        _number(facts["counter"]),
        _hex(facts["previous"], 64),
        _text(facts["anchored_at"]),
        _number(facts["events"]),
        _hex(facts["order"], 64),
        tuple(_head(_members(head)) for head in cast("list[object]", heads)),
    )


def _head(facts: Mapping[str, object]) -> AnchoredHead:
    digest = bytes.fromhex(_hex(facts["hash"], 64))
    return AnchoredHead(_hex(facts["uid"], 32), _text(facts["name"]), _number(facts["revision"]), digest)


def _members(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.50} should be an object")
    return cast("dict[str, object]", value)


def _check_follows(before: Anchor | None, anchor: Anchor, previous: str) -> None:
    """That a line goes on from the one before it."""
    if anchor.previous != previous:
        raise ValueError("the line before it was altered, or lines are missing")
    if anchor.counter != (1 if before is None else before.counter + 1):
        raise ValueError(f"its counter is {anchor.counter}")
    if before is None:
        return
    revisions = {head.uid: head.revision for head in anchor.heads}
    fallen = [head.name for head in before.heads if revisions.get(head.uid, 0) < head.revision]
    if anchor.events < before.events or fallen:
        raise ValueError("it says that the log had become shorter")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.50} should be text")
    return value


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise TypeError(f"{value!r:.50} should be a whole number")
    return value


def _hex(value: object, digits: int) -> str:
    text = _text(value)
    if len(text) != digits or not _HEX.issuperset(text):
        raise ValueError(f"{text!r:.80} should be {digits} lower-case hex digits")
    return text
