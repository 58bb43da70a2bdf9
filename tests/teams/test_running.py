"""Running tasks: what reaches memory, who is told, and what becomes of tasks that fail."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

import turnlog
from turnlog import (
    Agent,
    AsyncInMemoryStore,
    Closed,
    Conflict,
    InMemoryStore,
    SharedMemory,
    StorageError,
    Task,
    Team,
    Timeline,
    arun_tasks,
    run_tasks,
)
from turnlog.memory import EventSourcedStore

from .conftest import Way, as_coroutine, echo, says


class Claim(BaseModel):
    """A model."""

    text: str


def test_a_completed_task_writes_its_result_and_advances_the_turn(
    way: Way, made: Callable[..., Agent]
) -> None:
    """G1: `<assignee>/task:<id>:result`, and one turn; a text stays a text, the next task sees it."""
    team = way.team(made("ann", says("found")), made("bob", echo))
    result = way.run(
        team, [Task("a", "find", "ann", title="Find"), Task("b", "write", "bob", depends_on=["find"])]
    )
    assert result.success
    assert (result["a"].output, result["b"].output) == (
        "found",
        "# Task: b\n\nwrite\n\n## Context from prerequisite tasks\n\n### Find (by ann)\nfound",
    )
    assert way.entries() == {"ann/task:a:result": "found", "bob/task:b:result": result["b"].output}
    assert way.turn() == 2


def test_result_and_turn_are_one_batch(way: Way) -> None:
    """Semantics 3.2: no state of the log has one without the other."""
    way.run(way.team(Agent("ann", says("found"))), [Task("a", "find", "ann")])
    (advanced, written) = list(way.log.read())
    assert (type(advanced.event).__name__, type(written.event).__name__) == ("TurnAdvanced", "EntryWritten")
    assert [each.turn for each in (advanced, written)] == [1, 1]
    assert "ann/task:a:result" not in Timeline(way.log, "main").state(turn=0)
    with way.log.reading() as db:
        offsets = db.execute("select batch from events order by position").fetchall()
    assert [row[0] for row in offsets] == [0, 1]


def test_results_are_text_and_their_metadata_plain(way: Way) -> None:
    """G1: whatever the result type, a str is stored, tagged with its agent only; an empty one too."""
    team = way.team(Agent("ann", says("")), Agent("bob", lambda *_: Claim(text="x"), Claim))
    way.run(team, [Task("a", "", "ann"), Task("b", "", "bob", depends_on=["a"])])
    entries = {entry.key: (entry.value, entry.metadata) for entry in EventSourcedStore(way.log).list()}
    assert entries == {
        "ann/task:a:result": ("", {"agent": "ann"}),
        "bob/task:b:result": ('{"text":"x"}', {"agent": "bob"}),
    }


def test_entries_come_in_the_order_of_completion(way: Way) -> None:
    """G1: not in the order of the plan."""
    second_is_done = threading.Event()

    def first(prompt: str, memory: Any, context: Any) -> str:
        assert second_is_done.wait(30)
        return "1"

    def told(event: Any) -> None:
        if (event.kind, event.task_id) == ("completed", "b"):
            second_is_done.set()

    team = way.team(Agent("ann", first), Agent("bob", says("2")))
    way.run(team, [Task("a", "", "ann"), Task("b", "", "bob")], on_event=told)
    assert list(way.entries()) == ["bob/task:b:result", "ann/task:a:result"]


def test_only_completed_tasks_write_and_count(way: Way, made: Callable[..., Agent]) -> None:
    """G2, G18: a failed task and those after it leave nothing and no turn; other branches go on."""
    team = way.team(made("ann", says("x")), made("bob", _fails))
    result = way.run(
        team,
        [
            Task("bad", "", "bob"),
            Task("after", "", "ann", depends_on=["bad"]),
            Task("good", "", "ann"),
            Task("on", "", "ann", depends_on=["good"]),
        ],
    )
    assert {task_id: each.status for task_id, each in result.tasks.items()} == {
        "bad": "failed",
        "after": "failed",
        "good": "completed",
        "on": "completed",
    }
    assert (result.status, result.success, way.turn()) == ("failed", False, 2)
    assert sorted(way.entries()) == ["ann/task:good:result", "ann/task:on:result"]
    assert result["bad"].error is not None
    assert result["bad"].error.message == "RuntimeError: no luck"
    assert isinstance(result["bad"].error.cause, RuntimeError)


def test_siblings_age_each_other_s_notes(way: Way) -> None:
    """G2: the turn counts completed tasks, so a note for two turns is gone after two siblings."""

    def note(prompt: str, memory: Any, context: Any) -> str:
        memory.write_expiring("note", "x", 2)
        return "noted"

    def look(prompt: str, memory: Any, context: Any) -> str:
        return str(memory.read("ann/note") is not None)

    team = way.team(Agent("ann", note), Agent("bob", look))
    tasks = [
        Task("a", "", "ann"),
        Task("b", "", "bob", depends_on=["a"]),
        Task("c", "", "bob", depends_on=["b"]),
    ]
    result = way.run(team, tasks)
    assert (result["b"].output, result["c"].output) == ("True", "False")


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_each_attempt_is_an_activity_named_on_all_it_causes(way: Way, kind: str) -> None:
    """Every event of an attempt names agent and activity, written through the view or not."""
    plain = EventSourcedStore(way.log)

    def run(prompt: str, memory: Any, context: Any) -> str:
        memory.write("note", "x")
        plain.set("loose", "x")
        if context.attempt == 1:
            raise RuntimeError("once more")
        return context.activity

    async def arun(prompt: str, memory: Any, context: Any) -> str:
        await memory.write("note", "x")
        plain.set("loose", "x")
        if context.attempt == 1:
            raise RuntimeError("once more")
        return context.activity

    team = way.team(Agent("ann", run if kind == "function" else arun))
    result = way.run(team, [Task("a", "", "ann", max_retries=1, retry_delay_s=0)])
    second = str(result["a"].output)
    assert second.startswith("task:a#2-")
    first = second.replace("#2-", "#1-")
    assert way.events() == [
        ("EntryWritten", 0, "ann", first, "ann/note"),
        ("EntryWritten", 0, "ann", first, "loose"),
        ("EntryWritten", 0, "ann", second, "ann/note"),
        ("EntryWritten", 0, "ann", second, "loose"),
        ("TurnAdvanced", 1, "ann", second, None),
        ("EntryWritten", 1, "ann", second, "ann/task:a:result"),
    ]


def test_two_runs_share_no_activity(way: Way) -> None:
    """The same tasks run again on the same memory are told apart."""
    team = way.team(Agent("ann", lambda prompt, memory, context: context.activity))
    outputs = {way.run(team, [Task("a", "", "ann")])["a"].output for _ in range(2)}
    assert len(outputs) == 2


def test_a_task_is_repeated_under_its_id(way: Way, made: Callable[..., Agent]) -> None:
    """G21: with growing waits, until it succeeds; only then is memory written."""
    waited: list[float] = []

    def run(prompt: str, memory: Any, context: Any) -> str:
        if context.attempt < 4:
            raise RuntimeError(f"attempt {context.attempt}")
        return "at last"

    told: list[tuple[str, str | None]] = []
    task = Task("a", "", "ann", max_retries=5, retry_delay_s=0.5, retry_backoff=4)
    result = way.run(
        way.team(made("ann", run)),
        [task],
        sleep=waited.append,
        on_event=lambda event: told.append((event.kind, event.error and event.error.message)),
    )
    assert (result["a"].status, result["a"].attempts, result["a"].output) == ("completed", 4, "at last")
    assert waited == [0.5, 2.0, 8.0]
    assert way.turn() == 1
    assert told == [
        ("started", None),
        ("retried", "RuntimeError: attempt 1"),
        ("started", None),
        ("retried", "RuntimeError: attempt 2"),
        ("started", None),
        ("retried", "RuntimeError: attempt 3"),
        ("started", None),
        ("completed", None),
    ]


def test_attempts_run_out(way: Way) -> None:
    """G21: after the last attempt the task has failed with its last error."""
    result = way.run(way.team(Agent("ann", _fails)), [Task("a", "", "ann", max_retries=2, retry_delay_s=0)])
    assert (result["a"].status, result["a"].attempts) == ("failed", 3)
    assert way.events() == []


@pytest.mark.parametrize(
    ("result_type", "returned", "message"),
    [
        pytest.param(None, None, "TypeError: task 'a': agent 'ann' returned None", id="nothing"),
        pytest.param(None, 3, "TypeError: task 'a': agent 'ann' returned an int", id="a number"),
        pytest.param(Claim, {"no": 1}, "Field required", id="another shape"),
    ],
)
def test_a_result_that_its_type_forbids_fails_the_attempt(
    way: Way, made: Callable[..., Agent], result_type: Any, returned: Any, message: str
) -> None:
    """What an agent returns is checked: a failure of validation, repeated like any other, never written."""
    agent = made("ann", lambda prompt, memory, context: returned, result_type)
    result = way.run(way.team(agent), [Task("a", "", "ann", max_retries=1, retry_delay_s=0)])
    error = result["a"].error
    assert error is not None
    assert (error.kind, result["a"].attempts) == ("validation", 2)
    assert message in error.message
    assert way.entries() == {}


def test_a_validator_that_raises_anything_fails_the_attempt(way: Way) -> None:
    """A result type with a bug of its own ends one task, not the run."""

    def broken(value: int) -> int:
        raise ZeroDivisionError("a bug")

    team = way.team(
        Agent("ann", lambda *_: 1, Annotated[int, AfterValidator(broken)]), Agent("bob", says("x"))
    )
    result = way.run(team, [Task("a", "", "ann"), Task("b", "", "bob")])
    assert (result["a"].status, result["b"].status) == ("failed", "completed")
    assert result["a"].error.kind == "validation"  # type: ignore[union-attr]


@pytest.mark.parametrize("verb", ["set", "list"])
def test_a_failing_store_ends_the_run(way: Way, verb: str) -> None:
    """G3: its own error is raised, once what is under way has ended; nothing more is begun."""
    ran: list[str] = []
    under_way = threading.Event()
    broken = OSError("the store is gone")

    def slow(prompt: str, memory: Any, context: Any) -> str:
        assert under_way.wait(30)
        ran.append("slow")
        return "done"

    def quick(prompt: str, memory: Any, context: Any) -> str:
        ran.append(context.task.id)
        return "done"

    def failing(asked: str) -> BaseException | None:
        if asked != verb:
            return None
        under_way.set()
        return broken

    way.plain.failing = failing
    team = Team([Agent("ann", slow), Agent("bob", quick)], shared_memory_store=way.plain_store)
    tasks = [
        Task("slow", "", "ann"),
        Task("quick", "", "bob", memory_scope="all" if verb == "list" else "dependencies"),
        Task("later", "", "bob"),
        Task("after", "", "bob", depends_on=["quick"]),
    ]
    with pytest.raises(OSError, match="the store is gone") as raised:
        way.run(team, tasks, max_parallel=2)
    assert raised.value is broken
    assert "of 4 tasks had ended" in raised.value.__notes__[0]
    assert "slow" in ran
    assert not {"later", "after"} & set(ran)
    assert way.plain.entries == {} if verb == "set" else list(way.plain.entries) == ["ann/task:slow:result"]


def test_a_second_error_is_not_lost(way: Way) -> None:
    """When the store fails for what was still under way too, the first error tells of the second."""
    meeting = threading.Barrier(2, timeout=30)

    def run(prompt: str, memory: Any, context: Any) -> str:
        meeting.wait()
        return "done"

    errors = [OSError("the second"), OSError("the first")]
    way.plain.failing = lambda verb: errors.pop()
    team = Team([Agent("ann", run)], shared_memory_store=way.plain_store)
    with pytest.raises(OSError, match="the first") as raised:
        way.run(team, [Task("a", "", "ann"), Task("b", "", "ann")], max_parallel=2)
    assert raised.value.__notes__ == ["afterwards: OSError: the second", "0 of 2 tasks had ended by then"]


def test_a_closed_log_is_a_typed_error(way: Way) -> None:
    """G3: what a log raises is raised as it is; the agent's work before is in the log."""

    def run(prompt: str, memory: Any, context: Any) -> str:
        way.log.close()
        return "done"

    with pytest.raises(Closed):
        way.run(way.team(Agent("ann", run)), [Task("a", "", "ann")])


