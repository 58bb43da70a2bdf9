"""`sweep` deletes what has expired, and nothing that anybody sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnlog import EventSourcedStore, SharedMemory
from turnlog.eventlog import AdvanceTurn, EntryDeleted, EventLog, NotFound, SetTurn, Write
from turnlog.replay import Timeline
from turnlog.replay.sweeping import Sweep, sweep
from turnlog.replay.verification import verify


@pytest.fixture
def expired(log: EventLog) -> EventLog:
    """Entries that expire at turn 1, 2, 3 and never: in `main`, at turn 2, and in `side`, at turn 0."""
    for run in ("main", "side"):
        lasting = [Write(f"a/until {turn}", "v", expires_at_turn=turn) for turn in (1, 2, 3)]
        log.execute([*lasting, Write("a/for ever", "v")], run=run)
    reserved = [Write("__turnlog__/old", "v", expires_at_turn=1), Write("__turnlog__/kept", "v")]
    log.execute([*reserved, AdvanceTurn(), AdvanceTurn()], run="main")
    return log


def keys(log: EventLog, run: str = "main") -> list[str]:
    """What a store lists, expired or not."""
    return [entry.key for entry in EventSourcedStore(log, run).list()]


def test_what_has_expired_is_deleted_in_one_batch(expired: EventLog) -> None:
    """The expired entries of each run go, reserved ones included, by whoever asked; the rest stays."""
    memory = SharedMemory(EventSourcedStore(expired, "main"))
    seen = memory.list_all()
    assert sweep(expired, agent="janitor") == {"main": 3, "side": 0}
    assert keys(expired) == ["a/until 3", "a/for ever", "__turnlog__/kept"]
    assert len(keys(expired, "side")) == 4
    swept = list(expired.read(run="main", type=EntryDeleted))
    assert [(each.agent, each.batch) for each in swept] == [("janitor", 0), ("janitor", 1), ("janitor", 2)]
    assert memory.list_all() == seen
    assert verify(expired).ok


def test_sweeping_again_appends_nothing(expired: EventLog) -> None:
    """It is idempotent, to the byte of the history."""
    sweep(expired)
    head = expired.head("main")
    assert sweep(expired, "main") == {"main": 0}
    assert expired.head("main") == head


def test_one_run_can_be_swept(expired: EventLog) -> None:
    """Other runs are left alone; one that does not exist is not made."""
    expired.execute([SetTurn(9)], run="side")
    assert sweep(expired, "side") == {"side": 3}
    assert len(keys(expired)) == 6
    with pytest.raises(NotFound):
        sweep(expired, "no such run")
    assert [info.run.name for info in expired.runs()] == ["main", "side"]


def test_what_was_swept_is_in_the_history(expired: EventLog) -> None:
    """The past shows it, and a restore brings it back."""
    sweep(expired, "main")
    timeline = Timeline(expired, "main")
    assert "a/until 2" in timeline.state(turn=1)
    timeline.restore(turn=1)
    assert "a/until 2" in keys(expired)


def test_a_sweep_can_be_one_of_several_commands(expired: EventLog) -> None:
    """As a command it sees what those before it did, for example a new turn."""
    assert expired.execute([AdvanceTurn(), Sweep("janitor")], run="main") == [3, 4]


def test_an_agent_that_is_no_text_is_refused(expired: EventLog) -> None:
    """Nothing is written then."""
    agent: Any = 7
    with pytest.raises(TypeError, match="agent must be a str"):
        sweep(expired, agent=agent)
    assert len(keys(expired)) == 6


def test_an_empty_log_has_nothing_to_sweep(log: EventLog, store_of: Callable[..., Any]) -> None:
    """Of no runs, none is swept."""
    assert sweep(log) == {}
