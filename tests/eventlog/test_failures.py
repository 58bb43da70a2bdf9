"""When something goes wrong in the middle: what was asked has happened whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    Conflict,
    Corrupt,
    EventLog,
    Step,
    StorageError,
    Write,
)
from turnlog.eventlog.integrity import check_log
from turnlog.projections import EntriesProjection, first_difference

from ..interruption import Interruption

# -- a full disk


def limit_pages(log: EventLog, spare: int | None) -> None:
    """Let the file grow by so many pages more, or as it likes."""

    def limit(db: Any) -> None:
        (count,) = db.execute("pragma page_count").fetchone()
        db.execute(f"pragma max_page_count = {4294967294 if spare is None else count + spare}")

    log.transact(limit)


@pytest.mark.parametrize("spare", range(6))
def test_a_full_disk_writes_nothing(path: Path, everything: Callable[[], Any], spare: int) -> None:
    """Wherever in a batch the disk is full, that is said, nothing of it is written, and later all is well."""
    with turnlog.open(path, durability="os") as log:
        log.execute([Write("k", "v")], run="main")
        before = everything()
        limit_pages(log, spare)
        commands = [Write(f"key {n} " + "k" * 3000, "v" * 9000, {"m": "x" * 3000}) for n in range(20)]
        for _ in range(3):
            with pytest.raises(StorageError, match=r"cannot grow: .* is full; nothing was written"):
                log.execute(commands, run="other", agent="somebody new")
        assert everything() == before
        limit_pages(log, None)
        assert log.execute(commands, run="other") == list(range(2, 22))
        with log.reading() as db:
            assert first_difference(db) is None
            assert db.execute("pragma integrity_check").fetchone() == ("ok",)


_FULL_DEVICE = """
import resource, signal, sys
import turnlog
from turnlog.eventlog import OutcomeUnknown, StorageError, Write

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = turnlog.open(sys.argv[1])
acknowledged = log.execute([Write("k", "v")], run="main")
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
unknown = False
for n in range(100):
    try:
        acknowledged += log.execute([Write(f"key {n}", "v" * 9000)], run="main")
    except (StorageError, OutcomeUnknown) as error:
        unknown = isinstance(error, OutcomeUnknown)
        break
else:
    raise SystemExit("the limit did not bite")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
later = log.execute([Write("after", "v")], run="main")
positions = [recorded.position for recorded in log.read()]
assert positions == list(range(1, later[0] + 1)), positions
assert set(acknowledged) <= set(positions)
assert unknown or later[0] == acknowledged[-1] + 1, (acknowledged, later)
with log.reading() as db:
    assert turnlog.projections.first_difference(db) is None
log.close()
"""


def test_a_device_that_fails_in_the_middle_of_a_commit(path: Path) -> None:
    """When the system stops writing within a commit, the log stays whole and can be written again."""
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DEVICE, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# -- interrupts


@pytest.mark.parametrize("outcome", ["succeeds", "fails"])
def test_an_interrupt_at_any_line_leaves_a_batch_whole_or_absent(
    path: Path, connect: Callable[..., Any], outcome: str
) -> None:
    """Ctrl-C at each line of a write, ours or the library's: all of it or nothing, and the log goes on."""
    with turnlog.open(path, durability="os") as log:
        log.execute([Write("k", "v")], run="main")
        outsider = connect(timeout=0)
        impossible = [Write("k", "x", expected_version=9)] if outcome == "fails" else []

        def attempt(value: str) -> None:
            log.execute([Write("k", value), Write("j", value), AdvanceTurn(), *impossible], run="main")

        def written(key: str) -> list[str]:
            return [recorded.event.value for recorded in log.read(key=key)]

        with suppress(ValueError):
            attempt("v")
        expected, errors, at, over = written("k"), [], 0, False
        while not over:  # until an attempt comes to its end before its line number `at`
            at += 1
            value = f"attempt {at}"
            try:
                Interruption(at).during(lambda value=value: attempt(value))
                over = True
            except KeyboardInterrupt as error:
                errors.append(error)  # as a shell does, which keeps the traceback and all that hangs on it
            except ValueError:
                assert outcome == "fails"
                over = True
            expected += [value] * (written("k") != expected)
            assert written("k") == ["v", *written("j")] == expected
            outsider.execute("begin immediate")  # would be busy if a transaction had been left open
            outsider.execute("rollback")
        assert len(errors) == at - 1 > 100
        assert (len(expected) > 2) == (outcome == "succeeds")
        log.execute([Write("k", "end")], run="main")
        with log.reading() as db:
            assert first_difference(db) is None


