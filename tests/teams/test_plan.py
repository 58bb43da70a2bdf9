"""Tasks and the plan they make: everything is checked before anything is begun."""

from __future__ import annotations

from typing import Any

import pytest

from turnlog import Agent, BadPlan, Task, Team, TurnlogError, run_tasks
from turnlog.teams.plan import make_plan
from turnlog.teams.task import retry_delay_s


def resolved(*tasks: Task) -> dict[str, Any]:
    """What each task depends on, by id."""
    return {task.id: task.depends_on for task in make_plan(tasks, {"ann"}).tasks.values()}


def problems(*tasks: Task) -> tuple[str, ...]:
    """What is wrong with `tasks`."""
    with pytest.raises(BadPlan) as raised:
        make_plan(tasks, {"ann"})
    return raised.value.problems


def task(task_id: str, *needed: str, title: str = "", assignee: str = "ann") -> Task:
    """A task of Ann's."""
    return Task(task_id, "do it", assignee, title=title, depends_on=needed)


def test_references_by_id_and_by_title() -> None:
    """G19: by id, or by title whatever its case and outer space; an id comes first; none counts twice."""
    assert resolved(
        task("a", title="Find Facts"),
        task("b", " find facts ", "a"),
        task("c", "B", title="a"),
        task("d", "a", "c"),
    ) == {"a": (), "b": ("a",), "c": ("b",), "d": ("a", "c")}


def test_the_order_of_tasks_does_not_matter() -> None:
    """K2: a task may come before those it depends on."""
    assert resolved(task("b", "a"), task("a")) == {"b": ("a",), "a": ()}


@pytest.mark.parametrize(
    ("tasks", "wrong"),
    [
        pytest.param([task("a"), task("a")], "'a' is there more than once", id="an id twice"),
        pytest.param(
            [task("a", "x")], "'a' depends on 'x', which is neither an id nor a title", id="unknown"
        ),
        pytest.param(
            [task("a", title="T"), task("b", title="t"), task("c", "T")],
            r"'c' depends on 'T', a title of several tasks \('a', 'b'\); use an id",
            id="ambiguous",
        ),
        pytest.param([task("a", "a")], "circle: 'a' -> 'a'", id="itself"),
        pytest.param([task("a", "A")], "circle: 'a' -> 'a'", id="itself, by title"),
        pytest.param([task("a", "b"), task("b", "a")], "circle: 'a' -> 'b' -> 'a'", id="each other"),
        pytest.param(
            [task("a", assignee="bob")], "'a' is assigned to 'bob', but the team has 'ann'", id="nobody"
        ),
    ],
)
def test_what_makes_no_plan(tasks: list[Task], wrong: str) -> None:
    """G19, G20: references that cannot be resolved, circles and unknown assignees are refused by name."""
    with pytest.raises(BadPlan, match=wrong) as raised:
        make_plan(tasks, ["ann"])
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, TurnlogError)


def test_everything_that_is_wrong_is_listed() -> None:
    """G20: one error tells every problem; each circle once, and not who merely waits for one."""
    found = problems(
        task("a", "b"),
        task("b", "a"),
        task("waits", "a"),
        task("c", "d"),
        task("d", "e"),
        task("e", "d"),
        task("f", "nobody"),
        task("f"),
    )
    assert len(found) == 4
    assert sum("circle" in each for each in found) == 2
    assert not any("waits" in each for each in found)


def test_a_long_list_of_problems_is_cut_in_the_message_only() -> None:
    """The message stays readable; the attribute has them all."""
    with pytest.raises(BadPlan, match="and 30 more") as raised:
        make_plan([task(str(number), "x") for number in range(50)], ["ann"])
    assert len(raised.value.problems) == 50


def test_a_bad_plan_begins_nothing() -> None:
    """G20: no agent runs, and nothing is written, when any task is at fault."""
    ran: list[str] = []

    def run(prompt: str, memory: Any, context: Any) -> str:
        ran.append(prompt)
        return "done"

    team = Team([Agent("ann", run)], shared_memory=True)
    with pytest.raises(BadPlan):
        run_tasks(team, [task("good"), task("bad", "missing")])
    assert ran == []
    assert team.memory.list_all() == []  # type: ignore[union-attr]


def test_a_key_too_long_for_a_result_is_found_before_it_is_earned() -> None:
    """The key of a result must fit into what a log takes for a key."""
    name = "n" * 4000
    with pytest.raises(BadPlan, match="its result's key has"):
        make_plan([Task("t" * 1000, "do it", name)], [name])


@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        pytest.param({"id": ""}, ValueError, "id of a task must not be empty", id="empty id"),
        pytest.param({"id": 1}, TypeError, "the id of a task must be a str", id="id is no text"),
        pytest.param({"id": "x" * 1025}, ValueError, "1,025 bytes", id="long id"),
        pytest.param({"description": None}, TypeError, "description must be a str", id="no description"),
        pytest.param({"assignee": "a/b"}, ValueError, "contains '/'", id="assignee"),
        pytest.param({"title": 1}, TypeError, "title must be a str", id="title"),
        pytest.param({"depends_on": "ab"}, TypeError, "not one str", id="one str"),
        pytest.param({"depends_on": 3}, TypeError, "not int", id="a number"),
        pytest.param({"depends_on": [None]}, TypeError, "must be a str", id="None"),
        pytest.param({"memory_scope": "some"}, ValueError, "'dependencies', 'all', not 'some'", id="scope"),
        pytest.param(
            {"dependency_payload": None}, ValueError, "'output', 'structured', 'both'", id="payload"
        ),
        pytest.param({"max_retries": -1}, ValueError, "at least 0", id="retries below 0"),
        pytest.param({"max_retries": True}, ValueError, "not True", id="retries are no bool"),
        pytest.param({"retry_delay_s": "1"}, TypeError, "must be a number", id="delay is text"),
        pytest.param({"retry_delay_s": -0.1}, ValueError, "at least 0", id="delay below 0"),
        pytest.param({"retry_backoff": 0.5}, ValueError, "at least 1", id="backoff below 1"),
        pytest.param({"retry_backoff": float("nan")}, ValueError, "finite", id="backoff is no number"),
    ],
)
def test_a_task_that_cannot_be(named: dict[str, Any], error: type[Exception], message: str) -> None:
    """Whatever is wrong with a task is said when it is made."""
    with pytest.raises(error, match=message):
        Task(**{"id": "t", "description": "do it", "assignee": "ann"} | named)


@pytest.mark.parametrize("tasks", [["t"], [None], [{"id": "t"}]])
def test_what_is_no_task(tasks: Any) -> None:
    """Only `Task` objects are tasks."""
    with pytest.raises(TypeError, match=r"tasks\[0\] must be a Task, not"):
        make_plan(tasks, ["ann"])


@pytest.mark.parametrize(
    ("named", "waits"),
    [
        pytest.param({}, [1, 2, 4, 8, 16, 30, 30], id="as it comes"),
        pytest.param({"retry_delay_s": 0.5, "retry_backoff": 1}, [0.5, 0.5, 0.5], id="steady"),
        pytest.param({"retry_delay_s": 0, "retry_backoff": 1e300}, [0, 0, 0], id="none"),
        pytest.param({"retry_backoff": 1e300}, [1, 30, 30], id="beyond all numbers"),
    ],
)
def test_the_waits_between_attempts(named: dict[str, Any], waits: list[float]) -> None:
    """G21: the delay times the factor for each further attempt, never above 30 s."""
    given = Task("t", "do it", "ann", **named)
    assert [retry_delay_s(given, failed) for failed in range(1, len(waits) + 1)] == waits
