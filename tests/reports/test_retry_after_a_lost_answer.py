"""The write succeeded, the answer got lost, and the retry wrote it twice, or was told that it had failed."""

from __future__ import annotations

import pickle
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import (
    AdvanceTurn,
    CompareAndSet,
    Conflict,
    Delete,
    EventLog,
    EventSourcedStore,
    KeyReused,
    Once,
    Timeline,
    Write,
)
from turnlog.eventlog import EntryWritten

_WRITE_AND_DIE = """
import os, pickle, sys, turnlog
with turnlog.open(sys.argv[1]) as log:
    log.execute(pickle.loads(bytes.fromhex(sys.argv[2])), run="main", agent="worker", activity="first try")
    os.kill(os.getpid(), 9)
"""
_BATCH = [
    Once("order-1", Write("a/plan", "fly")),
    Once("order-2", CompareAndSet("a/price", None, "90")),
    Once("order-3", CompareAndSet("a/price", "80", "70")),
    Once("order-4", Delete("a/nothing")),
    Once("order-5", AdvanceTurn()),
]


def events(log: EventLog) -> list[tuple[int, str]]:
    """What is in the log."""
    return [(each.position, type(each.event).__name__) for each in log.read()]


@pytest.fixture
def answered(path: Path, start: Callable[..., subprocess.Popen[str]]) -> Path:
    """A log on which a process wrote the batch, and died before it could tell anybody."""
    worker = start(_WRITE_AND_DIE, path, pickle.dumps(_BATCH).hex())
    assert worker.wait(60) == -signal.SIGKILL
    return path


def test_the_same_batch_again_changes_nothing(answered: Path) -> None:
    """The retry is told what the first try would have been, positions included; so is every further one."""
    with turnlog.open(answered) as log:
        before = events(log)
        assert len(before) == 5
        for _ in range(3):
            told = log.execute(_BATCH, run="main", agent="another worker")
            assert told[:3] == [1, True, False]
            assert told[3:] == log.execute(_BATCH, run="main")[3:]
        assert events(log) == before
        assert EventSourcedStore(log).get_turn() == 1


def test_the_answer_stays_the_first_when_the_world_has_moved(answered: Path) -> None:
    """A command that was carried out is not decided anew on what others have written since."""
    with turnlog.open(answered) as log:
        store = EventSourcedStore(log)
        store.set("a/price", "80")
        assert log.execute(_BATCH, run="main")[:3] == [1, True, False]
        entry = store.get("a/price")
        assert entry is not None
        assert entry.value == "80"


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([Once("order-1", Write("a/plan", "walk"))], id="another value"),
        pytest.param([Once("order-1", Write("b/plan", "fly"))], id="another key"),
        pytest.param([Once("order-1", Delete("a/plan"))], id="another command"),
        pytest.param([Once("order-1", Write("a/plan", "fly", {"x": 1}))], id="other metadata"),
        pytest.param([_BATCH[0], Once("order-6", Write("a/more", "v"))], id="half old, half new"),
        pytest.param([_BATCH[0], Write("a/more", "v")], id="half without an id"),
    ],
)
def test_an_id_that_stands_for_something_else(answered: Path, batch: list[Any]) -> None:
    """Another payload under an id, or a batch carried out in part, is a conflict that stores nothing."""
    with turnlog.open(answered) as log:
        before = events(log)
        with pytest.raises(KeyReused, match="order-1") as caught:
            log.execute(batch, run="main")
        assert isinstance(caught.value, Conflict)
        assert caught.value.idempotency_key == "order-1"
        assert events(log) == before


def test_an_id_twice_in_one_batch(log: EventLog) -> None:
    """It is the caller's mistake, found before anything is asked of the file; no run is begun."""
    with pytest.raises(ValueError, match="'same' is in the list twice") as caught:
        log.execute([Once("same", Write("a/k", "1")), Once("same", Write("a/k", "2"))], run="main")
    assert not isinstance(caught.value, Conflict)
    assert log.runs() == []


def test_an_expected_version_recognises_its_own_success(path: Path, start: Callable[..., Any]) -> None:
    """With an id the retry is told its version; without, it is a conflict with what it wrote itself."""
    bare, retry = (
        Write("a/bare", "mine", expected_version=0),
        Once("order-1", Write("a/plan", "mine", expected_version=0)),
    )
    worker = start(_WRITE_AND_DIE, path, pickle.dumps([bare, retry]).hex())
    assert worker.wait(60) == -signal.SIGKILL
    with turnlog.open(path) as log:
        assert log.execute([retry], run="main") == [2]
        EventSourcedStore(log).set("a/plan", "somebody else's")
        assert log.execute([retry], run="main") == [2]
        with pytest.raises(Conflict) as caught:
            log.execute([bare], run="main")
        assert (caught.value.expected, caught.value.found) == (0, 1)
        (own,) = log.read(key="a/bare", type=EntryWritten)
        assert (own.position, own.activity) == (caught.value.found, "first try")


def test_a_restore_frees_the_id(answered: Path) -> None:
    """What was taken back may be asked for anew: it is carried out, once."""
    with turnlog.open(answered) as log:
        log.execute([Write("a/plan", "before")], run="other")
        Timeline(log, "main").restore(position=0)
        assert EventSourcedStore(log, "main").list() == []
        told = log.execute(_BATCH[:1], run="main")
        assert told == log.execute(_BATCH[:1], run="main")
        assert [entry.value for entry in EventSourcedStore(log, "main").list()] == ["fly"]
