"""Wiring a team: who is in it, and what it shares."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from turnlog import Agent, AsyncInMemoryStore, AsyncSharedMemory, InMemoryStore, SharedMemory, Team, run_tasks

from ..memory.conftest import AsyncPlainStore, PlainStore
from .conftest import as_coroutine, says

ANN = Agent("ann", says("done"))


@pytest.mark.parametrize("shared_memory", [True, False])
def test_a_store_wins_and_enables_memory_by_itself(shared_memory: bool) -> None:
    """F1: with a store there is memory on it, whatever `shared_memory` says."""
    store = InMemoryStore()
    team = Team([ANN], shared_memory=shared_memory, shared_memory_store=store)
    assert isinstance(team.memory, SharedMemory)
    assert (team.store, team.memory.store) == (store, store)


def test_without_a_store_the_flag_decides() -> None:
    """F1: True gives a memory of its own, False and nothing give none."""
    assert isinstance(Team([ANN], shared_memory=True).store, InMemoryStore)
    for team in (Team([ANN]), Team([ANN], shared_memory=False)):
        assert (team.memory, team.store) == (None, None)


@pytest.mark.parametrize(
    ("store", "message"),
    [
        pytest.param(0, "lacks get, set, list, delete, clear", id="0"),
        pytest.param("", "must be a MemoryStore, not str; on a log that is", id="empty text"),
        pytest.param(False, "lacks get, set, list, delete, clear", id="False"),
        pytest.param({"path": "x"}, "lacks set, list, delete$", id="a dict from JSON"),
        pytest.param(InMemoryStore, "InMemoryStore is a class; pass an instance", id="a class"),
        pytest.param(SharedMemory(), "not SharedMemory; write memory.store", id="a memory"),
    ],
)
def test_what_is_no_store_is_refused_when_the_team_is_made(store: Any, message: str) -> None:
    """F1, E1: anything but a store is a `TypeError` that names what it lacks, falsy things included."""
    with pytest.raises(TypeError, match=message):
        Team([ANN], shared_memory_store=store)


def test_a_store_with_some_coroutines_is_refused() -> None:
    """F1: a store of two colours is none."""

    class Mixed(PlainStore):
        async def set(self, key: str, value: str, metadata: Any = None) -> None: ...  # type: ignore[override]

    with pytest.raises(TypeError, match="set"):
        Team([ANN], shared_memory_store=Mixed())


def test_the_memory_has_the_colour_of_the_store() -> None:
    """F1: a store with coroutines gives the asynchronous memory."""
    for store in (AsyncInMemoryStore(), AsyncPlainStore(PlainStore())):
        team = Team([ANN], shared_memory_store=store)
        assert isinstance(team.memory, AsyncSharedMemory)
        assert team.store is store


def test_a_memory_is_no_flag() -> None:
    """F1: a memory given as `shared_memory` is refused, not silently replaced by another."""
    with pytest.raises(TypeError, match="pass a store as shared_memory_store"):
        Team([ANN], shared_memory=SharedMemory())  # type: ignore[arg-type]


def test_agents_get_the_team_s_memory_in_their_own_hands() -> None:
    """F2: an agent is given a view that keeps to its namespace, not the raw store."""
    seen: list[Any] = []

    def run(prompt: str, memory: Any, context: Any) -> str:
        seen.append(memory)
        memory.write("note", "x")
        return "done"

    team = Team([Agent("ann", run)], shared_memory=True)
    run_tasks(team, [_task("t")])
    assert seen[0].name == "ann"
    assert seen[0].memory is team.memory
    assert seen[0].read("ann/note").value == "x"


def test_without_memory_agents_get_none() -> None:
    """F1: a team that shares nothing hands nothing out."""
    seen: list[Any] = []

    def run(prompt: str, memory: Any, context: Any) -> str:
        seen.append(memory)
        return "done"

    assert run_tasks(
        Team([Agent("ann", run), Agent("bob", as_coroutine(run))]), [_task("t"), _task("u", "bob")]
    )
    assert seen == [None, None]


def test_a_store_with_coroutines_needs_the_asynchronous_runner() -> None:
    """`run_tasks` refuses a team on such a store before anything runs, and names the one to use."""
    with pytest.raises(TypeError, match="AsyncInMemoryStore has coroutines; use arun_tasks"):
        run_tasks(Team([ANN], shared_memory_store=AsyncInMemoryStore()), [])


@pytest.mark.parametrize(
    ("agents", "error", "message"),
    [
        pytest.param([], ValueError, "at least one agent", id="none"),
        pytest.param([ANN, Agent("ann", says(""))], ValueError, "two agents are called 'ann'", id="twice"),
        pytest.param(["ann"], TypeError, r"agents\[0\] must be an Agent, not str", id="a name"),
    ],
)
def test_agents_that_make_no_team(agents: Any, error: type[Exception], message: str) -> None:
    """Nobody, two of one name, and what is no agent, are refused."""
    with pytest.raises(error, match=message):
        Team(agents)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        pytest.param(("a/b", says("")), ValueError, "contains '/'", id="a slash"),
        pytest.param(("__oma_checkpoint__", says("")), ValueError, "reserved", id="reserved"),
        pytest.param((1, says("")), TypeError, "must be a str", id="no text"),
        pytest.param(("ann", None), TypeError, "run must be a function", id="nothing to run"),
        pytest.param(("ann", says(""), "int"), TypeError, "type that pydantic can validate", id="no type"),
    ],
)
def test_an_agent_that_cannot_be(given: Any, error: type[Exception], message: str) -> None:
    """A bad name, nothing to run and a type that is none are refused when the agent is made."""
    with pytest.raises(error, match=message):
        Agent(*given)


def test_what_is_a_coroutine_function() -> None:
    """Functions, objects that are called, and either as a coroutine, are told apart."""

    class Called:
        async def __call__(self, prompt: str, memory: Any, context: Any) -> str:
            return "done"

    assert [Agent("a", run).is_async for run in (says(""), as_coroutine(says("")), Called())] == [
        False,
        True,
        True,
    ]


class Claim(BaseModel):
    """A model."""

    text: str
    score: float = 0.5


class Moody(BaseModel):
    """A type with a validator that breaks."""

    text: str

    @field_validator("text")
    @classmethod
    def _judged(cls, text: str) -> str:
        raise RuntimeError("not in the mood")


@pytest.mark.parametrize(
    ("result_type", "returned", "text", "structured"),
    [
        pytest.param(None, "plain", "plain", None, id="text"),
        pytest.param(None, '{"a": 1}', '{"a": 1}', None, id="text that looks like JSON"),
        pytest.param(
            Claim, Claim(text="x"), '{"text":"x","score":0.5}', '{"text":"x","score":0.5}', id="model"
        ),
        pytest.param(Claim, {"text": "x"}, '{"text":"x","score":0.5}', '{"text":"x","score":0.5}', id="dict"),
        pytest.param(
            Claim, '{"text": "x"}', '{"text": "x"}', '{"text":"x","score":0.5}', id="a model's words"
        ),
        pytest.param(str, '"x"', '"x"', '"\\"x\\""', id="text is text"),
        pytest.param(list[int], "[1, 2]", "[1, 2]", "[1,2]", id="a list in words"),
        pytest.param(int | None, None, "null", "null", id="null"),
        pytest.param(bool, False, "false", "false", id="false"),
    ],
)
def test_what_an_agent_returns(result_type: Any, returned: Any, text: str, structured: str | None) -> None:
    """Text stays as it is; with a type, its value, or the JSON of one, is validated and kept beside it."""
    output = Agent("ann", says(""), result_type).judge(returned)
    assert (output.text, output.structured) == (text, structured)


@pytest.mark.parametrize(
    ("result_type", "returned", "message"),
    [
        pytest.param(None, None, "returned None; it must return a str or have a result_type", id="nothing"),
        pytest.param(None, {"a": 1}, "returned a dict", id="a dict without a type"),
        pytest.param(Claim, {"score": 1}, r"\$.text: Field required", id="a member missing"),
        pytest.param(Claim, "no JSON at all", "schema validation failed", id="prose"),
        pytest.param(Claim, '{"score": 1}', r"\$.text: Field required", id="JSON of something else"),
        pytest.param(Claim, '"' * 3, "schema validation failed", id="broken JSON"),
        pytest.param(Claim, "[" * 100_000, "schema validation failed", id="JSON too deep to read"),
        pytest.param(float, float("nan"), "does not read back", id="no number"),
        pytest.param(list[float], [float("nan")], r"\$\[0\] is nan", id="no number in a list"),
        pytest.param(Moody, {"text": "x"}, "RuntimeError: not in the mood", id="a validator that breaks"),
    ],
)
def test_what_an_agent_may_not_return(result_type: Any, returned: Any, message: str) -> None:
    """No text, no value of the type: a `TypeError` that says whose it was, and where."""
    with pytest.raises(TypeError, match=f"(?s)^agent 'ann'.*{message}"):
        Agent("ann", says(""), result_type).judge(returned)


def test_a_number_that_is_too_long() -> None:
    """A `ValueError` that says whose it was."""
    with pytest.raises(
        ValueError, match=r"^agent 'ann' returned what its result_type int forbids: the integer"
    ):
        Agent("ann", says(""), int).judge(10**5000)


@pytest.mark.parametrize(
    ("result_type", "returned"),
    [
        pytest.param(Claim, {"score": 1}, id="a member missing"),
        pytest.param(list[float], [float("nan")], id="no number"),
        pytest.param(int, 10**5000, id="too long"),
        pytest.param(Moody, {"text": "x"}, id="a validator that breaks"),
        pytest.param(None, 3, id="no text"),
    ],
)
def test_a_task_says_whose_result_it_may_not_have(result_type: Any, returned: Any) -> None:
    """The error of a task whose agent returned what its type forbids names both."""
    team = Team([Agent("ann", lambda *_: returned, result_type)])
    error = run_tasks(team, [_task("count")])["count"].error
    assert error is not None
    assert re.match(r"(Type|Value)Error: task 'count': agent 'ann' returned ", error.message), error


def test_a_result_that_is_not_there() -> None:
    """Asked for by a name that no task has: the error says which there are."""
    result = run_tasks(Team([ANN]), [_task("find"), _task("write")])
    with pytest.raises(KeyError, match="there is no task 'draft'; there are 'find', 'write'"):
        result["draft"]


def test_what_is_no_type_is_told_by_the_agents_words() -> None:
    """The message names the agent, and what the argument is called here."""
    with pytest.raises(TypeError, match=r"^agent 'ann': result_type must be a type that .*, not 3$"):
        Agent("ann", says(""), 3)


def _task(task_id: str, assignee: str = "ann") -> Any:
    from turnlog import Task

    return Task(task_id, "do it", assignee)
