"""Replay reads old events otherwise than live reads do; what is unknown is skipped without a word."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

import turnlog
from turnlog import Corrupt, EventSourcedStore, Timeline
from turnlog.eventlog import Restored
from turnlog.eventlog.chain import event_hash, framed_commitment
from turnlog.eventlog.driver import driver
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.projections import EntriesProjection
from turnlog.replay import verify

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1.db"


def test_a_file_of_each_release_goes_on(path: Path) -> None:
    """It opens, its states are one and the same by every way, and it takes the next write."""
    shutil.copy(GOLDEN, path)
    with turnlog.open(path) as log:
        for run in [info.run.name for info in log.runs()]:
            timeline = Timeline(log, run)
            live = EventSourcedStore(log, run).list()
            assert [*timeline.state(all=True).values()] == live
            assert [*timeline.folded().values()] == live
            EventSourcedStore(log, run).set("new", "v")
        before = log.transact(lambda db: db.execute("select * from entries").fetchall())
        log.transact(EntriesProjection().rebuild)
        assert log.transact(lambda db: db.execute("select * from entries").fetchall()) == before


@pytest.mark.parametrize(
    ("column", "value", "named"),
    [
        pytest.param("type", 4, "event type 4", id="an unknown change"),
        pytest.param("type", 99, "event type 99 with payload version 1", id="an unknown type"),
        pytest.param("payload", 2, "event type 1 with payload version 2", id="an unknown version"),
        pytest.param("encoding", 1, "encoding 1", id="an unknown encoding"),
    ],
)
def test_what_is_unknown_is_an_error(tmp_path: Path, column: str, value: int, named: str) -> None:
    """No way to read skips it; the error names the position and what is unknown."""
    path = tmp_path / "strange.db"
    with turnlog.open(path) as log:
        store = EventSourcedStore(log)
        store.set("k", "1")
        store.set("k", "2")
        timeline = Timeline(log)
        with closing(driver().connect(path, isolation_level=None)) as db:
            db.execute("drop trigger events_no_update")
            db.execute(f"update events set {column} = {value} where position = 2")
        reads = [
            lambda: list(log.read()),
            lambda: store.get("k"),
            store.list,
            lambda: list(store.scan()),
            lambda: log.transact(EntriesProjection().rebuild),
            lambda: Timeline(log).folded(),
        ]
        if (column, value) != ("type", 99):  # which is no change of a key to the history index
            reads += [
                lambda: timeline.entry("k"),
                lambda: timeline.entry("k", turn=0),
                timeline.state,
                lambda: list(timeline.history("k")),
                timeline.blame,
            ]
        for read in reads:
            with pytest.raises(Corrupt, match="position 2") as caught:
                read()
            assert named in str(caught.value)


def test_a_member_that_a_later_release_added(path: Path, tmp_path: Path) -> None:
    """It says nothing to this build, which reads all the rest, and hands it on with the event's own hash."""
    with turnlog.open(path) as log:
        store = EventSourcedStore(log)
        store.set("k", "1")
        Timeline(log).restore(position=0, by="ops")
        add_member(path, 2)
    with turnlog.open(path) as log:
        assert verify(log).problems == []
        second = next(iter(log.read(after=1)))
        assert second.event == Restored(0, 0, "ops", None)
        assert Timeline(log).state() == {}
        EventSourcedStore(log).set("k", "2")
        lines = list(export_lines(log))
    assert any("later" in line for line in lines)
    with turnlog.open(tmp_path / "copy.db") as copy:
        import_lines(copy, lines)
        assert [each.hash for each in copy.read()][1] == second.hash
        assert any("later" in line for line in export_lines(copy))


_REST = """
select position, revision, batch, turn, type, payload,
    (select commitment from names where id = key), (select commitment from names where id = agent),
    (select commitment from names where id = activity),
    encoding, content, expires_at_turn, birth, created_at, detail, recorded_at, idempotency_key
from events where position >= ? order by position
"""


def add_member(path: Path, position: int) -> None:
    """Give the detail of an event one more member, as a later release would; what follows is hashed anew."""
    with closing(driver().connect(path, isolation_level=None)) as db:
        triggers = db.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"drop trigger {name}")
        db.execute(
            "update events set detail = json_set(detail, '$.later', 'kept') where position = ?", (position,)
        )
        (previous,) = db.execute("select hash from events where position = ?", (position - 1,)).fetchone()
        for at, revision, batch, turn, kind, payload, *rest in db.execute(_REST, (position,)).fetchall():
            names = [framed_commitment(each) for each in rest[:3]]
            previous = event_hash(previous, revision, batch, turn, kind, payload, *names, None, *rest[3:])
            db.execute("update events set hash = ? where position = ?", (previous, at))
        for _, sql in triggers:
            db.execute(sql)
