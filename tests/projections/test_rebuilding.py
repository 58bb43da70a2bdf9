"""Tables made anew while others write, or by themselves: whatever was done to them, they are the fold."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Delete, EventLog, NotFound, Step, Write
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.projections import EntriesProjection, first_difference, rebuild
from turnlog.replay.verification import verify

_ALL = "select * from entries order by run, key"


def rows(log: EventLog) -> list[tuple[Any, ...]]:
    """The table."""
    with log.reading() as db:
        return db.execute(_ALL).fetchall()


def behind_its_back(path: Path, *statements: str) -> None:
    """Change the file from outside, as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def in_step(log: EventLog) -> bool:
    """Whether the table is there and what the log folds to."""
    with log.reading() as db:
        return EntriesProjection().is_in_step(db) and first_difference(db) is None


HARM = [
    pytest.param(["delete from entries"], id="emptied"),
    pytest.param(["drop view current_entries", "drop table entries"], id="dropped"),
    pytest.param(["update entries set created_at = 0"], id="altered"),
    pytest.param(["drop table entries", "create table entries (run, key)"], id="replaced"),
    pytest.param(["drop index entries_order"], id="without its order"),
    pytest.param(["delete from projections"], id="without its mark"),
    pytest.param(["drop view current_entries", "create view current_entries as select 1"], id="another view"),
]


@pytest.mark.parametrize("statements", HARM)
def test_a_rebuild_mends_the_tables_of_an_open_log(
    long_past: EventLog, path: Path, statements: list[str]
) -> None:
    """Whatever was done to the tables under an open log, a rebuild mends it, and nothing need be reopened."""
    before = rows(long_past)
    behind_its_back(path, *statements)
    assert rebuild(long_past) == ["entries"]
    assert rows(long_past) == before
    assert verify(long_past).ok
    long_past.execute([Write("a", "goes on")], run="main")
    assert in_step(long_past)


def test_a_rebuild_by_another_program_is_taken_up(long_past: EventLog, path: Path) -> None:
    """A log that is open elsewhere goes on with the new tables."""
    with turnlog.open(path, durability="os") as other:
        behind_its_back(path, "delete from entries")
        assert rebuild(other, "entries") == ["entries"]
    long_past.execute([Write("a", "goes on"), Write("another", "x")], run="main")
    assert in_step(long_past)


def test_an_unknown_projection_is_refused(log: EventLog) -> None:
    """The names of those there are, are told."""
    with pytest.raises(NotFound, match=r"keeps no projection 'vectors'; it keeps entries"):
        rebuild(log, "vectors")


@pytest.mark.parametrize("seed", range(3))
def test_what_is_appended_during_a_rebuild_is_folded_on(
    log: EventLog, wander: Callable[[int], Any], seed: int
) -> None:
    """Writes, deletions, new runs, forks and restores between fold and swap are all in the new table."""
    wanderer = wander(seed)
    for _ in range(40):
        wanderer.step()

    def write_more(folded: int) -> None:
        for _ in range(5):
            wanderer.step()
        log.execute([Write("a", "kept on"), Delete("a"), Write("a", "born anew")], run="main")

    before = log.head("main")
    rebuild(log, progress=write_more)
    after = log.head("main")
    assert before is not None
    assert after is not None
    assert after.revision > before.revision
    assert in_step(log)


def test_writers_go_on_during_a_rebuild(long_past: EventLog) -> None:
    """Rebuild after rebuild, while threads write: no write fails, and the table is right in the end."""
    stop, failed = threading.Event(), list[BaseException]()

    def work(name: str) -> None:
        number = 0
        try:
            while not stop.is_set():
                number += 1
                long_past.execute([Write(f"{name} {number % 7}", str(number)), Delete(f"{name} 3")], run=name)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("main", "new run")]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            rebuild(long_past)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert failed == []
    assert in_step(long_past)


def test_a_rebuild_that_breaks_off_changes_nothing(long_past: EventLog) -> None:
    """Interrupted, it leaves the table that was there, and no lock."""
    before = rows(long_past)

    def interrupt(folded: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(long_past, progress=interrupt)
    assert rows(long_past) == before
    long_past.execute([Write("a", "goes on")], run="main")
    assert in_step(long_past)


def test_a_table_dropped_under_an_open_log_comes_back_with_the_next_write(
    long_past: EventLog, path: Path
) -> None:
    """A write does not fail for it: the table is made anew in the same transaction."""
    behind_its_back(path, "drop view current_entries", "drop table entries")
    long_past.execute([Write("a", "goes on")], run="main")
    assert in_step(long_past)


def test_a_row_deleted_under_an_open_log_comes_back_with_its_next_write(
    long_past: EventLog, path: Path
) -> None:
    """A value written to a key whose row somebody deleted does not vanish."""
    store = turnlog.EventSourcedStore(long_past, "main")
    store.set("a", "first")
    behind_its_back(path, "delete from entries")
    store.set("a", "second")
    found = store.get("a")
    assert found is not None
    assert found.value == "second"


def test_an_import_fills_only_what_it_brought(long_past: EventLog, tmp_path: Path) -> None:
    """The rows of runs that were here before are not made anew; those of the runs taken in are right."""
    with turnlog.open(tmp_path / "other.db", durability="os") as other:
        other.execute([Write("here", "already")], run="mine")
        other.transact(lambda db: db.execute("update entries set created_at = 7"))
        import_lines(other, export_lines(long_past, "main"), "main")
        with other.reading() as db:
            assert EntriesProjection().is_in_step(db)
            query = "select created_at from entries where run = 1"
            assert db.execute(query).fetchall() == [(7,)]
            different = first_difference(db)
        assert different is not None
        assert different.run == "mine"
        rebuild(other)
        assert in_step(other)


def test_an_import_of_what_went_on_fills_the_run_again(long_past: EventLog, tmp_path: Path) -> None:
    """A run that is here and comes with more events has the rows of the newest."""
    with turnlog.open(tmp_path / "copy.db", durability="os") as copy:
        import_lines(copy, export_lines(long_past))
        long_past.execute([Write("a", "more"), Delete("b"), Write("c", "more")], run="main")
        import_lines(copy, export_lines(long_past, "main"), "main")
        assert in_step(copy)


def test_a_projection_that_fills_no_runs_is_prepared_by_an_import(
    long_past: EventLog, tmp_path: Path
) -> None:
    """One that knows only the whole log is told that it is behind, and catches up; so does a rebuild."""

    class Count:
        """How many events there are."""

        name = "count"

        def prepare(self, db: Any) -> None:
            db.execute("create table if not exists counted (events integer)")
            db.execute("delete from counted")
            db.execute("insert into counted select count(*) from events")
            db.execute(
                "insert into projections (name, version) values ('count', 1)"
                " on conflict (name) do update set stale_from = null"
            )

        def apply(self, db: Any, steps: list[Step]) -> None:
            db.execute("update counted set events = events + ?", (sum(len(each.recorded) for each in steps),))

    kept = (EntriesProjection(), Count())
    with EventLog(tmp_path / "other.db", projections=kept, durability="os") as other:
        other.execute([Write("here", "already")], run="mine")
        import_lines(other, export_lines(long_past, "main"), "main")
        query = "select (select events from counted), (select count(*) from events)"
        with other.reading() as db:
            counted, events = db.execute(query).fetchone()
        assert counted == events
        other.transact(lambda db: db.execute("update counted set events = 0"))
        assert rebuild(other, "count") == ["count"]
        with other.reading() as db:
            assert db.execute(query).fetchone() == (events, events)
