"""Hold the live table against a fold of the log, and name the first difference."""

from __future__ import annotations

from dataclasses import dataclass

from ..eventlog import Entry
from ..eventlog.driver import Connection
from ..eventlog.history import event_position
from ..eventlog.schema import shown_name
from ..eventlog.text import read_text
from .fold import fold_runs

__all__ = ["Difference", "first_difference"]

_TABLE = f"""
select {shown_name("names")}, version, content, birth, created_at, expires_at_turn
from entries left join names on names.id = entries.key and names.family = ?
where run = ? order by birth
"""  # noqa: S608 - constants only
_STRAY = "select run from entries where run not in (select id from runs) limit 1"


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the table and the log part.

    Attributes:
        run: name of the run.
        key: the key concerned.
        table: what the table holds for it, as text; None if nothing.
        log: what the log says it must be, as text; None if nothing.
    """

    run: str
    key: str
    table: str | None
    log: str | None

    def __str__(self) -> str:
        """One sentence."""
        return (
            f"run {self.run!r}, key {self.key!r}: the table entries has {self.table or 'nothing'}, "
            f"the log says {self.log or 'nothing'}"
        )


def first_difference(db: Connection) -> Difference | None:
    """The first entry, run by run in birth order, in which the table is not what the log folds to."""
    for past, entries in fold_runs(db):
        table = {
            _name(row[0]): row[1:] for row in db.execute(_TABLE, (past.run.family, past.run.id)).fetchall()
        }
        for key, entry in entries.items():
            expected = _columns(entry, event_position(db, past, entry.content))
            found = table.pop(key, None)
            if found != expected:
                return Difference(past.run.name, key, _shown(found), _shown(expected))
        for key, found in table.items():
            return Difference(past.run.name, key, _shown(found), None)
    stray = db.execute(_STRAY).fetchone()
    if stray is not None:
        return Difference(f"#{stray[0]}", "*", "entries of a run that does not exist", None)
    return None


_Columns = tuple[int, int, int, int, int | None]


def _columns(entry: Entry, content: int) -> _Columns:
    return (entry.version, content, entry.birth, entry.created_at, entry.expires_at_turn)


def _shown(columns: _Columns | None) -> str | None:
    if columns is None:
        return None
    names = ("version", "content", "birth", "created_at", "expires_at_turn")
    return ", ".join(f"{name} {value}" for name, value in zip(names, columns, strict=True))


def _name(stored: str | bytes | None) -> str:
    return "?" if stored is None else read_text(stored)
