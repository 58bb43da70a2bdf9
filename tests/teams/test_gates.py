"""Gates on plan, round and dispatch: suspended, decided elsewhere, gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import (
    Agent,
    ApprovalLedger,
    BadCheckpoint,
    Checkpoint,
    DurableApprovalError,
    EventSourcedStore,
    RedactingStore,
    Suspend,
    Task,
    Team,
    TeamResult,
    Timeline,
)
from turnlog.teams import kept_approvals, saved_checkpoints

from .conftest import Way, as_coroutine, says

KEY = "__oma_checkpoint__/main/latest"
DIAMOND = [
    Task("a", "first", "ann"),
    Task("b", "then", "ann", depends_on=["a"]),
    Task("c", "or", "ann", depends_on=["a"]),
    Task("d", "last", "ann", depends_on=["b", "c"]),
]


class Crash(BaseException):
    """What ends a run as a killed process would."""


class Asks:
    """A gate that writes down what it is asked and answers as it is told."""

    def __init__(self, way: Way, answer: Callable[..., Any] = lambda *asked: Suspend("look")) -> None:
        self.asked: list[str] = []
        self._answer = answer
        self.gate = self._ask if way.in_threads else as_coroutine(self._ask)

    def _ask(self, *asked: Any) -> Any:
        told = [
            ",".join(getattr(each, "id", None) or each.task_id for each in part)
            if isinstance(part, Sequence)
            else part.id
            for part in asked
        ]
        self.asked.append("->".join(told))
        return self._answer(*asked)


def ann(ran: list[str], crash_in: str | None = None) -> Agent:
    """An agent that notes its tasks."""

    def run(prompt: str, memory: Any, context: Any) -> str:
        ran.append(context.task.id)
        if context.task.id == crash_in and ran.count(crash_in) == 1:
            raise Crash
        return "x"

    return Agent("ann", run)


def decide(way: Way, result: TeamResult, decision: Any = "approve", run: str = "main") -> None:
    """Decide what a run waits for."""
    ledger = ApprovalLedger(EventSourcedStore(way.log, run))
    for request in result.pending_approvals:
        ledger.decide(request.id, request_hash=request.request_hash, decision=decision, reviewer="eve")


def statuses(result: TeamResult) -> str:
    """The first letters of the tasks' statuses."""
    return "".join(each.status[0] for each in result.tasks.values())


GATES = [
    pytest.param("approve_plan", ["a,b,c,d"], "", "coordinator-plan", id="plan"),
    pytest.param("approve_round", ["a->b,c", "b,c->d"], "a", "a->b,c", id="round"),
    pytest.param("approve_dispatch", ["a", "b", "c", "d"], "", "a", id="dispatch"),
]


@pytest.mark.parametrize(("gate", "asked", "done", "boundary"), GATES)
def test_a_gate_that_says_yes_lets_the_run_go_on(
    way: Way, gate: str, asked: list[str], done: str, boundary: str
) -> None:
    """J11: a plan is asked about once, each round and each task in its turn; nothing is kept of it."""
    asks = Asks(way, lambda *given: True)
    result = way.run(way.team(ann([])), DIAMOND, **{gate: asks.gate})
    assert (result.status, asks.asked) == ("completed", asked)
    assert list(kept_approvals(way.log)) == []


@pytest.mark.parametrize(("gate", "asked", "done", "boundary"), GATES)
def test_a_gate_that_says_no_ends_the_run(
    way: Way, gate: str, asked: list[str], done: str, boundary: str
) -> None:
    """J15: what was not begun is skipped."""
    ran: list[str] = []
    result = way.run(way.team(ann(ran)), DIAMOND, **{gate: Asks(way, lambda *given: False).gate})
    assert (result.status, result.success, ran) == ("rejected", False, list(done))
    assert {each.status for each in result.tasks.values() if each.task_id not in done} == {"skipped"}


