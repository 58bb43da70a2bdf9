"""One memory, four ways: the live table, the history index, the fold of the log, and a plain dict.

A state machine drives several runs of one real file through everything that can happen to them, and holds the
four equal after every step; looking back, it holds every past point equal to what the dict was then.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from turnlog.eventlog import (
    AdvanceTurn,
    BadAddress,
    Clear,
    Command,
    CompareAndSet,
    Conflict,
    Delete,
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    Event,
    EventLog,
    Restored,
    RunForked,
    SetTurn,
    TurnAdvanced,
    TurnSet,
    Write,
    WriteRefused,
)
from turnlog.eventlog.limits import MAX_TURN
from turnlog.memory import EventSourcedStore, MemoryEntry, SharedMemory, Snapshot, acting_as
from turnlog.projections import EntriesProjection, first_difference
from turnlog.replay import Point, Timeline
from turnlog.replay.verification import verify

RESERVED = ("__oma_checkpoint__/", "__oma_approval__/", "__turnlog__/")
MARKS = (TurnAdvanced, TurnSet, Restored, RunForked)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# -- the plain model


@dataclass(frozen=True)
class Cell:
    """What a key holds."""

    value: str
    metadata: Mapping[str, Any] | None
    agent: str | None
    expires: int | None
    created_at: int
    birth: int
    content: int
    version: int

    def entry(self, key: str) -> MemoryEntry:
        """The cell as stores and timelines must show it."""
        created_at = EPOCH + timedelta(milliseconds=self.created_at)
        metadata = None if self.metadata is None else dict(self.metadata)
        return MemoryEntry(key, self.value, metadata, created_at, self.expires, self.version)

    def shown(self) -> tuple[object, ...]:
        """What agents see of the cell; as JSON, where true and 1 differ."""
        return self.value, json.dumps(self.metadata, sort_keys=True), self.expires

    def told(self) -> tuple[object, ...]:
        """What a snapshot tells of the cell."""
        return *self.shown(), self.created_at


Cells = dict[str, Cell]


@dataclass(frozen=True)
class Saved:
    """What a snapshot was taken of."""

    turn: int
    cells: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True)
class Moment:
    """A run right after one event; the moment without a kind is the empty beginning."""

    cells: Mapping[str, Cell]
    position: int = 0
    turn: int = 0
    recorded_at: int = 0
    kind: type[Event] | None = None
    key: str | None = None
    agent: str | None = None
    offset: int = 0
    inside: bool = False


class UnexpectedVersionError(Exception):
    """The model's word for a version that was not the one expected: key and agent."""


