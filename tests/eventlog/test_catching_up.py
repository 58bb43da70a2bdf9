"""What is remembered of the end of a log stays true, whatever others append, and is not read anew."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    BadAddress,
    BadImport,
    CompareAndSet,
    Conflict,
    Delete,
    EntryWritten,
    EventLog,
    NotFound,
    RunExists,
    SetTurn,
    Write,
)
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.eventlog.runs import find_name
from turnlog.eventlog.tail import MAX_NEWS, RunTail, Tail
from turnlog.memory import EventSourcedStore
from turnlog.projections import rebuild
from turnlog.replay import Timeline, redact
from turnlog.replay.verification import verify

KEYS = ["a", "b", "caf\u00e9", "\ud83d", "[redacted 0123abcd]", *(f"k{number}" for number in range(6))]
WHY = {"reason": "asked", "by": "dpo"}


class Onlooker:
    """A tail on a connection of its own, that writes nothing itself."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.tail = Tail()

    @contextmanager
    def looking(self) -> Iterator[Tail]:
        """The tail in a transaction, as the writer has it."""
        self.db.execute("begin immediate")
        try:
            self.tail.refresh(self.db)
            yield self.tail
        finally:
            self.db.execute("commit")
        self.tail.hold()

    def known(self, run: str, *keys: str) -> RunTail:
        """The end of a run, after it was asked for these keys."""
        with self.looking() as tail:
            end = tail.run(self.db, run)
            assert end is not None
            for key in keys:
                end.entry(self.db, key)
                end.name(self.db, key)
            return end

    def check(self) -> None:
        """Everything remembered is what the tables say; asked of a copy, since asking changes what is."""
        with self.looking() as tail:
            fresh = Tail()
            fresh.refresh(self.db)
            seen = copy.deepcopy(tail)
            assert (seen.position, seen.last_name, seen.last_run) == (
                fresh.position,
                fresh.last_name,
                fresh.last_run,
            )
            for run in [*seen._runs]:
                self._check_run(seen.run(self.db, run), fresh.run(self.db, run))

    def _check_run(self, seen: RunTail | None, fresh: RunTail | None) -> None:
        assert seen is not None
        assert fresh is not None
        for what in ("lineage", "revision", "recorded_upto", "turn", "hash", "pending"):
            assert getattr(seen, what) == getattr(fresh, what), what
        everything = copy.deepcopy(seen).living(self.db)
        assert {key: entry for key, entry in everything.items() if entry is not None} == fresh.living(self.db)
        for key in [*seen.entries]:
            assert seen.entry(self.db, key) == fresh.entry(self.db, key), key
        for text, name in seen.names.items():
            assert (name.id, name.commitment) == find_name(self.db, seen.run.family, text), text