@pytest.mark.parametrize(("gate", "asked", "done", "boundary"), GATES)
def test_a_suspended_run_goes_on_once_it_was_approved(
    way: Way, gate: str, asked: list[str], done: str, boundary: str
) -> None:
    """J11, J12, J15: each boundary is asked for once, and what is approved is not asked about again."""
    ran: list[str] = []
    events: list[Any] = []
    asks = Asks(way)
    team = way.team(ann(ran))
    result = way.run(team, DIAMOND, checkpoint=True, on_event=events.append, **{gate: asks.gate})
    for place, told in enumerate(asked):
        (request,) = result.pending_approvals
        assert (result.status, result.success) == ("suspended", False)
        assert (request.run_id, request.reason) == ("main", "look")
        assert asks.asked[-1] == told
        assert [e.approval for e in events if e.kind == "approval_pending"][-1] == request.id
        if place == 0:
            assert (request.boundary, ran) == (boundary, list(done))
        before = list(ran), way.events(), list(asks.asked)
        again = way.restore(team, **{gate: asks.gate})
        assert (again.status, again.pending_approvals) == ("suspended", (request,))
        assert (ran, way.events(), asks.asked) == before
        decide(way, result)
        result = way.restore(team, on_event=events.append, **{gate: asks.gate})
    assert result.status == "completed"
    assert (asks.asked, sorted(ran)) == (asked, ["a", "b", "c", "d"])
    assert [kept.read().state for kept in kept_approvals(way.log)] == ["approved"] * len(asked)
    *_, last = saved_checkpoints(way.log, "main")
    assert len(last.load()["approvalDecisions"]) == len(asked)
    assert last.load()["pendingApprovals"] == []


@pytest.mark.parametrize(("gate", "asked", "done", "boundary"), GATES)
def test_a_rejected_run_stays_so(way: Way, gate: str, asked: list[str], done: str, boundary: str) -> None:
    """J15: the tasks left are skipped, that is saved, and no later restore begins them."""
    ran: list[str] = []
    team = way.team(ann(ran))
    result = way.run(team, DIAMOND, checkpoint=True, **{gate: Asks(way).gate})
    decide(way, result, "reject")
    for _ in range(2):
        result = way.restore(team, **{gate: Asks(way).gate})
        assert (result.status, ran) == ("rejected", list(done))
        assert set(statuses(result)) <= {"c", "s"}
        events = way.events()
    way.restore(team)
    assert way.events() == events
    *_, last = saved_checkpoints(way.log, "main")
    assert last.load()["queue"]["skipped"] == [each for each in "abcd" if each not in done]


@pytest.mark.parametrize("answer", [None, "suspend", 1, Suspend])
def test_a_gate_must_answer(way: Way, answer: Any) -> None:
    """Anything but True, False and Suspend is a TypeError, and nothing is begun."""
    ran: list[str] = []
    with pytest.raises(TypeError, match=r"approve_plan must return True, False or Suspend\(...\), not"):
        way.run(way.team(ann(ran)), DIAMOND, approve_plan=Asks(way, lambda *given: answer).gate)
    assert ran == []


def test_what_cannot_be_a_gate() -> None:
    """Refused before anything is begun; a coroutine function where nothing is awaited, too."""
    team = Team([ann([])], shared_memory=True)

    async def gate(tasks: Any) -> bool:
        return True

    with pytest.raises(TypeError, match=r"must be a function of \(results, tasks\) or None, not bool"):
        turnlog.run_tasks(team, DIAMOND, approve_round=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"approve_plan is a coroutine function, .*; use arun_tasks"):
        turnlog.run_tasks(team, DIAMOND, approve_plan=gate)
    with pytest.raises(TypeError, match=r"approve_plan must return True, .*, not coroutine"):
        turnlog.run_tasks(team, DIAMOND, approve_plan=lambda tasks: gate(tasks))
    with pytest.raises(TypeError, match="reason must be a str or None"):
        Suspend(7)  # type: ignore[arg-type]


