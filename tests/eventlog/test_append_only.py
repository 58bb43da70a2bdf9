"""The file itself refuses to change the past, whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnlog.eventlog import AdvanceTurn, EventLog, Write
from turnlog.eventlog.driver import driver


@pytest.fixture
def outsider(log: EventLog, connect: Callable[..., Any]) -> Any:
    """Another program's connection to a log that holds three events of two runs."""
    log.execute([Write("k", "v"), AdvanceTurn()], run="main", agent="writer")
    log.execute([Write("k", "w")], run="side")
    return connect()


_EVENT = (
    "into events (position, run, revision, batch, turn, type, payload, encoding, recorded_at, hash)"
    " values ({position}, {run}, {revision}, 0, 1, 11, 1, 0, 1, x'00')"
)
_NAME = "into names (id, family, text, salt, commitment) values ({id}, {family}, {text}, x'00', x'00')"
_RUN = "into runs (id, uid, name, family, fork_revision, created_at) values ({id}, {uid}, {name}, {id}, 0, 1)"

_FORBIDDEN = [
    *(
        pytest.param(statement, id=statement)
        for table in ("events", "runs", "names")
        for statement in (
            f"delete from {table}",
            f"update {table} set rowid = rowid",
            f"update or replace {table} set rowid = rowid + 1",
        )
    ),
    pytest.param("update events set value = 'forged' where position = 1", id="change a value"),
    pytest.param("update events set hash = x'00' where position = 3", id="change a hash"),
    pytest.param("update runs set name = (select max(id) from names)", id="rename a run"),
    pytest.param("update names set text = 'forged'", id="rename a key"),
    pytest.param("insert " + _EVENT.format(position=2, run=1, revision=9), id="insert at a taken position"),
    pytest.param("insert " + _EVENT.format(position=0, run=1, revision=9), id="insert before the first"),
    pytest.param("insert " + _EVENT.format(position="null", run=1, revision=9), id="insert without position"),
    pytest.param("insert " + _EVENT.format(position=9, run=1, revision=2), id="insert at a taken revision"),
    pytest.param(
        "insert or replace " + _EVENT.format(position=2, run=1, revision=9), id="replace by position"
    ),
    pytest.param(
        "insert or replace " + _EVENT.format(position=9, run=1, revision=2), id="replace by run and revision"
    ),
    pytest.param("replace " + _EVENT.format(position=3, run=2, revision=1), id="replace the newest"),
    pytest.param(
        "insert or ignore " + _EVENT.format(position=9, run=1, revision=2), id="insert or ignore by revision"
    ),
    pytest.param(
        "insert "
        + _EVENT.format(position=2, run=1, revision=9)
        + " on conflict (position) do update set turn = 7",
        id="upsert",
    ),
    pytest.param("replace " + _NAME.format(id=1, family=9, text="'x'"), id="replace a name by id"),
    pytest.param("replace " + _NAME.format(id=99, family=1, text="'k'"), id="replace a name by text"),
    pytest.param("replace " + _RUN.format(id=1, uid="'x'", name=4), id="replace a run by id"),
    pytest.param(
        "replace " + _RUN.format(id=9, uid="(select uid from runs where id = 1)", name=4),
        id="replace a run by uid",
    ),
    pytest.param(
        "replace " + _RUN.format(id=9, uid="'x'", name="(select name from runs where id = 1)"),
        id="replace a run by name",
    ),
]


@pytest.mark.parametrize("statement", _FORBIDDEN)
@pytest.mark.parametrize("recursive", ["off", "on"])
def test_the_past_cannot_be_changed_from_outside(
    outsider: Any, everything: Callable[[], Any], statement: str, recursive: str
) -> None:
    """Whatever statement another program tries on events, runs or names, it fails and nothing has changed."""
    outsider.execute(f"pragma recursive_triggers = {recursive}")
    before = everything()
    with pytest.raises(driver().IntegrityError, match=r"turnlog: \w+ is append-only"):
        outsider.execute(statement)
    assert everything() == before


def test_a_new_event_may_be_appended_from_outside(outsider: Any) -> None:
    """The guards stand in the way of changes only: a row at a free place goes in."""
    outsider.execute("insert " + _EVENT.format(position=4, run=1, revision=3))
    assert outsider.execute("select max(position) from events").fetchone() == (4,)