def test_a_full_disk_writes_neither_result_nor_turn(way: Way) -> None:
    """G3, semantics 3.2: the log's error is raised; of the batch nothing is there, what came before is."""

    def limit(db: Any) -> None:
        (count,) = db.execute("pragma page_count").fetchone()
        db.execute(f"pragma max_page_count = {count + 1}")

    def run(prompt: str, memory: Any, context: Any) -> str:
        way.log.transact(limit)
        return "x" * 100_000

    team = way.team(Agent("ann", says("first")), Agent("bob", run))
    with pytest.raises(StorageError, match="cannot grow") as raised:
        way.run(team, [Task("a", "", "ann"), Task("b", "", "bob", depends_on=["a"])])
    assert raised.value.__notes__ == ["1 of 2 tasks had ended by then"]
    assert (way.entries(), way.turn()) == ({"ann/task:a:result": "first"}, 1)


def test_a_turn_that_cannot_be_counted_takes_the_result_with_it(way: Way) -> None:
    """Semantics 3.2: when the second half of the batch is refused, the first is not there either."""
    EventSourcedStore(way.log).set_turn(2**53 - 1)
    result = way.run(way.team(Agent("ann", says("x"))), [Task("a", "", "ann")])
    assert (result["a"].status, way.entries()) == ("failed", {})


