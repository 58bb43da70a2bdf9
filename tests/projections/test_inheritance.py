"""What a fork begins with: the same rows, however they were come by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnlog.eventlog import AdvanceTurn, CompareAndSet, Delete, EventLog, Write
from turnlog.eventlog.batch import Actor
from turnlog.eventlog.writer import Commands, Fork
from turnlog.projections import first_difference


def rows(log: EventLog, run: str) -> list[Any]:
    """The rows that the table has for a run, without its number."""
    columns = "key, version, content, birth, created_at, expires_at_turn"
    query = f"select {columns} from entries where run = ? order by key"
    with log.reading() as db:
        return db.execute(query, (log.lineage(run).run.id,)).fetchall()


def test_a_fork_at_any_point_begins_with_what_its_parent_held(long_past: EventLog) -> None:
    """Forked after each revision of roots and forks, deep lineages among them, the table equals the fold."""
    for info in long_past.runs():
        for revision in range(0, info.head.revision + 1, 3):
            long_past.fork(info.run.name, revision, run=f"{info.run.name} at {revision}", turn=0)
    with long_past.reading() as db:
        assert first_difference(db) is None


def test_at_the_head_and_in_the_past_the_rows_are_the_same(
    log: EventLog, wander: Callable[[int], Any]
) -> None:
    """Whether the parent's rows are copied, or found by the history index once it has gone on."""
    wanderer = wander(3)
    for number in range(40):
        wanderer.step()
        head = log.head("main")
        assert head is not None
        log.fork("main", head.revision, run=f"copied {number}", turn=0)
        log.execute([Write("a", f"later {number}"), Delete("b")], run="main")
        log.fork("main", head.revision, run=f"found {number}", turn=0)
        assert rows(log, f"copied {number}") == rows(log, f"found {number}")


def test_what_changes_no_entry_does_not_matter(log: EventLog) -> None:
    """Turns and refusals after the fork point leave the rows as they were."""
    log.execute([Write("a", "1"), Write("b", "1", {"n": 1}, 7)], run="main")
    log.execute([AdvanceTurn(), CompareAndSet("a", "never", "x")], run="main")
    log.fork("main", 2, run="fork", turn=0)
    assert rows(log, "fork") == rows(log, "main")
    with log.reading() as db:
        assert first_difference(db) is None


def test_a_fork_between_writes_of_its_parent_in_one_transaction(log: EventLog) -> None:
    """A fork takes in what its parent wrote before it in the same transaction, and not what came after."""
    log.execute([Write("a", "1"), Write("b", "1")], run="main")
    before = Commands("main", (Write("a", "2"), Write("c", "1")), Actor())  # revisions 3 and 4
    after = Commands("main", (Write("a", "3"), Delete("b")), Actor())
    for revision in (2, 3, 4):
        fork = Fork(log.path, "main", revision, f"fork at {revision}", 0, Actor())
        log._writer.commit([before, fork, after])  # pyright: ignore[reportPrivateUsage]
        assert fork.error is None
    with log.reading() as db:
        assert first_difference(db) is None
