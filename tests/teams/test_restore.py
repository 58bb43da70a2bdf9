"""Runs that are taken up again: by another process, from an earlier point, in a fork."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import (
    Agent,
    AsyncCheckpoint,
    BadCheckpoint,
    BadPlan,
    Checkpoint,
    EventSourcedStore,
    FileStore,
    RedactingStore,
    SharedMemory,
    Task,
    Team,
    Timeline,
)
from turnlog.memory import AsyncInMemoryStore, InMemoryStore
from turnlog.teams import checkpoint_at, saved_checkpoints

from ..memory.conftest import PlainStore
from .conftest import Way, says

EIGHT = [f"t{number}" for number in range(1, 9)]


class Crash(BaseException):
    """What ends a run as a killed process would."""


def chain(*ids: str, **named: Any) -> list[Task]:
    """Tasks of ann, each of which waits for the one before."""
    return [Task(each, "", "ann", depends_on=ids[at - 1 : at], **named) for at, each in enumerate(ids)]


def counting(ran: list[str], crash_in: str | None = None) -> Callable[..., str]:
    """What an agent runs that notes its task, says who it is told of, and crashes in one."""

    def run(prompt: str, memory: Any, context: Any) -> str:
        ran.append(context.task.id)
        if context.task.id == crash_in and ran.count(crash_in) == 1:
            raise Crash
        return f"{context.task.id} after [{prompt.rpartition(')')[2].strip()}]"

    return run


def crashed(way: Way, team: Team, tasks: list[Task], **named: Any) -> None:
    """Run the tasks until one of them crashes."""
    with pytest.raises(Crash):
        way.run(team, tasks, **named)


def versions(log: turnlog.EventLog, run: str = "main") -> list[int]:
    """How many tasks each checkpoint of the run knows to be completed."""
    return [len(saved.load()["completedTaskResults"]) for saved in saved_checkpoints(log, run)]


# -- saving


def test_nothing_is_saved_unless_asked_for(way: Way) -> None:
    """I1: checkpoints are off; False and True say so."""
    team = way.team(Agent("ann", says("x")))
    way.run(team, chain("a"))
    way.run(team, chain("b"), checkpoint=False)
    assert list(saved_checkpoints(way.log, "main")) == []
    way.run(team, chain("c"), checkpoint=True)
    assert versions(way.log) == [1]


def test_a_checkpoint_is_in_the_batch_of_its_result(way: Way) -> None:
    """I4, G4: after each completed task, in the transaction of its result and its turn."""
    team = way.team(Agent("ann", says("x")))
    way.run(team, chain("a", "b", "c"), checkpoint=True)
    with way.log.reading() as db:
        batches = [row[0] for row in db.execute("select batch from events order by position")]
    assert batches == [0, 1, 2] * 3
    assert versions(way.log) == [1, 2, 3]
    for turn in (1, 2, 3):
        saved = checkpoint_at(way.log, "main", at=str(turn))
        assert saved is not None
        snapshot = saved.load()
        assert (snapshot["turnCount"], len(snapshot["queue"]["completed"])) == (turn, turn)
        assert "sharedMemory" not in snapshot


def test_what_a_checkpoint_of_a_run_says(way: Way) -> None:
    """H4, H11: tasks with their settings, lists by status, results with the validated value."""

    def run(prompt: str, memory: Any, context: Any) -> Any:
        if context.task.id == "c":
            raise ValueError("cannot")
        return {"n": 1.5}

    team = way.team(Agent("ann", run, dict[str, float]))
    tasks = [
        Task("a", "do a", "ann", "Title", max_retries=2, retry_delay_s=0.25),
        Task("c", "do c", "ann", depends_on=["a"]),
        Task("d", "do d", "ann", depends_on=["c"], memory_scope="all"),
        Task("b", "do b", "ann", depends_on=["Title"], dependency_payload="both"),
    ]
    way.run(team, tasks, checkpoint=True, max_parallel=1)
    saved = checkpoint_at(way.log, "main")
    assert saved is not None
    snapshot = saved.load()
    assert snapshot["mode"] == "runTasks"
    assert snapshot["identity"]["runId"] == "main"
    assert snapshot["identity"]["attempt"] == 1
    queue = snapshot["queue"]
    assert {name: queue[name] for name in ("completed", "failed", "pending", "inProgress", "blocked")} == {
        "completed": ["a", "b"],
        "failed": ["c", "d"],
        "pending": [],
        "inProgress": [],
        "blocked": [],
    }
    first, failed, _, last = queue["tasks"]
    assert (
        first.items()
        >= {
            "title": "Title",
            "description": "do a",
            "assignee": "ann",
            "status": "completed",
            "result": '{"n":1.5}',
            "maxRetries": 2,
            "retryDelayMs": 250,
        }.items()
    )
    assert failed["error"] == {"kind": "agent", "message": "ValueError: cannot"}
    assert (last["dependsOn"], last["dependencyPayload"]) == (["a"], "both")
    result = snapshot["completedTaskResults"][0]
    assert result["agentResult"]["structured"] == {"n": 1.5}


def test_without_a_store_there_is_nowhere_to_save() -> None:
    """I2: True needs a store of the team's; a Checkpoint brings one of its own."""
    team = Team([Agent("ann", says("x"))])
    for begin in (turnlog.run_tasks, turnlog.restore):
        with pytest.raises(ValueError, match="this team has none; pass Checkpoint"):
            begin(team, chain("a"), checkpoint=True)
    store = InMemoryStore()
    assert turnlog.run_tasks(team, chain("a"), checkpoint=Checkpoint(store, run_id="r")).success
    ran: list[str] = []
    again = Team([Agent("ann", counting(ran))])
    assert turnlog.restore(again, checkpoint=Checkpoint(store, run_id="r"))["a"].output == "x"
    assert ran == []


