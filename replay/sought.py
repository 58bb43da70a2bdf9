"""Where in a log a text is found: in the events that can be erased, and in what cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from ..eventlog import EventLog, NotFound
from ..eventlog.codec import REDACTED
from ..eventlog.commands import exact_str
from ..eventlog.driver import Connection
from ..eventlog.schema import shown_name
from ..eventlog.text import read_text, stored_text

__all__ = ["Found", "Matches", "as_word", "pattern", "text_at", "texts_of", "whereabouts"]

_PAGE = 512
_HEAD = "select coalesce(max(position), 0) from events"
# What holds text, or the salted digest of one: entries written, and refusals.
_KEY = shown_name("names")
_TEXTS = f"""
select e.position, e.run, e.revision, {_KEY}, e.value, e.metadata
from events e left join names on names.id = e.key
where e.position > :after and e.position <= :upto and e.salt is not null and e.type in (1, 20)
    and (:run is null or e.run = :run) and (:key is null or {_KEY} = :key)
    and not (:kept and e.value is '{REDACTED}' and coalesce(e.metadata ->> '$.redacted', 0))
order by e.position limit :limit
"""  # noqa: S608 - constants only
# What else people have told. Digests and revisions in `detail` are no text.
_TOLD = """
select position, iif(:texts, value, null), iif(:texts, metadata, null), detail ->> '$.reason', idempotency_key
from events
where position > :after and position <= :upto
    and (:texts or idempotency_key is not null or type in (13, 20, 22))
order by position limit :limit
"""
_NAMES = """
select text, max(id in (select name from runs)) from names
where text is not null group by text order by min(id)
"""
_AT = "select type, salt is null, content from events where position = ?"
Matches = Callable[[str | bytes | None, str | None], bool]
"""Whether a text, or some JSON or text beside it, is one that is looked for."""

Found = dict[int, dict[str | None, list[int]]]
"""Revisions by the id of their run and by key."""


def as_word(name: str) -> str:
    """The expression that finds `name` where it is no part of a longer word."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def text_at(log: EventLog, position: object) -> Found:
    """The text at one position."""
    if type(position) is not int:
        raise TypeError(f"position must be an int, not {type(position).__name__}")
    with log.reading() as db:
        row = db.execute(_AT, (position,)).fetchone() if 0 < position < 2**63 else None
        if row is None:
            raise NotFound(f"{log.path} has no event at position {position}")
        kind, saltless, content = row
        if kind not in (1, 20):
            where = "" if content is None else f"; it points to the one at revision {content} of its lineage"
            raise ValueError(f"the event at position {position} holds no text of its own{where}")
        return {} if saltless else _collect(_rows(db, position - 1, position, None, None), None)


def texts_of(log: EventLog, key: str | None, run: str | None, matches: Matches | None) -> Found:
    """The texts that are meant, up to the present end of the log; page by page, holding nobody up."""
    ident = None if run is None else log.lineage(run).run.id
    found: Found = {}
    after = 0
    with log.reading() as db:
        (upto,) = db.execute(_HEAD).fetchone()
    while True:
        with log.reading() as db:
            named = None if key is None else exact_str("key", key)
            rows = _rows(db, after, upto, ident, named, kept=matches is None)
        _collect(rows, matches, found)
        if len(rows) < _PAGE:
            return found
        after = rows[-1][0]


def _rows(
    db: Connection, after: int, upto: int, run: int | None, key: str | None, *, kept: bool = False
) -> list[tuple[Any, ...]]:
    named = None if key is None else stored_text(key)
    # What an earlier redaction wrote over a text is no text that was meant by a key or run.
    bound = {"after": after, "upto": upto, "run": run, "key": named, "kept": kept, "limit": _PAGE}
    return db.execute(_TEXTS, bound).fetchall()


def _collect(rows: Sequence[tuple[Any, ...]], matches: Matches | None, found: Found | None = None) -> Found:
    found = {} if found is None else found
    for _, run, revision, key, value, metadata in rows:
        if matches is None or matches(value, metadata):
            name = None if key is None else read_text(key)
            found.setdefault(run, {}).setdefault(name, []).append(revision)
    return found


def pattern(expression: str) -> Matches:
    """Whether a text is one in which `expression` is found."""
    try:
        search = re.compile(exact_str("matching", expression)).search
    except re.error as error:
        raise ValueError(f"matching is no regular expression: {error}") from error

    def matches(value: str | bytes | None, metadata: str | None) -> bool:
        text = "" if value is None else read_text(value)
        return any(search(each) for each in (*_spellings(text), *_spellings(metadata or "")))

    return matches


def _spellings(text: str) -> Iterator[str]:
    """A text, and the strings in it if it is JSON: an escape may stand in the middle of a secret."""
    yield text
    if "\\" in text and text.lstrip()[:1] in ('"', "{", "["):
        try:
            waiting: list[object] = [json.loads(text)]
        except (ValueError, RecursionError):
            return
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                yield item
            elif isinstance(item, dict):
                members = cast("dict[str, object]", item)
                yield from members
                waiting += members.values()
            elif isinstance(item, list):
                waiting += cast("list[object]", item)


def whereabouts(
    log: EventLog, matches: Matches, *, texts: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """Names, names of runs, and positions of events, in which something is found still.

    Of events the reasons and idempotency keys are looked at, with `texts` also values and metadata.
    """
    with log.reading() as db:
        stored = db.execute(_NAMES).fetchall()
        (upto,) = db.execute(_HEAD).fetchone()
    told = [(read_text(name), of_run) for name, of_run in stored if matches(name, None)]
    names = tuple(name for name, of_run in told if not of_run)
    runs = tuple(name for name, of_run in told if of_run)
    positions: list[int] = []
    after = 0
    while True:
        bound = {"after": after, "upto": upto, "texts": texts, "limit": _PAGE}
        with log.reading() as db:
            rows = db.execute(_TOLD, bound).fetchall()
        for position, value, metadata, reason, key in rows:
            if matches(value, metadata) or matches(key, reason):
                positions.append(position)
        if len(rows) < _PAGE:
            return names, runs, tuple(positions)
        after = rows[-1][0]
