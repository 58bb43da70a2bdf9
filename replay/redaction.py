"""Taking secrets out: which texts are meant, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..eventlog import EventLog, NotFound, StorageError
from ..eventlog.batch import Actor
from ..eventlog.commands import check_name, exact_str
from ..eventlog.redaction import Redact
from ..eventlog.runs import run_at
from ..eventlog.schema import shown_name
from ..eventlog.text import stored_text
from ..memory.reserved import is_reserved
from .sought import Found, as_word, pattern, text_at, texts_of, whereabouts

__all__ = ["Receipt", "redact"]

_NAMED = "select id, family, commitment from names where text = ? order by family"
_ANY_ERASED = "select 1 from names where text is null limit 1"
_HAD_KEY = f"""
select 1 from names where {shown_name("names")} = ? and exists (select 1 from events where key = names.id)
"""  # noqa: S608 - constants only
_IS_RUN = "select 1 from runs where name = ?"
_RUNS_OF = "select id from runs where family = ? order by id desc"
_DESCENDANTS = """
with recursive line (id) as (
    values (?) union select runs.id from runs join line on runs.parent = line.id
)
select id from line
"""


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
        runs_left: names of runs in which it is found still, which cannot be erased.
        positions_left: of events in which it is found still. With a pattern that is in their reasons and
            idempotency keys, which cannot be erased; with a name in their texts too.
        reserved: how many reserved keys, as those of checkpoints and approvals, lost a text or their name:
            what they belong to cannot be resumed from those records.
    """

    events: int
    names: int
    rewritten: int
    deleted: int
    runs: tuple[str, ...]
    wal_emptied: bool
    names_left: tuple[str, ...] = ()
    positions_left: tuple[int, ...] = ()
    runs_left: tuple[str, ...] = ()
    reserved: int = 0


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
            undone. One that finds nothing at all, as `""` and `"z*"` do in every text, is refused.

    Raises:
        TypeError, ValueError: what was stated cannot be, or is nothing, or too much at once, or `reason` or
            `by` says what is to be erased.
        NotFound: there is no such event or run, or no run ever had such a key; or no such name. In a log of
            which some name was erased, a key or name that is not there is none that is missing.
        Busy, StorageError: nothing was erased.
    """
    check_name(log.limits, "by", by)
    if not exact_str("reason", reason):
        raise ValueError("reason must not be empty")
    narrowing = [each for each in (key, run, matching) if each is not None]
    if (position is not None) + (name is not None) + bool(narrowing) != 1:
        raise ValueError("state either position, or name, or some of key, run and matching")
    actor = Actor(by)
    if matching is not None:
        _check_narrow(matching)
    _check_told(reason, by, name, matching)
    if name is not None:
        requests = _of_name(log, exact_str("name", name), reason, actor)
        done = _carry_out(log, requests, names=sum(bool(each.names) for each in requests))
        return _with_left(log, replace(done, reserved=int(is_reserved(name))), as_word(name), texts=True)
    if position is not None:
        found = text_at(log, position)
    else:
        if key is not None:
            _check_key(log, key)
        found = texts_of(log, key, run, None if matching is None else pattern(matching))
    requests = _of_texts(log, found, reason, actor)
    records = sum(name is not None and is_reserved(name) for keys in found.values() for name in keys)
    done = replace(_carry_out(log, requests, names=0), reserved=records)
    return done if matching is None else _with_left(log, done, matching, texts=False)


def _check_narrow(matching: str) -> None:
    """One that is found where there is nothing, as a shell's unset variable, means every text."""
    pattern(matching)
    if any((found := re.search(matching, text)) and not found[0] for text in ("", "a")):
        raise ValueError(
            f"matching {matching!r:.80} matches the empty string, so it is found in every text; to erase all "
            "of a run or of a key state that alone"
        )


def _check_key(log: EventLog, key: str) -> None:
    with log.reading() as db:
        bound = (stored_text(exact_str("key", key)),)
        # Who asks again, because old copies were left the first time, may state a key erased since.
        if not db.execute(_HAD_KEY, bound).fetchone() and not db.execute(_ANY_ERASED).fetchone():
            raise NotFound(f"{log.path} has no run that ever had a key {key!r:.80}")


def _check_told(reason: str, by: str, name: str | None, matching: str | None) -> None:
    """What is said of the redaction stays, so it must not say what is to go."""
    for what, told in (("reason", reason), ("by", by)):
        names = name is not None and re.search(as_word(name), told)
        if names or (matching is not None and pattern(matching)(told, None)):
            raise ValueError(
                f"{what} holds what is to be erased, and would stay in the log; put it otherwise"
            )


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


def _of_texts(log: EventLog, found: Found, reason: str, actor: Actor) -> list[Redact]:
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


def _with_left(log: EventLog, done: Receipt, expression: str, *, texts: bool) -> Receipt:
    """`done`, with what `expression` is found in still."""
    try:
        names, runs, positions = whereabouts(log, pattern(expression), texts=texts)
    except StorageError as error:
        raise StorageError(
            f"the texts are erased, but where else they are could not be looked up: ask again ({error})"
        ) from error
    return replace(done, names_left=names, runs_left=runs, positions_left=positions)
