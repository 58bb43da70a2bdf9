"""The one change that the past may suffer: the insertion of a Redacted erases what it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from turnlog.eventlog import AdvanceTurn, EventLog, Write
from turnlog.eventlog.chain import content_commitment, event_hash, framed_commitment
from turnlog.eventlog.driver import driver
from turnlog.eventlog.integrity import check_log, count_erased
from turnlog.replay import redact


@pytest.fixture
def outsider(log: EventLog, connect: Callable[..., Any]) -> Any:
    """Another program's connection to a log of two runs, in which revision 1 of `main` was just erased."""
    log.execute([Write("k", "secret", {"m": 1})], run="side")
    log.execute(
        [Write("k", "secret", {"m": 1}), Write("l", "kept"), AdvanceTurn()], run="main", agent="writer"
    )
    log.execute([Write("k", "later")], run="main")
    redact(log, position=2, reason="leaked", by="dpo")
    return connect()


def newest(db: Any) -> Any:
    """Type and detail of the newest event."""
    return db.execute("select type, detail, run from events order by position desc limit 1").fetchone()


@pytest.mark.parametrize("again", [False, True], ids=["after a redaction", "after a later event"])
@pytest.mark.parametrize(
    "statement",
    [
        "update events set value = 'forged' where position = 2",
        "update events set value = '' where position = 2",
        "update events set value = null where position = 3",
        "update events set metadata = null where position = 3",
        "update events set salt = null where position = 3",
        "update events set value = null, metadata = null, salt = null where position = 3",
        "update events set value = null, metadata = null, salt = null where position = 1",
        "update events set value = null, metadata = null, salt = null",
        "update events set hash = x'00' where position = 2",
        "update events set hash = null where position = 2",
        "update events set agent = null where position = 2",
        "update events set detail = '{}' where position = 2",
        "update events set revision = 99 where position = 2",
        "update events set run = 1 where position = 2",
        "update events set detail = null where type = 22",
        "update events set type = 1 where type = 22",
        "update names set text = null, salt = null where text = 'k'",
        "update names set text = 'forged' where text = 'k'",
        "update names set text = null where text = 'main'",
        "update runs set name = 1",
        "delete from events where position = 2",
        "delete from events where type = 22",
        "delete from names where text = 'k'",
        "delete from runs",
    ],
)
def test_every_other_change_is_refused(log: EventLog, outsider: Any, statement: str, again: bool) -> None:
    """Right after a redaction, and when something else has followed it."""
    if again:
        log.execute([AdvanceTurn()], run="main")
    before = list(map(repr, outsider.execute("select * from events, names").fetchall()))
    with pytest.raises(driver().DatabaseError, match=r"append-only|NOT NULL"):
        outsider.execute(statement)
    assert list(map(repr, outsider.execute("select * from events, names").fetchall())) == before


def test_an_erasure_cannot_be_undone(outsider: Any) -> None:
    """The row that the newest event names takes nothing but NULL."""
    for column, value in (("value", "'secret'"), ("metadata", "'{}'"), ("salt", "x'00'")):
        with pytest.raises(driver().DatabaseError, match="append-only"):
            outsider.execute(f"update events set {column} = {value} where position = 2")
    outsider.execute("update events set value = null where position = 2")  # changes nothing


def append_redacted(db: Any, run: str, contents: dict[int, bytes], names: list[bytes]) -> None:
    """A Redacted, with its hash, by SQL alone: what docs/format.md says another program has to do."""
    row = db.execute(
        "select runs.id, e.revision, e.turn, e.hash, e.recorded_at from events e"
        " join runs on runs.id = e.run join names on names.id = runs.name"
        " where names.text = ? order by e.revision desc limit 1",
        (run,),
    ).fetchone()
    ident, revision, turn, previous, at = row
    erased = {str(each): commitment.hex() for each, commitment in contents.items()}
    detail = json.dumps({"contents": erased, "names": [each.hex() for each in names]})
    absent = framed_commitment(None)
    computed = event_hash(
        previous, revision + 1, 0, turn, 22, 1, absent, absent, absent, None, 0,
        None, None, None, None, detail, at, None,
    )  # fmt: skip
    db.execute(
        "insert into events (position, run, revision, batch, turn, type, payload, encoding, detail,"
        " recorded_at, hash) values ((select max(position) + 1 from events), ?, ?, 0, ?, 22, 1, 0, ?, ?, ?)",
        (ident, revision + 1, turn, detail, at, computed),
    )


def test_a_redacted_inserted_by_another_program_erases(outsider: Any, log: EventLog) -> None:
    """Texts and names of its own run and family go, and nothing of another; the chain stays whole."""
    salt, value, metadata = outsider.execute(
        "select salt, value, metadata from events where position = 3"
    ).fetchone()
    (name,) = outsider.execute(
        "select commitment from names where text = 'l' and family = (select max(id) from runs)"
    ).fetchone()
    append_redacted(outsider, "main", {2: content_commitment(salt, value, metadata)}, [name])
    assert outsider.execute("select value, metadata, salt from events where position = 3").fetchone() == (
        None,
        None,
        None,
    )
    assert outsider.execute("select text, salt from names where commitment = ?", (name,)).fetchone() == (
        None,
        None,
    )
    assert outsider.execute("select value from events where position = 1").fetchone() == ("secret",)
    assert list(check_log(outsider)) == []
    assert count_erased(outsider) == 2


def test_a_wrong_commitment_is_found(outsider: Any) -> None:
    """Whoever erases without keeping the commitment breaks the chain for everybody to see."""
    append_redacted(outsider, "main", {2: b"\1" * 32}, [])
    (problem,) = check_log(outsider)
    assert problem.position == 3


def test_a_redacted_of_another_run_is_found(outsider: Any) -> None:
    """It erases nothing outside its run, and what it names there does not exist."""
    append_redacted(outsider, "side", {2: b"\1" * 32}, [])
    assert outsider.execute("select count(*) from events where value is null and type = 1").fetchone() == (1,)
    assert list(check_log(outsider)) != []


def test_a_run_without_a_name_is_found(outsider: Any) -> None:
    """The name of a run is the way to it; erasing it by SQL is a fault of the file."""
    (name,) = outsider.execute("select commitment from names where text = 'main'").fetchone()
    append_redacted(outsider, "main", {}, [name])
    assert any("was erased" in problem.what for problem in check_log(outsider))


@pytest.mark.parametrize("members", ["{}", '{"contents": {}}', '{"contents": {"x": "y"}, "names": []}', "[]"])
def test_a_redacted_that_says_nothing_is_found(outsider: Any, members: str) -> None:
    """Its members are checked as those of any type."""
    position = outsider.execute("select max(position) from events").fetchone()[0]
    outsider.execute(
        "insert into events (position, run, revision, batch, turn, type, payload, encoding, detail,"
        " recorded_at, hash) select position + 1, run, revision + 1, 0, turn, 22, 1, 0, ?, recorded_at, hash"
        " from events where position = ?",
        (members, position),
    )
    assert list(check_log(outsider)) != []


def test_many_revisions_are_counted(log: EventLog) -> None:
    """More than one event can name, each erased once; a second time there is nothing to erase."""
    log.execute([Write("k", f"secret {number}") for number in range(450)], run="main")
    assert redact(log, matching="secret", reason="leaked", by="dpo").events == 450
    assert redact(log, matching="secret", reason="leaked", by="dpo").events == 0
    with log.reading() as db:
        assert count_erased(db) == 450
        assert list(check_log(db)) == []
        (largest,) = db.execute("select max(length(detail)) from events").fetchone()
        assert largest < 20_000
