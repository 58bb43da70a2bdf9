"""One write transaction for everybody who waits: decide each request in order, append, commit together."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from .batch import Actor, Batch, ForkPoint
from .commands import Command
from .connections import Connections
from .database import CHECKPOINT_FRAMES, Database
from .driver import Connection, driver
from .errors import Busy, Conflict, NotFound, RunExists, StorageError, TurnlogError
from .events import Recorded, RunForked
from .pages import Pages
from .projection import Projection, Step
from .runs import Lineage, run_at
from .sources import Sources
from .tail import Tail

__all__ = ["Commands", "Fork", "Request", "Writer"]

T = TypeVar("T")


# What a single request can bring about by what it asks to be stored.
_POISONED = (OverflowError, TypeError, ValueError, StorageError)


_STALE_FROM = "select name, stale_from from projections"
_MARK_STALE = "update projections set stale_from = ? where name = ?"

_PAGE_SIZE = 4_096
_FRAMES_PER_COMMIT = 4
"""Pages that a commit of one event writes to the WAL, each as a frame."""

_PASSES = 2
"""How often the WAL is moved while others write, before the rest is moved while they wait."""

_LATE_FRAMES = 500
"""Frames written during a move from which on a loop waits for it."""

_LONG_WAL_FRAMES = 8_000
"""Frames in a WAL from which on it is made to begin anew."""

_RESTARTS = 100
_RESTART_WAIT_S = 0.000_5
"""How often that is tried, and the longest wait between two tries, in seconds."""


class Request(Protocol):
    """Something to append, of which its asker will be told when it is committed.

    Attributes:
        error: why it failed alone; the asker raises it.
        settled: whether its fate is sealed: it stands, or it has failed.
        needs_tables: whether it reads what earlier requests of the transaction are about to write.
    """

    error: BaseException | None
    settled: bool

    @property
    def needs_tables(self) -> bool: ...

    def attempt(self, db: Connection, tail: Tail, sources: Sources) -> Batch | None:
        """Decide; the batch that is to stand, or None. What goes wrong is put into `error`."""
        ...


class Commands:
    """A list of commands for one run, all or nothing."""

    __slots__ = ("actor", "commands", "error", "needs_tables", "outcomes", "run", "settled")

    def __init__(
        self, run: str, commands: Sequence[Command[Any]], actor: Actor, *, repeats: bool = False
    ) -> None:
        self.needs_tables = repeats
        self.run = run
        self.commands = commands
        self.actor = actor
        self.outcomes: list[Any] = []
        self.error: BaseException | None = None
        self.settled = False

    def attempt(self, db: Connection, tail: Tail, sources: Sources) -> Batch | None:
        """See `Request.attempt`: of a list with a conflict, only the refusal stands."""
        batch = Batch(db, tail, self.run, sources)
        try:
            self.outcomes = batch.execute(self.commands, self.actor)
        except Conflict as conflict:
            if conflict.refusal is None or conflict.key is None:
                self.error = conflict
                return None
            if batch.changes(conflict.key):
                self.error = ValueError(
                    f"key {conflict.key!r} is changed earlier in the same list, so that the "
                    "condition on its version can never hold; nothing was written"
                )
                return None
            self.error = conflict
            batch = Batch(db, tail, self.run, sources)
            batch.append(conflict.refusal, self.actor._replace(agent=conflict.agent or self.actor.agent))
        return batch


class Fork:
    """The beginning of a fork.

    Attributes:
        recorded: its first event.
        lineage: the new run and its ancestors.
    """

    __slots__ = (
        "_actor",
        "_path",
        "_revision",
        "_run",
        "_source",
        "_turn",
        "error",
        "lineage",
        "recorded",
        "settled",
    )
    needs_tables = True

    def __init__(self, path: str, source: str, revision: int, run: str, turn: int, actor: Actor) -> None:
        self._path = path
        self._source = source
        self._revision = revision
        self._run = run
        self._turn = turn
        self._actor = actor
        self.recorded: Recorded | None = None
        self.lineage: Lineage | None = None
        self.error: BaseException | None = None
        self.settled = False

    def attempt(self, db: Connection, tail: Tail, sources: Sources) -> Batch | None:
        """See `Request.attempt`."""
        if tail.run(db, self._run) is not None:
            self.error = RunExists(
                f"{self._path}: run {self._run!r} exists already; choose another name for the fork"
            )
            return None
        parent = tail.run(db, self._source)
        if parent is None:
            self.error = NotFound(f"{self._path} has no run {self._source!r}")
            return None
        if not 0 <= self._revision <= parent.revision:
            self.error = NotFound(
                f"{self._path}: run {self._source!r} has no revision {self._revision}; "
                f"it ends at {parent.revision}"
            )
            return None
        past = parent.lineage
        batch = Batch(db, tail, self._run, sources, ForkPoint(past, self._revision, self._turn))
        origin = past.upto(self._revision)[0].run if self._revision else past.segments[-1].run
        fact = RunForked(run_at(db, origin).uid, self._revision, self._turn)
        self.recorded, self.lineage = batch.append(fact, self._actor), batch.lineage
        return batch


class Writer:
    """Commits requests, and remembers the end of the log from one transaction to the next.

    Safe to use from several threads; they take turns.

    Args:
        database: the file.
        connections: who lends the one connection that appends.
        projections: what to keep up inside the append transaction.
        sources: clock, uids and salts.
    """

    def __init__(
        self,
        database: Database,
        connections: Connections,
        projections: Sequence[Projection],
        sources: Sources,
    ) -> None:
        self._database = database
        self._connections = connections
        self._projections = [(projection.name, projection) for projection in projections]
        self._sources = sources
        self._tail = Tail()
        self._tail_of: Connection | None = None  # `data_version` compares only within one connection
        self._stale_from: dict[str, int | None] = {}  # the file's projections, as `projections` has them
        self._leaves_checkpoints = False
        self._frames = 0  # about as many as were written to the WAL since it was last moved into the file
        self._moving = threading.Lock()
        self._holds_back = False  # commits have to wait for the move, which counts as nobody's lock

    def commit(self, requests: Sequence[Request]) -> None:
        """Decide `requests` in order, commit what stands in one transaction, and make it durable.

        Each request is marked as settled once its fate is sealed.

        Raises:
            TurnlogError: the transaction failed as a whole; nothing of what is not settled was written.
            OutcomeUnknown: it was committed, but could not be flushed; nothing more can be written.
        """
        self._connections.write(lambda db: self._commit_each(db, requests, patient=True))

    def try_commit(self, requests: Sequence[Request]) -> None:
        """`commit` for an event loop: it waits a moment at most, and leaves the flush to the caller.

        A request that is not settled afterwards was not written, since somebody held a lock for longer than
        half a millisecond, or another thread of this process is writing. What was committed becomes durable
        with `flush`, which the caller must call if `flush_is_due`.
        """
        with suppress(Busy):
            self._connections.try_write(lambda db: self._commit_each(db, requests, patient=False))

    @property
    def flush_is_due(self) -> bool:
        """Whether a commit is durable only after `flush`."""
        return self._database.flushes

    def flush(self) -> None:
        """Make durable what was committed.

        Raises:
            OutcomeUnknown: it could not be done; from now on every commit is refused.
        """
        self._database.flush()

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether `checkpoint` is to be called: the WAL has grown, and SQLite does not see to it.

        Where it does, which is after each commit, it can still find no moment at which all is moved.
        """
        return self._frames >= (CHECKPOINT_FRAMES if self._leaves_checkpoints else _LONG_WAL_FRAMES)

    @property
    def checkpoint_is_late(self) -> bool:
        """Whether so much was written while the WAL is moved that writers are to wait, for it to end."""
        return self._frames >= _LATE_FRAMES and self._moving.locked()

    def checkpoint(self) -> None:
        """Move the WAL into the file, while others write; it can be called while another thread does it.

        SQLite begins the WAL anew only once all of it has been moved. So the last, short rest is moved while
        nobody of this process can commit. What was committed stands, whether this succeeds or not.
        """
        if self._moving.locked():
            return
        with self._moving:
            if not self.checkpoint_is_due:
                return
            self._frames = 0
            with suppress(TurnlogError):
                moved = _Moved(whole=True, frames=0)
                for _ in range(_PASSES if self._leaves_checkpoints else 0):
                    with self._connections.reading() as db:
                        moved = _moved(db, "passive")
                    if not moved.whole:  # somebody reads what has long been overwritten, or moves it himself
                        break
                if moved.whole or moved.is_long:
                    self._connections.write(self._move_rest)

    def _move_rest(self, db: Connection) -> None:
        """Move what is left while nobody of this process commits.

        Other processes still may, so that between them the WAL would grow without an end, and with it the
        time to find a page. A long one is therefore moved and begun anew under the lock, if that can be had
        within some tries.
        """
        self._holds_back = True
        try:
            moved = _moved(db, "passive")
            # While somebody reads what is only in the WAL, it cannot begin anew, whoever tries.
            if moved.is_long and (moved.whole or moved.frames < 0):
                for _ in range(_RESTARTS):
                    if _moved(db, "restart").whole:
                        break
                    time.sleep(_RESTART_WAIT_S * random.random())  # noqa: S311 - spreads retries
                else:
                    self._frames = CHECKPOINT_FRAMES // 2  # soon again
        except driver().Error as error:
            raise self._database.error(error) from error
        finally:
            self._holds_back = False

    def renew(self) -> None:
        """In a forked child: forget what a thread of the parent may have been at."""
        self._moving, self._holds_back = threading.Lock(), False

    def waited_too_long(self, seconds: float) -> Exception | None:
        """What to tell somebody who has waited that long for the lock; None if it is not too long."""
        if seconds <= self._database.busy_timeout_s or self._holds_back:
            return None
        return self._database.busy()

    def transact(self, action: Callable[[Connection], T]) -> T:
        """Carry out `action` in a write transaction; for what is no command."""

        def carry_out(db: Connection) -> T:
            self._tail.forget()
            done = self._database.transact(db, lambda: action(db))
            self._frames = max(self._frames, CHECKPOINT_FRAMES)  # how much it wrote is not known
            return done

        return self._connections.write(carry_out)

    def commit_together(self, requests: Sequence[Request]) -> None:
        """Like `commit`, but if one request fails, none stands; afterwards nothing is remembered of the end.

        Raises:
            TurnlogError: as `commit`, or the first error of a request.
        """

        def commit(db: Connection) -> None:
            self._take(db)
            try:
                self._commit(db, requests, patient=True, together=True)
            finally:
                self._tail.forget()  # before anybody else writes: texts and names it knew may be gone

        self._connections.write(commit)

    def purge(self) -> bool:
        """Write the file anew and empty its WAL; whether nobody kept either from being done."""
        return self._connections.write(self._database.purge)

    def _take(self, db: Connection) -> None:
        """Another connection than last time, as after a fork of the process: nothing is known of it."""
        self._tail.forget()
        self._sources.forget()
        if self._leaves_checkpoints:
            # Moving the WAL into the file takes tens of milliseconds; a loop leaves that to its worker.
            with self._database.errors():
                db.execute("pragma wal_autocheckpoint = 0")
        self._tail_of = db

    def _commit_each(self, db: Connection, requests: Sequence[Request], *, patient: bool) -> None:
        if not patient and not self._leaves_checkpoints:
            self._leaves_checkpoints, self._tail_of = True, None  # from now on a loop writes
        if db is not self._tail_of:
            self._take(db)
        try:
            self._commit(db, requests, patient=patient)
        except _POISONED:
            if len(requests) == 1:
                raise
            # One of them cannot be written, so none was; each gets a transaction of its own.
            for request in requests:
                try:
                    self._commit(db, (request,), patient=patient)
                except Busy:
                    raise  # no reason to give this one up, nor to let each of the others wait anew
                except (*_POISONED, TurnlogError) as own:
                    request.error = own
                    request.settled = True

    def _commit(
        self, db: Connection, requests: Sequence[Request], *, patient: bool, together: bool = False
    ) -> None:
        database, tail = self._database, self._tail
        committing = False
        try:
            database.begin(db, patient=patient)
            known = tail.position
            if tail.refresh(db):
                if known:  # what others wrote is in the same WAL; less than nothing if ours was rolled back
                    self._frames += max(0, tail.position - known) * _FRAMES_PER_COMMIT // 2
                self._stale_from = dict(db.execute(_STALE_FROM).fetchall())
            pages = Pages()
            for request in requests:
                if request.needs_tables:
                    self._write(db, pages)
                    pages = Pages()
                self._attempt(db, request, pages)
                if together and request.error is not None:
                    raise request.error
            self._write(db, pages)
            committing = True
            database.commit(db)
            tail.hold()
            if patient:
                self.flush()
            self._settle(requests)
        except BaseException as error:
            if committing and not db.in_transaction and not isinstance(error, Exception):
                # Ctrl-C came after the commit: it stands, and only its flush may be missing.
                self.flush()
                self._settle(requests)
            else:
                database.roll_back(db)
            if isinstance(error, driver().Error):
                raise database.error(error) from error
            raise

    def _settle(self, requests: Sequence[Request]) -> None:
        for request in requests:
            request.settled = True

    def _attempt(self, db: Connection, request: Request, pages: Pages) -> None:
        request.error = None  # it may have been decided before, in a transaction that came to nothing
        try:
            batch = request.attempt(db, self._tail, self._sources)
        except Exception as error:
            if isinstance(error, driver().Error):
                raise
            request.error = error  # the command's own: its neighbours go on
        else:
            if batch is not None:
                batch.keep(pages)

    def _write(self, db: Connection, pages: Pages) -> None:
        """Write what was decided so far."""
        if pages.events:
            pages.write(db)
            self._project(db, pages.steps)
            for end in pages.ends.values():
                end.written()
            self._frames += _FRAMES_PER_COMMIT + pages.count // 2 + pages.long // _PAGE_SIZE

    def _project(self, db: Connection, steps: Sequence[Step]) -> None:
        stale_from = self._stale_from
        for name, projection in self._projections:
            if stale_from.get(name, 0) is None:
                projection.apply(db, steps)
            else:
                projection.prepare(db)  # somebody appended without it: it catches up, these steps included
                stale_from[name] = None
        if len(stale_from) > len(self._projections):
            kept = {name for name, _ in self._projections}
            behind = [name for name, since in stale_from.items() if since is None and name not in kept]
            first = steps[0].recorded[0].position
            db.executemany(_MARK_STALE, [(first, name) for name in behind])
            stale_from.update(dict.fromkeys(behind, first))


class _Moved(NamedTuple):
    """Whether all of the WAL was moved that was there at the beginning, and its length; -1 if not known."""

    whole: bool
    frames: int

    @property
    def is_long(self) -> bool:
        """Whether it is, or may be, so long that it has to begin anew."""
        return not 0 <= self.frames <= _LONG_WAL_FRAMES


def _moved(db: Connection, how: Literal["passive", "restart"]) -> _Moved:
    """Move the WAL into the file, as far as that goes without waiting for anybody."""
    busy, frames, moved = db.execute(f"pragma wal_checkpoint({how})").fetchone()
    return _Moved(not busy and frames == moved, frames)
