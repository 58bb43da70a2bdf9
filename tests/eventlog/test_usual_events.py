"""The short way that most events of a check take lets nothing pass that the check of one event would not."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog
from turnlog.eventlog import AdvanceTurn, CompareAndSet, Corrupt, Delete, Once, SetTurn, Write
from turnlog.eventlog.chain import content_commitment, event_hash, framed_commitment
from turnlog.eventlog.driver import driver
from turnlog.eventlog.run_integrity import FIRST_MS, LAST_MS, RunCheck, WrongEvent, erased_contents
from turnlog.eventlog.runs import Lineage, genesis, lineage, run_at
from turnlog.replay import Timeline, redact

COLUMNS = (
    "revision", "position", "batch", "turn", "type", "payload", "key", "agent", "activity", "value",
    "encoding", "metadata", "salt", "content", "expires_at_turn", "birth", "created_at", "detail",
    "recorded_at", "idempotency_key", "hash",
)  # fmt: skip
NUMBERS = (None, -1, 0, 1, 2, 3, 5, 10, 30, 999)
OTHERS: dict[str, tuple[Any, ...]] = {
    "revision": NUMBERS,
    "position": NUMBERS,
    "batch": NUMBERS,
    "turn": (-1, 0, 1, 2, 5, 2**53),
    "type": (0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23),
    "payload": (0, 1, 2),
    "key": NUMBERS,
    "agent": NUMBERS,
    "activity": NUMBERS,
    "value": (None, "", "other", "é", b"v", b"\xff", "\ud83d".encode("utf-8", "surrogatepass"), 5),
    "encoding": (-1, 0, 1),
    "metadata": (None, "{}", '{"n": 1}', "[1]", "{no", "null", '{"x":[]}'),
    "salt": (None, b"", bytes(15), bytes(16), bytes(17)),
    "content": NUMBERS,
    "expires_at_turn": (None, -1, 0, 3, 2**60),
    "birth": NUMBERS,
    "created_at": (None, 0, 5, LAST_MS + 1),
    "detail": (None, "{}", "no", json.dumps({"command": "ab" * 32, "events": 1})),
    "recorded_at": (FIRST_MS - 1, FIRST_MS, 0, LAST_MS, LAST_MS + 1),
    "idempotency_key": (None, "", "k", b"k"),
    "hash": (bytes(32),),
}
EDITS = [(column, value) for column, values in OTHERS.items() for value in values]


class OneByOne(RunCheck):
    """The check of a run with no short way for the usual."""

    def pass_usual(self, rows: list[Any], first: int) -> int:
        """None is usual."""
        return first


class Telling(RunCheck):
    """The check of a run that tells the positions of the events that took the short way."""

    def __init__(self, db: Any, past: Lineage) -> None:
        super().__init__(db, past)
        self.usual: list[int] = []

    def pass_usual(self, rows: list[Any], first: int) -> int:
        """Noted."""
        behind = super().pass_usual(rows, first)
        self.usual += [row[1] for row in rows[first:behind]]
        return behind


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A log with every type of event, most of them usual, of which another program changes what it likes."""
    path = tmp_path_factory.mktemp("log") / "team.db"
    usual = [Write(key, "v", {"n": 1}) for key in "abc"]
    with turnlog.open(path, durability="os") as log:
        log.execute(usual * 2, run="m", agent="w", activity="t")
        log.execute([AdvanceTurn(), *usual, Delete("a"), Write("a", "again", None, 7)], run="m")
        log.execute([Write("b", "\ud83d"), Write("secret", "s"), CompareAndSet("a", "x", "y")], run="m")
        log.fork("m", 9, run="f", turn=1)
        log.execute([Write("b", "in the fork"), *usual, SetTurn(5), *usual, Once("k", Delete("b"))], run="f")
        log.execute([Once("k", Delete("d"))], run="m")
        Timeline(log, "m").restore(position=6)
        redact(log, key="secret", run="m", reason="r", by="o")
        for agent in "wx":
            log.execute([*usual, *usual], run="m", agent=agent)
    with closing(driver().connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("select name from sqlite_schema where type = 'trigger'").fetchall():
            db.execute(f"drop trigger {name}")
        yield db


def judged(db: Any, kind: type[RunCheck]) -> list[tuple[object, ...]]:
    """What a check of that kind says of each run."""
    said: list[tuple[object, ...]] = []
    for (run,) in db.execute("select id from runs order by id").fetchall():
        try:
            check = kind(db, lineage(db, run_at(db, run)))
        except Corrupt as error:
            said.append((str(error),))
            continue
        try:
            said.append((sum(check.pages()), check.parted))
        except WrongEvent as wrong:
            said.append((wrong.what, wrong.position, check.parted))
    return said


def chain_anew(db: Any) -> None:
    """Give every event the hash it must have, as far as there is one, whatever it holds."""
    names: dict[int | None, bytes] = {
        ident: framed_commitment(commitment)
        for ident, commitment in db.execute("select id, commitment from names").fetchall()
    }
    names[None] = framed_commitment(None)
    for (run,) in db.execute("select id from runs order by id").fetchall():
        with suppress(Corrupt):
            previous, erased = genesis(db, run), erased_contents(db, run)
            rows = f"select {', '.join(COLUMNS)} from events where run = ? order by revision"
            for row in db.execute(rows, (run,)).fetchall():
                at = dict(zip(COLUMNS, row, strict=True))
                with suppress(AttributeError, TypeError):  # what has no hash keeps the one it has
                    previous = event_hash(
                        previous, at["revision"], at["batch"], at["turn"], at["type"], at["payload"],
                        *(names.get(at[name], names[None]) for name in ("key", "agent", "activity")),
                        erased.get(at["revision"]) if at["salt"] is None
                        else content_commitment(at["salt"], at["value"], at["metadata"]),
                        at["encoding"], at["content"], at["expires_at_turn"], at["birth"], at["created_at"],
                        at["detail"], at["recorded_at"], at["idempotency_key"],
                    )  # fmt: skip
                db.execute("update events set hash = ? where position = ?", (previous, at["position"]))


def usual_events(db: Any) -> list[list[int]]:
    """For each run the positions of events that take the short way."""
    found: list[list[int]] = []
    for (run,) in db.execute("select id from runs order by id").fetchall():
        check = Telling(db, lineage(db, run_at(db, run)))
        assert sum(check.pages()) > 0
        found.append(check.usual)
    return found


@contextmanager
def altered(db: Any) -> Generator[Callable[[str, tuple[Any, ...]], None]]:
    """Lets a test change the log by statements, until its block ends."""

    def alter(statement: str, values: tuple[Any, ...]) -> None:
        with suppress(driver().IntegrityError):  # SQLite lets no such row be
            db.execute(statement, values)

    db.execute("begin")
    try:
        yield alter
    finally:
        db.execute("rollback")


def test_most_events_take_the_short_way(db: Any) -> None:
    """As it was written, the log is in order, and the short way is taken wherever it can be."""
    main, fork = usual_events(db)
    assert (len(main), len(fork)) > (15, 5)
    assert judged(db, RunCheck) == judged(db, OneByOne)
    assert all(type(counted) is int for counted, *_ in judged(db, RunCheck))


@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize("column", OTHERS)
def test_no_column_of_a_usual_event_is_passed_over(db: Any, column: str, anew: bool) -> None:
    """Whatever a column holds instead, and the hashes made to fit or not: both ways tell the same fault."""
    for position in sorted(chain.from_iterable(usual_events(db)))[::4]:
        for value in OTHERS[column]:
            with altered(db) as alter:
                alter(f"update events set {column} = ? where position = ?", (value, position))
                if anew:
                    chain_anew(db)
                assert judged(db, RunCheck) == judged(db, OneByOne), (position, value)


def test_an_event_of_a_fork_cannot_become_a_redaction(db: Any) -> None:
    """What is made to look like a redaction, but tells none, is a fault like any other."""
    (position,) = db.execute("select max(position) from events where run = 2 and detail not null").fetchone()
    with altered(db) as alter:
        alter("update events set type = ? where position = ?", (22, position))
        chain_anew(db)
        (_, (wrong, at, _)) = judged(db, RunCheck)
        assert ("the detail does not say what" in wrong, at) == (True, position)


def test_an_event_said_to_be_erased_is_looked_at(db: Any) -> None:
    """A usual event does not take the short way where a later one says that its text was erased."""
    main, _ = usual_events(db)
    (revision,) = db.execute("select revision from events where position = ?", (main[5],)).fetchone()
    (commitment,) = db.execute("select commitment from names limit 1").fetchone()
    said = json.dumps({"contents": {str(revision): commitment.hex()}, "names": []})
    with altered(db) as alter:
        alter("update events set detail = ? where type = ?", (said, 22))
        chain_anew(db)
        (wrong, position, _), _ = judged(db, RunCheck)
        assert ("has a value still" in wrong, position) == (True, main[5])


def test_a_batch_in_two_pieces_is_looked_at(db: Any) -> None:
    """A usual event does not take the short way where something lies between it and the rest of its batch."""
    main, _ = usual_events(db)
    with altered(db) as alter:
        alter("update events set position = position + 1000 where position >= ? and batch > 0", (main[-1],))
        chain_anew(db)
        told = judged(db, RunCheck)
        assert told == judged(db, OneByOne)
        assert told[0][-1] is True


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.sampled_from(EDITS)), max_size=3),
    st.lists(st.integers(1, 50), max_size=1),
    st.booleans(),
)
def test_an_altered_log_is_judged_alike(
    db: Any, edits: list[tuple[int, tuple[str, Any]]], removed: list[int], anew: bool
) -> None:
    """Whatever is altered or taken out, and the hashes made to fit or not: both ways tell the same fault."""
    with altered(db) as alter:
        for position in removed:
            alter("delete from events where position = ?", (position,))
        for position, (column, value) in edits:
            alter(f"update events set {column} = ? where position = ?", (value, position))
        if anew:
            chain_anew(db)
        assert judged(db, RunCheck) == judged(db, OneByOne)
