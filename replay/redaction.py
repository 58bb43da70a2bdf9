"""Taking secrets out: which texts are meant, and what becomes of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..eventlog import EventLog, NotFound, StorageError, TurnlogError
from ..eventlog.batch import Actor
from ..eventlog.commands import check_name, exact_str
from ..eventlog.driver import Connection
from ..eventlog.redaction import Redact
from ..eventlog.runs import run_at
from ..eventlog.text import read_text, stored_text

__all__ = ["Receipt", "redact"]

_PAGE = 512
_HEAD = "select coalesce(max(position), 0) from events"
# What holds text, or the salted digest of one: entries written, and refusals.
_TEXTS = """
select e.position, e.run, e.revision, names.text, e.value, e.metadata
from events e left join names on names.id = e.key
where e.position > :after and e.position <= :upto and e.salt is not null and e.type in (1, 20)
    and (:run is null or e.run = :run) and (:key is null or names.text = :key)
    and not (e.value is '[redacted]' and coalesce(e.metadata ->> '$.redacted', 0))
order by e.position limit :limit
"""
_AT = "select type, salt is null, content from events where position = ?"
_NAMED = "select id, family, commitment from names where text = ? order by family"
_IS_RUN = "select 1 from runs where name = ?"
_RUNS_OF = "select id from runs where family = ? order by id desc"
_DESCENDANTS = """
with recursive line (id) as (
    values (?) union select runs.id from runs join line on runs.parent = line.id
)
select id from line
"""

_Matches = Callable[[str | bytes | None, str | None], bool]
_Found = dict[int, dict[str | None, list[int]]]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a redaction did.

    Attributes:
        events: how many events of the past lost their text.
        names: how many names lost theirs.
        rewritten: how many entries of the present now read `[redacted]`.
        deleted: how many entries were deleted, because the name of their key was erased.
        runs: names of the runs in which something was recorded.
        wal_emptied: whether old pages are out of the WAL too; False while another process reads the log.
        names_left: names that the pattern was found in, and that stay: they have to be erased by name.
    """

    events: int
    names: int
    rewritten: int
    deleted: int
    runs: tuple[str, ...]
    wal_emptied: bool
    names_left: tuple[str, ...] = ()


def redact(
    log: EventLog,
    *,
    reason: str,
    by: str,
    position: int | None = None,
    name: str | None = None,
    key: str | None = None,
    run: str | None = None,
    matching: str | None = None,
) -> Receipt:
    """Erase texts from the log for good: value, metadata and salt of events, or a name and its salt.

    State one of: `position`, one event; `name`, a key, agent or activity by its name; or any of `key`, `run`
    and `matching` together, of which each narrows the choice down. Everything is meant that was recorded when
    the call began, and nothing later. Forks share their parent's events, so they lose them too.

    The hash chain stays whole: a `Redacted` event keeps the commitments, says who asked and why, and is what
    erases (docs/format.md, "Redaction"). Where an erased text was the present value of a key, `[redacted]` is
    written over it. To erase a key's name deletes the entry under it, in every run of the family. Names of
    runs cannot be erased, nor what was given as a reason or idempotency key.

    Copies are not reached: backups, exports, other copies of the file, what was read from it before.

    Args:
        log: the log; opened to be written.
        reason: why, for the record. Not empty.
        by: who asks, for the record. Not empty.
        position: of the event that holds the text.
        name: the name itself.
        key: only values of this key, in whatever run.
        run: only what this run itself recorded.
        matching: a regular expression, searched for in values and metadata, in JSON also with its escapes
            undone.

    Raises:
        TypeError, ValueError: what was stated cannot be, or is nothing, or too much at once.
        NotFound: there is no such event, run or name. Of a name that was erased before nothing can be told
            but this; the WAL is emptied even then.
        Busy: nothing was erased.
        StorageError: nothing was erased, unless it says that only the WAL could not be emptied.
    """
    check_name(log.limits, "by", by)
    if not exact_str("reason", reason):
        raise ValueError("reason must not be empty")
    narrowing = [each for each in (key, run, matching) if each is not None]
    if (position is not None) + (name is not None) + bool(narrowing) != 1:
        raise ValueError("state either position, or name, or some of key, run and matching")
    actor = Actor(by)
    if name is not None:
        requests = _of_name(log, exact_str("name", name), reason, actor)
        return _carry_out(log, requests, names=sum(bool(each.names) for each in requests))
    if position is not None:
        found = _at(log, position)
    else:
        found = _search(log, key, run, None if matching is None else _pattern(matching))
    requests = _of_texts(log, found, reason, actor)
    left = () if matching is None else tuple(_names_matching(log, re.compile(matching)))
    return _carry_out(log, requests, names=0, left=left)


