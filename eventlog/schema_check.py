"""Holding what a file declares, tables, indexes, guards and views, against what this build makes.

A guard that is there by name and does nothing, or a view that shows something else, is no better than none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from .driver import Connection, driver
from .schema import MIGRATIONS, SCHEMA_VERSION

__all__ = ["Declared", "declared", "differences", "expected_schema"]

_OBJECTS = "select type, name, tbl_name, sql from sqlite_schema order by type, name"
_ACTING = ("index", "trigger")


class Declared(NamedTuple):
    """A table, index, trigger or view as `sqlite_schema` has it; `sql` is None for what SQLite adds."""

    kind: str
    name: str
    table: str
    sql: str | None


def declared(db: Connection) -> list[Declared]:
    """Everything that the file declares."""
    return [Declared(*row) for row in db.execute(_OBJECTS).fetchall()]


def expected_schema(version: int = SCHEMA_VERSION) -> list[Declared]:
    """What a log of that format version declares, its projections apart."""
    with closing(driver().connect(":memory:", isolation_level=None)) as fresh:
        for step in range(version):
            MIGRATIONS[step](fresh)
        return declared(fresh)


def differences(found: Iterable[Declared], expected: Iterable[Declared]) -> Iterator[str]:
    """What is missing from `found`, is declared otherwise, or acts on an expected table and is none of ours.

    Further tables and views are nobody's harm and pass.
    """
    present = {(each.kind, each.name): each for each in found}
    wanted = {(each.kind, each.name): each for each in expected}
    for place, each in wanted.items():
        there = present.get(place)
        if there is None:
            yield f"the {each.kind} {each.name} is missing"
        elif there != each:
            yield f"the {each.kind} {each.name} is not declared as turnlog declares it"
    tables = {each.table for each in wanted.values()}
    for place, each in present.items():
        if place not in wanted and each.kind in _ACTING and each.table in tables and each.sql is not None:
            yield f"the {each.kind} {each.name} on {each.table} does not belong there"
