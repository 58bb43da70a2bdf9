"""The state of a plan: pure, and the same when it is built again from plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog import Task, TaskError, TaskResult
from turnlog.teams.plan import Plan, make_plan
from turnlog.teams.queue import TaskQueue
from turnlog.teams.result import Output

WRONG = TaskError("agent", "ValueError: no")


def plan(**needed: str) -> Plan:
    """A plan of one-letter tasks, each with the letters of those it depends on."""
    return make_plan(
        [Task(name, "", "ann", depends_on=list(letters)) for name, letters in needed.items()], ["ann"]
    )


def queue(**needed: str) -> TaskQueue:
    """A fresh queue of such a plan."""
    return TaskQueue(plan(**needed))


def statuses(queue: TaskQueue) -> dict[str, str]:
    """How far each task is."""
    return {task_id: result.status for task_id, result in queue.results.items()}


def finish(queue: TaskQueue, task_id: str, text: str = "done") -> None:
    """Begin a task and complete it."""
    queue.start(task_id)
    queue.complete(queue.completed(task_id, Output(text)))


def test_a_task_is_ready_when_all_it_needs_is_completed() -> None:
    """G1: completing a task readies those that waited for it alone, in the order of the plan."""
    q = queue(d="bc", b="a", c="a", a="")
    assert (q.ready(), statuses(q)["d"]) == (["a"], "blocked")
    finish(q, "a")
    assert q.ready() == ["b", "c"]
    assert q.next_ready() == "b"
    finish(q, "c")
    assert q.ready() == ["b"]
    finish(q, "b")
    assert q.ready() == ["d"]


def test_a_failure_takes_all_that_depends_on_it_along() -> None:
    """G18: dependents fail, directly or not, told by whom; other branches go on."""
    q = queue(a="", b="a", c="b", x="", d="cx")
    q.start("a")
    ended = q.fail("a", WRONG)
    assert [result.task_id for result in ended] == ["a", "b", "c", "d"]
    assert statuses(q) == {"a": "failed", "b": "failed", "c": "failed", "x": "pending", "d": "failed"}
    assert q.result("a").error == WRONG
    assert q.result("c").error == TaskError("dependency", "it depends on task 'b', which has failed")
    assert q.finished() == 4


def test_a_skipped_task_takes_along_what_depends_on_it() -> None:
    """G18: whoever waits for a skipped task is skipped."""
    q = TaskQueue(plan(a="", b="a", c="b", x=""), [TaskResult("a", "ann", "skipped")])
    assert statuses(q) == {"a": "skipped", "b": "skipped", "c": "skipped", "x": "pending"}
    assert q.result("c").error == TaskError("dependency", "it depends on task 'b', which was skipped")


def test_the_rest_can_be_skipped() -> None:
    """What was not begun is skipped; what is under way may still end."""
    q = queue(a="", b="a", c="")
    q.start("a")
    assert [result.task_id for result in q.skip_rest("enough")] == ["b", "c"]
    q.complete(q.completed("a", Output("done")))
    assert statuses(q) == {"a": "completed", "b": "skipped", "c": "skipped"}
    assert q.result("b").error == TaskError("skipped", "enough")
    assert q.next_ready() is None


def test_attempts_are_counted() -> None:
    """G21: a task that is begun again is the same task."""
    q = queue(a="")
    assert [q.start("a"), q.start("a"), q.start("a")] == [1, 2, 3]
    assert q.result("a").attempts == 3


@pytest.mark.parametrize("verb", ["complete", "fail", "start"])
def test_what_has_ended_stays(verb: str) -> None:
    """A task that is completed cannot end once more."""
    q = queue(a="")
    finish(q, "a")
    calls: dict[str, Any] = {
        "complete": lambda: q.complete(q.result("a")),
        "fail": lambda: q.fail("a", WRONG),
        "start": lambda: q.start("a"),
    }
    with pytest.raises(ValueError, match="task 'a' is completed, not"):
        calls[verb]()


def test_a_blocked_task_cannot_be_begun() -> None:
    """Nor can one whose dependencies are not there yet."""
    with pytest.raises(ValueError, match="task 'b' is blocked"):
        queue(a="", b="a").start("b")


def test_it_can_be_built_again_from_plain_data() -> None:
    """I10: completed, failed and skipped stay, outputs included; what was in progress begins anew."""
    q = queue(a="", b="a", c="a", d="c", e="")
    q.start("a")
    q.complete(q.completed("a", Output("text", '{"n":1}')))
    q.start("b")
    q.fail("e", WRONG)
    data = json.loads(json.dumps(q.to_data()))
    again = TaskQueue.from_data(q.plan, data)
    assert statuses(again) == {
        "a": "completed",
        "b": "pending",
        "c": "pending",
        "d": "blocked",
        "e": "failed",
    }
    assert again.result("a") == q.result("a")
    assert again.result("a").structured == {"n": 1}
    assert again.result("b").attempts == 0
    assert again.result("e").error == WRONG
    assert TaskQueue.from_data(q.plan, again.to_data()).results == again.results


def test_plain_data_can_show_what_is_about_to_be() -> None:
    """A completed result can be told of before the queue knows it, so that both are written as one."""
    q = queue(a="", b="a")
    q.start("a")
    done = q.completed("a", Output("text"))
    assert [each["status"] for each in q.to_data(finished=done)] == ["completed", "blocked"]
    assert [each["status"] for each in q.to_data()] == ["in_progress", "blocked"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(
            [{"id": "z", "assignee": "x", "status": "failed", "attempts": 1}], "'z'", id="unknown task"
        ),
        pytest.param([{"id": "a"}], r"\[0\].*assignee", id="a member missing"),
        pytest.param(["a"], r"\[0\]", id="no object"),
        pytest.param(
            [{"id": "a", "assignee": "x", "status": "completed", "attempts": 1}],
            "without an output",
            id="no output",
        ),
    ],
)
def test_data_of_something_else_is_refused(data: Any, message: str) -> None:
    """Data that is no state of these tasks is an error that says where."""
    with pytest.raises(ValueError, match=message):
        TaskQueue.from_data(plan(a=""), data)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_happens_it_ends_and_says_the_truth(data: st.DataObject) -> None:
    """Any plan, with any task failing at any moment: all end, and none ran before what it depends on."""
    names = "abcdefgh"
    needed = {
        name: "".join(data.draw(st.sets(st.sampled_from(names[:place]), max_size=3)) if place else ())
        for place, name in enumerate(names)
    }
    q = queue(**needed)
    while ready := q.ready():
        task_id = data.draw(st.sampled_from(ready))
        assert all(q.result(each).status == "completed" for each in needed[task_id])
        if data.draw(st.booleans()):
            finish(q, task_id)
        else:
            q.fail(task_id, WRONG)
        again = TaskQueue.from_data(q.plan, q.to_data())
        assert (again.results, again.ready()) == (q.results, q.ready())
    assert q.finished() == len(names)
    for name, result in q.results.items():
        unmet = [each for each in needed[name] if q.result(each).status != "completed"]
        assert not (result.status == "completed" and unmet)
        assert not (unmet and result.status != "failed")