# -- projections


@dataclass
class Counting:
    """A projection that counts events, and fails when told to."""

    name: str = "counting"
    seen: list[int] = field(default_factory=list)
    fail: bool = False

    def prepare(self, db: Any) -> None:
        """Make the row that marks how far it is; count again what is there."""
        db.execute("create table if not exists counting (position integer primary key) strict")
        db.execute("insert or replace into counting select position from events")
        db.execute("insert or replace into projections (name, version) values ('counting', 1)")

    def apply(self, db: Any, steps: Sequence[Step]) -> None:
        """Count the events of the steps."""
        db.executemany(
            "insert into counting values (?)",
            [(recorded.position,) for step in steps for recorded in step.recorded],
        )
        if self.fail:
            raise RuntimeError("the projection failed")


def test_a_projection_that_fails_stops_the_append(path: Path, everything: Callable[[], Any]) -> None:
    """What a projection raises comes through, and neither log nor table has taken anything in."""
    projection = Counting()
    with EventLog(path, projections=(projection,), durability="os") as log:
        log.execute([Write("k", "v")], run="main")
        before = everything()
        projection.fail = True
        for append in (
            lambda: log.execute([Write("k", "w"), AdvanceTurn()], run="main"),
            lambda: log.execute([Write("k", "w")], run="new run", agent="new"),
            lambda: log.fork("main", 1, run="fork", turn=0),
        ):
            with pytest.raises(RuntimeError, match="the projection failed"):
                append()
        assert everything() == before
        projection.fail = False
        assert log.execute([Write("k", "w")], run="main") == [2]


def test_a_projection_that_fails_to_prepare_stops_the_opening(path: Path) -> None:
    """A log whose projection cannot be prepared is not opened, and a new file stays empty."""

    class Unprepared(Counting):
        def prepare(self, db: Any) -> None:
            raise RuntimeError("cannot be prepared")

    with pytest.raises(RuntimeError, match="cannot be prepared"):
        EventLog(path, projections=(Unprepared(),))
    with pytest.raises(turnlog.eventlog.NotOurs, match="is empty"):
        EventLog(path, read_only=True)


def stale(path: Path) -> dict[str, int | None]:
    """From which position on each projection of the file is behind."""
    with EventLog(path, read_only=True) as log, log.reading() as db:
        return dict(db.execute("select name, stale_from from projections").fetchall())


def test_a_projection_catches_up_when_it_is_opened_again(path: Path) -> None:
    """What was appended without the projection is noted, and taken in at the next opening with it."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "v"), Write("gone", "v")], run="main")
    with EventLog(path) as log:
        log.execute([Write("k", "w"), AdvanceTurn()], run="main")
        log.execute([turnlog.eventlog.Delete("gone")], run="main")
        log.fork("main", 1, run="fork", turn=0)
    assert stale(path) == {"entries": 3}
    with turnlog.open(path) as log, log.reading() as db:
        assert first_difference(db) is None
        assert db.execute("select run, key, value from current_entries").fetchall() == [
            ("main", "k", "w"),
            ("fork", "k", "v"),
        ]
    assert stale(path) == {"entries": None}


def test_a_projection_that_is_not_kept_up_is_marked_beside_one_that_is(path: Path) -> None:
    """Opening with other projections leaves those of the file behind, and says so."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "v")], run="main")
    with EventLog(path, projections=(Counting(),)) as log:
        log.execute([Write("k", "w")], run="main")
    assert stale(path) == {"entries": 2, "counting": None}
    with turnlog.open(path) as log, log.reading() as db:
        assert first_difference(db) is None
        log.execute([Write("k", "x")], run="main")
    assert stale(path) == {"entries": None, "counting": 3}


def test_a_projection_in_use_catches_up_with_its_next_step(path: Path) -> None:
    """What another process appends without the projection is taken in with the next append that has it."""
    with turnlog.open(path) as log:
        log.execute([Write("k", "v")], run="main")
        with EventLog(path) as without:
            without.execute([Write("other", "o"), Write("k", "w")], run="main")
            without.execute([Write("k", "side")], run="side")
        assert stale(path) == {"entries": 2}
        log.execute([Write("third", "t")], run="main")
        assert stale(path) == {"entries": None}
        with log.reading() as db:
            assert first_difference(db) is None
            assert db.execute("select run, key, value from current_entries").fetchall() == [
                ("main", "k", "w"),
                ("main", "other", "o"),
                ("main", "third", "t"),
                ("side", "k", "side"),
            ]