def test_a_result_that_memory_refuses_fails_its_task_alone(way: Way, tmp_path: Path) -> None:
    """A text above the log's limit is the fault of one task; neither result nor turn is written for it."""
    with turnlog.open(tmp_path / "small.db", durability="os", limits=turnlog.Limits(value=100)) as log:
        small = Way(way.name, log)
        team = small.team(Agent("ann", says("x" * 101)), Agent("bob", says("fits")))
        result = small.run(
            team, [Task("a", "", "ann"), Task("b", "", "bob"), Task("c", "", "bob", depends_on=["a"])]
        )
        assert {each: result[each].status for each in "abc"} == {
            "a": "failed",
            "b": "completed",
            "c": "failed",
        }
        assert "101 bytes" in result["a"].error.message  # type: ignore[union-attr]
        assert (list(small.entries()), small.turn()) == (["bob/task:b:result"], 1)


def test_a_store_without_lists_gets_result_and_turn_one_by_one(way: Way) -> None:
    """G1, semantics 1.1: the five verbs are enough; the turn then is the memory's."""
    team = Team([Agent("ann", says("x"))], shared_memory_store=way.plain_store)
    for turn in (1, 2):
        assert way.run(team, [Task("a", "", "ann")]).success
        memory = team.memory
        found = memory.turn if isinstance(memory, SharedMemory) else asyncio.run(memory.get_turn())  # type: ignore[union-attr]
        assert found == turn
    assert {key: entry.value for key, entry in way.plain.entries.items()} == {"ann/task:a:result": "x"}


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_an_agent_s_notes_expire_by_the_team_s_turn(way: Way, kind: str) -> None:
    """E17: whatever the colours of agent and store, there is one turn."""
    seen: list[int | None] = []

    def run(prompt: str, memory: Any, context: Any) -> str:
        memory.write_expiring("note", "x", 1)
        seen.append(memory.memory.turn)
        return "done"

    async def arun(prompt: str, memory: Any, context: Any) -> str:
        await memory.write_expiring("note", "x", 1)
        seen.append(await memory.memory.get_turn())
        return "done"

    team = Team([Agent("ann", run if kind == "function" else arun)], shared_memory_store=way.plain_store)
    way.run(team, [Task("a", "", "ann"), Task("b", "", "ann", depends_on=["a"])])
    assert seen == [0, 1]


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_every_verb_of_the_view_works_in_every_colour(way: Way, kind: str) -> None:
    """A function gets the plain view and a coroutine function the other, on a store of either kind."""

    def run(prompt: str, memory: Any, context: Any) -> str:
        version = memory.write("k", {"n": 1})
        with pytest.raises(Conflict):
            memory.write("k", {"n": 2}, expected_version=0)
        assert memory.write("k", {"n": 2}, expected_version=version) > version
        assert memory.compare_and_set("k", {"n": 2}, {"n": 3})
        assert memory.read_own("k").value == {"n": 3}
        assert (
            [entry.key for entry in memory.list_own()]
            == ["ann/k"]
            == [each.key for each in memory.list_all()]
        )
        memory.delete("k")
        assert memory.get_summary() == ""
        return type(memory).__name__

    async def arun(prompt: str, memory: Any, context: Any) -> str:
        version = await memory.write("k", {"n": 1})
        with pytest.raises(Conflict):
            await memory.write("k", {"n": 2}, expected_version=0)
        assert await memory.write("k", {"n": 2}, expected_version=version) > version
        assert await memory.compare_and_set("k", {"n": 2}, {"n": 3})
        assert (await memory.read_own("k")).value == {"n": 3}
        assert [entry.key for entry in await memory.list_own()] == ["ann/k"]
        await memory.delete("k")
        assert await memory.get_summary() == ""
        return type(memory).__name__

    result = way.run(way.team(Agent("ann", run if kind == "function" else arun)), [Task("a", "", "ann")])
    assert result["a"].error is None
    assert result["a"].output == ("AgentMemory" if kind == "function" else "AsyncAgentMemory")