@pytest.mark.parametrize("begin", [turnlog.run_tasks, turnlog.restore])
def test_what_is_no_checkpoint_is_refused(begin: Any) -> None:
    """By what was given, before anything is begun."""
    team = Team([Agent("ann", says("x"))], shared_memory=True)
    for wrong in (InMemoryStore(), "yes", 1):
        with pytest.raises(TypeError, match="checkpoint must be True, False or a Checkpoint, not"):
            begin(team, chain("a"), checkpoint=wrong)
    with pytest.raises(TypeError, match="use Checkpoint"):
        begin(team, chain("a"), checkpoint=AsyncCheckpoint(AsyncInMemoryStore()))
    with pytest.raises(TypeError, match="nothing to restore from"):
        turnlog.restore(team, checkpoint=False)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the team has no memory to put back"):
        turnlog.restore(
            Team([Agent("ann", says("x"))]), checkpoint=Checkpoint(InMemoryStore()), restore_memory=True
        )


def test_a_checkpoint_that_fails_is_told_and_the_run_goes_on(way: Way) -> None:
    """I6: an ordinary failure to save is an event, and later saves are tried again."""
    failing = {"b"}
    events: list[Any] = []

    def failure(verb: str) -> BaseException | None:
        done = [event.task_id for event in events if event.kind == "completed"]
        return OSError("no space") if verb == "set" and failing & {"abc"[len(done)]} else None

    way.plain.failing = failure
    kind = AsyncCheckpoint if "async" in way.name else Checkpoint
    team = way.team(Agent("ann", says("x")))
    checkpoint = kind(way.plain_store, run_id="r")
    assert way.run(team, chain("a", "b", "c"), checkpoint=checkpoint, on_event=events.append).success
    told = [(event.kind, event.task_id) for event in events if event.kind != "started"]
    assert told == [
        ("completed", "a"),
        ("checkpoint_failed", "b"),
        ("completed", "b"),
        ("completed", "c"),
    ]
    (error,) = [event.error for event in events if event.error is not None]
    assert (error.kind, error.message) == ("checkpoint", "OSError: no space")
    assert isinstance(error.cause, OSError)
    text = way.plain.get("__oma_checkpoint__/r/latest")
    assert text is not None
    assert len(json.loads(text.value)["completedTaskResults"]) == 3