class Others:
    """What others do to the file, at random."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.path = path
        self.log = turnlog.open(path, durability="os")
        self.guests = turnlog.open(path.with_name("guests.db"), durability="os")
        self.runs = ["main"]
        self.guest = "guest 0"
        self.log.execute([Write("a", "v"), Write("b", "v")], run="main")

    def close(self) -> None:
        self.log.close()
        self.guests.close()

    def step(self) -> None:
        """Anything that can happen; ordinary things more often."""
        often = [self.write, self.write, self.write, self.delete, self.swap, self.refuse, self.turn]
        seldom = [self.restore, self.fork, self.begin, self.arrive, self.erase, self.table]
        happen: Callable[[str], None] = self.chance.choice(often * 3 + seldom)
        happen(self.chance.choice(self.runs))

    def key(self) -> str:
        return self.chance.choice(KEYS)

    def write(self, run: str) -> None:
        count = self.chance.choice([1, 1, 1, 3, 10, MAX_NEWS // 2])
        agent = self.chance.choice([None, "ann", "bob"])
        commands = [Write(self.key(), str(n), {"n": n} if n % 2 else None) for n in range(count)]
        if self.chance.random() < 0.2:
            commands.append(Write(self.key(), "short", expires_at_turn=3))
        self.log.execute(commands, run=run, agent=agent)

    def delete(self, run: str) -> None:
        self.log.execute([Delete(self.key()), Write(self.key(), "after")], run=run)

    def swap(self, run: str) -> None:
        self.log.execute([CompareAndSet(self.key(), None, "born"), AdvanceTurn()], run=run)

    def refuse(self, run: str) -> None:
        with suppress(Conflict):
            self.log.execute([Write(self.key(), "v", expected_version=10**9)], run=run)

    def turn(self, run: str) -> None:
        self.log.execute([SetTurn(self.chance.randrange(9))], run=run)

    def restore(self, run: str) -> None:
        timeline = Timeline(self.log, run)
        with suppress(BadAddress):
            timeline.restore(position=self.chance.randint(1, timeline.point().position))

    def fork(self, run: str) -> None:
        timeline, name = Timeline(self.log, run), f"fork {len(self.runs)}"
        with suppress(BadAddress, RunExists):
            timeline.fork(run=name, position=self.chance.randint(1, timeline.point().position))
            self.runs.append(name)

    def begin(self, run: str) -> None:
        name = f"run {len(self.runs)}"
        self.log.execute([Write(self.key(), "first")], run=name)
        self.runs.append(name)

    def arrive(self, run: str) -> None:
        """A run that goes on elsewhere, as far as it has come."""
        self.guests.execute([Write(self.key(), "guest"), AdvanceTurn()], run=self.guest)
        if self.chance.random() < 0.3:
            with suppress(NotFound):
                redact(self.guests, key=self.key(), **WHY)
        try:
            import_lines(self.log, [*export_lines(self.guests)], self.guest)
        except BadImport:  # a name was erased here only, so that this run goes on in two ways: the next guest
            self.guest = f"guest {int(self.guest.split()[1]) + 1}"

    def erase(self, run: str) -> None:
        with suppress(NotFound):
            if self.chance.random() < 0.5:
                redact(self.log, name=self.key(), **WHY)
            else:
                redact(self.log, key=self.key(), run=run, **WHY)

    def table(self, run: str) -> None:
        """Changes without an event."""
        self.chance.choice([self.log.purge, lambda: rebuild(self.log)])()


def known_keys(onlooker: Onlooker, others: Others) -> None:
    """Ask for some keys, and for what is shown for names that were erased."""
    run = others.chance.choice(others.runs)
    shown = [key for key in Timeline(others.log, run).state(all=True) if key.startswith("[redacted")]
    onlooker.known(run, *others.chance.sample(KEYS, 3), *shown)


SEEDS = [*range(4), *(pytest.param(each, marks=pytest.mark.long) for each in range(4, 60))]


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_others_do_what_is_remembered_is_what_is_there(tmp_path: Path, seed: int) -> None:
    """After any history of others, each thing remembered is what it would be if it were read anew."""
    path = tmp_path / "team.db"
    with closing(Others(path, seed)) as others, closing(raw(path)) as db:
        onlooker = Onlooker(db)
        for _ in range(80):
            for _ in range(others.chance.randint(0, 3)):
                others.step()
            if others.chance.random() < 0.7:
                known_keys(onlooker, others)
            onlooker.check()


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_two_who_write_in_turn_agree(tmp_path: Path, seed: int) -> None:
    """Two logs on one file, each deciding on what it remembers, write one history that is whole."""
    path = tmp_path / "team.db"
    chance, told = random.Random(seed), dict[str, str | None]()
    with turnlog.open(path, durability="os") as one, turnlog.open(path, durability="os") as other:
        for number in range(400):
            log, key = chance.choice([one, other]), chance.choice(KEYS)
            if chance.random() < 0.2:
                (gone,) = log.execute([Delete(key)], run="main")
                assert gone is (told.get(key) is not None)
                told[key] = None
            elif chance.random() < 0.3:
                (swapped,) = log.execute([CompareAndSet(key, told.get(key), str(number))], run="main")
                assert swapped
                told[key] = str(number)
            else:
                log.execute([Write(key, str(number))], run="main", agent=f"agent {number % 20}")
                told[key] = str(number)
        found = {entry.key: entry.value for entry in EventSourcedStore(one).list()}
        assert found == {key: value for key, value in told.items() if value is not None}
        assert verify(other).problems == []


class Counting:
    """A connection that keeps the statements it was given."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.asked: list[str] = []

    def execute(self, statement: str, *parameters: Any) -> Any:
        self.asked.append(statement)
        return self._db.execute(statement, *parameters)


