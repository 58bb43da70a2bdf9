"""What an agent is told of the tasks before its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from turnlog import Agent, InMemoryStore, SharedMemory, Task, TaskResult, Team, run_tasks
from turnlog.teams.errors import PayloadError
from turnlog.teams.prompts import MAX_PAYLOAD, stable_json, task_prompt

from .conftest import Way, echo, says

VECTORS = json.loads((Path(__file__).parent / "dependency_vectors.json").read_text("utf-8"))


def prompt(task: Task, *done: tuple[Task, TaskResult], summary: str = "") -> str:
    """The prompt of `task`, after those that are done."""
    tasks = {each.id: each for each, _ in done}
    results = {each.id: result for each, result in done}
    return task_prompt(task, summary, tasks.__getitem__, results.__getitem__)


def done(
    task_id: str, output: str | None, structured: Any = ..., *, title: str = "", status: Any = "completed"
) -> tuple[Task, TaskResult]:
    """A task of Bob's and its result."""
    told = None if structured is ... else json.dumps(structured)
    return Task(task_id, "", "bob", title=title), TaskResult(task_id, "bob", status, 1, output, told)


def asks(payload: Any = "output", *needed: str, **named: Any) -> Task:
    """Ann's task, which asks for that payload."""
    return Task("t", "Do it.", "ann", depends_on=needed, dependency_payload=payload, **named)


def test_a_task_without_context() -> None:
    """G8: title, blank line, description; the id stands for a title that is missing."""
    assert prompt(Task("t", "Do\nit.", "ann", title="The Title")) == "# Task: The Title\n\nDo\nit."
    assert prompt(asks()) == "# Task: t\n\nDo it."


def test_all_of_memory_and_nothing_else() -> None:
    """G9: scope "all" gives the summary only; dependencies and their payload are then ignored."""
    task = asks("structured", "a", memory_scope="all")
    told = prompt(task, done("a", "raw"), summary="## Shared Team Memory\n\n### x\n- k: v")
    assert told == "# Task: t\n\nDo it.\n\n## Shared Team Memory\n\n### x\n- k: v"
    assert prompt(task, done("a", "raw")) == "# Task: t\n\nDo it."


def test_results_as_text() -> None:
    """G10, G11: a section for each dependency in the order asked for, no blank line between, no limit."""
    long = "x" * (2 * MAX_PAYLOAD)
    told = prompt(asks("output", "b", "a"), done("a", "raw\nof a", title="First"), done("b", long))
    assert told == (
        f"# Task: t\n\nDo it.\n\n## Context from prerequisite tasks\n\n### b (by bob)\n{long}\n"
        "### First (by bob)\nraw\nof a"
    )


def test_an_empty_result_has_no_section() -> None:
    """G11: nothing is said of a dependency without text, nor is there a heading above nothing."""
    assert prompt(asks("output", "a"), done("a", "")) == "# Task: t\n\nDo it."
    assert prompt(asks("output", "a", "b"), done("a", ""), done("b", "x")).count("###") == 1


@pytest.mark.parametrize("payload", ["output", "structured", "both"])
def test_a_dependency_that_is_not_completed_is_passed_over(payload: str) -> None:
    """G10: in every form."""
    assert prompt(asks(payload, "a"), done("a", "raw", status="failed")) == "# Task: t\n\nDo it."


def test_results_as_values() -> None:
    """G12: a label and the stable JSON; or the text, a blank line and the JSON, each under its label."""
    one = done("a", "raw", {"b": 1.0, "a": [1e21, None]})
    assert prompt(asks("structured", "a"), one).split("\n\n")[-1] == (
        '### a (by bob)\n#### Validated structured result\n{"a":[1e+21,null],"b":1}'
    )
    assert prompt(asks("both", "a"), one).partition("tasks\n\n")[2] == (
        '### a (by bob)\n#### Raw output\nraw\n\n#### Validated structured result\n{"a":[1e+21,null],"b":1}'
    )
    assert "#### Raw output\n\n\n#### Validated" in prompt(asks("both", "a"), done("a", "", {}))


@pytest.mark.parametrize("value", [None, False, 0, ""])
def test_a_value_that_is_nothing_is_a_value(value: Any) -> None:
    """G13: null, false and zero are results like any other."""
    assert prompt(asks("structured", "a"), done("a", "raw", value)).endswith(f"\n{json.dumps(value)}")


@pytest.mark.parametrize("payload", ["structured", "both"])
def test_no_value_is_an_error(payload: str) -> None:
    """G13: text is never given in place of a value that is missing."""
    with pytest.raises(PayloadError, match="has none; give agent 'bob' a result_type") as raised:
        prompt(asks(payload, "a"), done("a", '{"looks": "fine"}'))
    assert raised.value.code == "DEPENDENCY_STRUCTURED_RESULT_MISSING"


@pytest.mark.parametrize(("value", "text"), VECTORS)
def test_stable_json_is_that_of_the_original(value: str, text: str) -> None:
    """G14: names sorted by UTF-16 code units, but array indexes first; numbers as in JavaScript."""
    assert stable_json(json.loads(value)) == text