def test_a_function_that_returns_a_coroutine_is_awaited(way: Way) -> None:
    """Such an agent counts as a function; what it returns is waited for, in its activity."""

    async def said(context: Any) -> str:
        EventSourcedStore(way.log).set("loose", "x")
        return "said"

    result = way.run(
        way.team(Agent("ann", lambda prompt, memory, context: said(context))), [Task("a", "", "ann")]
    )
    assert result["a"].output == "said"
    assert way.events()[0][2] == "ann"


def test_such_a_coroutine_may_not_block_its_own_loop() -> None:
    """The plain view on a store of the loop's, used on that loop, is an error and no deadlock."""

    async def blocks(memory: Any) -> str:
        memory.write("k", "v")
        return "never"

    team = Team(
        [Agent("ann", lambda prompt, memory, context: blocks(memory))],
        shared_memory_store=AsyncInMemoryStore(),
    )
    result = asyncio.run(arun_tasks(team, [Task("a", "", "ann")]))
    assert "make the agent's run a coroutine function" in result["a"].error.message  # type: ignore[union-attr]


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_than_the_limit_run_at_once(way: Way, made: Callable[..., Agent], limit: int) -> None:
    """`max_parallel` holds, and is made use of."""
    lock = threading.Lock()
    running = [0, 0]

    def run(prompt: str, memory: Any, context: Any) -> Any:
        with lock:
            running[0] += 1
            running[1] = max(running)
        return finish()

    async def finish() -> str:
        await asyncio.sleep(0.005)
        with lock:
            running[0] -= 1
        return "done"

    result = way.run(
        way.team(made("ann", run)), [Task(str(number), "", "ann") for number in range(12)], max_parallel=limit
    )
    assert result.success
    assert running == [0, limit]


