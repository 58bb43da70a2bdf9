"""The table `entries`: it always equals the fold of the log, and can be made anew from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Corrupt, Delete, EventLog, Write
from turnlog.eventlog.history import content_at, entries_at
from turnlog.eventlog.runs import NEWEST_REVISION, Lineage, find_run
from turnlog.projections import (
    EntriesProjection,
    first_difference,
    fold,
    fold_runs,
    read_birth,
    read_entries,
    read_entry,
)

_ALL = "select * from entries order by run, key"


def revisions(db: Any, past: Lineage) -> list[int]:
    """The revisions of a run and its ancestors, oldest first."""
    query = "select revision from events where run = ? and revision > ? and revision <= ? order by revision"
    segments = reversed(past.segments)
    return [revision for segment in segments for (revision,) in db.execute(query, segment).fetchall()]


@pytest.mark.parametrize("seed", range(4))
def test_table_index_and_fold_agree_after_every_step(
    log: EventLog, wander: Callable[[int], Any], seed: int
) -> None:
    """The live table, the history index and the fold from zero tell the same, whatever has happened."""
    wanderer = wander(seed)
    for _ in range(60):
        wanderer.step()
        with log.reading() as db:
            assert first_difference(db) is None
            for past, folded in fold_runs(db):
                by_birth = sorted(folded.values(), key=lambda entry: entry.birth)
                assert entries_at(db, past, NEWEST_REVISION) == by_birth
                listed = read_entries(db, past.run, 0, -1)
                assert [(stored.key, stored.version, stored.birth) for stored in listed] == [
                    (entry.key, entry.version, entry.birth) for entry in by_birth
                ]
                assert [stored.value for stored in listed] == [
                    content_at(db, past, entry.content).value for entry in by_birth
                ]


def test_index_and_fold_agree_at_every_revision(long_past: EventLog) -> None:
    """At any point of any run the history index gives what the fold up to there gives."""
    with long_past.reading() as db:
        for info in long_past.runs():
            past = long_past.lineage(info.run.name)
            for revision in range(info.head.revision + 1):
                folded = fold(db, past, revision)
                assert entries_at(db, past, revision) == sorted(
                    folded.values(), key=lambda entry: entry.birth
                )


def test_a_lineage_has_each_revision_once(long_past: EventLog) -> None:
    """The events of a run's past are its revisions 1, 2, 3 … whichever run recorded them."""
    with long_past.reading() as db:
        for info in long_past.runs():
            past = long_past.lineage(info.run.name)
            assert revisions(db, past) == list(range(1, info.head.revision + 1))


def test_a_long_lineage_is_read_in_pages(log: EventLog) -> None:
    """More events than fit a page come whole, also across a fork."""
    log.execute([Write(f"key {n}", "v") for n in range(1100)], run="main")
    log.fork("main", 1050, run="fork", turn=0)
    log.execute([Write(f"more {n}", "v") for n in range(600)], run="fork")
    with log.reading() as db:
        assert revisions(db, log.lineage("fork")) == list(range(1, 1652))
        assert len(fold(db, log.lineage("fork"))) == 1650
        assert first_difference(db) is None


def test_a_rebuild_gives_the_same_rows(long_past: EventLog) -> None:
    """Emptied and made anew the table holds, column for column, what it held."""
    with long_past.reading() as db:
        before = db.execute(_ALL).fetchall()
    assert len(before) > 10
    long_past.transact(lambda db: db.execute("delete from entries"))
    long_past.transact(EntriesProjection().rebuild)
    with long_past.reading() as db:
        assert db.execute(_ALL).fetchall() == before


@pytest.mark.parametrize(
    "state",
    [
        pytest.param("update projections set version = 0", id="filled by an older version"),
        pytest.param("update projections set stale_from = 5", id="behind"),
        pytest.param("delete from projections", id="never filled"),
    ],
)
def test_a_table_that_is_behind_is_made_anew_at_opening(long_past: EventLog, path: Path, state: str) -> None:
    """A table of another version, or one that lacks events, is folded again when the log is opened."""
    with long_past.reading() as db:
        before = db.execute(_ALL).fetchall()
    long_past.transact(lambda db: (db.execute(state), db.execute("update entries set version = 1")))
    long_past.close()
    with turnlog.open(path) as log, log.reading() as db:
        assert db.execute(_ALL).fetchall() == before
        assert db.execute("select name, version, stale_from from projections").fetchall() == [
            ("entries", EntriesProjection().version, None)
        ]


