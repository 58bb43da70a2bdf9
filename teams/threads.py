"""`run_tasks`: a team's tasks in threads, or on a loop of their own."""

from __future__ import annotations

import contextvars
import inspect
import os
import queue as queues
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from ..memory.acting import acting_as
from ..memory.async_shared import AsyncSharedMemory
from ..memory.shared import SharedMemory
from ..memory.steps import carry_out
from .arguments import check_function, kind_of
from .attempts import Attempt, Outcome, act, act_async, cancelled_itself
from .checkpoint import Checkpoint
from .gates import AWAITING, ApproveDispatch, ApprovePlan, ApproveRound, Gates
from .hooks import Hooks
from .plan import given_tasks
from .progress import TaskEvent, reporting
from .queue import TaskQueue
from .record_desk import RecordDesk
from .result import TeamResult
from .resuming import Resuming, fresh_run
from .scheduling import Scheduler
from .task import Task
from .team import Team

if TYPE_CHECKING:
    from .loop_thread import LoopThread

__all__ = ["DEFAULT_PARALLEL", "check_desk", "check_run", "restore", "run_queue", "run_tasks"]

DEFAULT_PARALLEL = 5


def run_tasks(
    team: Team,
    tasks: Iterable[Task],
    *,
    checkpoint: Checkpoint | bool = False,
    approve_plan: ApprovePlan | None = None,
    approve_round: ApproveRound | None = None,
    approve_dispatch: ApproveDispatch | None = None,
    max_parallel: int = DEFAULT_PARALLEL,
    on_event: Callable[[TaskEvent], object] | None = None,
    sleep: Callable[[float], object] | None = None,
) -> TeamResult:
    """Let `team` do `tasks`, each as soon as those it depends on are completed.

    A completed task writes its output as `<assignee>/task:<id>:result` and advances the turn: both in one
    transaction on a store that has `execute` and keeps turns (ours do). On any other store they are two
    steps, and a crash between them leaves a result whose turn was never counted. Nothing is written for a
    task that fails; whoever depends on it fails too. Everything an attempt does in memory carries an activity
    of its own, `task:<id>#<attempt>-<mark>`.

    Agents whose `run` is a coroutine function share one event loop in a thread of its own; all others run in
    threads. Each attempt runs in a copy of the caller's context (`contextvars`).

    On an interrupt, or when an agent raises what is no `Exception`, coroutines are cancelled, functions are
    waited for (see `TaskContext.is_cancelled`), nothing more is recorded, and it is raised.

    Args:
        team: its store must be synchronous.
        tasks: what is to be done; none is fine.
        checkpoint: where to keep, after each completed task, how far the run is, so that `restore` can go on
            from there: a `Checkpoint`; or True for the team's own store. On a log that is the transaction of
            the result. A checkpoint that cannot be saved is an event, or without `on_event` a warning, and
            nothing else: the run goes on.
        approve_plan: is called with all tasks before any is begun. True: go on; False: skip what was not
            begun; `Suspend(reason)`: stop here until a reviewer has decided (see `ApprovalLedger`). Then what
            is under way is finished, and `restore` goes on; it needs a checkpoint in a store that can compare
            and set.
        approve_round: the same between rounds, with the results of the last and the tasks of the next. With
            it a round must end before the next begins.
        approve_dispatch: the same before each task.
        max_parallel: at most so many at once; at least 1.
        on_event: is called with every `TaskEvent`, never by two threads at once. Without it, progress is
            shown on standard error if that is a terminal.
        sleep: waits before a retry, in the thread of the attempt; None for a wait that an interrupt ends.

    Returns:
        What became of each task. A task that failed is not raised.

    Raises:
        BadPlan: the tasks make no plan; nothing was begun.
        RunTaken: somebody else has gone on with this run meanwhile, as its checkpoint tells; what was
            completed here since is not recorded.
        TypeError, ValueError: an argument that cannot be, or a gate that answered with something else.
        DurableApprovalError: a gate suspends, but nobody could be asked; nothing more was begun.
        TurnlogError: what the store raised, when a result could not be written or memory not be read; by then
            all that was under way has ended.
    """
    gates = Gates(approve_plan, approve_round, approve_dispatch)
    desk = _check(team, max_parallel, on_event, sleep, checkpoint)
    queue, hooks = fresh_run(team, tasks, desk, gates)
    return run_queue(team, queue, hooks, max_parallel=max_parallel, on_event=on_event, sleep=sleep)