class Draft:
    """A batch in the making: the moments it adds to those of a run."""

    def __init__(self, moments: Sequence[Moment], position: int, now: int) -> None:
        self.before = list(moments)
        self.new: list[Moment] = []
        self.position = position
        self.now = now
        self.changed: set[str] = set()

    @property
    def last(self) -> Moment:
        return self.new[-1] if self.new else self.before[-1]

    @property
    def cells(self) -> Mapping[str, Cell]:
        return self.last.cells

    @property
    def revision(self) -> int:
        return len(self.before) + len(self.new) - 1

    def happen(
        self,
        kind: type[Event],
        agent: str | None,
        key: str | None = None,
        cell: Cell | None = None,
        turn: int | None = None,
    ) -> None:
        cells = dict(self.cells)
        if kind in (EntryWritten, EntryRestored, EntryDeleted):
            assert key is not None
            self.changed.add(key)
            cells.pop(key, None)
            if cell is not None:
                cells[key] = replace(cell, version=self.position + 1)
            cells = dict(sorted(cells.items(), key=lambda item: item[1].birth))
        self.position += 1
        turn = self.last.turn if turn is None else turn
        self.new.append(Moment(cells, self.position, turn, self.now, kind, key, agent, len(self.new)))

    def carry_out(self, command: Command[Any], ambient: str | None) -> object:
        """What a command does, and its outcome."""
        agent = command.agent or ambient
        match command:
            case Write():
                return self.write(command, agent)
            case CompareAndSet():
                return self.swap(command, agent)
            case Delete(key):
                return self.delete([key] if key in self.cells else [], agent) > 0
            case Clear():
                return self.delete([*self.cells], agent)
            case AdvanceTurn():
                if self.last.turn == MAX_TURN:
                    raise ValueError(self.last.turn)
                self.happen(TurnAdvanced, agent, turn=self.last.turn + 1)
                return self.last.turn
            case SetTurn(turn):
                if self.last.turn != turn:
                    self.happen(TurnSet, agent, turn=turn)
                return turn
            case _:
                raise AssertionError(command)

    def write(self, command: Write, agent: str | None) -> int:
        cell = self.cells.get(command.key)
        if command.expected_version not in (None, cell.version if cell else 0):
            if command.key in self.changed:
                raise ValueError(command.key)
            raise UnexpectedVersionError(command.key, agent)
        self.fill(
            command.key, command.value, METADATA_OF[command.metadata_json], agent, command.expires_at_turn
        )
        return self.position

    def swap(self, command: CompareAndSet, agent: str | None) -> bool:
        cell = self.cells.get(command.key)
        if (cell.value if cell else None) != command.expected:
            self.happen(WriteRefused, agent, command.key)
            return False
        self.fill(command.key, command.value, METADATA_OF[command.metadata_json], agent, None)
        return True

    def delete(self, keys: Sequence[str], agent: str | None) -> int:
        for key in keys:
            self.happen(EntryDeleted, agent, key)
        return len(keys)

    def fill(
        self,
        key: str,
        value: str,
        metadata: Mapping[str, Any] | None,
        agent: str | None,
        expires: int | None,
        born: int | None = None,
    ) -> None:
        """A key is written; it goes on living, unless `born` says that a life of that age begins."""
        old = self.cells.get(key) if born is None else None
        revision = self.revision + 1
        birth = old.birth if old else revision
        created_at = old.created_at if old else self.now if born is None else born
        self.happen(
            EntryWritten, agent, key, Cell(value, metadata, agent, expires, created_at, birth, revision, 0)
        )

    def restore(self, past: Moment, by: str | None) -> None:
        self.happen(Restored, by, turn=past.turn)
        for key in list(self.cells):
            if key not in past.cells and not reserved(key):
                self.happen(EntryDeleted, by, key)
        for key, cell in past.cells.items():
            present = self.cells.get(key)
            if not reserved(key) and (present is None or replace(present, version=cell.version) != cell):
                self.happen(EntryRestored, by, key, cell)

    def restore_saved(self, saved: Saved, agent: str | None) -> None:
        self.happen(Restored, agent, turn=saved.turn)
        kept = {key for key, _ in saved.cells}
        self.delete([key for key in self.cells if key not in kept and not reserved(key)], agent)
        in_place, last = 0, 0
        for key, cell in saved.cells:
            present = self.cells.get(key)
            if present is None or present.birth <= last or present.told() != cell.told():
                break
            in_place, last = in_place + 1, present.birth
        for key, cell in saved.cells[in_place:]:
            self.fill(key, cell.value, cell.metadata, agent, cell.expires, cell.created_at)

    def moments(self) -> list[Moment]:
        ended = [replace(moment, inside=True) for moment in self.new[:-1]] + self.new[-1:]
        return self.before + ended


@dataclass(frozen=True)
class ModelVisit:
    """A stretch of moments at one turn."""

    turn: int
    number: int
    first: int
    last: int


def reserved(key: str) -> bool:
    return key.startswith(RESERVED)


def alive(cell: Cell, turn: int) -> bool:
    return cell.expires is None or turn < cell.expires


def visible(moment: Moment) -> Cells:
    """What agents see."""
    return {key: cell for key, cell in moment.cells.items() if alive(cell, moment.turn) and not reserved(key)}


def visits(moments: Sequence[Moment]) -> list[ModelVisit]:
    """The visits, oldest first; the first begins before any event."""
    begins = [0] + [revision for revision, moment in enumerate(moments) if moment.kind in MARKS]
    ends = [revision - 1 for revision in begins[1:]] + [len(moments) - 1]
    count: Counter[int] = Counter()
    found: list[ModelVisit] = []
    for begin, end in zip(begins, ends, strict=True):
        turn = moments[begin].turn
        count[turn] += 1
        found.append(ModelVisit(turn, count[turn], max(begin, 1), end))
    return found


def is_end(moments: Sequence[Moment], revision: int) -> bool:
    """Whether the moment ends a batch, as far as its own run goes."""
    return revision == len(moments) - 1 or moments[revision + 1].offset == 0


