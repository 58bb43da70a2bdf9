"""Taking secrets out: which texts are meant, and what becomes of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..eventlog import EventLog, NotFound, StorageError
from ..eventlog.batch import Actor
from ..eventlog.codec import REDACTED
from ..eventlog.commands import check_name, exact_str
from ..eventlog.driver import Connection
from ..eventlog.redaction import Redact
from ..eventlog.runs import run_at
from ..eventlog.schema import shown_name
from ..eventlog.text import read_text, stored_text

__all__ = ["Receipt", "redact"]

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
_AT = "select type, salt is null, content from events where position = ?"
_NAMED = "select id, family, commitment from names where text = ? order by family"
_ANY_ERASED = "select 1 from names where text is null limit 1"
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
        wal_emptied: whether old copies are out of the file's pages and the WAL too; False if another process
            kept reading or writing the log meanwhile. Asking again then does the rest.
        names_left: names in which the pattern, or the name, is found still: they have to be erased by name.
        positions_left: of events in which it is found still. With a pattern that is in their reasons and
            idempotency keys, which cannot be erased; with a name in their texts too.
    """

    events: int
    names: int
    rewritten: int
    deleted: int
    runs: tuple[str, ...]
    wal_emptied: bool
    names_left: tuple[str, ...] = ()
    positions_left: tuple[int, ...] = ()


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
        TypeError, ValueError: what was stated cannot be, or is nothing, or too much at once, or `reason` or
            `by` says what is to be erased.
        NotFound: there is no such event or run; or no such name, in a log of which no name was erased yet.
        Busy, StorageError: nothing was erased.
    """
    check_name(log.limits, "by", by)
    if not exact_str("reason", reason):
        raise ValueError("reason must not be empty")
    narrowing = [each for each in (key, run, matching) if each is not None]
    if (position is not None) + (name is not None) + bool(narrowing) != 1:
        raise ValueError("state either position, or name, or some of key, run and matching")
    actor = Actor(by)
    _check_told(reason, by, name, matching)
    if name is not None:
        requests = _of_name(log, exact_str("name", name), reason, actor)
        done = _carry_out(log, requests, names=sum(bool(each.names) for each in requests))
        return _with_left(log, done, _as_word(name), texts=True)
    if position is not None:
        found = _at(log, position)
    else:
        found = _search(log, key, run, None if matching is None else _pattern(matching))
    requests = _of_texts(log, found, reason, actor)
    done = _carry_out(log, requests, names=0)
    return done if matching is None else _with_left(log, done, matching, texts=False)


def _check_told(reason: str, by: str, name: str | None, matching: str | None) -> None:
    """What is said of the redaction stays, so it must not say what is to go."""
    for what, told in (("reason", reason), ("by", by)):
        names = name is not None and re.search(_as_word(name), told)
        if names or (matching is not None and _pattern(matching)(told, None)):
            raise ValueError(
                f"{what} holds what is to be erased, and would stay in the log; put it otherwise"
            )


def _as_word(name: str) -> str:
    """The expression that finds `name` where it is no part of a longer word."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def _carry_out(log: EventLog, requests: Sequence[Redact], names: int) -> Receipt:
    if requests:
        log.redact(requests)
    try:
        purged = log.purge()
    except StorageError as error:
        raise StorageError(
            f"the texts are erased, but old copies of them may be left in the file: ask again ({error})"
        ) from error
    return Receipt(
        events=sum(each.erased for each in requests),
        names=names,
        rewritten=sum(each.rewritten for each in requests),
        deleted=sum(each.deleted for each in requests),
        runs=tuple(each.run for each in requests if each.recorded),
        wal_emptied=purged,
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
        # Who asks again, because old copies were left the first time, states a name that is nowhere any more.
        if not named and not db.execute(_ANY_ERASED).fetchone():
            raise NotFound(f"{log.path} has no name {name!r}")
        for ident, family, commitment in named:
            if db.execute(_IS_RUN, (ident,)).fetchone():
                raise ValueError(f"{name!r} is the name of a run, which cannot be erased")
            for (run,) in db.execute(_RUNS_OF, (family,)).fetchall():
                names = (commitment,) if run == family else ()
                requests.append(Redact(run_at(db, run).name, {}, names, (name,), reason, actor))
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


def _with_left(log: EventLog, done: Receipt, expression: str, *, texts: bool) -> Receipt:
    """`done`, with what `expression` is found in still."""
    matches = _pattern(expression)
    with log.reading() as db:
        stored = db.execute("select distinct text from names where text is not null").fetchall()
        (upto,) = db.execute(_HEAD).fetchone()
    names = tuple(name for (name,) in stored if matches(name, None))
    positions: list[int] = []
    after = 0
    while True:
        with log.reading() as db:
            rows = db.execute(
                _TOLD, {"after": after, "upto": upto, "texts": texts, "limit": _PAGE}
            ).fetchall()
        for position, value, metadata, detail, key in rows:
            if matches(value, metadata) or matches(key, detail):
                positions.append(position)
        if len(rows) < _PAGE:
            return replace(done, names_left=tuple(map(read_text, names)), positions_left=tuple(positions))
        after = rows[-1][0]
