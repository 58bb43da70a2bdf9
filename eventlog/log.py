"""`EventLog`: the log of one file, to append to and to read."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from . import processes
from .batch import Actor
from .commands import Command, check_name, check_turn, exact_str
from .connections import Connections, Reading
from .database import Database, Durability
from .driver import Connection
from .errors import NotFound
from .events import Event, Recorded
from .group import GroupCommit
from .limits import Limits
from .once import Once, check_keys
from .projection import Projection
from .reading import Filter, read_events
from .redaction import Redact
from .runs import Head, Lineage, Run, find_run, lineage, read_head, run_at
from .sources import Sources
from .writer import Commands, Fork, Request, Writer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from .async_group import AsyncGroupCommit

__all__ = ["EventLog", "RunInfo"]

T = TypeVar("T")

_NOBODY = Actor()


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as listings show it.

    Attributes:
        run: its name, uid and the like.
        parent: name of the run it was forked from, or None.
        head: its newest event.
    """

    run: Run
    parent: str | None
    head: Head


class EventLog:
    """Every event of one file, in commit order; many runs share it.

    Safe to use from several threads, and several processes may open one file. A process may fork while it has
    a log open, and both sides go on with the object; the fork waits for threads that are reading or
    writing.

    Args:
        path: the file; made with mode 0600 if it is missing (its folder must exist).
        projections: what to keep up inside the append transaction. `turnlog.open` passes the usual one.
        durability: `"disk"` (default): an acknowledged write has been flushed and survives a power cut.
            `"os"`: it survives a killed process, not a power cut.
        busy_timeout_s: seconds to wait for another writer before `Busy`.
        read_only: open without the means to write; the file must exist.
        create: make the file if it is missing.
        limits: sizes above which a command is refused.
        clock, new_uid, random_bytes: where time (milliseconds since 1970 UTC), run uids (32 hex digits) and
            salts come from; to be replaced in tests only.

    Raises:
        TypeError, ValueError: an argument that cannot be.
        StorageError: the file is missing, is a folder, or cannot be opened or created.
        NotOurs, TooNew, Corrupt: not a file this build can work with; left untouched.
        Busy: another process kept the lock while the file was being prepared.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        projections: Sequence[Projection] = (),
        durability: Durability = "disk",
        busy_timeout_s: float = 5.0,
        read_only: bool = False,
        create: bool = True,
        limits: Limits | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        new_uid: Callable[[], str] = lambda: uuid.uuid4().hex,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if limits is not None and not isinstance(limits, Limits):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"limits must be Limits(...), not {type(limits).__name__}")
        self.limits = limits or Limits()
        self._projections = tuple(projections)
        sources = Sources(clock, new_uid, random_bytes)
        self._database = Database(
            path, durability=durability, busy_timeout_s=busy_timeout_s, read_only=read_only, create=create
        )
        with processes.opening(self._database.identity):
            self._connections = Connections(self._database, self._database.prepare(self._prepare))
        self._writer = Writer(self._database, self._connections, self._projections, sources)
        self._process = os.getpid()
        self._group = GroupCommit(self._writer.commit)
        self._async_groups: dict[AbstractEventLoop, AsyncGroupCommit] = {}
        self._runs: dict[str, Lineage] = {}
        self._checked_run: str | None = None  # the name of a run that was found acceptable
        self._running_loop: Callable[[], AbstractEventLoop] | None = None

    @property
    def path(self) -> str:
        """The file's absolute path."""
        return str(self._database.path)

    @property
    def busy_timeout_s(self) -> float:
        """Seconds to wait for what somebody else holds before `Busy`."""
        return self._database.busy_timeout_s

    @property
    def read_only(self) -> bool:
        """Whether the log was opened to be read only."""
        return self._database.read_only

    @property
    def as_it_lies(self) -> bool:
        """Whether it is read as it lies, without locks; see `turnlog.open`, `read_only`."""
        return self._database.as_it_lies

    @property
    def durability(self) -> Durability:
        """What an acknowledged write has survived; see `turnlog.open`."""
        return self._database.durability

    @property
    def flushes_itself(self) -> bool:
        """Whether a write is flushed by us after its commit, rather than by SQLite within it."""
        return self._database.flushes

    @property
    def projections(self) -> tuple[Projection, ...]:
        """The projections kept up with every append."""
        return self._projections

    def execute(
        self,
        commands: Sequence[Command[Any]],
        *,
        run: str,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """Decide `commands` in order and append what follows as one batch, all or nothing.

        The run begins with its first event; commands that change nothing append nothing.

        Args:
            commands: one run's commands; they see the effects of those before them.
            run: the run's name.
            agent: who acts, where a command does not say so itself.
            activity: the stretch of work the events belong to.

        Returns:
            One outcome per command; the command's class says what it is.

        Raises:
            TypeError, ValueError: a command or name that cannot be; nothing was written.
            Conflict: a command's `expected_version` is not the one found; of the whole list only the refusal
                was recorded.
            KeyReused: an idempotency key (see `Once`) stands for another command, or for a part of the list.
            Busy, StorageError: nothing was written.
            OutcomeUnknown: the commit failed in a way that leaves open whether it happened.
        """
        request = self._request(commands, run, agent, activity)
        if request is None:
            return []
        self._commit(request)
        return request.outcomes

    async def aexecute(
        self,
        commands: Sequence[Command[Any]],
        *,
        run: str,
        agent: str | None = None,
        activity: str | None = None,
    ) -> list[Any]:
        """`execute` for asyncio; tasks that write at the same time share one commit and one flush.

        Cancelled, the list is either wholly there or wholly absent.
        """
        request = self._request(commands, run, agent, activity)
        if request is None:
            return []
        await self._async_group().submit(request)
        if request.error is not None:
            raise request.error
        return request.outcomes

    def fork(self, source: str, revision: int, *, run: str, turn: int, agent: str | None = None) -> Head:
        """Begin `run` as a fork of `source` after `revision`, at `turn`. No event is copied.

        Returns:
            The head of the new run: its first event, `RunForked`.

        Raises:
            NotFound: there is no run `source`, or it has no such revision.
            RunExists: the name `run` is taken.
            TypeError, ValueError: a name, revision or turn that cannot be.
        """
        check_name(self.limits, "run", run)
        self._check_actor(agent, None)
        source = exact_str("source", source)
        check_turn("turn", turn)
        if type(revision) is not int:
            raise TypeError(f"revision must be an int, not {type(revision).__name__}")
        self.lineage(source)  # runs never go, so one that is here now will be
        request = Fork(self.path, source, revision, run, turn, Actor(agent))
        self._commit(request)
        recorded = cast("Recorded", request.recorded)
        # Known without a look into the file, which could fail when the fork already stands.
        self._runs[run] = cast("Lineage", request.lineage)
        return Head(
            recorded.position, recorded.revision, recorded.turn, recorded.hash, recorded.recorded_at_ms
        )

    def redact(self, requests: Sequence[Redact]) -> None:
        """Carry out `requests`, which belong together, in one transaction; see `turnlog.replay.redact`.

        Raises:
            Busy, StorageError: nothing was erased.
            OutcomeUnknown: as with `execute`.
        """
        self._renew()
        self._writer.commit_together(requests)

    def purge(self) -> bool:
        """Write the file anew, all of it, and leave its WAL empty; whether that could be done.

        Until then, copies of texts that were erased since may lie in the WAL and between the rows of a page.
        Another process that reads or writes longer than `busy_timeout_s` keeps it from being done. Needs
        room for a second copy of the file, and a second or so for each 100 MB.

        Raises:
            Closed, StorageError: the log was closed, or opened to be read only, or the disk is full.
        """
        return self._writer.purge()

    def read(
        self,
        *,
        after: int = 0,
        run: str | None = None,
        agent: str | None = None,
        key: str | None = None,
        type: type[Event] | None = None,  # noqa: A002
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Recorded]:
        """The events, in commit order, a page at a time; no lock and no statement is held in between.

        Args:
            after: begin behind this position; with `reverse`, end there.
            run: only the events recorded in this run itself (a fork's past is in its parent; see `Timeline`).
            agent, key: only events of this agent, of this key.
            type: only events of this class, for example `turnlog.eventlog.WriteRefused`.
            reverse: newest first.
            limit: at most so many.

        Raises:
            TypeError, ValueError: a filter that cannot be.
            NotFound: there is no such run.
            Corrupt: an event cannot be read; names its position.
        """
        wanted = Filter(after=after, agent=agent, key=key, type=type, reverse=reverse, limit=limit)
        return read_events(self, None if run is None else self.lineage(run).run.id, wanted)

    def runs(self) -> list[RunInfo]:
        """Every run of the file, oldest first."""
        with self.reading() as db:
            found = [
                run_at(db, ident) for (ident,) in db.execute("select id from runs order by id").fetchall()
            ]
            names = {run.id: run.name for run in found}
            return [
                RunInfo(run, None if run.parent is None else names[run.parent], read_head(db, run.id))
                for run in found
            ]

    def head(self, run: str) -> Head | None:
        """The newest event of `run`; None while it has none."""
        run = exact_str("run", run)
        with self.reading() as db:
            found = find_run(db, run)
            return None if found is None else read_head(db, found.id)

    def lineage(self, run: str) -> Lineage:
        """`run` and its ancestors.

        Raises:
            NotFound: there is no such run; lists those there are.
        """
        run = exact_str("run", run)
        known = self._runs.get(run)
        if known is not None:
            return known
        with self.reading() as db:
            return self._lineage(db, run)

    def reading(self) -> Reading:
        """A connection for reading, in nobody else's hands until the block ends.

        Raises:
            Closed: the log was closed.
            Busy, StorageError, Corrupt: what SQLite reports, in our terms.
        """
        return self._connections.reading()

    def ask(self, query: str, parameters: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """All rows of one query: `reading`, for what must be quick.

        Raises:
            Closed: the log was closed.
            Busy, StorageError, Corrupt: what SQLite reports, in our terms.
        """
        return self._connections.ask(query, parameters)

    def transact(self, action: Callable[[Connection], T]) -> T:
        """Carry out `action` in a write transaction of this log; all or nothing, `BaseException` included.

        For what is no command: taking in an export, rebuilding projections.

        Raises:
            Closed, StorageError: the log was closed, or opened to be read only.
            Busy: the lock was not to be had in time.
            OutcomeUnknown: the commit failed in a way that leaves open whether it happened.
        """
        return self._writer.transact(action)

    def close(self) -> None:
        """Release the file; closing twice is fine. Waits for a write of another thread to end.

        Tasks whose writes are committed are still answered, those in line are refused.
        """
        self._renew()
        self._connections.close()
        for group in list(self._async_groups.values()):
            group.close()
        self._database.release()

    def __enter__(self) -> Self:
        """The log itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _prepare(self, db: Connection) -> None:
        for projection in self._projections:
            projection.prepare(db)

    def _request(
        self, commands: Sequence[Command[Any]], run: str, agent: str | None, activity: str | None
    ) -> Commands | None:
        """What was asked, once it has been found acceptable; None if it is nothing."""
        if hasattr(commands, "decide"):
            raise TypeError(f"execute takes a list of commands, as [Write(key, value)], not {commands!r:.80}")
        commands, limits = tuple(commands), self.limits
        if type(run) is not str or run != self._checked_run:
            check_name(limits, "run", run)
            self._checked_run = run
        self._check_actor(agent, activity)
        checked, repeats = agent, False
        for command in commands:
            if not hasattr(command, "decide"):
                raise TypeError(f"execute takes commands, as Write(key, value), not {command!r:.80}")
            command.check(limits)
            named = command.agent
            if named is not None and named is not checked:
                check_name(limits, "agent", named)
                checked = named
            repeats = repeats or type(command) is Once
        if repeats:
            check_keys(commands)
        acting = _NOBODY if agent is None and activity is None else Actor(agent, activity)
        return Commands(run, commands, acting, repeats=repeats) if commands else None

    def _commit(self, request: Request) -> None:
        self._renew()
        self._group.submit(request)
        if self._writer.checkpoint_is_due:
            self._writer.checkpoint()
        if request.error is not None:
            raise request.error

    def _renew(self) -> None:
        """In a forked child: the parent's lines are not ours."""
        process = os.getpid()
        if self._process != process:
            self._group = GroupCommit(self._writer.commit)
            self._async_groups = {}
            self._writer.renew()
            self._process = process  # last, since another thread may ask meanwhile

    def _async_group(self) -> AsyncGroupCommit:
        """The line of the running loop."""
        self._renew()
        if self._running_loop is None:
            from asyncio import get_running_loop

            self._running_loop = get_running_loop
        loop = self._running_loop()
        return self._async_groups.get(loop) or self._new_async_group(loop)

    def _new_async_group(self, loop: AbstractEventLoop) -> AsyncGroupCommit:
        from .async_group import AsyncGroupCommit

        # Loops of other threads may do the same at this moment.
        for other in [each for each in list(self._async_groups) if each.is_closed()]:
            ended = self._async_groups.pop(other, None)
            if ended is not None:
                ended.close()
        group = self._async_groups[loop] = AsyncGroupCommit(self._writer, loop)
        return group

    def _lineage(self, db: Connection, run: str) -> Lineage:
        found = find_run(db, run)
        if found is None:
            names = [repr(info.run.name) for info in self.runs()]
            have = f"it has {', '.join(names[:20])}" if names else "it has no runs yet"
            more = f" and {len(names) - 20} more" if len(names) > 20 else ""
            raise NotFound(f"{self.path} has no run {run!r}; {have}{more}")
        # Runs never change, so what was found once holds for good.
        known = self._runs[run] = lineage(db, found)
        return known

    def _check_actor(self, agent: str | None, activity: str | None) -> None:
        if agent is not None:
            check_name(self.limits, "agent", agent)
        if activity is not None:
            check_name(self.limits, "activity", activity)
