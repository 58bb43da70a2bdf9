"""`EventLog.read`, `runs`, `head` and `lineage`: the log as it is read back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    Closed,
    CompareAndSet,
    Delete,
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    EventLog,
    NotFound,
    Restored,
    RunForked,
    SetTurn,
    TurnAdvanced,
    TurnSet,
    Write,
    WriteRefused,
)
from turnlog.eventlog.reading import PAGE


@pytest.fixture
def filled(log: EventLog, tell: Callable[..., Any]) -> EventLog:
    """Twelve events of three runs, by several agents."""
    log.execute([Write("a", "1"), Write("b", "1"), AdvanceTurn()], run="main", agent="writer")  # 1, 2, 3
    log.execute([Write("a", "1")], run="side", agent="writer")  # 4
    log.execute([Write("a", "2"), CompareAndSet("a", "x", "y")], run="main", agent="editor")  # 5, 6
    log.execute([Delete("b"), SetTurn(0)], run="main")  # 7, 8
    log.fork("main", 3, run="fork", turn=1, agent="editor")  # 9
    log.execute([Write("a", "3")], run="fork", agent="writer")  # 10
    restored = EntryRestored("b", content=2, birth=2, created_at=1000)
    log.execute([tell(Restored(0), restored)], run="main", agent="half \ud83d")  # 11, 12
    return log


@pytest.mark.parametrize(
    ("filters", "positions"),
    [
        pytest.param({}, range(1, 13), id="all"),
        pytest.param({"after": 9}, [10, 11, 12], id="after"),
        pytest.param({"after": 12}, [], id="after the last"),
        pytest.param({"after": 99}, [], id="after the end"),
        pytest.param({"limit": 0}, [], id="limit 0"),
        pytest.param({"limit": 3}, [1, 2, 3], id="limit"),
        pytest.param({"limit": 99}, range(1, 13), id="limit beyond the end"),
        pytest.param({"reverse": True}, range(12, 0, -1), id="reverse"),
        pytest.param({"reverse": True, "limit": 2}, [12, 11], id="the last two"),
        pytest.param({"reverse": True, "after": 9}, [12, 11, 10], id="reverse down to"),
        pytest.param({"run": "main"}, [1, 2, 3, 5, 6, 7, 8, 11, 12], id="run"),
        pytest.param({"run": "fork"}, [9, 10], id="a fork's own events"),
        pytest.param({"run": "main", "after": 3, "limit": 2}, [5, 6], id="run, after, limit"),
        pytest.param({"run": "main", "reverse": True, "limit": 2}, [12, 11], id="run, reverse"),
        pytest.param({"agent": "writer"}, [1, 2, 3, 4, 10], id="agent"),
        pytest.param({"agent": "half \ud83d"}, [11, 12], id="an agent that is no UTF-8"),
        pytest.param({"agent": "nobody"}, [], id="an agent nobody heard of"),
        pytest.param({"key": "a"}, [1, 4, 5, 6, 10], id="key"),
        pytest.param({"key": "b", "run": "main"}, [2, 7, 12], id="key in a run"),
        pytest.param({"key": "a", "agent": "editor"}, [5, 6], id="key and agent"),
        pytest.param({"type": EntryWritten}, [1, 2, 4, 5, 10], id="writes"),
        pytest.param({"type": EntryDeleted}, [7], id="deletes"),
        pytest.param({"type": EntryRestored}, [12], id="restored entries"),
        pytest.param({"type": WriteRefused}, [6], id="refusals"),
        pytest.param({"type": TurnAdvanced}, [3], id="turns advanced"),
        pytest.param({"type": TurnSet}, [8], id="turns set"),
        pytest.param({"type": Restored}, [11], id="restores"),
        pytest.param({"type": RunForked}, [9], id="forks"),
        pytest.param(
            {"run": "main", "agent": "writer", "key": "a", "type": EntryWritten, "after": 0, "limit": 5},
            [1],
            id="everything at once",
        ),
        pytest.param({"run": "side", "key": "b"}, [], id="a key of another run"),
    ],
)
def test_filters(filled: EventLog, filters: dict[str, Any], positions: Any) -> None:
    """Filters narrow, `after` begins behind, `reverse` turns round, `limit` ends."""
    assert [recorded.position for recorded in filled.read(**filters)] == list(positions)


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        pytest.param({"limit": -1}, ValueError, "limit must not be negative: -1", id="negative limit"),
        pytest.param({"limit": "3"}, TypeError, "limit must be an int or None, not str", id="limit: str"),
        pytest.param({"limit": 1.5}, TypeError, "limit must be an int or None, not float", id="limit: float"),
        pytest.param({"after": -1}, ValueError, "after must lie within", id="negative after"),
        pytest.param({"after": 2**63}, ValueError, "after must lie within", id="after: too large"),
        pytest.param({"after": "3"}, TypeError, "after must be an int, not str", id="after: str"),
        pytest.param({"after": None}, TypeError, "after must be an int, not NoneType", id="after: None"),
        pytest.param({"run": 1}, TypeError, "run must be a str, not int", id="run: int"),
        pytest.param({"agent": 1}, TypeError, "agent must be a str, not int", id="agent: int"),
        pytest.param({"key": b"a"}, TypeError, "key must be a str, not bytes", id="key: bytes"),
        pytest.param({"type": "EntryWritten"}, TypeError, "type must be a class of event", id="type: str"),
        pytest.param({"type": str}, TypeError, "type must be a class of event", id="type: no event"),
        pytest.param({"run": "absent"}, NotFound, "has no run 'absent'; it has 'main'", id="no such run"),
    ],
)
def test_bad_filters_fail_at_the_call(
    filled: EventLog, filters: dict[str, Any], error: type[Exception], message: str
) -> None:
    """A filter that cannot be is an error of the call itself, not of the first item."""
    with pytest.raises(error, match=message):
        filled.read(**filters)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("run", ["main", None])
def test_pages_join_without_gap_while_another_connection_writes(
    log: EventLog, path: Any, run: str | None, reverse: bool
) -> None:
    """Over several pages each event comes once and in order, whatever is appended meanwhile."""
    count = PAGE * 2 + 88
    log.execute([Write(f"key {n}", "v") for n in range(count)], run="main")
    seen = []
    with EventLog(path, durability="os") as other:
        for recorded in log.read(run=run, reverse=reverse):
            if len(seen) % 300 == 0:
                other.execute([Write("late", "v"), AdvanceTurn()], run="main")
            seen.append(recorded.position)
    if reverse:
        assert seen == list(range(count, 0, -1))[: len(seen)]
        assert len(seen) == count
    else:
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) >= count + 6, "what was appended before the end came is read as well"


def test_reading_holds_no_lock_between_items(log: EventLog, connect: Callable[..., Any]) -> None:
    """A reader that stops half-way keeps nobody from writing, nor from folding the -wal back."""
    log.execute([Write(f"key {n}", "v") for n in range(PAGE + 10)], run="main")
    reader = log.read()
    next(reader)
    busy, frames, folded = connect().execute("pragma wal_checkpoint(truncate)").fetchone()
    assert (busy, frames, folded) == (0, 0, 0)
    assert sum(1 for _ in reader) == PAGE + 9


def test_a_limit_that_is_a_multiple_of_the_page(log: EventLog) -> None:
    """Limits beside and at page borders are exact."""
    log.execute([Write(f"key {n}", "v") for n in range(PAGE * 2)], run="main")
    for limit in (PAGE - 1, PAGE, PAGE + 1, PAGE * 2, PAGE * 2 + 1):
        assert sum(1 for _ in log.read(limit=limit)) == min(limit, PAGE * 2)


def test_recorded_tells_where_and_when(log: EventLog) -> None:
    """An event comes with its place, its actor and its time as an aware UTC datetime in milliseconds."""
    log.execute([Write("k", "v")], run="main", agent="writer", activity="task 7")
    (recorded,) = log.read()
    assert recorded.recorded_at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert (recorded.run, recorded.agent, recorded.activity) == ("main", "writer", "task 7")
    assert recorded.idempotency_key is None
    assert len(recorded.hash) == 32


def test_one_name_in_several_families_is_one_filter(filled: EventLog) -> None:
    """A key that several unrelated runs use is found in each of them."""
    assert {recorded.run for recorded in filled.read(key="a")} == {"main", "side", "fork"}


def test_runs_come_oldest_first(filled: EventLog) -> None:
    """A listing has each run with its uid, creation time, parent and head."""
    infos = filled.runs()
    assert [(info.run.name, info.parent) for info in infos] == [
        ("main", None),
        ("side", None),
        ("fork", "main"),
    ]
    assert len({info.run.uid for info in infos}) == 3
    assert all(len(info.run.uid) == 32 for info in infos)
    assert [info.head for info in infos] == [filled.head(info.run.name) for info in infos]
    assert [info.run.created_at for info in infos] == [1000, 1001, 1004]


def test_what_another_connection_writes_is_seen_at_once(log: EventLog, path: Any) -> None:
    """Nothing that changes is kept from one read to the next: runs, heads and events are those of now."""
    assert log.head("main") is None
    with EventLog(path, durability="os") as other:
        other.execute([Write("k", "v")], run="main")
        assert [info.run.name for info in log.runs()] == ["main"]
        first = log.head("main")
        other.execute([Write("k", "w")], run="main")
        second = log.head("main")
    assert first is not None
    assert second is not None
    assert (first.position, second.position) == (1, 2)


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda log: log.head(5), id="head"),
        pytest.param(lambda log: log.lineage(b"main"), id="lineage"),
    ],
)
def test_a_run_is_asked_for_by_name(filled: EventLog, ask: Callable[[EventLog], Any]) -> None:
    """What is no str is no name of a run."""
    with pytest.raises(TypeError, match="run must be a str"):
        ask(filled)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda log: list(log.read()), id="read"),
        pytest.param(lambda log: log.runs(), id="runs"),
        pytest.param(lambda log: log.head("main"), id="head"),
        pytest.param(lambda log: log.execute([Write("k", "v")], run="main"), id="execute"),
        pytest.param(lambda log: log.fork("main", 1, run="b", turn=0), id="fork"),
    ],
)
def test_a_closed_log_says_so(path: Any, use: Callable[[EventLog], Any]) -> None:
    """After `close` every use is a typed error, and closing again is fine."""
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
    log.close()
    with pytest.raises(Closed, match="was closed; open it again"):
        use(log)


def test_a_reader_outlives_neither_the_log_nor_its_close(log: EventLog) -> None:
    """A log closed while it is being read ends the reading with a clear error at the next page."""
    log.execute([Write(f"key {n}", "v") for n in range(PAGE + 10)], run="main")
    reader = log.read()
    next(reader)
    log.close()
    with pytest.raises(Closed):
        list(reader)