def test_a_checkpoint_that_is_too_large_costs_nobody_their_result(tmp_path: Path) -> None:
    """I6: the store refuses it in the batch of the result, which is then written without it."""
    limits = turnlog.Limits(value=4_000)
    with turnlog.open(tmp_path / "small.db", durability="os", limits=limits) as log:
        team = Team([Agent("ann", says("x" * 900))], shared_memory_store=EventSourcedStore(log))
        with pytest.warns(RuntimeWarning, match="no checkpoint was saved after task 'b': ValueError"):
            assert turnlog.run_tasks(team, chain("a", "b"), checkpoint=True).success
        assert versions(log) == [1]
        store = EventSourcedStore(log)
        assert store.get("ann/task:b:result") is not None
        assert store.get_turn() == 2


# -- going on


@pytest.mark.parametrize("crash_in", ["a", "b", "c"])
def test_a_run_goes_on_where_it_was(way: Way, crash_in: str) -> None:
    """I8, I10: what was completed is not done again; what was under way is, and is told the same."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran, crash_in)))
    tasks = chain("a", "b", "c")
    crashed(way, team, tasks, checkpoint=True)
    result = way.restore(team, tasks)
    assert result.success
    assert ran == {"a": list("aabc"), "b": list("abbc"), "c": list("abcc")}[crash_in]
    assert result["c"].output == "c after [b after [a after [# Task: a]]]"
    assert way.turn() == 3
    assert [event for event in way.events() if event[4] == "ann/task:a:result"][1:] == []


def test_a_finished_run_does_no_work(way: Way) -> None:
    """I12: however often it is restored; nothing is written either."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    first = way.run(team, chain("a", "b"), checkpoint=True)
    before = way.events()
    for _ in range(3):
        again = way.restore(team)
        assert {name: each.output for name, each in again.tasks.items()} == {
            name: each.output for name, each in first.tasks.items()
        }
        assert again.success
    assert (ran, way.events()) == (["a", "b"], before)