def _carry_out(log: EventLog, requests: Sequence[Redact], names: int, left: tuple[str, ...] = ()) -> Receipt:
    if requests:
        log.redact(requests)
    try:
        wal_emptied = log.empty_wal()
    except TurnlogError as error:
        if not requests:
            raise
        raise StorageError(
            f"{log.path}: the texts are erased, but old pages that hold them may be left in {log.path}-wal; "
            f"ask for the same again when the cause is gone [{error}]"
        ) from error
    return Receipt(
        events=sum(each.erased for each in requests),
        names=names,
        rewritten=sum(each.rewritten for each in requests),
        deleted=sum(each.deleted for each in requests),
        runs=tuple(each.run for each in requests if each.recorded),
        wal_emptied=wal_emptied,
        names_left=left,
    )


def _of_texts(log: EventLog, found: _Found, reason: str, actor: Actor) -> list[Redact]:
    """One request for each run that recorded such a text, or may show one of an ancestor's."""
    concerned: set[int] = set()
    with log.reading() as db:
        for run in found:
            concerned.update(ident for (ident,) in db.execute(_DESCENDANTS, (run,)).fetchall())
        names = [run_at(db, ident).name for ident in sorted(concerned)]
    return [Redact(name, found, (), (), reason, actor) for name in names]


def _of_name(log: EventLog, name: str, reason: str, actor: Actor) -> list[Redact]:
    """Forks before their root: the name is erased with the root's event, and is needed until then."""
    requests: list[Redact] = []
    with log.reading() as db:
        named = db.execute(_NAMED, (stored_text(name),)).fetchall()
        for ident, family, commitment in named:
            if db.execute(_IS_RUN, (ident,)).fetchone():
                raise ValueError(f"{name!r} is the name of a run, which cannot be erased")
            for (run,) in db.execute(_RUNS_OF, (family,)).fetchall():
                names = (commitment,) if run == family else ()
                requests.append(Redact(run_at(db, run).name, {}, names, (name,), reason, actor))
    if not requests:
        # Maybe it was erased already, and this is the second attempt to get its old pages out of the WAL.
        emptied = "was emptied" if log.empty_wal() else "is being read, so old pages stay in it: ask again"
        raise NotFound(f"{log.path} has no name {name!r}, or has it no longer; {log.path}-wal {emptied}")
    return requests


def _at(log: EventLog, position: object) -> _Found:
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


def _search(log: EventLog, key: str | None, run: str | None, matches: _Matches | None) -> _Found:
    """The texts that are meant, up to the present end of the log; page by page, holding nobody up."""
    ident = None if run is None else log.lineage(run).run.id
    found: _Found = {}
    after = 0
    with log.reading() as db:
        (upto,) = db.execute(_HEAD).fetchone()
    while True:
        with log.reading() as db:
            rows = _rows(db, after, upto, ident, None if key is None else exact_str("key", key))
        _collect(rows, matches, found)
        if len(rows) < _PAGE:
            return found
        after = rows[-1][0]


def _rows(db: Connection, after: int, upto: int, run: int | None, key: str | None) -> list[tuple[Any, ...]]:
    named = None if key is None else stored_text(key)
    bound = {"after": after, "upto": upto, "run": run, "key": named, "limit": _PAGE}
    return db.execute(_TEXTS, bound).fetchall()


def _collect(
    rows: Sequence[tuple[Any, ...]], matches: _Matches | None, found: _Found | None = None
) -> _Found:
    found = {} if found is None else found
    for _, run, revision, key, value, metadata in rows:
        if matches is None or matches(value, metadata):
            name = None if key is None else read_text(key)
            found.setdefault(run, {}).setdefault(name, []).append(revision)
    return found


def _pattern(expression: str) -> _Matches:
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


def _names_matching(log: EventLog, pattern: re.Pattern[str]) -> Iterator[str]:
    with log.reading() as db:
        names = db.execute("select distinct text from names where text is not null").fetchall()
    for (stored,) in names:
        name = read_text(stored)
        if pattern.search(name):
            yield name
