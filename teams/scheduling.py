"""What is done when, while a team's tasks are run: one list of steps for `run_tasks` and `arun_tasks` alike.

Here is no thread, no loop and no clock: attempts are made by an `Attempts`, and whatever a store is asked is
yielded, to be answered or awaited by `memory.steps`. If the run is stopped from outside, it stops at a yield
and is not told; the queue then is of no use any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..eventlog import AdvanceTurn, Command, Conflict, TurnlogError, Write
from ..memory.async_shared import AsyncSharedMemory
from ..memory.contract import executes, keeps_turn
from ..memory.shared import SharedMemory
from ..memory.steps import Steps
from ..memory.writing import prepare
from .attempts import Attempt, Attempts, Outcome
from .errors import PayloadError
from .hooks import Hooks, Verdict
from .progress import TaskEvent
from .prompts import task_prompt
from .queue import TaskQueue
from .result import Output, TaskError, TaskResult, TeamResult
from .task import Task, result_key, retry_delay_s
from .team import Team

__all__ = ["Scheduler"]


@dataclass
class Scheduler:
    """One run of a team's tasks.

    Attributes:
        team: who does them.
        queue: how far they are; it is moved on.
        memory: the team's memory in the colour of whoever carries out the steps; None if it has none.
        attempts: makes the attempts.
        max_parallel: at most so many at once.
        hooks: who joins in.
        tell: is told of every event.
        mark: part of each attempt's activity, so that no two runs share one.
    """

    team: Team
    queue: TaskQueue
    memory: SharedMemory | AsyncSharedMemory | None
    attempts: Attempts
    max_parallel: int
    hooks: Hooks
    tell: Callable[[TaskEvent], object]
    mark: str

    def __post_init__(self) -> None:
        """Nothing is under way."""
        self._running = 0
        self._finished = self.queue.finished()
        self._verdict: Verdict = "go"
        self._fatal: Exception | None = None
        self._wave: deque[str] = deque()
        results = self.queue.results.values()
        self._completed = [result.task_id for result in results if result.status == "completed"]
        self.hooks.listen(self._announce)

    def run(self) -> Steps[TeamResult]:
        """Do every task that can be done.

        Raises:
            Exception: what the store, a hook or the listener raised; first, what was under way is finished.
            BaseException: what an agent raised that is no `Exception`, at once.
        """
        yield from self._guarded(self._begin())
        while True:
            if self._verdict == "go" and self._fatal is None:
                yield from self._guarded(self._dispatch())
            if self._running:
                outcome: Outcome = yield self.attempts.next()
                self._running -= 1
                if outcome.raised is not None and not isinstance(outcome.raised, Exception):
                    raise outcome.raised
                yield from self._guarded(self._settle(outcome))
            elif self._fatal is not None or self._verdict != "go" or self.queue.next_ready() is None:
                break
        if self._fatal is None:
            yield from self._guarded(self.hooks.run_ended(self.queue, self._verdict))
        if self._fatal is not None:
            self._fatal.add_note(f"{self._finished:,} of {len(self.queue.results):,} tasks had ended by then")
            raise self._fatal
        return self._result()

    # -- the parts of it

    def _guarded(self, steps: Steps[None]) -> Steps[None]:
        try:
            yield from steps
        except Exception as error:  # noqa: BLE001 - raised when nothing is under way any more
            if self._fatal is None:
                self._fatal = error
            elif error is not self._fatal:
                self._fatal.add_note(f"afterwards: {_error('agent', error).message}")

    def _begin(self) -> Steps[None]:
        self._heed((yield from self.hooks.plan_accepted(self.queue)))

    def _dispatch(self) -> Steps[None]:
        if self.hooks.by_rounds and not self._wave and not self._running:
            yield from self._next_round()
        while self._verdict == "go" and self._running < self.max_parallel:
            task_id = self._candidate()
            if task_id is None:
                return
            task = self.queue.plan.tasks[task_id]
            self._heed((yield from self.hooks.before_dispatch(self.queue, task)))
            if self._verdict == "go":
                yield from self._start(task)

    def _next_round(self) -> Steps[None]:
        following = self.queue.ready()
        completed, self._completed = self._completed, []
        if completed and following:
            self._heed((yield from self.hooks.round_ended(self.queue, completed, following)))
        self._wave = deque(following)

    def _candidate(self) -> str | None:
        if self.hooks.by_rounds:
            return self._wave.popleft() if self._wave else None
        return self.queue.next_ready()

    def _start(self, task: Task) -> Steps[None]:
        summary = ""
        if task.memory_scope == "all" and self.memory is not None:
            summary = yield self.memory.get_summary()
        try:
            prompt = task_prompt(task, summary, self.queue.plan.tasks.__getitem__, self.queue.result)
        except PayloadError as error:
            yield from self._fail(task.id, TaskError("validation", str(error), error.code, error))
            return
        number = self.queue.start(task.id)
        agent = self.team.agents[task.assignee]
        self._try(Attempt(task, agent, prompt, number, self._activity(task, number)))

    def _try(self, attempt: Attempt) -> None:
        self._tell("started", self.queue.result(attempt.task.id))
        self.attempts.start(attempt)
        self._running += 1

    def _settle(self, outcome: Outcome) -> Steps[None]:
        attempt = outcome.attempt
        if outcome.raised is not None:
            yield from self._repeat(attempt, _error("agent", outcome.raised))
            return
        try:
            output = attempt.agent.judge(outcome.returned)
        except Exception as error:  # noqa: BLE001 - validators of the agent's type may raise anything
            yield from self._repeat(attempt, _error("validation", error, attempt.task))
            return
        yield from self._complete(attempt, output)

    def _repeat(self, attempt: Attempt, error: TaskError) -> Steps[None]:
        """Make another attempt if there are any left."""
        task = attempt.task
        if attempt.number > task.max_retries or self._fatal is not None:
            yield from self._fail(task.id, error)
            return
        self._tell("retried", replace(self.queue.result(task.id), error=error))
        number = self.queue.start(task.id)
        delay_s = retry_delay_s(task, attempt.number)
        self._try(replace(attempt, number=number, activity=self._activity(task, number), delay_s=delay_s))

    def _complete(self, attempt: Attempt, output: Output) -> Steps[None]:
        result = self.queue.completed(attempt.task.id, output)
        try:
            yield from self._record(attempt, result)
        except (TypeError, ValueError) as error:
            if isinstance(error, TurnlogError):
                raise
            yield from self._fail(result.task_id, _error("validation", error, attempt.task))
            return
        self.queue.complete(result)
        self._completed.append(result.task_id)
        self._finished += 1
        yield from self.hooks.task_finished(self.queue, result)
        self._tell("completed", result)

    def _record(self, attempt: Attempt, result: TaskResult) -> Steps[None]:
        """Write a result and advance the turn: as one where the store can, else one after the other."""
        if self.memory is None:
            return
        agent, key = attempt.agent.name, result_key(result.task_id)
        store: Any = self.memory.store
        if executes(self.team.store) and keeps_turn(self.team.store):
            # The turn first: so the end of turn 3 is between two batches, where three results are there, and
            # a run that is forked or taken back there goes on with the fourth task.
            own: list[Command[Any]] = [AdvanceTurn(), Write(*prepare(agent, key, result.output, None, None))]
            added = yield from self.hooks.recording(self.queue, result)
            refused: Conflict | None = None
            try:
                outcomes = yield store.execute([*own, *added], agent=agent, activity=attempt.activity)
                self.hooks.recorded(outcomes[len(own) :])
            except Conflict as conflict:
                refused = conflict
            except (TypeError, ValueError) as error:
                if not added or isinstance(error, TurnlogError):
                    raise
                # Whichever was refused, all of it was: the result is not to be lost for what was added to it.
                yield store.execute(own, agent=agent, activity=attempt.activity)
                self.hooks.not_recorded(result, error)
            if refused is not None:
                raise (yield from self.hooks.recording_refused(result, refused)) from refused
        else:
            yield self.memory.write(agent, key, result.output)
            yield self.memory.advance_turn()

    def _fail(self, task_id: str, error: TaskError) -> Steps[None]:
        ended = self.queue.fail(task_id, error)
        self._finished += len(ended)
        yield from self.hooks.task_finished(self.queue, ended[0])
        for result in ended:
            self._tell("failed", result)

    def _heed(self, verdict: Verdict) -> None:
        self._verdict = verdict
        if verdict == "skip":
            skipped = self.queue.skip_rest("it was not to be begun: the run was ended before it")
            self._finished += len(skipped)
            for result in skipped:
                self._tell("skipped", result)

    def _tell(self, kind: Any, result: TaskResult) -> None:
        counts = self._finished, len(self.queue.plan.tasks)
        self.tell(TaskEvent(kind, result.task_id, result.assignee, result.attempts, result.error, *counts))

    def _announce(
        self,
        kind: Any,
        result: TaskResult | None,
        *,
        error: TaskError | None = None,
        approval: str | None = None,
    ) -> None:
        """See `Announce`."""
        about = ("", "", 0) if result is None else (result.task_id, result.assignee, result.attempts)
        self.tell(TaskEvent(kind, *about, error, self._finished, len(self.queue.plan.tasks), approval))

    def _activity(self, task: Task, number: int) -> str:
        return f"task:{task.id}#{number}-{self.mark}"

    def _result(self) -> TeamResult:
        results, pending = self.queue.results, tuple(self.hooks.pending)
        if self._verdict == "suspend":
            return TeamResult("suspended", results, pending)
        if all(result.status == "completed" for result in results.values()):
            return TeamResult("completed", results)
        return TeamResult("rejected" if self._verdict == "skip" else "failed", results)


def _error(kind: Literal["agent", "validation"], cause: BaseException, task: Task | None = None) -> TaskError:
    """Why a task is not completed; `task` where the cause itself does not say which it is about."""
    try:
        words = str(cause)
    except Exception as error:  # noqa: BLE001 - an exception of the agent's that cannot even say what it is
        words = f"(its message cannot be made: {type(error).__name__})"
    about = "" if task is None else f"task {task.id!r:.200}: "
    return TaskError(kind, f"{type(cause).__name__}: {about}{words}", cause=cause)
