"""`arun_tasks`: a team's tasks on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Literal, Self

from ..memory.acting import acting_as
from ..memory.async_shared import AsyncSharedMemory
from ..memory.shared import SharedMemory
from ..memory.steps import acarry_out
from .arguments import check_function
from .attempts import Attempt, Outcome, act, act_async, cancelled_itself
from .bridges import as_asynchronous, as_synchronous, drained, in_thread
from .checkpoint import AsyncCheckpoint, Checkpoint
from .gates import ApproveDispatch, ApprovePlan, ApproveRound, Gates
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
from .threads import DEFAULT_PARALLEL, check_desk, check_run

__all__ = ["arestore", "arun_queue", "arun_tasks"]


async def arun_tasks(
    team: Team,
    tasks: Iterable[Task],
    *,
    checkpoint: Checkpoint | AsyncCheckpoint | bool = False,
    approve_plan: ApprovePlan | None = None,
    approve_round: ApproveRound | None = None,
    approve_dispatch: ApproveDispatch | None = None,
    max_parallel: int = DEFAULT_PARALLEL,
    on_event: Callable[[TaskEvent], object] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> TeamResult:
    """The twin of `run_tasks`, for asyncio; what is said there holds here.

    The team's store may be of either kind, and so may the checkpoint's: what is asked of a synchronous one is
    done in threads. Agents whose `run` is a plain function run in threads too. Gates are called on the loop,
    and may be coroutine functions. If this is cancelled, agents that are coroutines are
    cancelled, functions are waited for, and nothing more is recorded.

    Args:
        sleep: waits before a retry; a coroutine function of seconds.
    """
    gates = Gates(approve_plan, approve_round, approve_dispatch, awaited=True)
    desk = _check(team, max_parallel, on_event, sleep, checkpoint)
    queue, hooks = fresh_run(team, tasks, desk, gates)
    return await arun_queue(team, queue, hooks, max_parallel=max_parallel, on_event=on_event, sleep=sleep)


async def arestore(
    team: Team,
    tasks: Iterable[Task] = (),
    *,
    checkpoint: Checkpoint | AsyncCheckpoint | Literal[True] = True,
    at: str | None = None,
    restore_memory: bool = False,
    approve_plan: ApprovePlan | None = None,
    approve_round: ApproveRound | None = None,
    approve_dispatch: ApproveDispatch | None = None,
    max_parallel: int = DEFAULT_PARALLEL,
    on_event: Callable[[TaskEvent], object] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> TeamResult:
    """The twin of `restore`, for asyncio; what is said there and at `arun_tasks` holds here.

    The history of checkpoints is read at once, on the loop.
    """
    gates = Gates(approve_plan, approve_round, approve_dispatch, awaited=True)
    desk = check_desk(_check(team, max_parallel, on_event, sleep, checkpoint))
    resuming = Resuming(team, given_tasks(tasks), desk, gates, at, restore_memory)
    queue, hooks = await acarry_out(resuming.run())
    return await arun_queue(team, queue, hooks, max_parallel=max_parallel, on_event=on_event, sleep=sleep)


def _check(
    team: Team, max_parallel: int, on_event: object, sleep: object, checkpoint: object
) -> RecordDesk | None:
    check_run(team, max_parallel, on_event)
    check_function("sleep", sleep, "seconds")
    if inspect.isbuiltin(sleep):  # time.sleep, as a rule: it would stop the loop
        raise TypeError(f"sleep must be a coroutine function of (seconds), not {sleep!r:.80}")
    return RecordDesk.of(team, checkpoint, asynchronous=True)


async def arun_queue(
    team: Team,
    queue: TaskQueue,
    hooks: Hooks,
    *,
    max_parallel: int = DEFAULT_PARALLEL,
    on_event: Callable[[TaskEvent], object] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> TeamResult:
    """Run what `queue` has left, with `hooks`; see `arun_tasks`."""
    memory = team.memory
    asynchronous = as_asynchronous(memory) if isinstance(memory, SharedMemory) else memory
    synchronous = memory
    if isinstance(synchronous, AsyncSharedMemory):
        synchronous = as_synchronous(synchronous, asyncio.get_running_loop())
    mark = os.urandom(4).hex()
    with reporting(on_event, len(queue.plan.tasks)) as tell:
        async with _LoopAttempts(synchronous, asynchronous, max_parallel, sleep) as attempts:
            scheduler = Scheduler(team, queue, asynchronous, attempts, max_parallel, hooks, tell, mark)
            return await acarry_out(scheduler.run())


class _LoopAttempts:
    """Makes attempts as tasks of the running loop; those of plain functions in threads of its own."""

    def __init__(
        self,
        synchronous: SharedMemory | None,
        asynchronous: AsyncSharedMemory | None,
        max_parallel: int,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self._synchronous = synchronous
        self._asynchronous = asynchronous
        self._sleep = sleep
        self._stopping = threading.Event()
        self._ended: asyncio.Queue[Outcome] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pool = ThreadPoolExecutor(max_parallel, thread_name_prefix="turnlog-agent")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is under way afterwards."""
        self._stopping.set()
        left = list(self._tasks)
        for task in left:
            task.cancel()
        try:
            await drained(left)
        finally:
            self._pool.shutdown()  # its threads are idle by now

    def start(self, attempt: Attempt) -> None:
        """See `Attempts.start`."""
        task = asyncio.create_task(self._make(attempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def next(self) -> Awaitable[Outcome]:
        """See `Attempts.next`."""
        return self._ended.get()

    async def _make(self, attempt: Attempt) -> None:
        try:
            outcome = Outcome(attempt, await self._act(attempt))
        except asyncio.CancelledError as error:
            if self._stopping.is_set():
                raise
            outcome = Outcome(attempt, None, cancelled_itself(error))
        except BaseException as error:  # noqa: BLE001 - the scheduler decides what to make of it
            outcome = Outcome(attempt, None, error)
        self._ended.put_nowait(outcome)

    async def _act(self, attempt: Attempt) -> object:
        if attempt.delay_s:
            await self._sleep(attempt.delay_s)
        if attempt.agent.is_async:
            return await act_async(attempt, self._asynchronous, self._stopping)
        context = contextvars.copy_context()
        returned = await in_thread(
            self._pool, lambda: context.run(act, attempt, self._synchronous, self._stopping)
        )
        if inspect.isawaitable(returned):
            with acting_as(attempt.agent.name, activity=attempt.activity):
                return await returned
        return returned
