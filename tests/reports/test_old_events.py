"""Replay reads old events otherwise than live reads do; what is unknown is skipped without a word."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

import turnlog
from turnlog import Corrupt, EventSourcedStore, Timeline
from turnlog.eventlog.driver import driver
from turnlog.projections import EntriesProjection

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
    ("column", "value"),
    [
        pytest.param("type", 4, id="an unknown change"),
        pytest.param("type", 99, id="an unknown type"),
        pytest.param("payload", 2, id="an unknown version"),
        pytest.param("encoding", 1, id="an unknown encoding"),
    ],
)
def test_what_is_unknown_is_an_error(tmp_path: Path, column: str, value: int) -> None:
    """No way to read skips it; the error names the position."""
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
            with pytest.raises(Corrupt, match="position 2"):
                read()