def test_a_table_in_step_is_left_alone_at_opening(long_past: EventLog, path: Path) -> None:
    """Opening folds nothing that is in step: even a row that was altered stays, for the check to find."""
    long_past.transact(lambda db: db.execute("update entries set created_at = created_at + 1"))
    long_past.close()
    with turnlog.open(path) as log, log.reading() as db:
        assert first_difference(db) is not None


def test_a_dropped_table_comes_back(long_past: EventLog, path: Path) -> None:
    """The table is nobody's only copy: dropped with its mark, it is there again after the next opening."""
    with long_past.reading() as db:
        before = db.execute(_ALL).fetchall()

    def drop(db: Any) -> None:
        db.execute("drop view current_entries")
        db.execute("drop table entries")
        db.execute("delete from projections")

    long_past.transact(drop)
    long_past.close()
    with turnlog.open(path) as log, log.reading() as db:
        assert db.execute(_ALL).fetchall() == before


@pytest.mark.parametrize("what", ["view current_entries", "table entries", "index entries_order"])
def test_what_was_dropped_without_its_mark_comes_back(long_past: EventLog, path: Path, what: str) -> None:
    """Also where the file says that the table is in step, the next opening finds that a part is missing."""
    with long_past.reading() as db:
        before = db.execute(_ALL).fetchall()
    long_past.transact(lambda db: db.execute(f"drop {what}"))
    long_past.close()
    with turnlog.open(path) as log, log.reading() as db:
        assert db.execute(_ALL).fetchall() == before
        assert db.execute("select count(*) from current_entries").fetchone() == (len(before),)


def test_a_failed_rebuild_leaves_the_table_as_it_was(long_past: EventLog) -> None:
    """A rebuild is one transaction: if it breaks off, readers go on with the table they had."""
    with long_past.reading() as db:
        before = db.execute(_ALL).fetchall()

    def break_off(db: Any) -> None:
        EntriesProjection().rebuild(db)
        db.execute("delete from entries")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        long_past.transact(break_off)
    with long_past.reading() as db:
        assert db.execute(_ALL).fetchall() == before


# -- reading


def test_one_entry(log: EventLog) -> None:
    """One key is read with its text, or not at all."""
    (version,) = log.execute([Write("k\0\ud83d", "v\ude00", {"a": 1}, expires_at_turn=3)], run="main")
    with log.reading() as db:
        run = find_run(db, "main")
        assert run is not None
        stored = read_entry(log, run, "k\0\ud83d")
        assert stored is not None
        assert (stored.version, stored.value, stored.metadata, stored.expires_at_turn) == (
            version,
            "v\ude00",
            '{"a":1}',
            3,
        )
        assert read_entry(log, run, "k") is None
        assert read_birth(db, run, "k\0\ud83d") == 1
        assert read_birth(db, run, "k") is None


def test_pages_follow_the_order_of_birth(log: EventLog) -> None:
    """Pages join without gap, whatever was overwritten or born anew."""
    log.execute([Write(f"key {n}", "v") for n in range(10)], run="main")
    log.execute([Write("key 3", "again"), Delete("key 0"), Write("key 0", "new life")], run="main")
    found, after = [], 0
    with log.reading() as db:
        run = find_run(db, "main")
        assert run is not None
        while page := read_entries(db, run, after, 4):
            found += [stored.key for stored in page]
            after = page[-1].birth
    assert found == [*(f"key {n}" for n in range(1, 10)), "key 0"]


def test_a_key_of_another_run_is_not_found(log: EventLog) -> None:
    """Runs that are not related do not see each other's entries, also under the same name."""
    log.execute([Write("k", "main")], run="main")
    log.execute([Write("k", "side"), Write("only here", "side")], run="side")
    with log.reading() as db:
        main, side = find_run(db, "main"), find_run(db, "side")
        assert main is not None
        assert side is not None
        first, second = read_entry(log, main, "k"), read_entry(log, side, "k")
        assert first is not None
        assert second is not None
        assert (first.value, second.value) == ("main", "side")
        assert read_entry(log, main, "only here") is None


def test_an_entry_without_its_text_is_corrupt(log: EventLog) -> None:
    """A row that points to an event without a value is damage, and says which key and run."""
    log.execute([Write("k", "v"), Write("j", "v"), Delete("j")], run="main")
    log.transact(lambda db: db.execute("update entries set content = 3"))
    with log.reading() as db:
        run = find_run(db, "main")
        assert run is not None
        with pytest.raises(Corrupt, match="run 'main': key 'k' points to an event without a value"):
            read_entry(log, run, "k")