def test_without_a_checkpoint_the_tasks_are_begun(way: Way) -> None:
    """I8: and with one the tasks given are not looked at; without either there is nothing to do."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    assert way.restore(team).tasks == {}
    assert way.restore(team, chain("a")).success
    result = way.restore(team, chain("other"))
    assert (list(result.tasks), ran) == (["a"], ["a"])
    Checkpoint(EventSourcedStore(way.log)).delete()
    assert way.restore(team).tasks == {}


def test_what_failed_last_is_tried_again(way: Way) -> None:
    """I5: a failure that no checkpoint knows of never was; one that a later save knows is final."""
    ran: list[str] = []

    def run(prompt: str, memory: Any, context: Any) -> str:
        ran.append(context.task.id)
        if context.task.id == "bad" and ran.count("bad") == 1:
            raise ValueError("not today")
        return "x"

    team = way.team(Agent("ann", run))
    first = [Task("good", "", "ann"), Task("bad", "", "ann", depends_on=["good"])]
    assert way.run(team, first, checkpoint=True, max_parallel=1).status == "failed"
    assert way.restore(team).success
    ran.clear()
    way.run(team, [Task("bad", "", "ann"), Task("good", "", "ann")], checkpoint=True, max_parallel=1)
    result = way.restore(team)
    assert (result.status, ran) == ("failed", ["bad", "good"])
    assert result["bad"].error is not None
    assert result["bad"].error.message == "ValueError: not today"


def test_each_attempt_at_a_run_is_counted(way: Way) -> None:
    """I11: the same run id, the next attempt."""
    team = way.team(Agent("ann", counting([], "b")))
    crashed(way, team, chain("a", "b"), checkpoint=True)
    way.restore(team)
    found = [saved.load()["identity"] for saved in saved_checkpoints(way.log, "main")]
    assert [(each["runId"], each["attempt"]) for each in found] == [("main", 1), ("main", 2)]


def test_another_run_id_is_refused(log: turnlog.EventLog) -> None:
    """I11: a checkpoint of one run is not taken for that of another, and nothing is changed."""
    store = EventSourcedStore(log)
    team = Team([Agent("ann", says("x"))], shared_memory_store=store)
    turnlog.run_tasks(team, chain("a"), checkpoint=Checkpoint(store, key="k", run_id="one"))
    head = log.head("main")
    with pytest.raises(BadCheckpoint, match="restore runId conflict"):
        turnlog.restore(team, checkpoint=Checkpoint(store, key="k", run_id="other"), restore_memory=True)
    assert log.head("main") == head


def test_a_structured_result_is_handed_on_after_a_restart(way: Way) -> None:
    """G13: the validated value comes from the checkpoint."""
    prompts: list[str] = []

    def run(prompt: str, memory: Any, context: Any) -> Any:
        prompts.append(prompt)
        if len(prompts) == 2:
            raise Crash
        return {"b": 2.0, "a": 10**17}

    team = way.team(Agent("ann", run, dict[str, float]))
    tasks = [Task("a", "", "ann"), Task("b", "", "ann", depends_on=["a"], dependency_payload="structured")]
    crashed(way, team, tasks, checkpoint=True)
    result = way.restore(team)
    assert result.success
    assert prompts[1] == prompts[2]
    assert result["a"].structured == {"b": 2.0, "a": 10**17}


def test_a_missing_agent_is_told_before_anything_changes(way: Way) -> None:
    """The team must have every agent of the checkpoint."""
    crashed(way, way.team(Agent("ann", counting([], "b"))), chain("a", "b"), checkpoint=True)
    before = way.events()
    with pytest.raises(BadPlan, match="assigned to 'ann', but the team has 'bob'"):
        way.restore(way.team(Agent("bob", says("x"))), restore_memory=True)
    assert way.events() == before


@pytest.mark.parametrize(
    ("change", "says_what"),
    [
        pytest.param(
            lambda q: q["tasks"][1].pop("assignee"), r"\$.queue.tasks\[1\].assignee must be", id="a"
        ),
        pytest.param(lambda q: q["tasks"][0].update(status="odd"), r"tasks\[0\].status must be one", id="b"),
        pytest.param(lambda q: q["tasks"].append(7), r"tasks\[2\] must be an object", id="c"),
        pytest.param(lambda q: q["tasks"][0].update(result=7), r"tasks\[0\].result must be a str", id="d"),
        pytest.param(lambda q: q["tasks"][1].update(dependsOn=[1]), r"dependsOn\[0\] must be a str", id="e"),
        pytest.param(lambda q: q["tasks"][1].update(retryBackoff=0.5), "a task that can be run", id="f"),
        pytest.param(lambda q: q["tasks"][1].update(dependsOn=["b"]), "in a circle: 'b' -> 'b'", id="g"),
        pytest.param(lambda q: q["tasks"][1].update(id="a"), "'a' is there more than once", id="h"),
        pytest.param(lambda q: q["tasks"][1].update(dependsOn=["z"]), "neither an id nor a title", id="i"),
    ],
)
def test_a_checkpoint_that_cannot_be_gone_on_from(way: Way, change: Any, says_what: str) -> None:
    """It says where in the record, and neither memory nor log is changed."""
    team = way.team(Agent("ann", counting([], "b")))
    crashed(way, team, chain("a", "b"), checkpoint=True)
    store = EventSourcedStore(way.log)
    key = "__oma_checkpoint__/main/latest"
    entry = store.get(key)
    assert entry is not None
    record = json.loads(entry.value)
    change(record["queue"])
    store.set(key, json.dumps(record))
    before = way.events()
    with pytest.raises((BadCheckpoint, BadPlan), match=says_what):
        way.restore(team, restore_memory=True)
    assert way.events() == before


def test_a_stored_text_that_is_no_checkpoint(way: Way) -> None:
    """H3: refused with the key, and nothing is begun in its place."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    EventSourcedStore(way.log).set("__oma_checkpoint__/main/latest", "{")
    with pytest.raises(BadCheckpoint, match="__oma_checkpoint__/main/latest' is not valid JSON"):
        way.restore(team, chain("a"))
    assert ran == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_runs_of_the_original_go_on(golden: Callable[[str], Any], version: int) -> None:
    """I10-I12: what it wrote is read, its completed tasks stay, the others are done; it can be read again."""
    record = golden(f"checkpoint-{version}")
    store, ran = InMemoryStore(), []
    store.set(record["key"], record["value"])
    names = {each["assignee"] for each in json.loads(record["value"])["queue"]["tasks"]}
    team = Team([Agent(name, counting(ran)) for name in names], shared_memory_store=store)
    checkpoint = Checkpoint(store, key=record["key"])
    result = turnlog.restore(team, checkpoint=checkpoint)
    assert result.success
    assert "survey" not in ran
    assert set(ran) == set(result.tasks) - {"survey"}
    assert result["survey"].output == "Seven files."
    loaded = checkpoint.load()
    assert loaded is not None
    assert loaded["queue"]["completed"] == list(result.tasks)
    assert {name for name in json.loads(record["value"]) if name != "runId"} <= {*loaded, "sharedMemory"}


def test_a_checkpoint_that_a_restore_put_back(way: Way) -> None:
    """H1: under a key that is ordinary memory it goes back with the memory, and the run from there."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    checkpoint = way.checkpoint(key="ops/checkpoint")
    way.run(team, chain("a", "b", "c"), checkpoint=checkpoint)
    Timeline(way.log, "main").restore(turn=1)
    ran.clear()
    assert way.restore(team, checkpoint=checkpoint).success
    assert (ran, way.turn()) == (["b", "c"], 3)


# -- memory kept elsewhere


def test_memory_of_another_store_is_put_back(way: Way) -> None:
    """I9: the checkpoint holds it; what was written later is gone, the rest exactly as it was."""
    plain = AsyncInMemoryStore() if "async" in way.name else InMemoryStore()
    kind = AsyncCheckpoint if "async" in way.name else Checkpoint
    team = way.team(Agent("ann", counting([], "b")))
    crashed(way, team, chain("a", "b"), checkpoint=kind(plain, run_id="r"))
    store = EventSourcedStore(way.log)
    store.set("ann/later", "x")
    before = store.get("ann/task:a:result")
    assert way.restore(team, checkpoint=kind(plain, run_id="r")).success
    assert store.get("ann/later") is None
    assert store.get("ann/task:a:result") == before
    assert way.turn() == 2


def test_checkpoints_in_a_run_of_their_own(way: Way) -> None:
    """I9: every one of them holds the memory of its moment, so a run can go back to any."""
    kind = AsyncCheckpoint if "async" in way.name else Checkpoint
    checkpoint = kind(way.on("ops").store, run_id="r")
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    way.run(team, chain("a", "b", "c"), checkpoint=checkpoint)
    before = way.entries(), way.turn()
    first, *_ = saved_checkpoints(way.log, "ops")
    ran.clear()
    assert way.restore(team, checkpoint=checkpoint, at=f"@{first.position}").success
    assert (ran, way.entries(), way.turn()) == (["b", "c"], *before)
    assert versions(way.log, "ops") == [1, 2, 3, 1, 2, 3]


def test_memory_that_died_with_its_process_is_there_again(way: Way) -> None:
    """I9: a checkpoint on a log, of a team whose memory was in the process."""
    ran: list[str] = []
    first = Team([Agent("ann", counting(ran, "b"))], shared_memory=True)
    tasks = [*chain("a", "b"), Task("c", "", "ann", depends_on=["b"], memory_scope="all")]
    crashed(way, first, tasks, checkpoint=way.checkpoint(run_id="r"))
    second = Team([Agent("ann", counting(ran))], shared_memory=True)
    assert way.restore(second, checkpoint=way.checkpoint(run_id="r")).success
    memory = second.memory
    assert isinstance(memory, SharedMemory)
    assert [entry.key for entry in memory.list_all()] == [f"ann/task:{each}:result" for each in "abc"]
    assert memory.turn == 3


def test_a_store_that_keeps_no_turn_is_given_it_back() -> None:
    """I9: entries stay as they are, and the turn is that of the checkpoint."""
    store = PlainStore()
    tasks = chain("a", "b")
    team = Team([Agent("ann", counting([], "b"))], shared_memory_store=store)
    checkpoint = Checkpoint(store, run_id="r")
    with pytest.raises(Crash):
        turnlog.run_tasks(team, tasks, checkpoint=checkpoint)
    again = Team([Agent("ann", says("x"))], shared_memory_store=store)
    store.set("ann/later", "kept")
    assert turnlog.restore(again, checkpoint=checkpoint).success
    assert isinstance(again.memory, SharedMemory)
    assert again.memory.turn == 2
    assert store.get("ann/later") is not None
    with pytest.raises(TypeError, match="restore_memory=True needs"):
        turnlog.restore(again, checkpoint=checkpoint, restore_memory=True)
    with pytest.raises(TypeError, match="PlainStore keeps the latest checkpoint only"):
        turnlog.restore(again, checkpoint=checkpoint, at="1")


def test_a_file_store_will_do(tmp_path: Path) -> None:
    """A store without execute, in a file: result, turn and checkpoint one after the other."""
    ran: list[str] = []
    with FileStore(tmp_path / "team.json") as store:
        team = Team([Agent("ann", counting(ran, "b"))], shared_memory_store=store)
        with pytest.raises(Crash):
            turnlog.run_tasks(team, chain("a", "b"), checkpoint=Checkpoint(store, run_id="r"))
    with FileStore(tmp_path / "team.json") as store:
        team = Team([Agent("ann", counting(ran))], shared_memory_store=store)
        assert turnlog.restore(team, checkpoint=Checkpoint(store, run_id="r")).success
    assert ran == ["a", "b", "b"]


def test_a_store_that_redacts_redacts_its_checkpoints(log: turnlog.EventLog, path: Path) -> None:
    """I3, mended: it is around the same store, so checkpoints are in the batch of the result, scrubbed."""
    inner = EventSourcedStore(log)
    team = Team(
        [Agent("ann", says("use sk-abcdefghijklmnopqrstuv"))], shared_memory_store=RedactingStore(inner)
    )
    turnlog.run_tasks(team, chain("a"), checkpoint=True)
    assert versions(log) == [1]
    assert not [entry for entry in inner.list() if "sk-abc" in entry.value]
    assert turnlog.restore(team)["a"].output == "use [redacted]"
    assert turnlog.restore(team, checkpoint=Checkpoint(inner), restore_memory=True).success


# -- back in time


def test_a_run_goes_on_from_an_earlier_point(way: Way) -> None:
    """I8, I9: from the newest checkpoint by then; memory stays, or is put back exactly."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    way.run(team, chain(*EIGHT), checkpoint=True)
    SharedMemory(EventSourcedStore(way.log)).write("bob", "note", "late")
    then = [(e.key, e.value, e.created_at) for e in Timeline(way.log, "main").state(turn=3).values()]
    ran.clear()
    result = way.restore(team, at="3", restore_memory=True)
    assert (result.success, ran, way.turn()) == (True, EIGHT[3:], 8)
    state = Timeline(way.log, "main").state()
    assert [(e.key, e.value, e.created_at) for e in state.values()][:3] == then
    assert "bob/note" not in state
    assert versions(way.log) == [1, 2, 3, 4, 5, 6, 7, 8, 3, 4, 5, 6, 7, 8]

    ran.clear()
    SharedMemory(EventSourcedStore(way.log)).write("bob", "note", "late")
    assert way.restore(team, at="3.1").success
    assert (ran, way.turn()) == (EIGHT[3:], 13)
    assert "bob/note" in Timeline(way.log, "main").state()


def test_a_crash_after_going_back_goes_on_from_there(way: Way) -> None:
    """Memory and the checkpoint to go on from are taken back in one batch."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    way.run(team, chain("a", "b", "c"), checkpoint=True)
    crashing = way.team(Agent("ann", counting([], "b")))
    with pytest.raises(Crash):
        way.restore(crashing, at="1", restore_memory=True)
    ran.clear()
    assert way.restore(team).success
    assert (ran, way.turn()) == (["b", "c"], 3)


def test_a_point_without_a_checkpoint(way: Way) -> None:
    """Before the first one the tasks are begun; a point that never was is an error."""
    ran: list[str] = []
    team = way.team(Agent("ann", counting(ran)))
    way.run(team, chain("a"), checkpoint=True)
    with pytest.raises(turnlog.BadAddress, match="never was at turn 7"):
        way.restore(team, at="7")
    assert way.restore(team, chain("b"), at="0").success
    assert ran == ["a", "b"]


def test_a_fork_goes_on_with_one_value_changed(way: Way) -> None:
    """I10, I11: tasks 4 to 8 are done with the changed value, 1 to 3 not again; the parent stays."""
    ran: list[str] = []
    way.run(way.team(Agent("ann", counting(ran))), chain(*EIGHT), checkpoint=True)
    parent = way.entries()
    ran.clear()
    Timeline(way.log, "main").fork(turn=3, run="what-if")
    fork = way.on("what-if")
    SharedMemory(EventSourcedStore(way.log, "what-if")).write("ann", "task:t3:result", "something else")
    team = fork.team(Agent("ann", counting(ran)))
    result = fork.restore(team)
    assert (result.success, ran, fork.turn()) == (True, EIGHT[3:], 8)
    assert result["t3"].output == "something else"
    assert result["t4"].output == "t4 after [something else]"
    assert "something else" in fork.entries()["ann/task:t8:result"]
    assert way.entries() == parent
    identities = [s.load()["identity"] for s in saved_checkpoints(way.log, "what-if", inherited=False)]
    assert {(each["runId"], each["attempt"], each["forkedFrom"]) for each in identities} == {
        ("what-if", 1, "main")
    }
    assert [s.key for s in saved_checkpoints(way.log, "what-if", inherited=False)] == [
        "__oma_checkpoint__/what-if/latest"
    ] * 5
    ran.clear()
    assert fork.restore(team).success
    assert fork.restore(team, at="3").success
    assert ran == EIGHT[3:]


def test_a_fork_can_take_its_memory_back_too(way: Way) -> None:
    """To exactly what its parent's memory was, from any checkpoint of the lineage; the parent stays."""
    way.run(way.team(Agent("ann", says("x"))), chain(*EIGHT), checkpoint=True)
    parent = way.entries()
    Timeline(way.log, "main").fork(turn=6, run="what-if")
    fork = way.on("what-if")
    EventSourcedStore(way.log, "what-if").set("bob/note", "gone")
    ran: list[str] = []
    team = fork.team(Agent("ann", counting(ran)))
    assert fork.restore(team, at="4", restore_memory=True).success
    assert (ran, fork.turn(), way.entries()) == (EIGHT[4:], 8, parent)
    assert "bob/note" not in fork.entries()


def test_a_store_that_fails_is_told(tmp_path: Path) -> None:
    """I8: a checkpoint that cannot be read is no reason to begin anew."""
    ran: list[str] = []
    with turnlog.open(tmp_path / "closed.db", durability="os") as log:
        team = Team([Agent("ann", counting(ran))], shared_memory_store=EventSourcedStore(log))
    with pytest.raises(turnlog.Closed):
        turnlog.restore(team, chain("a"))
    assert ran == []


def test_a_changed_result_must_be_what_its_agent_could_have_returned(way: Way) -> None:
    """A value put into memory meanwhile is judged as if the agent had returned it."""

    def run(prompt: str, memory: Any, context: Any) -> Any:
        if context.task.id == "b" and not broken:
            raise Crash
        return {"n": 1}

    broken: list[str] = []
    team = way.team(Agent("ann", run, dict[str, int]))
    crashed(way, team, chain("a", "b", dependency_payload="output"), checkpoint=True)
    broken.append("no more")
    memory = SharedMemory(EventSourcedStore(way.log))
    memory.write("ann", "task:a:result", "no number")
    with pytest.raises(BadCheckpoint, match="task 'a' was changed in memory to what agent 'ann' could not"):
        way.restore(team)
    memory.write("ann", "task:a:result", {"n": 7})
    assert way.restore(team)["a"].structured == {"n": 7}


def test_a_plain_restore_warns_of_a_later_checkpoint(way: Way, cli: Callable[..., Any], path: Path) -> None:
    """Semantics 3.4: memory goes back, the checkpoint stays, and that is told, here and at a terminal."""
    way.run(way.team(Agent("ann", says("x"))), chain("a", "b"), checkpoint=True)
    timeline = Timeline(way.log, "main")
    with pytest.warns(UserWarning, match="the checkpoint at @6 is later than turn 1, position 3, and stays"):
        timeline.restore(turn=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        timeline.restore(position=6)
        before = way.events()
        with pytest.raises(UserWarning, match="the checkpoint at @6"):
            timeline.restore(at="1.1")
    assert way.events() == before
    done = cli("restore", path, "--at", "@3")
    assert "but run 'main': the checkpoint at @6 is later" in done.out
    (record,) = cli("restore", path, "--at", "@3", "--json").records
    assert len(record["warnings"]) == 1