def restore(
    team: Team,
    tasks: Iterable[Task] = (),
    *,
    checkpoint: Checkpoint | Literal[True] = True,
    at: str | None = None,
    restore_memory: bool = False,
    approve_plan: ApprovePlan | None = None,
    approve_round: ApproveRound | None = None,
    approve_dispatch: ApproveDispatch | None = None,
    max_parallel: int = DEFAULT_PARALLEL,
    on_event: Callable[[TaskEvent], object] | None = None,
    sleep: Callable[[float], object] | None = None,
) -> TeamResult:
    """Go on with a run from its checkpoint; without one, begin it with `tasks`.

    What is completed, failed or skipped in the checkpoint stays so; what was under way begins anew. A result
    that was changed in memory since counts as it is there. A fork goes on from its parent's checkpoint, as a
    run of its own, and asks its gates anew.

    If the memory is kept elsewhere, the checkpoint holds it, and it is put back. Else it stays as it is.

    While an approval is undecided, the result is `suspended` and nothing is done; if one was rejected, what
    is left is skipped. Give the same gates as to `run_tasks`: what is approved is not asked again, what comes
    after it is.

    Args:
        team: has every agent that the tasks name; its store must be synchronous.
        tasks: what to do if there is no checkpoint; otherwise they are not looked at.
        checkpoint: as it was given to `run_tasks`.
        at: go on from the newest checkpoint at or before this point of the run (see
            `turnlog.replay.address`); None for the one that is kept now. Needs checkpoints on a log.
        restore_memory: take memory on a log back to exactly what it was at the checkpoint.

    Raises:
        BadCheckpoint: what is kept is no checkpoint, or cannot be gone on from; says where and why.
        BadPlan: an agent is missing.
        RunTaken: as `run_tasks`; of several who go on at once, the first to complete a task goes on.
        BadAddress, NotFound: the run never was at `at`.
        DurableApprovalError: the approvals kept are not those of the checkpoint.
        TypeError, ValueError: an argument that cannot be. With all of these nothing was changed or begun.
        TurnlogError: as `run_tasks`.
    """
    gates = Gates(approve_plan, approve_round, approve_dispatch)
    desk = check_desk(_check(team, max_parallel, on_event, sleep, checkpoint))
    resuming = Resuming(team, given_tasks(tasks), desk, gates, at, restore_memory)
    queue, hooks = carry_out(resuming.run())
    return run_queue(team, queue, hooks, max_parallel=max_parallel, on_event=on_event, sleep=sleep)


def run_queue(
    team: Team,
    queue: TaskQueue,
    hooks: Hooks,
    *,
    max_parallel: int = DEFAULT_PARALLEL,
    on_event: Callable[[TaskEvent], object] | None = None,
    sleep: Callable[[float], object] | None = None,
) -> TeamResult:
    """Run what `queue` has left, with `hooks`; see `run_tasks`."""
    memory = team.memory
    assert not isinstance(memory, AsyncSharedMemory)
    mark = os.urandom(4).hex()
    with (
        reporting(on_event, len(queue.plan.tasks)) as tell,
        _ThreadAttempts(memory, max_parallel, sleep) as attempts,
    ):
        scheduler = Scheduler(team, queue, memory, attempts, max_parallel, hooks, tell, mark)
        return carry_out(scheduler.run())


def _check(
    team: Team, max_parallel: int, on_event: object, sleep: object, checkpoint: object
) -> RecordDesk | None:
    check_run(team, max_parallel, on_event)
    if sleep is not None:
        check_function("sleep", sleep, "seconds", optional=True, awaited=f" here; {AWAITING}")
    if isinstance(team.memory, AsyncSharedMemory):
        raise TypeError(f"{type(team.store).__name__} has coroutines; {AWAITING} with this team")
    return RecordDesk.of(team, checkpoint, asynchronous=False)