def test_ready_tasks_run_side_by_side(way: Way) -> None:
    """Two that wait for each other both come through."""
    meeting = threading.Barrier(2, timeout=30)

    def run(prompt: str, memory: Any, context: Any) -> str:
        meeting.wait()
        return "met"

    result = way.run(
        way.team(Agent("ann", run)), [Task("a", "", "ann"), Task("b", "", "ann")], max_parallel=2
    )
    assert result.success


def test_a_task_begins_as_soon_as_it_can(way: Way) -> None:
    """No task waits for others of its round: a slow one holds up nobody but its own dependents."""
    chain_is_done = threading.Event()

    def slow(prompt: str, memory: Any, context: Any) -> str:
        assert chain_is_done.wait(30)
        return "slow"

    def last(prompt: str, memory: Any, context: Any) -> str:
        chain_is_done.set()
        return "last"

    team = way.team(Agent("slow", slow), Agent("ann", says("x")), Agent("last", last))
    tasks = [Task("s", "", "slow"), Task("a", "", "ann"), Task("b", "", "last", depends_on=["a"])]
    assert way.run(team, tasks, max_parallel=2).success


def test_context_reaches_the_agents_and_does_not_leak(way: Way, made: Callable[..., Agent]) -> None:
    """Context variables of the caller are there; what an agent sets stays with its attempt."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    def run(prompt: str, memory: Any, context: Any) -> str:
        found = variable.get()
        variable.set("changed by an agent")
        return found

    variable.set("from the caller")
    result = way.run(way.team(made("ann", run)), [Task(str(number), "", "ann") for number in range(8)])
    assert {each.output for each in result.tasks.values()} == {"from the caller"}
    assert variable.get() == "from the caller"


def test_no_tasks_are_done_at_once(way: Way) -> None:
    """An empty list is a plan like any other."""
    result = way.run(way.team(Agent("ann", says("x"))), [])
    assert (result.status, dict(result.tasks)) == ("completed", {})
    assert way.events() == []


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, None])
def test_a_limit_that_cannot_be(way: Way, limit: Any) -> None:
    """`max_parallel` is an integer of at least 1."""
    with pytest.raises(ValueError, match="max_parallel must be an integer of at least 1"):
        way.run(way.team(Agent("ann", says("x"))), [], max_parallel=limit)


def test_what_is_no_team(way: Way) -> None:
    """A list of agents is none."""
    with pytest.raises(TypeError, match="team must be a Team, not list"):
        way.run([Agent("ann", says("x"))], [])  # type: ignore[arg-type]


def test_a_team_may_run_again_and_goes_on_counting() -> None:
    """E18: reusing a team keeps its turn."""
    team = Team([Agent("ann", says("x"))], shared_memory_store=InMemoryStore())
    run_tasks(team, [Task("a", "", "ann")])
    run_tasks(team, [Task("a", "", "ann"), Task("b", "", "ann")])
    assert team.memory.turn == 3  # type: ignore[union-attr]


def test_run_tasks_works_inside_a_running_loop() -> None:
    """It has a loop of its own for coroutines, so it may be called where one runs already."""

    async def main() -> Any:
        return run_tasks(
            Team([Agent("ann", as_coroutine(says("x")))], shared_memory=True), [Task("a", "", "ann")]
        )

    assert asyncio.run(main()).success


def test_coroutines_of_one_run_share_a_loop() -> None:
    """What an agent keeps open on the loop, another attempt may use."""
    loops: set[int] = set()

    async def run(prompt: str, memory: Any, context: Any) -> str:
        loops.add(id(asyncio.get_running_loop()))
        return "done"

    run_tasks(Team([Agent("ann", run)]), [Task(str(number), "", "ann") for number in range(5)])
    assert len(loops) == 1


def _fails(prompt: str, memory: Any, context: Any) -> str:
    raise RuntimeError("no luck")