def test_what_a_gate_raises_ends_the_run(way: Way) -> None:
    """As a failing store does: nothing more is begun."""
    ran: list[str] = []

    def refuses(*given: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        way.run(way.team(ann(ran)), DIAMOND, approve_round=Asks(way, refuses).gate, checkpoint=True)
    assert ran == ["a"]


def test_nobody_can_be_asked_without_a_checkpoint(way: Way) -> None:
    """J14: gates fail closed, also where the store cannot compare and set; nothing is kept."""
    for named in ({}, {"checkpoint": Checkpoint(way.plain)} if way.in_threads else {}):
        ran: list[str] = []
        with pytest.raises(DurableApprovalError) as caught:
            way.run(way.team(ann(ran)), DIAMOND, approve_plan=Asks(way).gate, **named)
        assert (caught.value.code, ran) == ("APPROVAL_ATOMIC_STORE_REQUIRED", [])
    assert way.plain.list() == []
    assert way.events() == []


def test_a_store_that_redacts_cannot_suspend(log: turnlog.EventLog) -> None:
    """J14, J16: approvals are kept where the checkpoints are, and that one does not compare."""
    team = Team([ann([])], shared_memory_store=RedactingStore(EventSourcedStore(log)))
    with pytest.raises(DurableApprovalError, match="RedactingStore has no compare_and_set"):
        turnlog.run_tasks(team, DIAMOND, checkpoint=True, approve_plan=lambda tasks: Suspend())
    assert log.head("main") is None


def test_a_checkpoint_that_fails_suspends_nothing(tmp_path: Path) -> None:
    """J12: it is saved first, and strictly; without it nobody is asked."""
    with turnlog.open(tmp_path / "s.db", durability="os", limits=turnlog.Limits(value=500)) as log:
        team = Team([ann([])], shared_memory_store=EventSourcedStore(log))
        with pytest.raises(DurableApprovalError, match="the checkpoint could not be saved") as caught:
            turnlog.run_tasks(team, DIAMOND, checkpoint=True, approve_plan=lambda tasks: Suspend())
        assert caught.value.code == "APPROVAL_INTEGRITY_ERROR"
        assert list(kept_approvals(log)) == []


def test_a_crash_between_checkpoint_and_request_is_healed(way: Way) -> None:
    """J12, J15: restoring asks for what the checkpoint waits for."""
    team = way.team(ann([]))
    result = way.run(team, DIAMOND, checkpoint=True, approve_plan=Asks(way).gate)
    (request,) = result.pending_approvals
    EventSourcedStore(way.log).delete(f"__oma_approval__/{request.id}")
    again = way.restore(team)
    assert (again.status, again.pending_approvals) == ("suspended", (request,))
    (kept,) = kept_approvals(way.log)
    assert kept.id == request.id


def test_what_is_under_way_is_finished(way: Way) -> None:
    """J12: tasks that were begun end, with results, and checkpoints that know of the request."""
    gate_asked = threading.Event()

    def slow(prompt: str, memory: Any, context: Any) -> str:
        assert gate_asked.wait(30)
        return "x"

    def ask(task: Task) -> Any:
        if task.id == "b":
            gate_asked.set()
            return Suspend()
        return True

    team = way.team(Agent("ann", slow))
    tasks = [Task("a", "", "ann"), Task("b", "", "ann"), Task("c", "", "ann", depends_on=["a"])]
    result = way.run(team, tasks, checkpoint=True, approve_dispatch=ask, max_parallel=2)
    assert (result.status, statuses(result)) == ("suspended", "cpp")
    *_, last = saved_checkpoints(way.log, "main")
    assert last.load()["queue"]["completed"] == ["a"]
    assert [each["id"] for each in last.load()["pendingApprovals"]] == [result.pending_approvals[0].id]
    decide(way, result)
    assert way.restore(team, approve_dispatch=ask).success


def test_an_approved_task_that_was_interrupted_is_not_asked_for_again(way: Way) -> None:
    """The very same boundary has a decision already; the plan was let through before."""
    asks = Asks(way, lambda task: Suspend() if task.id == "a" else True)
    plan = Asks(way, lambda tasks: True)
    gates = {"approve_dispatch": asks.gate, "approve_plan": plan.gate}
    ran: list[str] = []
    team = way.team(ann(ran, crash_in="b"))
    tasks = [DIAMOND[0], Task("b", "", "ann")]
    result = way.run(team, tasks, checkpoint=True, max_parallel=1, **gates)
    decide(way, result)
    with pytest.raises(Crash):
        way.restore(team, max_parallel=1, **gates)
    crashed_once = way.team(ann(ran, crash_in="a"))
    ran[:] = []
    assert asks.asked == ["a", "b"]
    result = way.restore(crashed_once, max_parallel=1, **gates)
    assert (result.status, plan.asked, asks.asked) == ("completed", ["a,b"], ["a", "b", "b"])
    assert ran == ["b"]


def test_rounds_interrupted_are_asked_about_anew(way: Way) -> None:
    """A gate fails closed: what would begin after a crash was let through by nobody."""
    ran: list[str] = []
    asks = Asks(way, lambda *given: True)
    with pytest.raises(Crash):
        way.run(
            way.team(ann(ran, crash_in="c")),
            DIAMOND,
            checkpoint=True,
            approve_round=asks.gate,
            max_parallel=1,
        )
    assert way.restore(way.team(ann(ran)), approve_round=asks.gate).success
    assert (asks.asked, ran) == (["a->b,c", "a,b->c", "c->d"], list("abccd"))


def test_a_fork_asks_anew(way: Way) -> None:
    """J4, mended: what its parent was allowed says nothing about it, and nothing pending is inherited."""
    ran: list[str] = []
    asks = Asks(way)
    team = way.team(ann(ran))
    decide(way, way.run(team, DIAMOND, checkpoint=True, approve_plan=asks.gate))
    assert way.restore(team, approve_plan=asks.gate).success
    Timeline(way.log, "main").fork(turn=2, run="what-if")
    fork = way.on("what-if")
    result = fork.restore(fork.team(ann(ran)), approve_plan=asks.gate)
    (request,) = result.pending_approvals
    assert (result.status, request.run_id, asks.asked) == ("suspended", "what-if", ["a,b,c,d"] * 2)
    decide(way, result, run="what-if")
    ran.clear()
    assert fork.restore(fork.team(ann(ran)), approve_plan=asks.gate).success
    assert sorted(ran) in (["b", "d"], ["c", "d"])


def edited(way: Way, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the checkpoint that is kept."""
    store = EventSourcedStore(way.log)
    entry = store.get(KEY)
    assert entry is not None
    record = json.loads(entry.value)
    change(record)
    store.set(KEY, json.dumps(record))


@pytest.mark.parametrize(("gate", "asked", "done", "boundary"), GATES)
@pytest.mark.parametrize("decided", [False, True])
def test_a_plan_that_changed_is_not_what_was_approved(
    way: Way, gate: str, asked: list[str], done: str, boundary: str, decided: bool
) -> None:
    """J15: a stale request is told, whatever was decided, and nothing is done."""
    ran: list[str] = []
    team = way.team(ann(ran))
    result = way.run(team, DIAMOND, checkpoint=True, **{gate: Asks(way).gate})
    if decided:
        decide(way, result)

    def change(record: dict[str, Any]) -> None:
        for task in record["queue"]["tasks"]:
            task["description"] += " and more"

    edited(way, change)
    before = way.events()
    with pytest.raises(
        DurableApprovalError, match="about tasks that the checkpoint holds otherwise"
    ) as caught:
        way.restore(team, **{gate: Asks(way).gate})
    assert (caught.value.code, ran, way.events()) == ("APPROVAL_STALE_DECISION", list(done), before)


def test_decisions_that_differ_are_refused(way: Way) -> None:
    """J15: the ledger must hold the decision that the checkpoint tells of."""
    team = way.team(ann([], crash_in="b"))
    decide(way, way.run(team, DIAMOND, checkpoint=True, approve_plan=Asks(way).gate))
    with pytest.raises(Crash):
        way.restore(team, max_parallel=1)
    edited(way, lambda record: record["approvalDecisions"][0]["reviewer"].update(id="mallory"))
    with pytest.raises(DurableApprovalError, match="that is not what is kept of it") as caught:
        way.restore(team)
    assert caught.value.code == "APPROVAL_INTEGRITY_ERROR"


def test_approvals_of_tool_calls_are_left_to_those_who_asked(
    log: turnlog.EventLog, golden: Callable[[str], Any]
) -> None:
    """J15, I12: a task with a tool call that waits for a reviewer is not begun anew behind their back."""
    record = golden("checkpoint-4")
    store = EventSourcedStore(log)
    store.set(record["key"], record["value"])
    before = log.head("main")
    team = Team([Agent(name, says("x")) for name in ("ann", "bob", "eve")], shared_memory_store=store)
    with pytest.raises(BadCheckpoint, match="apr_3912edd9420998449b679f0c6cc337d4 is about a tool call"):
        turnlog.restore(team, checkpoint=Checkpoint(store, key=record["key"]))
    assert log.head("main") == before


_DECIDE = [sys.executable, "-W", "error", "-m", "turnlog", "approvals"]


def test_two_reviewers_race_from_two_processes(log: turnlog.EventLog, path: Path) -> None:
    """J8: one decides, the other is told of the conflict, and the run goes on with what was decided."""
    way = Way("threads", log)
    team = way.team(ann([]))
    result = way.run(team, DIAMOND, checkpoint=True, approve_plan=Asks(way).gate)
    (request,) = result.pending_approvals
    reviewers = [
        subprocess.Popen(
            [*_DECIDE, path, "decide", request.id, verb, "--as", who, "--hash", request.request_hash],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for verb, who in (("--approve", "eve"), ("--reject", "zoe"))
    ]
    said = [process.communicate(timeout=60) for process in reviewers]
    codes = [process.returncode for process in reviewers]
    assert sorted(codes) == [0, 1], said
    assert "APPROVAL_CONFLICT" in said[codes.index(1)][1]
    state = ApprovalLedger(EventSourcedStore(way.log)).get(request.id)
    assert state is not None
    assert state.state == ("approved", "rejected")[codes.index(0)]
    result = way.restore(team, approve_plan=Asks(way).gate)
    assert result.status == ("completed" if state.state == "approved" else "rejected")
