"""A command with an idempotency key is carried out once, for as long as its event is in the run's past."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    Command,
    CompareAndSet,
    Conflict,
    Corrupt,
    Delete,
    EventLog,
    KeyReused,
    Limits,
    NothingChanged,
    Once,
    Restored,
    SetTurn,
    Write,
)
from turnlog.eventlog.integrity import check_log
from turnlog.memory import EventSourcedStore, InMemoryStore
from turnlog.memory.snapshot import RestoreSnapshot
from turnlog.projections import EntriesProjection
from turnlog.replay import Timeline, redact

COMMANDS: list[Any] = [
    pytest.param(lambda: Write("k", "v", {"n": 1}), id="write"),
    pytest.param(lambda: Write("k", "v", expires_at_turn=3), id="write that expires"),
    pytest.param(lambda: Write("k", "v", expected_version=1), id="write on a condition"),
    pytest.param(lambda: Write("k\ud800", "v\udfff", {"half": "\ud83d"}), id="half an emoji"),
    pytest.param(lambda: Write("k", "\ud83d\ude00"), id="a pair in two halves"),
    pytest.param(lambda: CompareAndSet("k", "old", "new"), id="compare and set"),
    pytest.param(lambda: CompareAndSet("k", "other", "new"), id="refused"),
    pytest.param(lambda: Delete("k"), id="delete"),
    pytest.param(lambda: Delete("absent"), id="delete of nothing"),
    pytest.param(Clear, id="clear"),
    pytest.param(AdvanceTurn, id="advance the turn"),
    pytest.param(lambda: SetTurn(0), id="set the turn to what it is"),
    pytest.param(lambda: SetTurn(7), id="set the turn"),
    pytest.param(
        lambda: RestoreSnapshot({"version": 1, "turnCount": 4, "entries": []}), id="restore a snapshot"
    ),
]


def events(log: EventLog) -> int:
    """How many there are."""
    return len(list(log.read()))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_again_gives_the_first_outcome_and_writes_nothing(
    log: EventLog, command: Callable[[], Command[Any]]
) -> None:
    """Whatever it is, changing nothing included, and whatever was written in between."""
    log.execute([Write("k", "old"), Write("z", "old")], run="main")
    (first,) = log.execute([Once("once", command())], run="main", agent="writer")
    log.execute([Write("k", "later"), AdvanceTurn()], run="main")
    before = events(log)
    assert log.execute([Once("once", command())], run="main", agent="somebody else") == [first]
    assert events(log) == before
    with log.reading() as db:
        assert list(check_log(db)) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_outcome_is_that_of_the_plain_command(path: Path, command: Callable[[], Command[Any]]) -> None:
    """The key changes nothing about what a command does."""
    outcomes = []
    for name, asked in (("plain", command()), ("once", Once("key", command()))):
        with turnlog.open(path.with_name(name), durability="os") as log:
            log.execute([Write("k", "old"), Write("z", "old")], run="main")
            outcomes.append(
                (
                    log.execute([asked], run="main"),
                    [(each.key, each.value) for each in EventSourcedStore(log).list()],
                )
            )
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "other",
    [
        Write("k", "w"),
        Write("l", "v"),
        Write("k", "v", {}),
        Write("k", "v", {"n": 1}),
        Write("k", "v", expires_at_turn=1),
        Write("k", "v", expected_version=0),
        CompareAndSet("k", None, "v"),
        Delete("k"),
        Clear(),
    ],
    ids=repr,
)
def test_another_command_under_the_key_is_a_conflict(log: EventLog, other: Command[Any]) -> None:
    """Even one that would write the same; nothing is stored, and the key keeps its first meaning."""
    (first,) = log.execute([Once("once", Write("k", "v"))], run="main")
    with pytest.raises(KeyReused, match="another command") as caught:
        log.execute([Write("x", "y"), Once("once", other)], run="main")
    assert isinstance(caught.value, Conflict)
    assert events(log) == 1
    assert log.execute([Once("once", Write("k", "v"))], run="main") == [first]


def test_another_snapshot_under_the_key_is_a_conflict(log: EventLog) -> None:
    """Commands are told apart by all that they hold, entries within entries included."""
    entry = {"key": "k", "value": "v", "createdAt": "2026-01-01T00:00:00Z"}
    for value, reused in (("v", False), ("v", False), ("w", True)):
        snapshot = {"version": 1, "turnCount": 1, "entries": [entry | {"value": value}]}
        with pytest.raises(KeyReused) if reused else nullcontext():
            log.execute([Once("once", RestoreSnapshot(snapshot))], run="main")
    assert events(log) == 2


def test_a_command_that_changed_nothing_is_recorded(log: EventLog) -> None:
    """So that its repetition is known when it would change something."""
    assert log.execute([Once("once", Delete("k"))], run="main") == [False]
    assert [type(each.event) for each in log.read()] == [NothingChanged]
    log.execute([Write("k", "v")], run="main")
    assert log.execute([Once("once", Delete("k"))], run="main") == [False]


def test_who_wrote_is_who_the_command_names(log: EventLog) -> None:
    """As without the key; the agent that acts counts only where the command names none."""
    named, nameless = Write("k", "v", {"agent": "planner"}), Write("l", "v")
    log.execute([Once("a", named), Once("b", nameless)], run="main", agent="writer")
    assert [each.agent for each in log.read()] == ["planner", "writer"]


def test_a_list_is_repeated_as_a_whole_or_not_at_all(log: EventLog) -> None:
    """All of it known: the first outcomes. A part of it: a conflict that stores nothing."""
    asked = [Once("a", Write("k", "v")), Once("b", AdvanceTurn()), Once("c", Clear())]
    outcomes = log.execute(asked, run="main")
    assert log.execute(asked, run="main") == outcomes
    before = events(log)
    for mixed in (
        [asked[0], Once("d", Write("l", "v"))],
        [asked[0], Write("l", "v")],
        [Clear(), asked[1], AdvanceTurn()],
    ):
        with pytest.raises(KeyReused, match="carried out before"):
            log.execute(mixed, run="main")
    assert events(log) == before


def test_a_key_twice_in_one_list_is_a_mistake(log: EventLog) -> None:
    """It is refused before anything is looked at."""
    with pytest.raises(ValueError, match="twice"):
        log.execute([Once("a", Clear()), Once("a", Clear())], run="main")


@pytest.mark.parametrize(
    ("key", "command", "error"),
    [
        ("", Clear(), ValueError),
        (7, Clear(), TypeError),
        ("a", "no command", TypeError),
        ("a", Once("b", Clear()), TypeError),
    ],
)
def test_what_cannot_be_is_refused(key: Any, command: Any, error: type[Exception]) -> None:
    """A key that is empty or no text, something that is no command, a key within a key."""
    with pytest.raises(error):
        Once(key, command)


@pytest.mark.parametrize(
    "detail", ["{}", "[]", '{"command":"zz","events":1}', '{"command":5,"events":1}', '{"command":"00"}']
)
def test_a_key_without_its_command_is_corrupt(
    log: EventLog, connect: Callable[..., Any], detail: str
) -> None:
    """Where the log no longer says what the key stands for, nobody guesses."""
    log.execute([Once("once", Write("k", "v"))], run="main")
    db = connect()
    db.execute("drop trigger events_no_update")
    db.execute("update events set detail = ?", (detail,))
    with pytest.raises(Corrupt, match="revision 1 of run 'main' does not say"):
        log.execute([Once("once", Write("k", "v"))], run="main")


def test_a_key_that_is_too_long_is_refused(log: EventLog) -> None:
    """As any name would be."""
    with pytest.raises(ValueError, match="idempotency key"):
        log.execute([Once("k" * 5000, Clear())], run="main")


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(Write("k" * 5000, "v"), id="key"),
        pytest.param(Write("k", "v" * 1001), id="value"),
        pytest.param(Delete("k" * 5000), id="key to delete"),
    ],
)
def test_a_command_that_is_too_large_is_refused(path: Path, command: Command[Any]) -> None:
    """The limits of a log hold for what is carried out once as for all else."""
    with EventLog(path, limits=Limits(value=1000)) as log:
        with pytest.raises(ValueError, match="the limit is"):
            log.execute([Once("a", command)], run="main")
        assert log.runs() == []


def test_a_key_may_be_any_text(log: EventLog) -> None:
    """Half an emoji, a NUL, and keys that only look alike are apart."""
    keys = ["\ud800", "\0", "é", "e\u0301", "é\0", "K", "k", "1", "01"]
    outcomes = [log.execute([Once(key, Write("k", key))], run="main") for key in keys]
    assert [log.execute([Once(key, Write("k", key))], run="main") for key in keys] == outcomes
    assert [each.idempotency_key for each in log.read()] == keys


def test_a_command_that_raised_is_forgotten(log: EventLog) -> None:
    """What it was refused for may have gone by the time it is asked again."""
    asked = [Once("once", Write("k", "v", expected_version=1))]
    with pytest.raises(Conflict):
        log.execute(asked, run="main")
    log.execute([Delete("k")], run="main")
    with pytest.raises(Conflict):
        log.execute(asked, run="main")


def test_every_run_has_its_own_keys(log: EventLog) -> None:
    """The same key in another run is another key."""
    log.execute([Once("once", Write("k", "v"))], run="main")
    log.execute([Once("once", Write("k", "w"))], run="side")
    assert events(log) == 2


def test_a_fork_knows_the_keys_of_its_past(log: EventLog) -> None:
    """Those up to the fork, and none of what its parent or its sister did since."""
    (first,) = log.execute([Once("early", Write("k", "v"))], run="main")
    log.fork("main", 1, run="fork", turn=0)
    log.fork("fork", 2, run="fork of it", turn=0)
    log.fork("main", 0, run="bare", turn=0)
    log.execute([Once("late", Write("k", "w"))], run="main")
    before = events(log)
    for run in ("fork", "fork of it"):
        assert log.execute([Once("early", Write("k", "v"))], run=run) == [first]
    assert events(log) == before
    for run in ("fork", "fork of it"):
        log.execute([Once("late", Write("k", "another"))], run=run)
    log.execute([Once("early", Write("k", "another"))], run="bare")
    assert events(log) == before + 3


def test_a_restore_frees_the_keys_it_went_back_before(tmp_path: Path) -> None:
    """There and back again: what counts is the past that the present state came from."""
    write = Once("once", Write("k", "v"))
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        timeline_of = lambda: Timeline(log, "main")  # noqa: E731
        log.execute([Write("k", "first")], run="main")  # 1
        (first,) = log.execute([write], run="main")  # 2
        log.execute([Write("k", "third")], run="main")  # 3
        timeline_of().restore(position=2)  # 4, 5: it is still in the past
        assert log.execute([write], run="main") == [first]
        timeline_of().restore(position=1)  # the key is free
        (second,) = log.execute([Once("once", Write("k", "another"))], run="main")
        assert second > first
        with pytest.raises(KeyReused):
            log.execute([write], run="main")
        timeline_of().restore(position=3)  # back to where the first stands, and the second does not
        assert log.execute([write], run="main") == [first]
        timeline_of().restore(position=second)
        with pytest.raises(KeyReused):
            log.execute([write], run="main")
        timeline_of().restore(position=1)
        before = events(log)
        log.fork("main", timeline_of().point().revision, run="fork", turn=0)
        log.execute([write], run="fork")
        log.execute([write], run="main")
        assert events(log) == before + 3


def test_a_restore_that_changes_no_entry_frees_keys_too(log: EventLog) -> None:
    """Also where nothing follows it: its own event is the newest."""
    log.execute([Write("k", "v")], run="main")
    log.execute([Once("once", Delete("absent"))], run="main")
    Timeline(log, "main").restore(position=1)
    assert log.execute([Once("once", AdvanceTurn())], run="main") == [1]


def test_a_restore_may_itself_be_carried_out_once(log: EventLog, tell: Callable[..., Any]) -> None:
    """It goes back before itself, but not in the past that its own state came from."""
    log.execute([Write("k", "v"), AdvanceTurn()], run="main")
    asked = [Once("once", tell(Restored(0, to=1)))]
    first = log.execute(asked, run="main")
    assert log.execute(asked, run="main") == first
    assert events(log) == 3


def test_a_snapshot_frees_no_key(log: EventLog) -> None:
    """It goes back to no point of the log."""
    log.execute([Once("once", Write("k", "v"))], run="main")
    log.execute([RestoreSnapshot({"version": 1, "turnCount": 0, "entries": []})], run="main")
    before = events(log)
    log.execute([Once("once", Write("k", "v"))], run="main")
    assert events(log) == before


def test_an_original_that_was_redacted_counts_as_equal(tmp_path: Path) -> None:
    """Its text cannot be compared any more; writing it again would undo the redaction."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        (first,) = log.execute([Once("once", Write("k", "secret"))], run="main")
        redact(log, position=first, reason="leaked", by="dpo")
        before = events(log)
        for value in ("secret", "another"):
            assert log.execute([Once("once", Write("k", value))], run="main") == [first]
        assert events(log) == before