def test_a_file_that_never_had_the_projection_gets_it(path: Path) -> None:
    """A log made without any projection is opened with one like any other."""
    with EventLog(path) as log:
        log.execute([Write("k", "v")], run="main")
    assert stale(path) == {}
    with EventLog(path, projections=(EntriesProjection(), Counting())) as log, log.reading() as db:
        assert first_difference(db) is None
    assert stale(path) == {"entries": None, "counting": None}


# -- events nobody knows


_INSERT = (
    "insert into events (position, run, revision, batch, turn, type, payload, key, value, encoding, salt,"
    " detail, recorded_at, hash) values (2, 1, 2, 0, 0, {type}, {payload}, {key}, {value}, {encoding},"
    " {salt}, {detail}, 1, zeroblob(32))"
)
_KNOWN: dict[str, Any] = {
    "type": 1,
    "payload": 1,
    "key": "1",
    "value": "'v'",
    "encoding": 0,
    "salt": "zeroblob(16)",
    "detail": "null",
}


@pytest.mark.parametrize(
    "strange",
    [
        pytest.param({"type": 4}, id="an unknown change"),
        pytest.param({"type": 14}, id="an unknown turn mark"),
        pytest.param({"type": 30}, id="an unknown type"),
        pytest.param({"type": 0}, id="type 0"),
        pytest.param({"payload": 2}, id="an unknown payload version"),
        pytest.param({"encoding": 1}, id="an unknown encoding"),
        pytest.param({"key": "null"}, id="a write without key"),
        pytest.param({"value": "null"}, id="a write without value"),
        pytest.param({"value": "x'ff'"}, id="bytes that are no text"),
        pytest.param({"type": 3}, id="a restored entry that points nowhere"),
        pytest.param({"type": 13}, id="a restore without detail"),
        pytest.param({"type": 20, "detail": "'{'"}, id="broken JSON"),
        pytest.param({"type": 20, "detail": "'[]'"}, id="JSON that is no object"),
        pytest.param({"type": 20, "detail": '\'{"reason":"x"}\''}, id="a refusal without its facts"),
    ],
)
def test_an_event_that_cannot_be_read_is_corrupt(
    log: EventLog, connect: Callable[..., Any], strange: dict[str, Any]
) -> None:
    """An event of unknown type or version, or with columns that do not fit, names its position."""
    log.execute([Write("k", "v")], run="main")
    db = connect()
    db.execute("drop trigger events_no_update")
    db.execute(_INSERT.format(**_KNOWN | strange))
    reader = log.read()
    assert next(reader).position == 1
    with pytest.raises(Corrupt, match="the event at position 2 cannot be read"):
        next(reader)


@dataclass(frozen=True)
class Failing:
    """A command that fails while it is being decided."""

    agent: str | None = None

    def check(self, limits: Any) -> None:
        """Nothing."""

    def decide(self, view: Any) -> Sequence[Any]:
        """Look at everything, then fail."""
        for entry in view.entries():
            view.content(entry)
        raise OSError("no more")

    def outcome(self, recorded: Any) -> None:
        """Never asked."""


def test_a_transaction_that_an_interrupt_left_open_is_ended_by_the_next(log: EventLog) -> None:
    """Ctrl-C can hit even the rollback; what was not committed then is gone with the next write."""
    log.execute([Write("k", "v")], run="main")

    def leave_open(db: Any) -> None:
        db.execute("begin immediate")
        db.execute("insert into names (id, family, text, salt, commitment) values (9, 1, 'x', x'', x'')")

    log._connections.write(leave_open)
    assert log.execute([Write("x", "v")], run="main") == [2]
    with log.reading() as db:
        assert list(check_log(db)) == []


def test_an_error_inside_a_transaction_ends_it(log: EventLog, path: Path) -> None:
    """After a failed write the lock is free at once for others."""
    log.execute([Write("k", "v")], run="main")
    with pytest.raises(OSError, match="no more"):
        log.execute([Write("k", "w"), Failing()], run="main")
    with EventLog(path, busy_timeout_s=0) as other:
        assert other.execute([Write("k", "x")], run="main") == [2]
    with pytest.raises(Conflict):
        log.execute([Write("k", "y", expected_version=1)], run="main")
    with EventLog(path, busy_timeout_s=0) as other:
        assert other.execute([Write("k", "z")], run="main") == [4]
