"""Where checkpoints and approvals join in."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from turnlog import Agent, Task, Team, Timeline, Write
from turnlog.memory.steps import Steps
from turnlog.teams.hooks import Hooks, Verdict
from turnlog.teams.plan import Plan, make_plan
from turnlog.teams.queue import TaskQueue

from .conftest import Way, says

STATE = "__turnlog__/state"


def chain(*ids: str) -> list[Task]:
    """Tasks each of which waits for the one before."""
    return [Task(each, "", "ann", depends_on=ids[place - 1 : place]) for place, each in enumerate(ids)]


class Told(Hooks):
    """Writes down what it is asked, and answers as a test wants it."""

    def __init__(self, by_rounds: bool = False, **answers: Verdict) -> None:
        self.by_rounds = by_rounds
        self.answers = answers
        self.asked: list[str] = []

    def _answer(self, *asked: object) -> Steps[Verdict]:
        yield from ()
        self.asked.append(" ".join(map(str, asked)))
        return self.answers.get(str(asked[-1]), "go")

    def plan_accepted(self, queue: TaskQueue) -> Steps[Verdict]:
        return (yield from self._answer("plan"))

    def round_ended(
        self, queue: TaskQueue, completed: Sequence[str], following: Sequence[str]
    ) -> Steps[Verdict]:
        return (yield from self._answer("round", ",".join(completed) + "->" + ",".join(following)))

    def before_dispatch(self, queue: TaskQueue, task: Task) -> Steps[Verdict]:
        return (yield from self._answer("task", task.id))

    def task_finished(self, queue: TaskQueue, result: Any) -> Steps[None]:
        yield from self._answer(result.status, result.task_id)


class Saves(Hooks):
    """Keeps the state of the queue in memory, in the batch of each result."""

    def recording(self, queue: TaskQueue, result: Any) -> Steps[Sequence[Any]]:
        yield from ()
        return [Write(STATE, json.dumps(queue.to_data(finished=result)))]


def fresh(team: Team, tasks: list[Task]) -> TaskQueue:
    """A queue that nothing was done of."""
    return TaskQueue(make_plan(tasks, team.agents))


def test_each_step_is_told_in_its_order(way: Way) -> None:
    """The plan first, each task before it begins, and after it has ended."""
    hooks = Told()
    team = way.team(Agent("ann", says("x")))
    assert way.run_queue(team, fresh(team, chain("a", "b")), hooks).success
    assert hooks.asked == ["plan", "task a", "completed a", "task b", "completed b"]


@pytest.mark.parametrize(("answer", "status"), [("skip", "rejected"), ("suspend", "suspended")])
@pytest.mark.parametrize("at", ["plan", "b", "b,c->d"])
def test_a_run_can_be_ended_or_suspended(way: Way, answer: Any, status: str, at: str) -> None:
    """J12, J15: what was done stays; the rest is skipped, or kept as it is."""
    hooks = Told(by_rounds=True, **{at: answer})
    team = way.team(Agent("ann", says("x")))
    tasks = [
        *chain("a", "b"),
        Task("c", "", "ann", depends_on=["a"]),
        Task("d", "", "ann", depends_on=["b", "c"]),
    ]
    result = way.run_queue(team, fresh(team, tasks), hooks)
    assert result.status == status
    done = {"plan": "", "b": "a", "b,c->d": "abc"}[at]
    left = {each.status for each in result.tasks.values() if each.task_id not in done}
    assert [each.task_id for each in result.tasks.values() if each.status == "completed"] == list(done)
    assert left == {"skipped"} if answer == "skip" else left <= {"pending", "blocked"}
    assert way.turn() == len(done)


def test_rounds_wait_for_each_other(way: Way) -> None:
    """J11: between rounds it is told what the last one completed and what the next would begin."""
    first_ended = threading.Event()

    def slow(prompt: str, memory: Any, context: Any) -> str:
        if context.task.id == "b":
            assert first_ended.wait(30)
        return "x"

    class Ends(Told):
        def task_finished(self, queue: TaskQueue, result: Any) -> Steps[None]:
            yield from super().task_finished(queue, result)
            first_ended.set()

    hooks = Ends(by_rounds=True)
    team = way.team(Agent("ann", slow))
    tasks = [Task("a", "", "ann"), Task("b", "", "ann"), Task("c", "", "ann", depends_on=["a"])]
    assert way.run_queue(team, fresh(team, tasks), hooks, max_parallel=2).success
    assert hooks.asked == [
        "plan",
        "task a",
        "task b",
        "completed a",
        "completed b",
        "round a,b->c",
        "task c",
        "completed c",
    ]


def test_state_is_saved_in_the_batch_of_the_result(way: Way) -> None:
    """Semantics 3.2: a result, its turn and the state that knows of them are always there together."""
    team = way.team(Agent("ann", says("x")))
    plan: Plan = make_plan(chain("a", "b", "c"), team.agents)
    way.run_queue(team, TaskQueue(plan), Saves())
    with way.log.reading() as db:
        batches = [row[0] for row in db.execute("select batch from events order by position")]
    assert batches == [0, 1, 2] * 3
    for turn in range(1, 4):
        entry = Timeline(way.log, "main").state(turn=turn, all=True)[STATE]
        again = TaskQueue.from_data(plan, json.loads(entry.value))
        assert again.finished() == turn


def test_a_run_goes_on_from_its_saved_state(way: Way) -> None:
    """I10: what was completed is not done again, and its text and value are at hand."""
    ran: list[str] = []

    def run(prompt: str, memory: Any, context: Any) -> Any:
        ran.append(context.task.id)
        if context.task.id == "b" and len(ran) == 2:
            raise KeyboardInterrupt
        return {"of": context.task.id}

    team = way.team(Agent("ann", run, dict[str, str]))
    tasks = [
        Task("a", "", "ann"),
        Task("b", "", "ann", depends_on=["a"], dependency_payload="structured"),
        Task("c", "", "ann", depends_on=["b"]),
    ]
    plan = make_plan(tasks, team.agents)
    with pytest.raises(KeyboardInterrupt):
        way.run_queue(team, TaskQueue(plan), Saves())
    saved = way.entries()[STATE]
    result = way.run_queue(team, TaskQueue.from_data(plan, json.loads(saved)), Saves())
    assert (result.success, ran, way.turn()) == (True, ["a", "b", "b", "c"], 3)
    assert result["a"].structured == {"of": "a"}
    again = TaskQueue.from_data(plan, json.loads(way.entries()[STATE]))
    assert way.run_queue(team, again, Saves()).success
    assert len(ran) == 4


@pytest.mark.parametrize("method", ["plan_accepted", "before_dispatch", "task_finished", "recording"])
def test_what_a_hook_raises_ends_the_run(way: Way, method: str) -> None:
    """Like what a store raises: nothing more is begun, and it is not swallowed."""
    broken = ZeroDivisionError("in a hook")

    def fails(self: Any, *asked: object) -> Any:
        raise broken

    hooks = type("Broken", (Hooks,), {method: fails})()
    team = way.team(Agent("ann", says("x")))
    with pytest.raises(ZeroDivisionError) as raised:
        way.run_queue(team, fresh(team, chain("a", "b")), hooks)
    assert raised.value is broken
    assert way.turn() == (1 if method == "task_finished" else 0)