def test_what_others_append_is_taken_in_not_read_anew(path: Path, log: EventLog) -> None:
    """Neither the end of the run nor a key is looked up again, whether the others have changed it or not."""
    log.execute([Write(key, "first") for key in KEYS], run="main")
    db = Counting(raw(path))
    onlooker = Onlooker(db)
    before = onlooker.known("main", *KEYS)
    for number in range(20):
        log.execute([Write("a", str(number)), AdvanceTurn()], run="main")
        log.execute([Write(f"new {number}", "v")], run=f"run {number}")
    with onlooker.looking() as tail:
        db.asked.clear()
        after = tail.run(db, "main")
        assert after is before
        changed, unchanged = after.entry(db, "a"), after.entry(db, "b")
        assert db.asked == []
    head = log.head("main")
    assert head is not None
    assert (after.revision, after.turn, after.hash) == (head.revision, head.turn, head.hash)
    assert changed is not None
    assert unchanged is not None
    assert (changed.version, changed.birth) == (head.position - 1, 1)
    assert unchanged.version == 2
    onlooker.check()


@pytest.mark.parametrize("count", [MAX_NEWS, MAX_NEWS + 1])
def test_only_so_much_is_taken_in(path: Path, log: EventLog, count: int) -> None:
    """More events than the limit are not walked through: what was remembered is forgotten instead."""
    log.execute([Write("a", "v")], run="main")
    onlooker = Onlooker(raw(path))
    before = onlooker.known("main", "a")
    log.execute([AdvanceTurn()] * count, run="main")
    assert (onlooker.known("main") is before) is (count == MAX_NEWS)
    onlooker.check()


@pytest.mark.parametrize("statement", ["create table notes (text)", "drop view event_log", "vacuum"])
def test_a_change_of_the_schema_is_not_caught_up_with(path: Path, log: EventLog, statement: str) -> None:
    """Without the triggers past rows could have been changed, so nothing is believed any more."""
    log.execute([Write("a", "v")], run="main")
    onlooker = Onlooker(raw(path))
    before = onlooker.known("main", "a")
    with closing(raw(path)) as db:
        db.execute(statement)
    log.execute([AdvanceTurn()], run="main")
    assert onlooker.known("main") is not before
    onlooker.check()


def test_a_past_that_was_altered_behind_the_triggers_is_not_believed(path: Path, log: EventLog) -> None:
    """Somebody drops a trigger, changes a past row, and makes the trigger again: the row is read anew."""
    log.execute([Write("a", "v")], run="main")
    onlooker = Onlooker(raw(path))
    onlooker.known("main", "a")
    with closing(raw(path)) as db:
        (trigger,) = db.execute("select sql from sqlite_schema where name = 'events_no_update'").fetchone()
        db.execute("drop trigger events_no_update")
        db.execute("update events set recorded_at = 7 where position = 1")
        db.execute(trigger)
    log.execute([AdvanceTurn()], run="main")
    entry = onlooker.known("main").entry(onlooker.db, "a")
    assert entry is not None
    assert entry.created_at == 7


