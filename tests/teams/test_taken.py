"""A run that somebody else has gone on with meanwhile: the slower records nothing more, and is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import (
    Agent,
    AsyncCheckpoint,
    Checkpoint,
    EventSourcedStore,
    FileStore,
    RedactingStore,
    RunTaken,
    Suspend,
    Task,
    Team,
    Timeline,
)
from turnlog.eventlog import WriteRefused
from turnlog.memory import AsyncInMemoryStore, InMemoryStore
from turnlog.teams import saved_checkpoints

from ..memory.conftest import PlainStore
from .conftest import Way

ABC = [Task("a", "", "ann"), Task("b", "", "ann", depends_on=["a"]), Task("c", "", "ann", depends_on=["b"])]


def slow(name: str, meanwhile: Callable[[], object], at: str = "b") -> Agent:
    """An agent that, in the first of its attempts at task `at`, lets somebody else work meanwhile."""
    waiting = [meanwhile]

    def run(prompt: str, memory: Any, context: Any) -> str:
        if context.task.id == at and waiting:
            waiting.pop()()
        return f"{context.task.id} by {name}"

    return Agent("ann", run)


def quick(name: str) -> Agent:
    """An agent whose results say who it is."""
    return Agent("ann", lambda prompt, memory, context: f"{context.task.id} by {name}")


def saved(log: turnlog.EventLog, run: str = "main") -> list[int]:
    """How many tasks each checkpoint of the run knows to be completed."""
    return [len(each.load()["queue"]["completed"]) for each in saved_checkpoints(log, run)]


def results(way: Way) -> list[str]:
    """What memory says of the tasks."""
    return [value for key, value in way.entries().items() if key.startswith("ann/task:")]


def test_the_slower_of_two_is_told(way: Way) -> None:
    """Result, turn and checkpoint of the slower are refused as one; the error says how far the run is."""
    other = way.on("main")
    team = way.team(slow("one", lambda: other.restore(other.team(quick("other")))))
    with pytest.raises(RunTaken) as raised:
        way.run(team, ABC, checkpoint=True)
    assert str(raised.value).startswith(
        "somebody else has gone on with run 'main': its checkpoint now says that 3 of 3 tasks are completed "
        "(attempt 2, saved 20"
    )
    assert "The result of task 'b' is not recorded, and this attempt has ended." in str(raised.value)
    assert raised.value.key == "__oma_checkpoint__/main/latest"
    assert results(way) == ["a by one", "b by other", "c by other"]
    assert (way.turn(), saved(way.log)) == (3, [1, 2, 3])
    refused = [each.event for each in way.log.read() if isinstance(each.event, WriteRefused)]
    assert [(each.key, each.reason) for each in refused] == [(raised.value.key, "version differs")]
    assert way.restore(team)["b"].output == "b by other"


def test_a_run_that_is_begun_twice(way: Way) -> None:
    """Not only restored ones: of two that begin under one name, the first to complete a task goes on."""
    other = way.on("main")
    begin = lambda: other.run(other.team(quick("other")), ABC, checkpoint=True)  # noqa: E731
    with pytest.raises(RunTaken):
        way.run(way.team(slow("one", begin, at="a")), ABC, checkpoint=True)
    assert results(way) == ["a by other", "b by other", "c by other"]
    assert way.turn() == 3


def test_a_new_run_may_take_the_place_of_an_older_one(way: Way) -> None:
    """What lies there when a run begins is no reason to refuse it."""
    for name in ("one", "other"):
        assert way.run(way.team(quick(name)), ABC, checkpoint=True).success
    assert results(way) == ["a by other", "b by other", "c by other"]


def test_whoever_goes_back_takes_the_run_over(way: Way) -> None:
    """`at=` saves at once, and whoever was at the run is told at their next task."""
    other = way.on("main")
    back = lambda: other.restore(other.team(quick("other")), at="1", restore_memory=True)  # noqa: E731
    with pytest.raises(RunTaken):
        way.run(way.team(slow("one", back, at="c")), ABC, checkpoint=True)
    assert results(way) == ["a by one", "b by other", "c by other"]


def test_a_checkpoint_that_was_deleted_meanwhile(way: Way) -> None:
    """Then nobody can tell what became of the run: it ends, and says so."""
    delete = lambda: Checkpoint(EventSourcedStore(way.log)).delete()  # noqa: E731
    with pytest.raises(RunTaken, match="is not what this attempt has kept or found there"):
        way.run(way.team(slow("one", delete)), ABC, checkpoint=True)
    assert results(way) == ["a by one"]


def test_forks_of_one_run_do_not_meet(way: Way) -> None:
    """Each is a run of its own, with a checkpoint of its own; of two on one fork, one is told."""
    way.run(way.team(quick("parent")), ABC, checkpoint=True)
    Timeline(way.log, "main").fork(turn=1, run="left")
    Timeline(way.log, "main").fork(turn=1, run="right")
    left, right = way.on("left"), way.on("right")
    assert left.restore(left.team(slow("left", lambda: right.restore(right.team(quick("right")))))).success
    assert results(right) == ["a by parent", "b by right", "c by right"]
    Timeline(way.log, "main").fork(turn=1, run="third")
    third, again = way.on("third"), way.on("third")
    with pytest.raises(RunTaken, match="run 'third'"):
        third.restore(third.team(slow("one", lambda: again.restore(again.team(quick("other"))))))
    assert (results(third), third.turn()) == (["a by parent", "b by other", "c by other"], 3)


def test_a_fork_with_the_run_id_of_its_parent(way: Way) -> None:
    """It goes on under its own name, where of two again one is told."""
    way.run(way.team(quick("parent")), ABC, checkpoint=way.checkpoint(run_id="r"))
    Timeline(way.log, "main").fork(turn=1, run="fork")
    fork, again = way.on("fork"), way.on("fork")
    other = lambda: again.restore(again.team(quick("other")), checkpoint=again.checkpoint(run_id="r"))  # noqa: E731
    with pytest.raises(RunTaken, match="run 'fork'"):
        fork.restore(fork.team(slow("one", other)), checkpoint=fork.checkpoint(run_id="r"))
    assert results(fork) == ["a by parent", "b by other", "c by other"]


class ComparingStore(PlainStore):
    """A store that can compare and set, and no more."""

    def compare_and_set(self, key: str, expected: str | None, value: str, metadata: Any = None) -> bool:
        """See `MemoryStore`."""
        entry = self.get(key)
        if (None if entry is None else entry.value) != expected:
            return False
        self.set(key, value, metadata)
        return True


@pytest.mark.parametrize("kind", ["in memory", "comparing", "file"])
def test_checkpoints_in_a_store_of_their_own(tmp_path: Path, kind: str) -> None:
    """By version, or by what is kept where a store can compare and set; the later save is refused."""
    store: Any = {"in memory": InMemoryStore, "comparing": ComparingStore}.get(
        kind, lambda: FileStore(tmp_path / "checkpoints.json")
    )()
    checkpoint = Checkpoint(store, run_id="r")
    other = lambda: turnlog.restore(Team([quick("other")], shared_memory=True), checkpoint=checkpoint)  # noqa: E731
    team = Team([slow("one", other)], shared_memory=True)
    with pytest.raises(RunTaken, match="No checkpoint was saved after task 'b', and this attempt has ended"):
        turnlog.run_tasks(team, ABC, checkpoint=checkpoint)
    found = checkpoint.load()
    assert found is not None
    assert [each["result"] for each in found["completedTaskResults"]] == [
        "a by one",
        "b by other",
        "c by other",
    ]


class VersionedStore:
    """A store whose entries have versions, which it can compare by their value only."""

    def __init__(self) -> None:
        self._kept = InMemoryStore()
        self.get, self.set, self.delete = self._kept.get, self._kept.set, self._kept.delete
        self.list, self.clear = self._kept.list, self._kept.clear
        self.compare_and_set = self._kept.compare_and_set


def test_versions_that_a_store_cannot_compare(log: turnlog.EventLog) -> None:
    """Nobody else is at the run: what is kept is compared by what it says, whatever versions entries have."""
    checkpoint = Checkpoint(VersionedStore(), run_id="r")
    team = Team([quick("one")], shared_memory_store=EventSourcedStore(log, "main"))
    assert turnlog.run_tasks(team, ABC, checkpoint=checkpoint).success
    assert turnlog.run_tasks(team, ABC, checkpoint=checkpoint).success
    assert turnlog.restore(team, ABC, checkpoint=checkpoint).success


@pytest.mark.parametrize("way", ["loop, async store"], indirect=True)
def test_an_asynchronous_store_of_their_own(way: Way) -> None:
    """The same in the other colour."""
    store = AsyncInMemoryStore()
    other = lambda: way.restore(  # noqa: E731
        Team([quick("other")], shared_memory=True), checkpoint=AsyncCheckpoint(store, run_id="r")
    )
    with pytest.raises(RunTaken):
        way.run(
            Team([slow("one", other)], shared_memory=True),
            ABC,
            checkpoint=AsyncCheckpoint(store, run_id="r"),
        )


def test_a_store_that_cannot_compare_keeps_the_last(tmp_path: Path) -> None:
    """The limit: nobody is told, and both do what is left."""
    store = PlainStore()
    checkpoint = Checkpoint(store, run_id="r")
    other = lambda: turnlog.restore(  # noqa: E731
        Team([quick("other")], shared_memory_store=store), checkpoint=checkpoint
    )
    team = Team([slow("one", other)], shared_memory_store=store)
    assert turnlog.run_tasks(team, ABC, checkpoint=checkpoint)["c"].output == "c by one"
    kept = store.get("ann/task:b:result")
    assert kept is not None
    assert kept.value == "b by one"


def test_a_store_that_redacts_tells_too(log: turnlog.EventLog) -> None:
    """It carries out lists, so versions are compared there."""
    store = RedactingStore(EventSourcedStore(log))
    other = lambda: turnlog.restore(Team([quick("other")], shared_memory_store=store))  # noqa: E731
    with pytest.raises(RunTaken):
        turnlog.run_tasks(Team([slow("one", other)], shared_memory_store=store), ABC, checkpoint=True)
    assert saved(log) == [1, 2, 3]


@pytest.mark.parametrize("way", ["threads"], indirect=True)  # no other run can go on while a loop asks a gate
def test_a_gate_asks_nobody_in_a_run_that_is_taken(way: Way) -> None:
    """The request would wait in a checkpoint that is not there."""
    other = way.on("main")
    team = way.team(quick("one"))

    def look_first(task: Task) -> Any:
        if task.id != "b":
            return True
        other.restore(other.team(quick("other")))
        return Suspend("look")

    with pytest.raises(RunTaken, match="Nobody was asked about 'b', and this attempt has ended"):
        way.run(team, ABC, checkpoint=True, approve_dispatch=look_first)
    text = way.entries()["__oma_checkpoint__/main/latest"]
    assert json.loads(text)["pendingApprovals"] == []
    assert not [key for key in way.entries() if key.startswith("__oma_approval__/")]