def test_the_key_is_in_the_export(tmp_path: Path) -> None:
    """A run that was moved to another file knows what it carried out."""
    from turnlog.eventlog.export import export_lines
    from turnlog.eventlog.intake import import_lines

    asked = [Once("once", Write("k", "v")), Once("\ud800", Delete("absent"))]
    with turnlog.open(tmp_path / "a.db", durability="os") as log:
        log.execute(asked, run="main")
        lines = list(export_lines(log))
    with turnlog.open(tmp_path / "b.db", durability="os") as log:
        import_lines(log, lines)
        log.execute(asked, run="main")
        assert events(log) == 2
        with log.reading() as db:
            assert list(check_log(db)) == []


def test_threads_that_ask_at_once_write_one_event(log: EventLog) -> None:
    """Group commit decides them in one transaction; each gets the same answer."""
    answers: list[int] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait()
        for number in range(20):
            answers.extend(log.execute([Once(f"once {number}", Write("k", str(number)))], run="main"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert events(log) == 20
    assert len(answers) == 160
    assert len(set(answers)) == 20


def test_tasks_that_ask_at_once_write_one_event(log: EventLog) -> None:
    """The same for a loop."""

    async def ask() -> list[Any]:
        asked = (log.aexecute([Once("once", Write("k", "v"))], run="main") for _ in range(8))
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [[1]] * 8
    assert events(log) == 1


_ASK = """
import sys
import turnlog
from turnlog.eventlog import Once, Write

with turnlog.open(sys.argv[1], durability="os", busy_timeout_s=30) as log:
    print("ready", flush=True)
    sys.stdin.readline()
    print([log.execute([Once(f"once {n}", Write("k", str(n)))], run="main")[0] for n in range(20)])
"""


def test_processes_that_ask_at_once_write_one_event(path: Path) -> None:
    """Four of them ask for the same twenty commands, and are told the same positions."""
    turnlog.open(path).close()
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", _ASK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in asking:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in asking:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=60)[0] for process in asking}
    assert len(answers) == 1
    with turnlog.open(path, read_only=True) as log:
        assert events(log) == 20


def test_a_retry_after_a_lost_answer_finds_what_was_written(path: Path) -> None:
    """The process that got no answer is gone; the next one asks again."""
    for _ in range(3):
        with turnlog.open(path, durability="os") as log:
            assert log.execute([Once("once", Write("k", "v"))], run="main") == [1]
            assert events(log) == 1


def test_stores_take_such_commands(tmp_path: Path) -> None:
    """The one in memory and the one on a log answer alike, step by step."""

    def play(store: Any) -> list[Any]:
        seen: list[Any] = []
        for asked in (
            [Once("a", Write("k", "v"))],
            [Once("a", Write("k", "v"))],
            [Once("a", Write("k", "v", {"n": 1}))],
            [Once("b", Delete("absent")), Write("k", "w")],
            [Once("b", Delete("absent"))],
            [Once("b", Delete("absent")), AdvanceTurn()],
            [Once("c", AdvanceTurn()), Once("d", CompareAndSet("k", "w", "x"))],
            [Once("c", AdvanceTurn()), Once("d", CompareAndSet("k", "w", "x"))],
            [Once("e", Write("k", "\ud83d\ude00", expected_version=1))],
            [Once("e", Write("k", "\ud83d\ude00"))],
            [Once("f", Clear()), Once("g", SetTurn(3))],
            [Write("k", "again"), Once("g", SetTurn(3))],
            [Once("f", Clear())],
        ):
            try:
                seen.append(store.execute(asked))
            except (Conflict, ValueError) as error:
                seen.append((type(error), store.get("k")))
        return [seen, [(each.key, each.value, each.version) for each in store.list()], store.get_turn()]

    expected = play(InMemoryStore(clock=lambda: 1000))
    assert KeyReused in [each[0] for each in expected[0] if isinstance(each, tuple)]
    projections = (EntriesProjection(),)
    with EventLog(tmp_path / "team.db", projections=projections, clock=lambda: 1000) as log:
        assert play(EventSourcedStore(log)) == expected