def test_stable_json_of_what_other_languages_lack() -> None:
    """G14: integers keep all digits, negative zero loses its sign, half an emoji is escaped."""
    assert stable_json([2**60, -0.0, "\ud83d", {"\ud83d": 1}]) == f'[{2**60},0,"\\ud83d",{{"\\ud83d":1}}]'
    assert stable_json({"4294967295": 0, "4294967294": 1, "01": 2, "1": 3, "-1": 4}) == (
        '{"1":3,"4294967294":1,"-1":4,"01":2,"4294967295":0}'
    )


@pytest.mark.parametrize(("payload", "labels"), [("structured", 1), ("both", 2)])
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_the_size_of_a_section_is_limited_to_the_byte(payload: str, labels: int, letter: str) -> None:
    """G15: heading, labels and content of one dependency have at most 65,536 bytes; that many pass."""

    def section(text: str) -> str:
        return prompt(asks(payload, "a"), done("a", "raw", text)).partition("tasks\n\n")[2]

    room = MAX_PAYLOAD - len(section("").encode())
    text = letter * (room // len(letter.encode()))
    text += "x" * (room - len(text.encode()))
    assert len(section(text).encode()) == MAX_PAYLOAD
    with pytest.raises(
        PayloadError, match=r"65,537 bytes of 'a'.*limit is 65,536|65,537 bytes of task 'a'; the"
    ) as raised:
        section(text + "x")
    assert raised.value.code == "DEPENDENCY_PAYLOAD_TOO_LARGE"


def test_several_dependencies_may_be_larger_together() -> None:
    """G15: the limit is for each."""
    text = "x" * 60_000
    told = prompt(asks("structured", "a", "b"), done("a", "", text), done("b", "", text))
    assert len(told) > 120_000


@pytest.mark.parametrize(
    ("result_type", "returned", "code"),
    [
        pytest.param(None, "only text", "DEPENDENCY_STRUCTURED_RESULT_MISSING", id="no value"),
        pytest.param(str, "x" * 70_000, "DEPENDENCY_PAYLOAD_TOO_LARGE", id="too much"),
    ],
)
def test_a_task_that_cannot_be_served_fails_before_its_agent_runs(
    way: Way, result_type: Any, returned: str, code: str
) -> None:
    """G16: the code is in the error, nobody is asked, nothing is written, and dependents fail too."""
    asked: list[str] = []

    def run(prompt: str, memory: Any, context: Any) -> str:
        asked.append(context.task.id)
        return "done"

    team = way.team(Agent("ann", run), Agent("bob", says(returned), result_type))
    result = way.run(
        team, [Task("a", "", "bob"), asks("structured", "a"), Task("u", "", "ann", depends_on=["t"])]
    )
    error = result["t"].error
    assert error is not None
    assert (error.kind, error.code, result["t"].status, result["t"].attempts) == (
        "validation",
        code,
        "failed",
        0,
    )
    assert (result["u"].status, result["u"].error.kind) == ("failed", "dependency")  # type: ignore[union-attr]
    assert asked == []
    assert (list(way.entries()), way.turn()) == (["bob/task:a:result"], 1)


def test_the_summary_is_that_of_the_moment_a_task_begins(way: Way) -> None:
    """G9: what was written by then is in it, notes of agents included."""

    def note(prompt: str, memory: Any, context: Any) -> Any:
        written = memory.write("note", "seen")
        return _then(written, "said") if hasattr(written, "__await__") else "said"

    team = way.team(Agent("bob", note), Agent("ann", echo))
    result = way.run(team, [Task("a", "", "bob"), asks("output", "a", memory_scope="all")])
    assert result["t"].output == (
        "# Task: t\n\nDo it.\n\n## Shared Team Memory\n\n### bob\n- note: seen\n- task:a:result: said"
    )


def test_without_memory_there_is_no_context_for_all() -> None:
    """G9: scope "all" in a team that shares nothing gives the task alone."""
    team = Team([Agent("ann", echo), Agent("bob", says("raw"))])
    result = run_tasks(team, [Task("a", "", "bob"), asks("output", "a", memory_scope="all")])
    assert result["t"].output == "# Task: t\n\nDo it."


def test_results_in_the_summary_can_be_chosen_by_task() -> None:
    """E15: what tasks wrote is found by their ids, colons and all."""
    team = Team([Agent("ann", says("x")), Agent("bob", says("y"))], shared_memory_store=InMemoryStore())
    run_tasks(team, [Task("a:1", "", "ann"), Task("b", "", "bob")])
    assert isinstance(team.memory, SharedMemory)
    assert team.memory.get_summary(["a:1"]) == "## Shared Team Memory\n\n### ann\n- task:a:1:result: x"
    assert re.findall("^- (.*): ", team.memory.get_summary(), re.MULTILINE) == [
        "task:a:1:result",
        "task:b:result",
    ]


async def _then(awaitable: Any, text: str) -> str:
    await awaitable
    return text
