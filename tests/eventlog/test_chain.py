"""The hash chain, computed here once more from the columns and docs/format.md alone."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    CompareAndSet,
    Delete,
    EntryRestored,
    EntryWritten,
    EventLog,
    Restored,
    SetTurn,
    Write,
)
from turnlog.eventlog.integrity import check_log
from turnlog.projections import first_difference

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1.db"


def field(value: Any) -> bytes:
    """One column as it stands in a frame: its class, its length where that varies, its bytes."""
    if value is None:
        return b"\x00"
    if isinstance(value, int):
        return b"\x01" + value.to_bytes(8, "big", signed=True)
    kind, raw = (b"\x02", value.encode()) if isinstance(value, str) else (b"\x03", value)
    return kind + len(raw).to_bytes(8, "big") + raw


def digest(tag: bytes, *parts: bytes) -> bytes:
    """SHA-256 over a tag line and what follows it."""
    return sha256(tag + b"\n" + b"".join(parts)).digest()


def recomputed_hashes(db: Any) -> dict[int, bytes]:
    """The hash that each position must have, from nothing but the columns."""
    commitments: dict[int | None, bytes | None] = {None: None}
    for ident, text, salt, commitment in db.execute("select id, text, salt, commitment from names"):
        assert commitment == digest(b"turnlog.name.1", salt, field(text))
        commitments[ident] = commitment
    hashes: dict[int, bytes] = {}
    previous: dict[tuple[int, int], bytes] = {}
    runs = db.execute("select id, uid, name, parent, fork_revision, created_at from runs order by id")
    for run, uid, name, parent, fork_revision, created_at in runs.fetchall():
        before = bytes(32) if parent is None else previous[parent, fork_revision]
        begun = digest(
            b"turnlog.genesis.1", field(uid), field(commitments[name]), field(created_at), field(before)
        )
        events = db.execute(
            """select position, revision, batch, turn, type, payload, key, agent, activity, value, encoding,
                metadata, salt, content, expires_at_turn, birth, created_at, detail, recorded_at,
                idempotency_key
            from events where run = ? order by revision""",
            (run,),
        )
        newest = begun
        for expected, row in enumerate(events, fork_revision + 1):
            position, revision, batch, turn, kind, payload, key, agent, activity = row[:9]
            value, encoding, metadata, salt = row[9:13]
            assert revision == expected
            content = (
                None if salt is None else digest(b"turnlog.content.1", salt, field(value), field(metadata))
            )
            names = [commitments[ident] for ident in (key, agent, activity)]
            columns = [revision, batch, turn, kind, payload, *names, content, encoding, *row[13:]]
            newest = digest(b"turnlog.event.1", newest, *map(field, columns))
            hashes[position] = previous[run, revision] = newest
    return hashes


@pytest.fixture
def varied(log: EventLog, tell: Callable[..., Any]) -> EventLog:
    """A log with every type of event, odd texts and two generations of forks."""
    log.execute([Write("k", "v"), Write("\ud800", "\udfff\0", {"a": [1, "é", "\ud83d"]}, 9)], run="main")
    log.execute([AdvanceTurn(), CompareAndSet("k", "x", "")], run="main", agent="writer", activity="task")
    log.execute([Write("k", "", {}), Delete("k"), Write("k", "again"), SetTurn(0)], run="main", agent="é")
    restored = EntryRestored("k", content=1, birth=1, created_at=1000, expires_at_turn=None)
    log.execute([tell(Restored(0, 2, "me", None), restored)], run="main")
    log.execute([tell(Restored(0), EntryWritten("old", "o", created_at=5))], run="main")
    log.fork("main", 4, run="fork", turn=1, agent="writer")
    log.execute([Write("k", "forked"), Clear()], run="fork")
    log.fork("fork", 6, run="fork of fork", turn=1)
    log.fork("fork", 2, run="older", turn=0)
    log.fork("main", 0, run="anew", turn=0)
    log.execute([Write("k", "v")], run="side")
    return log


def test_every_hash_follows_from_the_columns(varied: EventLog, connect: Callable[..., Any]) -> None:
    """Whoever has the columns and the description computes the same hashes as the log."""
    hashes = recomputed_hashes(connect())
    assert hashes == {recorded.position: recorded.hash for recorded in varied.read()}
    for info in varied.runs():
        assert info.head.hash == hashes[info.head.position]


def test_every_hash_of_the_golden_file_follows_from_its_columns(
    tmp_path: Path, connect: Callable[..., Any]
) -> None:
    """The same holds for the file that an earlier build wrote."""
    copy = shutil.copy(GOLDEN, tmp_path / "golden.db")
    db = connect(copy)
    assert recomputed_hashes(db) == dict(db.execute("select position, hash from events").fetchall())


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 1026, 70_000])
def test_texts_of_any_length_are_framed_alike(log: EventLog, connect: Callable[..., Any], size: int) -> None:
    """Where the length of a value or of its metadata is not looked up but computed, it is the same."""
    log.execute([Write("long value", "v" * size, {"m": 1}), Write("bytes", "\ud800" * size, {})], run="main")
    log.execute([Write("long metadata", "v", {"m": "x" * max(0, size - len('{"m":""}'))})], run="main")
    log.execute([Write("no metadata", "é" * size, expires_at_turn=1), Write("k", "v" * size)], run="main")
    assert recomputed_hashes(connect()) == {recorded.position: recorded.hash for recorded in log.read()}


_ALTERATIONS = [
    *(
        pytest.param(f"update events set {column} = {column} + 1 where position = 2", id=column)
        for column in ("batch", "turn", "type", "payload", "encoding", "expires_at_turn", "recorded_at")
    ),
    *(
        pytest.param(f"update events set {column} = 1 where position = 2", id=f"{column} from NULL")
        for column in ("agent", "activity", "content", "birth", "created_at", "idempotency_key")
    ),
    pytest.param("update events set value = '' where position = 2", id="value"),
    pytest.param("update events set value = cast('v' as blob) where position = 1", id="text turned bytes"),
    pytest.param("update events set metadata = null where position = 2", id="metadata"),
    pytest.param("update events set metadata = metadata || ' ' where position = 2", id="a blank"),
    pytest.param("update events set key = 1 where position = 2", id="key"),
    pytest.param("update events set salt = zeroblob(16) where position = 2", id="salt"),
    pytest.param("update events set detail = '{}' where position = 2", id="detail"),
]


@pytest.mark.parametrize("alteration", _ALTERATIONS)
def test_every_column_is_under_the_hash(
    varied: EventLog, connect: Callable[..., Any], alteration: str
) -> None:
    """A change of any column, however small, changes the hash of its event and of all that follow."""
    db = connect()
    before = recomputed_hashes(db)
    db.execute("drop trigger events_no_update")
    db.execute(alteration)
    after = recomputed_hashes(db)
    altered = {position for position in before if after[position] != before[position]}
    runs = dict(db.execute("select position, run from events").fetchall())
    first = min(altered)
    assert first in (1, 2)
    assert {position for position in runs if runs[position] == 1 and position >= first} <= altered
    assert after[max(runs)] == before[max(runs)], "another family's chain is not concerned"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        pytest.param("encoding = 1", "payload 1 with encoding 1 is unknown", id="encoding"),
        pytest.param("payload = 2", "payload 2 with encoding 0 is unknown", id="payload"),
        pytest.param("recorded_at = 253402300800000", "at a time that is no date", id="time"),
    ],
)
def test_what_no_release_writes_is_refused_though_its_hash_is_right(
    log: EventLog, connect: Callable[..., Any], change: str, what: str
) -> None:
    """A chain that somebody made anew over such an event is no log of this format."""
    log.execute([Write("k", "v")], run="main")
    db = connect()
    db.execute("drop trigger events_no_update")
    db.execute(f"update events set {change}")
    db.execute("update events set hash = ?", (recomputed_hashes(db)[1],))
    with log.reading() as reader:
        (problem,) = check_log(reader)
    assert problem.position == 1
    assert what in problem.what


def test_a_fork_continues_its_parents_chain(varied: EventLog, connect: Callable[..., Any]) -> None:
    """Altering an event of the parent before the fork point breaks the chain of the fork, and only there."""
    db = connect()
    before = recomputed_hashes(db)
    runs = dict(
        db.execute(
            "select e.position, n.text from events e join runs r on r.id = e.run "
            "join names n on n.id = r.name"
        ).fetchall()
    )
    db.execute("drop trigger events_no_update")
    db.execute("update events set value = 'forged' where run = 1 and revision = 1")
    after = recomputed_hashes(db)
    changed = {runs[position] for position in before if after[position] != before[position]}
    assert changed == {"main", "fork", "fork of fork", "older"}
    db.execute("update events set value = 'v' where run = 1 and revision = 1")
    db.execute("update events set turn = 99 where run = 1 and revision = 5")
    after = recomputed_hashes(db)
    assert {runs[position] for position in before if after[position] != before[position]} == {"main"}


def test_names_are_interned_once_per_family(varied: EventLog, connect: Callable[..., Any]) -> None:
    """A run and its forks share their names; another run has its own, with other salts and commitments."""
    db = connect()
    rows = db.execute("select family, salt, commitment from names where text = 'k'").fetchall()
    families = [family for family, _, _ in rows]
    assert len(families) == len(set(families)) > 1
    assert len({salt for _, salt, _ in rows}) == len({commitment for _, _, commitment in rows}) == len(rows)
    for run, family in db.execute("select id, family from runs").fetchall():
        used = db.execute(
            """select distinct names.family from events join names on names.id in (key, agent, activity)
            where run = ?""",
            (run,),
        ).fetchall()
        assert used in ([], [(family,)])


def test_salts_never_repeat(varied: EventLog, connect: Callable[..., Any]) -> None:
    """Each name, each content and each attempt has 16 random bytes of its own."""
    db = connect()
    salts = [
        salt
        for table in ("names", "events")
        for (salt,) in db.execute(f"select salt from {table} where salt is not null").fetchall()
    ]
    assert len(salts) > 20
    assert len(set(salts)) == len(salts)
    assert {len(salt) for salt in salts} == {16}


def test_equal_content_has_different_hashes(log: EventLog, connect: Callable[..., Any]) -> None:
    """Two runs that did the same at the same moment cannot be told to have done so by their hashes."""
    log.execute([Write("k", "v")], run="one", agent="a")
    log.execute([Write("k", "v")], run="two", agent="a")
    first, second = log.read()
    assert first.event == second.event
    assert first.hash != second.hash


def test_the_chain_depends_only_on_what_is_passed_in(tmp_path: Path) -> None:
    """With the same clock, uids and random bytes two files hold the same hashes."""
    hashes = []
    for name in ("one.db", "two.db"):
        random = itertools.count()
        with EventLog(
            tmp_path / name,
            clock=lambda: 1_700_000_000_000,
            new_uid=lambda: "0" * 32,
            random_bytes=lambda size, random=random: sha256(b"%d" % next(random)).digest()[:size],
        ) as log:
            log.execute([Write("k", "v", {"a": 1}), AdvanceTurn(), CompareAndSet("k", "x", "y")], run="main")
            hashes.append([recorded.hash for recorded in log.read()])
    assert hashes[0] == hashes[1]


def test_another_program_may_append_by_the_description(path: Path, connect: Callable[..., Any]) -> None:
    """Rows added as docs/format.md says, by nothing of ours, are part of the log and of its table."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "v", {"a": 1})], run="main")
        db = connect()
        db.execute("begin immediate")
        family, previous = db.execute(
            "select family, hash from runs join events on run = runs.id where revision = 1"
        ).fetchone()
        key, salt = b"new key \xed\xa0\x80", b"0123456789abcdef"
        commitment = digest(b"turnlog.name.1", salt, field(key))
        db.execute("insert into names values (3, ?, ?, ?, ?)", (family, key, salt, commitment))
        content = digest(b"turnlog.content.1", salt, field("w"), field(None))
        columns = [2, 0, 0, 1, 1, commitment, None, None, content, 0, None, 7, None, None, None, 9, None]
        frame = digest(b"turnlog.event.1", previous, *map(field, columns))
        db.execute(
            """insert into events (position, run, revision, batch, turn, type, payload, key, value, encoding,
                salt, expires_at_turn, recorded_at, hash)
            values (2, 1, 2, 0, 0, 1, 1, 3, 'w', 0, ?, 7, 9, ?)""",
            (salt, frame),
        )
        db.execute("update projections set stale_from = 2 where stale_from is null")
        db.execute("commit")
        assert log.execute([CompareAndSet("new key \ud800", "w", "x")], run="main") == [True]
        with log.reading() as reader:
            assert list(check_log(reader)) == []
            assert first_difference(reader) is None
        assert recomputed_hashes(db) == {recorded.position: recorded.hash for recorded in log.read()}