def naive_diff(old: Moment, new: Moment) -> dict[str, tuple[str, MemoryEntry | None, MemoryEntry | None]]:
    """The difference, from two whole states."""
    before, after = visible(old), visible(new)
    found: dict[str, tuple[str, MemoryEntry | None, MemoryEntry | None]] = {}
    for key in before.keys() | after.keys():
        one, other = before.get(key), after.get(key)
        if one is None:
            found[key] = ("added", None, other.entry(key))
        elif other is None:
            found[key] = ("removed", one.entry(key), None)
        elif one.shown() != other.shown():
            found[key] = ("changed", one.entry(key), other.entry(key))
    return found


# -- what is put in

KEYS = (
    "writer/draft",
    "",
    "/",
    "a/b",
    "%",
    "_",
    "caf\u00e9",
    "cafe\u0301",
    "\0",
    "\ud83d",
    "\U0001f600",
    "__turnlog__/lease",
    "__oma_checkpoint__/latest",
    "__turnlog__",
)
VALUES = ("", "007", "7", "null", "\0\0", "half \udc88", "\U0001f600", "caf\u00e9", "cafe\u0301", "%_/\n")
METADATA: tuple[dict[str, Any] | None, ...] = (
    None,
    {},
    {"agent": "writer"},
    {"agent": ""},
    {"agent": "\ud800", "depth": [1, {"x": None}]},
    {"n": 1},
    {"n": True},
)
METADATA_OF = {Write("", "", metadata).metadata_json: metadata for metadata in METADATA}
AGENTS = (None, "ada", "\udfff")
TEXTS = ("", "7", "\0", "\udc88", "caf")
RUNS = ("main", "knowledge", "\ud83d%")


def resolved(spec: tuple[Any, ...], chosen: Sequence[str], cells: Mapping[str, Cell]) -> Command[Any]:
    """The command that a drawn specification means, given the keys in play and what they hold."""
    match spec:
        case ("write", slot, value, metadata, expires, expectation):
            key = chosen[slot % len(chosen)]
            found = cells[key].version if key in cells else 0
            expected = {"any": None, "right": found, "wrong": found + 1, "absent": 0}[expectation]
            return Write(key, value, metadata, expires, expected)
        case ("swap", slot, expectation, value, metadata):
            key = chosen[slot % len(chosen)]
            held = cells[key].value if key in cells else None
            expected = {"right": held, "wrong": f"{held}?", "absent": None, "empty": ""}[expectation]
            return CompareAndSet(key, expected, value, metadata)
        case ("delete", slot):
            return Delete(chosen[slot % len(chosen)])
        case ("clear",):
            return Clear()
        case ("advance",):
            return AdvanceTurn()
        case ("turn", turn):
            return SetTurn(turn)
        case _:
            raise AssertionError(spec)


