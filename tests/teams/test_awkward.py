"""Awkward input: many tasks, odd names, half an emoji, huge texts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from turnlog import Agent, BadPlan, Task, TaskError, Team, run_tasks
from turnlog.teams.plan import make_plan
from turnlog.teams.queue import TaskQueue

from .conftest import Way, echo, says

MANY = 10_000

ODD = [
    "a:b:result",
    "../x",
    "a/b//",
    "é",
    "e\u0301",
    "😀",
    "\ud83d",
    "\udc88x",
    "\x00",
    " ",
    "\n## Shared Team Memory",
    "%s{0}",
    "__proto__",
    "x" * 1024,
]


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_odd_ids_and_texts_are_kept_exactly(way: Way, odd: str) -> None:
    """An id, a title and an output may be any text; nothing is normalised, and the next task sees it."""
    team = way.team(Agent("ann", says(odd)), Agent("bob", echo))
    tasks = [
        Task(odd, odd, "ann"),
        Task("b", "", "bob", depends_on=[odd]),
        Task("c", "", "bob", memory_scope="all", depends_on=[odd]),
    ]
    result = way.run(team, tasks)
    assert (result.status, result[odd].output) == ("completed", odd)
    assert way.entries()[f"ann/task:{odd}:result"] == odd
    assert str(result["b"].output).endswith(f"### {odd} (by ann)\n{odd}")
    assert {activity.rpartition("#")[0] for *_, activity, _ in way.events() if activity} == {
        f"task:{each}" for each in (odd, "b", "c")
    }


def test_normalisation_forms_are_different_tasks(way: Way) -> None:
    """Two ids that look the same are two tasks, and two entries."""
    result = way.run(way.team(Agent("ann", echo)), [Task("é", "", "ann"), Task("e\u0301", "", "ann")])
    assert (len(result.tasks), len(way.entries())) == (2, 2)


def test_half_an_emoji_in_a_structured_value(way: Way) -> None:
    """Kept as its escape, and handed on as such."""
    team = way.team(Agent("ann", lambda *_: ["\ud83d"], list[str]), Agent("bob", echo))
    tasks = [Task("a", "", "ann"), Task("b", "", "bob", depends_on=["a"], dependency_payload="structured")]
    result = way.run(team, tasks)
    assert result["a"].structured == ["\ud83d"]
    assert str(result["b"].output).endswith('\n["\\ud83d"]')


def test_a_long_chain_in_reasonable_time() -> None:
    """10,000 tasks in a row neither exhaust the stack nor the patience."""
    tasks = [Task(str(n), "", "ann", depends_on=[str(n - 1)] if n else []) for n in range(MANY)]
    began = time.perf_counter()
    result = run_tasks(Team([Agent("ann", says("x"))], shared_memory=True), tasks[::-1])
    assert (result.success, len(result.tasks)) == (True, MANY)
    assert time.perf_counter() - began < 30


def test_a_failure_at_the_head_of_a_long_chain() -> None:
    """10,000 tasks fail along at once, each told by the one before it."""
    tasks = [Task(str(n), "", "ann", depends_on=[str(n - 1)] if n else []) for n in range(MANY)]
    result = run_tasks(Team([Agent("ann", lambda *_: None)]), tasks)  # type: ignore[arg-type,return-value]
    assert {each.status for each in result.tasks.values()} == {"failed"}
    assert result[str(MANY - 1)].error == TaskError(
        "dependency", f"it depends on task '{MANY - 2}', which has failed"
    )


def test_a_circle_of_ten_thousand_is_found() -> None:
    """And told in few words."""
    tasks = [Task(str(n), "", "ann", depends_on=[str((n + 1) % MANY)]) for n in range(MANY)]
    with pytest.raises(BadPlan, match="in a circle") as raised:
        make_plan(tasks, ["ann"])
    assert len(str(raised.value)) < 1000


def test_a_wide_plan_is_no_slower_than_it_is_wide() -> None:
    """10,000 tasks that one waits for, and that wait for one."""
    middle = [Task(str(n), "", "ann", depends_on=["first"]) for n in range(MANY)]
    last = Task("last", "", "ann", depends_on=[task.id for task in middle])
    queue = TaskQueue(make_plan([last, *middle, Task("first", "", "ann")], ["ann"]))
    from turnlog.teams.result import Output

    began = time.perf_counter()
    while (task_id := queue.next_ready()) is not None:
        queue.start(task_id)
        queue.complete(queue.completed(task_id, Output("x")))
    assert queue.finished() == MANY + 2
    assert time.perf_counter() - began < 10


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_two_hundred_at_once(way: Way, kind: str) -> None:
    """All write notes, all are recorded, and the turn has counted every one."""

    def run(prompt: str, memory: Any, context: Any) -> str:
        memory.write(f"note {context.task.id}", "x")
        return f"done {context.task.id}"

    async def arun(prompt: str, memory: Any, context: Any) -> str:
        await memory.write(f"note {context.task.id}", "x")
        return f"done {context.task.id}"

    tasks = [Task(str(n), "", "ann") for n in range(200)]
    result = way.run(way.team(Agent("ann", run if kind == "function" else arun)), tasks, max_parallel=200)
    assert {each.output for each in result.tasks.values()} == {f"done {n}" for n in range(200)}
    assert (way.turn(), len(way.entries())) == (200, 400)


def test_a_huge_text_is_handed_on(way: Way) -> None:
    """There is no limit to text but that of the log."""
    text = "é" * 2_000_000
    team = way.team(Agent("ann", says(text)), Agent("bob", lambda prompt, *_: str(len(prompt))))
    result = way.run(team, [Task("a", "", "ann"), Task("b", "", "bob", depends_on=["a"])])
    assert int(str(result["b"].output)) > len(text)


def test_text_of_a_subclass_is_plain_text(way: Way) -> None:
    """What an agent returns may be a str of another kind; it is stored and handed on as text."""

    class Loud(str):
        def __str__(self) -> str:
            return self.upper()

    result = way.run(way.team(Agent("ann", lambda *_: Loud("quiet"))), [Task("a", "", "ann")])
    assert (type(result["a"].output), result["a"].output) == (str, "quiet")


def test_an_error_without_words(way: Way) -> None:
    """An exception that cannot even say what it is fails its task, and no other."""

    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def run(prompt: str, memory: Any, context: Any) -> str:
        raise SilentError

    result = way.run(
        way.team(Agent("ann", run), Agent("bob", says("x"))), [Task("a", "", "ann"), Task("b", "", "bob")]
    )
    assert result["a"].error is not None
    assert "SilentError" in result["a"].error.message
    assert result["b"].status == "completed"
