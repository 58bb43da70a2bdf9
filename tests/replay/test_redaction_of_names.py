"""A name that was erased: what is shown in its place, and who remembers it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    Delete,
    EntryDeleted,
    EntryWritten,
    Once,
    Write,
)
from turnlog.eventlog.history import entries_at
from turnlog.memory import EventSourcedStore
from turnlog.replay import Timeline, redact
from turnlog.replay.restore import Restore
from turnlog.replay.verification import verify

from .erased import SECRET, WHY, check_whole, files, judged, open_log


def test_a_name_is_erased_with_the_entries_under_it(tmp_path: Path) -> None:
    """In every run of the family; what it was is shown by a stand-in, which can be asked for."""
    path = tmp_path / "team.db"
    key = f"customer/{SECRET}"
    with open_log(path) as log:
        log.execute([Write(key, "v"), Write("l", "w")], run="main", agent=SECRET)
        Timeline(log).fork(run="fork")
        receipt = redact(log, name=key, **WHY)
        assert (receipt.names, receipt.deleted, receipt.events) == (1, 2, 0)
        assert redact(log, name=SECRET, **WHY).names == 1
        for run in ("main", "fork"):
            assert [entry.key for entry in EventSourcedStore(log, run).list()] == ["l"]
        stand_in = next(iter(Timeline(log).state(position=1)))
        assert stand_in.startswith("[redacted ")
        assert Timeline(log).entry(stand_in, position=1).value == "v"  # type: ignore[union-attr]
        assert [type(each.event) for each in Timeline(log).history(stand_in)] == [EntryWritten, EntryDeleted]
        assert next(iter(log.read())).agent.startswith("[redacted ")  # type: ignore[union-attr]
        check_whole(log, [SECRET])
        # What is shown can be restored, forked, written and deleted like any key.
        Timeline(log).restore(position=2)
        Timeline(log).fork(run="late", position=2)
        for run in ("main", "late"):
            store = EventSourcedStore(log, run)
            assert store.get(stand_in).value == "v"  # type: ignore[union-attr]
            assert [entry.key for entry in store.scan(after=stand_in)] == ["l"]
            store.set(stand_in, "changed")
            check_whole(log, [SECRET])
            store.delete(stand_in)
            assert store.get(stand_in) is None
        with log.reading() as db:
            assert db.execute("select count(*) from names where text like '[red%'").fetchone() == (0,)
        log.execute([Write(key, "a new life")], run="main")
        assert EventSourcedStore(log).get(key).value == "a new life"  # type: ignore[union-attr]
        check_whole(log)
        assert redact(log, name=key, **WHY).names == 1
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_what_is_shown_for_a_name_can_be_asked_for(tmp_path: Path) -> None:
    """The log can be filtered by it, as key and as agent."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("alice", "v"), Write("l", "w")], run="main", agent="bob")
        log.execute([Write("l", "x")], run="main")
        redact(log, name="bob", **WHY)
        redact(log, name="alice", **WHY)
        agent = next(iter(log.read())).agent
        key = next(iter(log.read())).event.key  # type: ignore[union-attr]
        assert [each.position for each in log.read(agent=agent)] == [1, 2]
        assert [each.position for each in log.read(key=key, type=EntryWritten)] == [1]
        assert list(log.read(key="[redacted 00000000]")) == []
        assert list(log.read(key="alice")) == []


def test_a_restore_of_what_was_erased_meanwhile_is_refused(tmp_path: Path) -> None:
    """Who read the past before the name was gone cannot write it down again."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("alice", "v"), Write("l", "w")], run="main")
        log.execute([Delete("alice")], run="main")
        timeline = Timeline(log)
        point = timeline.point(position=2)
        with log.reading() as db:
            entries = {each.key: each for each in entries_at(db, timeline.lineage, point.revision)}
        redact(log, name="alice", **WHY)
        for _ in range(2):
            with pytest.raises(ValueError, match="'alice' was erased meanwhile"):
                log.execute([Restore(point, entries)], run="main")
            log.execute([Write("alice", "another")], run="main")
        timeline.restore(position=2)
        check_whole(log)


def test_names_in_which_it_is_found_are_told(tmp_path: Path) -> None:
    """By pattern texts are erased, names only listed."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write(f"customer/{SECRET}", SECRET)], run="main")
        receipt = redact(log, matching="sk-", **WHY)
        assert receipt.names_left == (f"customer/{SECRET}",)


def test_what_stays_is_told(tmp_path: Path) -> None:
    """Reasons, idempotency keys and names by pattern; texts too, where a name was erased."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "alice", {"agent": "alice"}), Write("l", "malice")], run="main")  # 1, 2
        log.execute([Once("for alice", AdvanceTurn())], run="main")  # 3
        Timeline(log).restore(position=2, reason="alice asked")  # 4
        log.execute([Write("alice/x", "v"), Write("alice", "v")], run="main", agent="alice")  # 5, 6
        receipt = redact(log, name="alice", **WHY)
        assert receipt.names == 1
        assert receipt.names_left == ("alice/x",)
        assert receipt.positions_left == (1, 3, 4)
        receipt = redact(log, matching="alice", **WHY)
        assert receipt.events == 2
        assert receipt.names_left == ("alice/x",)
        assert receipt.positions_left == (3, 4)


def test_other_writers_do_not_go_on_with_a_name_that_is_gone(tmp_path: Path) -> None:
    """What a log object remembers of names, this one's and another's, is forgotten with them."""
    path = tmp_path / "team.db"
    with open_log(path) as log, open_log(path) as other:
        for each in (log, other):
            each.execute([Write("alice", "v")], run="main", agent="alice")
        redact(log, name="alice", **WHY)
        for each in (other, log):
            each.execute([Write("alice", "w")], run="main", agent="alice")
            assert EventSourcedStore(each).get("alice").value == "w"  # type: ignore[union-attr]
            check_whole(each)


def test_threads_that_write_meanwhile_lose_nothing(tmp_path: Path) -> None:
    """A name that is erased while threads write under it is a new name from then on."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("alice", "0")], run="main")
        stop = threading.Event()
        failed: list[Exception] = []

        def write() -> None:
            try:
                while not stop.is_set():
                    log.execute([Write("alice", "v")], run="main", agent="alice")
            except Exception as error:  # noqa: BLE001 - told to the test
                failed.append(error)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            redact(log, name="alice", **WHY)
            log.execute([Write("alice", "again")], run="main")
        stop.set()
        for thread in threads:
            thread.join()
        assert failed == []
        log.execute([Write("alice", "last")], run="main")
        assert EventSourcedStore(log).get("alice").value == "last"  # type: ignore[union-attr]
        assert verify(log).ok