def commands(slots: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Specifications of commands on a few keys."""
    expectations = st.sampled_from(("any", "any", "right", "wrong", "absent"))
    expiries = st.one_of(st.none(), st.integers(0, 4))
    writes = st.tuples(st.just("write"), slots, values, metadatas, expiries, expectations)
    held = st.sampled_from(("right", "wrong", "absent", "empty"))
    return st.one_of(
        writes,
        writes,
        st.tuples(st.just("swap"), slots, held, values, metadatas),
        st.tuples(st.just("delete"), slots),
        st.just(("advance",)),
        st.tuples(st.just("turn"), st.sampled_from((0, 1, 2, 3, 5, MAX_TURN))),
        st.just(("clear",)),
    )


values = st.sampled_from(VALUES)
metadatas = st.sampled_from(METADATA)
slots = st.integers(0, 4)
places = st.integers(0, 1_000)
deltas = st.sampled_from((0, 0, 1, 999, 60_000, -1, -5_000))
forms = st.sampled_from(("position", "at", "visit"))
agents = st.sampled_from(AGENTS)


def by_method(store: EventSourcedStore, command: Command[Any]) -> object:
    """Carry out a command by the store's own method for it; None where that has nothing to tell."""
    match command:
        case Write(expected_version=None, expires_at_turn=None):
            return store.set(command.key, command.value, METADATA_OF[command.metadata_json])
        case Write(expected_version=None, expires_at_turn=int(expires)):
            metadata = METADATA_OF[command.metadata_json]
            return store.set_with_expiry(command.key, command.value, expires, metadata)
        case CompareAndSet():
            metadata = METADATA_OF[command.metadata_json]
            return store.compare_and_set(command.key, command.expected, command.value, metadata)
        case Delete():
            return store.delete(command.key)
        case Clear():
            return store.clear()
        case AdvanceTurn():
            return store.advance_turn()
        case SetTurn():
            return store.set_turn(command.turn)
        case _:
            return store.execute([command])[0]


class MemoryMachine(RuleBasedStateMachine):
    """Several runs in one file, and their model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="turnlog")
        self.path = Path(self.folder.name, "team #1%.db")
        self.now = 1_700_000_000_000
        self.position = 0
        self.runs: dict[str, list[Moment]] = {}
        self.logs: list[EventLog] = []
        self.snapshots: list[tuple[Snapshot, Saved]] = []

    @initialize(
        keys=st.lists(st.sampled_from(KEYS), min_size=2, max_size=5, unique=True),
        first=st.sampled_from([("advance",), ("write", 0, "", None, None, "any")]),
        specs=st.lists(commands(slots), max_size=4),
    )
    def begin(self, keys: list[str], first: tuple[Any, ...], specs: list[tuple[Any, ...]]) -> None:
        """A few keys at a time, so that things happen to the same ones; and a run that has begun."""
        self.keys = keys
        self.logs = [self.opened()]
        for spec in [first, *specs]:
            self.execute("main", [resolved(spec, self.keys, self.draft("main").cells)], None, 0)

    def opened(self) -> EventLog:
        return EventLog(
            self.path, projections=(EntriesProjection(),), durability="os", clock=lambda: self.now
        )

    def teardown(self) -> None:
        try:
            if self.logs:
                self.look_back_everywhere()
                self.look_at_the_file()
        finally:
            for log in self.logs:
                log.close()
            self.folder.cleanup()

    # -- what happens

    @rule(second=st.booleans())
    def reopen(self, second: bool) -> None:
        """The file is closed and opened again, or opened a second time and written through both."""
        if second and len(self.logs) == 1:
            self.logs.append(self.opened())
            return
        for log in self.logs:
            log.close()
        self.logs = [self.opened()]

    @rule(delta=deltas, place=places, spec=commands(slots), agent=agents, which=places)
    def command(self, delta: int, place: int, spec: tuple[Any, ...], agent: str | None, which: int) -> None:
        """One command, by the store's own method for it; in a run that may not have begun."""
        self.now += delta
        names = [*{**self.runs, **dict.fromkeys(RUNS)}]
        run = names[place % len(names)]
        draft = self.draft(run)
        command = resolved(spec, self.keys, draft.cells)
        try:
            outcome = draft.carry_out(command, agent)
        except (UnexpectedVersionError, ValueError):
            self.execute(run, [command], agent, which)
            return
        with acting_as(agent) if agent else nullcontext():
            assert by_method(self.store(run, which), command) in (outcome, None)
        self.commit(run, draft)

    @rule(
        delta=deltas,
        place=places,
        specs=st.lists(commands(st.integers(0, 1)), min_size=2, max_size=6),
        agent=agents,
        which=places,
    )
    def several(
        self, delta: int, place: int, specs: list[tuple[Any, ...]], agent: str | None, which: int
    ) -> None:
        """A list of commands, all or nothing; on two keys at most, so that they get in each other's way."""
        self.now += delta
        run = self.pick(place)
        cells = self.draft(run).cells
        self.execute(run, [resolved(spec, self.keys, cells) for spec in specs], agent, which)

    @rule(delta=deltas, place=places, back=places, by=agents, form=forms, which=places)
    def restore(self, delta: int, place: int, back: int, by: str | None, form: str, which: int) -> None:
        self.now += delta
        run = self.pick(place)
        revision, where = self.somewhere(run, back, form)
        draft = self.draft(run)
        past = draft.before[revision]
        draft.restore(past, by)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "run .* the checkpoint at ", UserWarning)
            recorded = self.timeline(run, which).restore(**where, by=by, reason="as it was")
        assert (recorded.position, recorded.turn) == (self.position + 1, past.turn)
        self.commit(run, draft)

    @precondition(lambda self: len(self.runs) < 6)
    @rule(delta=deltas, place=places, back=places, by=agents, form=forms, which=places)
    def fork(self, delta: int, place: int, back: int, by: str | None, form: str, which: int) -> None:
        self.now += delta
        parent = self.pick(place)
        revision, where = self.somewhere(parent, back, form)
        name = f"fork {len(self.runs)}"
        inherited = self.runs[parent][: revision + 1]
        inherited[-1] = replace(inherited[-1], inside=False)  # the fork has seen it, whatever its parent saw
        draft = Draft(inherited, self.position, self.now)
        draft.happen(RunForked, by, turn=inherited[-1].turn)
        assert self.timeline(parent, which).fork(run=name, **where, by=by).run == name
        self.commit(name, draft)

    @rule(place=places)
    def take_snapshot(self, place: int) -> None:
        run = self.pick(place)
        moment = self.runs[run][-1]
        snapshot = SharedMemory(self.store(run, 0)).snapshot()
        shown = [(each["key"], each["value"], each.get("expiresAtTurn")) for each in snapshot["entries"]]
        assert shown == [(key, cell.value, cell.expires) for key, cell in visible(moment).items()]
        self.snapshots.append((snapshot, Saved(moment.turn, tuple(visible(moment).items()))))

    @precondition(lambda self: self.snapshots)
    @rule(delta=deltas, place=places, choice=places, by=agents, which=places)
    def restore_snapshot(self, delta: int, place: int, choice: int, by: str | None, which: int) -> None:
        """Into any run, not only the one it was taken of."""
        self.now += delta
        run = self.pick(place)
        snapshot, saved = self.snapshots[choice % len(self.snapshots)]
        draft = self.draft(run)
        draft.restore_saved(saved, by)
        with acting_as(by) if by else nullcontext():
            SharedMemory(self.store(run, which)).restore(snapshot)
        self.commit(run, draft)

    @rule(place=places, spec=commands(slots), own=st.booleans(), which=places)
    def write_without_the_table(self, place: int, spec: tuple[Any, ...], own: bool, which: int) -> None:
        """A log opened without its projection leaves the table behind; the next write or opening mends it."""
        run = self.pick(place)
        draft = self.draft(run)
        command = resolved(spec, self.keys, draft.cells)
        try:
            outcome = draft.carry_out(command, None)
        except (UnexpectedVersionError, ValueError):
            return
        with EventLog(self.path, durability="os", clock=lambda: self.now) as bare:
            assert bare.execute([command], run=run) == [outcome]
        self.commit(run, draft)
        if own:
            self.execute(run, [Write(self.keys[0], "caught up")], None, which)
        else:
            self.reopen(second=False)

    # -- what must hold

    @invariant()
    def every_way_shows_the_same_memory(self) -> None:
        for run, moments in self.runs.items():
            last = moments[-1]
            entries = [cell.entry(key) for key, cell in last.cells.items()]
            for which in range(len(self.logs)):
                store = self.store(run, which)
                assert store.list() == entries
                assert store.get_turn() == last.turn
            timeline = self.timeline(run, 0)
            state = timeline.state(all=True)
            assert [*state.values()] == entries
            assert [*timeline.folded().values()] == entries
            assert state.point == Point(len(moments) - 1, last.position, last.turn)
            assert state.expired == {key for key, cell in last.cells.items() if not alive(cell, last.turn)}
            assert state.reserved == {key for key in last.cells if reserved(key)}
            assert [*timeline.state()] == [*visible(last)]
        for log in self.logs:
            with log.reading() as db:
                assert first_difference(db) is None

    @invariant()
    def single_keys_are_found(self) -> None:
        for run, moments in self.runs.items():
            store = self.store(run, -1)
            for key in self.keys:
                cell = moments[-1].cells.get(key)
                assert store.get(key) == (None if cell is None else cell.entry(key))

    @rule(place=places, one=places, other=places, text=st.sampled_from(TEXTS), which=places)
    def look_back(self, place: int, one: int, other: int, text: str, which: int) -> None:
        run = self.pick(place)
        self.look_at_all_points(run, which)
        self.compare(run, one, other, which)
        self.look_at_histories(run, which)
        self.search(run, self.keys[other % len(self.keys)], text, which)
        self.bisect(run, one, which)

    # -- inside

    def pick(self, place: int) -> str:
        return [*self.runs][place % len(self.runs)]

    def store(self, run: str, which: int) -> EventSourcedStore:
        return EventSourcedStore(self.logs[which % len(self.logs)], run)

    def timeline(self, run: str, which: int) -> Timeline:
        return Timeline(self.logs[which % len(self.logs)], run)

    def draft(self, run: str) -> Draft:
        return Draft(self.runs.get(run, [Moment({})]), self.position, self.now)

    def commit(self, run: str, draft: Draft) -> None:
        if draft.new:
            self.runs[run] = draft.moments()
            self.position = draft.position

    def somewhere(self, run: str, back: int, form: str) -> tuple[int, dict[str, Any]]:
        """A revision of the run's past, and arguments that lead there."""
        moments = self.runs[run]
        if form == "visit":
            seen = visits(moments)
            visit = seen[back % len(seen)]
            return visit.last, {"at": f"{visit.turn}.{visit.number}"}
        revision, timeline = back % len(moments), self.timeline(run, 0)
        while timeline.point(position=moments[revision].position).inside_batch:  # nobody may go there
            revision += 1
        position = moments[revision].position
        return revision, {"at": f"@{position}"} if form == "at" else {"position": position}

    def execute(self, run: str, asked: list[Command[Any]], agent: str | None, which: int) -> None:
        """Carry out commands in the store and in the model."""
        draft = self.draft(run)
        store = self.store(run, which)
        try:
            outcomes = [draft.carry_out(command, agent) for command in asked]
        except UnexpectedVersionError as refusal:
            with pytest.raises(Conflict) as caught:
                store.execute(asked, agent=agent)
            key, refused_agent = refusal.args
            draft = self.draft(run)
            draft.happen(WriteRefused, refused_agent, key)
            cell = draft.cells.get(key)
            assert (caught.value.key, caught.value.found) == (key, cell.version if cell else 0)
        except ValueError:
            with pytest.raises(ValueError) as impossible:
                store.execute(asked, agent=agent)
            assert not isinstance(impossible.value, Conflict)
            return
        else:
            assert store.execute(asked, agent=agent) == outcomes
        self.commit(run, draft)

    def look_back_everywhere(self) -> None:
        for run, moments in self.runs.items():
            self.look_at_all_points(run, 0)
            self.look_at_histories(run, 0)
            for revision in range(len(moments)):
                self.compare(run, revision, revision * 7 + 3, 0)
                self.bisect(run, revision, 0)
            for key in self.keys:
                self.search(run, key, TEXTS[len(moments) % len(TEXTS)], 0)

    def search(self, run: str, key: str, text: str, which: int) -> None:
        """`first` finds the first batch end at which the key is there with the text in it."""
        moments = self.runs[run]
        if not any(moment.key == key for moment in moments):
            return
        expected = None
        for revision, moment in enumerate(moments):
            cell = moment.cells.get(key)
            if cell and is_end(moments, revision) and alive(cell, moment.turn) and text in cell.value:
                expected = revision
                break
        found = self.timeline(run, which).first(key, text)
        assert (found and found.revision) == expected

    def bisect(self, run: str, back: int, which: int) -> None:
        """`bisect` finds the first batch end behind a revision."""
        moments = self.runs[run]
        since = back % len(moments)
        ends = (revision for revision in range(max(since, 1), len(moments)) if is_end(moments, revision))
        expected = next(ends)
        found = self.timeline(run, which).bisect(lambda state: state.point.revision >= since)
        assert found is not None
        assert (found.revision, found.position) == (expected, moments[expected].position)

    def look_at_the_file(self) -> None:
        """Hash chains, commitments, references and the table are in order, and nothing else was recorded."""
        checked = verify(self.logs[0])
        assert (checked.problems, checked.events) == ([], self.position)
        assert {head.run: (head.revision, head.turn) for head in checked.heads} == {
            run: (len(moments) - 1, moments[-1].turn) for run, moments in self.runs.items()
        }

    def look_at_all_points(self, run: str, which: int) -> None:
        """Every past point shows what the model remembers of it."""
        moments = self.runs[run]
        timeline = self.timeline(run, which)
        for revision, moment in enumerate(moments):
            point = timeline.point(position=moment.position)
            assert point == Point(revision, moment.position, moment.turn, moment.inside)
            entries = [cell.entry(key) for key, cell in moment.cells.items()]
            assert [*timeline.state(position=moment.position, all=True).values()] == entries
            assert [*timeline.folded(at=f"@{moment.position}").values()] == entries
            assert [*timeline.state(at=f"@{moment.position}")] == [*visible(moment)]
        self.look_at_addresses(timeline, moments)
        for key in self.keys:
            moment = moments[(len(key) * 31 + which) % len(moments)]
            cell = moment.cells.get(key)
            expected = cell.entry(key) if cell and alive(cell, moment.turn) else None
            assert timeline.entry(key, position=moment.position) == expected

    def look_at_addresses(self, timeline: Timeline, moments: list[Moment]) -> None:
        """Turns, visits, positions of other runs and times lead to the moments they name."""
        seen = visits(moments)
        shown = timeline.turns()
        assert [(visit.turn, visit.visit, visit.first_revision, visit.last_revision) for visit in shown] == [
            (visit.turn, visit.number, visit.first, visit.last) for visit in seen
        ]
        for visit, model in zip(shown, seen, strict=True):
            if model.first <= model.last:
                assert visit.first_position == moments[model.first].position
                assert visit.last_position == moments[model.last].position
                assert visit.ended_at == EPOCH + timedelta(milliseconds=moments[model.last].recorded_at)
            point = timeline.point(at=visit.address)
            assert (point.revision, point.turn) == (model.last, model.turn)
        for turn in {visit.turn for visit in seen}:
            latest = [visit for visit in seen if visit.turn == turn][-1]
            assert timeline.point(turn=turn).revision == latest.last
        for position in range(self.position + 1):
            revision = max(i for i, moment in enumerate(moments) if moment.position <= position)
            assert timeline.point(position=position).revision == revision
        with pytest.raises(BadAddress):
            timeline.point(position=self.position + 1)
        for when in {moment.recorded_at for moment in moments[1:]}:
            address = (EPOCH + timedelta(milliseconds=when)).isoformat()
            revision = max(i for i, moment in enumerate(moments) if i and moment.recorded_at <= when)
            assert timeline.point(at=address).revision == revision

    def compare(self, run: str, one: int, other: int, which: int) -> None:
        """A diff is what two whole states differ in, in the order of birth, either way round."""
        moments = self.runs[run]
        old, new = moments[one % len(moments)], moments[other % len(moments)]
        found = self.timeline(run, which).diff(f"@{old.position}", f"@{new.position}")
        assert {each.key: (each.change, each.before, each.after) for each in found} == naive_diff(old, new)
        births = [
            min(moment.cells[each.key].birth for moment in (old, new) if each.key in visible(moment))
            for each in found
        ]
        assert births == sorted(births)

    def look_at_histories(self, run: str, which: int) -> None:
        """History and blame tell of every event of a key, and who wrote what is there."""
        moments = self.runs[run]
        timeline = self.timeline(run, which)
        for key in self.keys:
            events = [
                (revision, moment.position, moment.kind, moment.agent)
                for revision, moment in enumerate(moments)
                if moment.kind is not None and moment.key == key
            ]
            if not events:
                continue
            told = [
                (each.revision, each.position, type(each.event), each.agent) for each in timeline.history(key)
            ]
            assert told == events
            newest = [each.revision for each in timeline.history(key, reverse=True, limit=2)]
            assert newest == [revision for revision, *_ in reversed(events)][:2]
        for moment in moments[:: max(1, len(moments) // 4)]:
            blamed = timeline.blame(at=f"@{moment.position}")
            assert {key: (each.revision, each.agent) for key, each in blamed.items()} == {
                key: (cell.content, cell.agent) for key, cell in visible(moment).items()
            }


def run_machine(examples: int, steps: int) -> None:
    """Tell so many stories of so many steps."""
    run_state_machine_as_test(
        MemoryMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# Seconds for what a failure needs: hypothesis then looks for the shortest story that shows it.
@pytest.mark.timeout(600)
def test_every_way_to_a_state_agrees() -> None:
    """Live table, history index, fold and plain model agree after every step and at every past point."""
    run_machine(examples=15, steps=40)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
def test_every_way_to_a_state_agrees_for_long(part: int) -> None:
    """The same, with many more and longer stories."""
    run_machine(examples=64, steps=80)