def check_desk(desk: RecordDesk | None) -> RecordDesk:
    """Refuse to restore from nowhere.

    Raises:
        TypeError: there is no checkpoint to go on from.
    """
    if desk is None:
        raise TypeError("there is nothing to restore from without a checkpoint; use run_tasks")
    return desk


def check_run(team: object, max_parallel: object, on_event: object) -> None:
    """Refuse what cannot be run.

    Raises:
        TypeError, ValueError: no team, a limit that is not an integer of at least 1, or a listener that could
            not be told.
    """
    if not isinstance(team, Team):
        raise TypeError(f"team must be a Team, not {kind_of(team)}; write Team([agent])")
    if on_event is not None:
        awaited = "; pass a plain function"
        check_function("on_event", on_event, "event", optional=True, awaited=awaited)
    if type(max_parallel) is not int or max_parallel < 1:
        raise ValueError(f"max_parallel must be an integer of at least 1, not {max_parallel!r:.80}")


class _ThreadAttempts:
    """Makes attempts in threads, and those of coroutine functions on a loop, begun when it is needed."""

    def __init__(
        self, memory: SharedMemory | None, max_parallel: int, sleep: Callable[[float], object] | None
    ) -> None:
        self._memory = memory
        self._asynchronous: AsyncSharedMemory | None = None
        self._sleep = sleep
        self._stopping = threading.Event()
        self._ended: queues.SimpleQueue[Outcome] = queues.SimpleQueue()
        self._pool = ThreadPoolExecutor(max_parallel, thread_name_prefix="turnlog-agent")
        self._loop: LoopThread | None = None
        self._loop_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is under way afterwards."""
        self._stopping.set()
        try:
            # Functions may still wait for coroutines they returned: those must be cancelled first.
            if self._loop is not None:
                self._loop.cancel()
            self._pool.shutdown(cancel_futures=True)
        finally:
            if self._loop is not None:
                self._loop.close()

    def start(self, attempt: Attempt) -> None:
        """See `Attempts.start`."""
        context = contextvars.copy_context()
        if attempt.agent.is_async:
            context.run(self._on_loop().begin_call, lambda: self._make_async(attempt))
        else:
            self._pool.submit(context.run, self._make, attempt)

    def next(self) -> Outcome:
        """See `Attempts.next`."""
        return self._ended.get()

    def _make(self, attempt: Attempt) -> None:
        try:
            outcome = Outcome(attempt, self._act(attempt))
        except BaseException as error:  # noqa: BLE001 - the scheduler decides what to make of it
            outcome = Outcome(attempt, None, error)
        self._ended.put(outcome)

    def _act(self, attempt: Attempt) -> object:
        if attempt.delay_s:
            (self._sleep or self._stopping.wait)(attempt.delay_s)
        if self._stopping.is_set():
            return None
        returned = act(attempt, self._memory, self._stopping)
        if not inspect.isawaitable(returned):
            return returned
        with acting_as(attempt.agent.name, activity=attempt.activity):
            return self._on_loop().begin(returned).result()

    async def _make_async(self, attempt: Attempt) -> None:
        from asyncio import CancelledError

        try:
            outcome = Outcome(attempt, await self._act_async(attempt))
        except CancelledError as error:
            if self._stopping.is_set():
                raise
            outcome = Outcome(attempt, None, cancelled_itself(error))
        except BaseException as error:  # noqa: BLE001 - the scheduler decides what to make of it
            outcome = Outcome(attempt, None, error)
        self._ended.put(outcome)

    async def _act_async(self, attempt: Attempt) -> object:
        import asyncio

        if attempt.delay_s and self._sleep is None:
            await asyncio.sleep(attempt.delay_s)
        elif attempt.delay_s and self._sleep is not None:
            await asyncio.to_thread(self._sleep, attempt.delay_s)
        return await act_async(attempt, self._asynchronous, self._stopping)

    def _on_loop(self) -> LoopThread:
        from .bridges import as_asynchronous
        from .loop_thread import LoopThread

        with self._loop_lock:
            if self._loop is None:
                if self._memory is not None:
                    self._asynchronous = as_asynchronous(self._memory)
                self._loop = LoopThread()
                if self._stopping.is_set():  # then nobody else is going to cancel what is begun on it
                    self._loop.cancel()
            return self._loop