def test_a_backup_put_in_the_place_of_the_file_is_read_anew(path: Path, log: EventLog) -> None:
    """The history goes on from an earlier moment, past where it was: what was in between never happened."""
    log.execute([Write("a", "v")], run="main")
    onlooker = Onlooker(raw(path))
    with closing(raw(path)) as db, closing(raw(path.with_name("backup.db"))) as backup:
        db.backup(backup)
        log.execute([Write("a", "lost"), Delete("a"), Write("b", "lost")], run="main")
        onlooker.known("main", "a", "b")
        backup.backup(db)
    with turnlog.open(path, durability="os") as other:
        other.execute([AdvanceTurn()] * 9, run="main")
    onlooker.check()
    assert onlooker.known("main").entry(onlooker.db, "a") is not None


@pytest.mark.parametrize("purged", [True, False])
def test_an_erased_name_is_not_remembered(tmp_path: Path, purged: bool) -> None:
    """A key whose name was erased is no longer found under it, even if the file could not be written anew."""
    path = tmp_path / "team.db"
    with turnlog.open(path, durability="os", busy_timeout_s=0.05) as log, closing(raw(path)) as reader:
        log.execute([Write("secret", "v"), Write("b", "v")], run="main")
        onlooker = Onlooker(raw(path))
        onlooker.known("main", "secret", "b")
        if not purged:
            reader.execute("begin")
            reader.execute("select count(*) from events").fetchone()
        assert redact(log, name="secret", **WHY).wal_emptied is purged
        end = onlooker.known("main")
        assert end.entry(onlooker.db, "secret") is None
        assert end.name(onlooker.db, "secret") is None
        onlooker.check()


def test_a_name_like_what_is_shown_for_an_erased_one_is_not_confused_with_it(
    path: Path, log: EventLog
) -> None:
    """What an erased name was found under may be a name itself by now, which then is meant."""
    log.execute([Write("a", "v")], run="main")
    insert = "insert into names (id, family, text, salt, commitment) values (?, 1, ?, null, ?)"
    onlooker = Onlooker(raw(path))
    with closing(raw(path)) as db:
        db.execute(insert, (50, None, bytes.fromhex("0123abcd" * 8)))
        log.execute([AdvanceTurn()], run="main")
        assert onlooker.known("main", "[redacted 0123abcd]").names["[redacted 0123abcd]"].id == 50
        db.execute(insert, (51, "[redacted 0123abcd]", bytes(32)))
    log.execute([AdvanceTurn()], run="main")
    onlooker.check()
    assert onlooker.known("main", "[redacted 0123abcd]").names["[redacted 0123abcd]"].id == 51


@pytest.mark.usefixtures("careless")
def test_a_write_that_states_another_beginning_is_believed(
    path: Path, log: EventLog, tell: Callable[..., Any]
) -> None:
    """A value that goes on with a life and says when that began: what it says counts, as in a first look."""
    log.execute([Write("a", "v")], run="main")
    onlooker = Onlooker(raw(path))
    onlooker.known("main", "a")
    log.execute([tell(EntryWritten("a", "w", birth=1, created_at=5))], run="main")
    onlooker.check()


def test_revisions_that_another_program_left_out_are_not_passed_over(path: Path, log: EventLog) -> None:
    """Events that another program put before the newest one are not taken for the end of the run."""
    log.execute([Write("a", "v")], run="main")
    onlooker = Onlooker(raw(path))
    with closing(raw(path)) as db:
        for position, revision in ((2, 9), (3, 5)):
            db.execute(
                "insert into events (position, run, revision, batch, turn, type, payload, encoding,"
                " recorded_at, hash) values (?, 1, ?, 0, ?, 11, 1, 0, 1000, zeroblob(32))",
                (position, revision, revision),
            )
            onlooker.check()
            assert onlooker.known("main", "a").turn == 9


def raw(path: Path) -> Any:
    """A connection of another program's."""
    from turnlog.eventlog.driver import driver

    return driver().connect(path, isolation_level=None, timeout=5)
