"""`EventLog.execute`: a list of commands happens whole or not at all, and every command gets its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    Command,
    CompareAndSet,
    Conflict,
    Delete,
    EntryDeleted,
    EntryWritten,
    Event,
    EventLog,
    Limits,
    NothingChanged,
    Once,
    Recorded,
    Redacted,
    Restored,
    RunForked,
    SetTurn,
    TurnAdvanced,
    TurnSet,
    Write,
    WriteRefused,
)
from turnlog.eventlog.integrity import check_log


def recorded_events(log: EventLog, after: int = 0) -> list[Event]:
    """The events alone, in order."""
    return [recorded.event for recorded in log.read(after=after)]


# -- outcomes


@pytest.mark.parametrize(
    ("commands", "outcomes"),
    [
        pytest.param([Write("k", "v")], [1], id="a write gives its version"),
        pytest.param([Write("k", "v"), Write("k", "w")], [1, 2], id="each write its own"),
        pytest.param([CompareAndSet("k", None, "v")], [True], id="a key that must be missing is"),
        pytest.param([CompareAndSet("k", "", "v")], [False], id="an expected value, but no key"),
        pytest.param(
            [Write("k", "v"), CompareAndSet("k", "v", "w"), CompareAndSet("k", "v", "x")],
            [1, True, False],
            id="compare-and-set sees the list so far",
        ),
        pytest.param(
            [Write("k", "v", {"m": 1}, 9), CompareAndSet("k", "v", "w")], [1, True], id="with an expiry too"
        ),
        pytest.param([Write("k", ""), CompareAndSet("k", "", "w")], [1, True], id="the empty value is one"),
        pytest.param([Write("k", ""), CompareAndSet("k", None, "w")], [1, False], id="and not a missing key"),
        pytest.param([Delete("k")], [False], id="nothing to delete"),
        pytest.param([Write("k", "v"), Delete("k"), Delete("k")], [1, True, False], id="deleted once"),
        pytest.param(
            [Write("k", "v"), Delete("k"), CompareAndSet("k", None, "w")], [1, True, True], id="a second life"
        ),
        pytest.param([Clear()], [0], id="nothing to clear"),
        pytest.param(
            [Write("a", "1"), Write("b", "2"), Delete("a"), Clear(), Clear()],
            [1, 2, True, 1, 0],
            id="clear counts what lived",
        ),
        pytest.param([AdvanceTurn(), AdvanceTurn()], [1, 2], id="turns count up"),
        pytest.param(
            [SetTurn(7), SetTurn(7), AdvanceTurn(), SetTurn(0)], [7, 7, 8, 0], id="turns go anywhere"
        ),
        pytest.param(
            [Write("k", "v", expected_version=0), Delete("k"), Write("k", "w", expected_version=0)],
            [1, True, 3],
            id="a version condition that holds",
        ),
        pytest.param([], [], id="no commands"),
    ],
)
def test_every_command_has_an_outcome(
    log: EventLog, commands: Sequence[Command[Any]], outcomes: list[Any]
) -> None:
    """One outcome per command, in order, each as its class says."""
    assert log.execute(commands, run="main") == outcomes


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param([], id="no commands"),
        pytest.param([Delete("absent")], id="delete of an absent key"),
        pytest.param([Clear()], id="clear of an empty run"),
        pytest.param([SetTurn(0)], id="the turn it has"),
        pytest.param([Delete("a"), Clear(), SetTurn(0)], id="all of them"),
    ],
)
def test_what_changes_nothing_records_nothing(
    log: EventLog, everything: Callable[[], Any], commands: Sequence[Command[Any]]
) -> None:
    """A command without an effect leaves no event, no run and no name."""
    before = everything()
    log.execute(commands, run="main", agent="writer", activity="task 1")
    assert everything() == before
    assert log.head("main") is None
    assert log.runs() == []


def test_facts_follow_commands(log: EventLog) -> None:
    """Each command leaves its facts, in the order of the list."""
    log.execute(
        [
            Write("a", "1", {"n": 1}, expires_at_turn=3),
            Write("a", "2"),
            Write("b", ""),
            Delete("a"),
            Write("a", "3"),
            AdvanceTurn(),
            SetTurn(0),
            Clear(),
        ],
        run="main",
    )
    assert recorded_events(log) == [
        EntryWritten("a", "1", '{"n":1}', expires_at_turn=3),
        EntryWritten("a", "2", birth=1),
        EntryWritten("b", ""),
        EntryDeleted("a"),
        EntryWritten("a", "3"),
        TurnAdvanced(1),
        TurnSet(0),
        EntryDeleted("b"),
        EntryDeleted("a"),
    ]


# -- batches, positions, revisions


def test_positions_rise_over_runs_and_revisions_have_no_gap(log: EventLog) -> None:
    """Position counts in the file, revision in the run, batch in the list."""
    log.execute([Write("a", "1"), Write("b", "2"), AdvanceTurn()], run="main")
    log.execute([Write("a", "1")], run="side")
    log.execute([Write("a", "2"), Delete("missing"), Delete("b")], run="main")
    log.execute([Write("b", "1"), Write("c", "1")], run="side")
    assert [(r.position, r.run, r.revision, r.batch, r.turn) for r in log.read()] == [
        (1, "main", 1, 0, 0),
        (2, "main", 2, 1, 0),
        (3, "main", 3, 2, 1),
        (4, "side", 1, 0, 0),
        (5, "main", 4, 0, 1),
        (6, "main", 5, 1, 1),
        (7, "side", 2, 0, 0),
        (8, "side", 3, 1, 0),
    ]


def test_events_of_a_batch_share_actor_and_time(log: EventLog) -> None:
    """A batch has one recorded time; agent and activity are those given, unless a command names its agent."""
    log.execute(
        [Write("a", "1"), Write("b", "2", {"agent": "editor"}), Delete("a", agent="critic"), AdvanceTurn()],
        run="main",
        agent="writer",
        activity="task 1",
    )
    events = list(log.read())
    assert [r.agent for r in events] == ["writer", "editor", "critic", "writer"]
    assert {r.activity for r in events} == {"task 1"}
    assert len({r.recorded_at_ms for r in events}) == 1


def test_head_is_the_newest_event(log: EventLog) -> None:
    """The head of a run tells position, revision, turn, hash and time of its newest event."""
    log.execute([Write("a", "1"), SetTurn(4)], run="main")
    log.execute([Write("a", "1")], run="side")
    head, newest = log.head("main"), list(log.read(run="main"))[-1]
    assert head == (newest.position, newest.revision, 4, newest.hash, newest.recorded_at_ms)
    assert log.head("other") is None


# -- refusals and conflicts


def test_a_refused_compare_and_set_is_a_fact_and_the_others_stand(log: EventLog) -> None:
    """A compare-and-set that fails is recorded with what it found, and the rest of the list is written."""
    version, won, lost, other = log.execute(
        [
            Write("k", "v"),
            CompareAndSet("k", "v", "w"),
            CompareAndSet("k", "v", "secret attempt"),
            Write("other", "x"),
        ],
        run="main",
    )
    assert (version, won, lost, other) == (1, True, False, 4)
    refused = recorded_events(log)[2]
    assert isinstance(refused, WriteRefused)
    assert (refused.key, refused.reason, refused.found_version) == ("k", "value differs", 2)
    assert refused.attempt.length == len("secret attempt")


@pytest.mark.parametrize(
    ("command", "reason", "found"),
    [
        pytest.param(CompareAndSet("k", "other", "x"), "value differs", 1, id="value differs"),
        pytest.param(CompareAndSet("k", None, "x"), "key exists", 1, id="key exists"),
        pytest.param(CompareAndSet("absent", "v", "x"), "key is missing", 0, id="key is missing"),
    ],
)
def test_a_refusal_says_why(log: EventLog, command: CompareAndSet, reason: str, found: int) -> None:
    """The fact of a refusal names its reason and the version found, 0 for none."""
    log.execute([Write("k", "v")], run="main")
    assert log.execute([command], run="main") == [False]
    (event,) = recorded_events(log, after=1)
    assert isinstance(event, WriteRefused)
    assert (event.reason, event.found_version, event.expected_version) == (reason, found, None)


def test_a_refusal_keeps_neither_side(log: EventLog, path: Any) -> None:
    """Neither the text attempted nor the text expected gets into the file."""
    log.execute([Write("k", "v")], run="main")
    log.execute([CompareAndSet("k", "EXPECTED-TEXT", "ATTEMPTED-TEXT")], run="main")
    with pytest.raises(Conflict):
        log.execute([Write("k", "CONFLICTING-TEXT", expected_version=9)], run="main")
    log.close()
    content = path.read_bytes()
    for text in (b"EXPECTED-TEXT", b"ATTEMPTED-TEXT", b"CONFLICTING-TEXT"):
        assert text not in content


def test_two_equal_refusals_have_different_digests(log: EventLog) -> None:
    """The digest of an attempt is salted anew, so that equal attempts cannot be told to be equal."""
    log.execute([CompareAndSet("k", "a", "x"), CompareAndSet("k", "a", "x")], run="main")
    first, second = recorded_events(log)
    assert isinstance(first, WriteRefused)
    assert isinstance(second, WriteRefused)
    assert first.attempt.digest != second.attempt.digest
    assert first.attempt.salt != second.attempt.salt


def test_a_conflict_records_only_the_refusal(log: EventLog) -> None:
    """When a stated version is not the one found, nothing of the list is written but that it was refused."""
    log.execute([Write("k", "v"), Write("other", "o")], run="main", agent="writer")
    with pytest.raises(
        Conflict, match=r"key 'k' is at version 1, but the write expected version 7"
    ) as caught:
        log.execute(
            [Write("other", "changed"), AdvanceTurn(), Write("k", "w", expected_version=7), Delete("other")],
            run="main",
            agent="editor",
            activity="task 2",
        )
    assert (caught.value.key, caught.value.expected, caught.value.found) == ("k", 7, 1)
    (recorded,) = log.read(after=2)
    assert recorded.event == caught.value.refusal
    assert (recorded.agent, recorded.activity, recorded.batch, recorded.turn) == ("editor", "task 2", 0, 0)
    assert isinstance(recorded.event, WriteRefused)
    assert (recorded.event.reason, recorded.event.expected_version) == ("version differs", 7)


def test_a_conflict_on_a_missing_key_may_begin_the_run(log: EventLog) -> None:
    """A refusal is a fact like any other: a run may begin with one."""
    with pytest.raises(Conflict, match="key 'k' does not exist, but the write expected version 3"):
        log.execute([Write("k", "v", {"agent": "editor"}, expected_version=3)], run="main")
    (recorded,) = log.read(run="main")
    assert (recorded.revision, recorded.agent) == (1, "editor")


def test_a_conflict_is_a_value_error(log: EventLog) -> None:
    """Whoever catches `ValueError` for bad input gets a conflict too."""
    log.execute([Write("k", "v")], run="main")
    with pytest.raises(ValueError, match="the write expected the key not to exist"):
        log.execute([Write("k", "w", expected_version=0)], run="main")


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param([Write("k", "w"), Write("k", "x", expected_version=1)], id="written before"),
        pytest.param([Delete("k"), Write("k", "x", expected_version=1)], id="deleted before"),
        pytest.param([Clear(), Write("k", "x", expected_version=1)], id="cleared before"),
        pytest.param([Write("new", "w"), Write("new", "x", expected_version=0)], id="begun before"),
        pytest.param(
            [Write("new", "w"), Delete("new"), Write("new", "x", expected_version=9)], id="begun and ended"
        ),
    ],
)
def test_a_condition_that_the_same_list_breaks_is_a_mistake(
    log: EventLog, everything: Callable[[], Any], commands: Sequence[Command[Any]]
) -> None:
    """What the list itself did to the key is no fact about the log, so no refusal is recorded."""
    log.execute([Write("k", "v")], run="main")
    before = everything()
    with pytest.raises(ValueError, match="earlier in the same list") as caught:
        log.execute(commands, run="main")
    assert not isinstance(caught.value, Conflict)
    assert everything() == before


# -- errors write nothing


class Failing:
    """A command of an upper layer that decides something and then fails."""

    agent = None

    def __init__(self, error: Exception, *, at: str) -> None:
        self.error, self.at = error, at

    def check(self, limits: Limits) -> None:
        """Perhaps fail."""
        self._perhaps("check")

    def decide(self, view: Any) -> Sequence[Event]:
        """Perhaps fail."""
        self._perhaps("decide")
        return [TurnSet(5)]

    def outcome(self, recorded: Sequence[Recorded]) -> None:
        """Perhaps fail."""
        self._perhaps("outcome")

    def _perhaps(self, at: str) -> None:
        if at == self.at:
            raise self.error


@pytest.mark.parametrize("at", ["check", "decide", "outcome"])
@pytest.mark.parametrize(
    "error",
    [
        TypeError("wrong type"),
        ValueError("wrong value"),
        RuntimeError("other"),
        Conflict("a condition that leaves no refusal"),
        Conflict("such a condition on a key", key="untouched"),
    ],
)
def test_an_error_in_any_command_writes_nothing(
    log: EventLog, everything: Callable[[], Any], error: Exception, at: str
) -> None:
    """Whatever a command raises, and whenever, nothing of its list is written; the next list is."""
    log.execute([Write("k", "v")], run="main")
    before = everything()
    with pytest.raises(type(error), match=str(error)):
        log.execute(
            [Write("new key", "x"), CompareAndSet("k", "z", "y"), Failing(error, at=at)], run="new run"
        )
    assert everything() == before
    assert log.execute([Write("k", "w")], run="main") == [2]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Write(1, "v"), id="key: int"),
        pytest.param(lambda: Write(b"k", "v"), id="key: bytes"),
        pytest.param(lambda: Write("k", None), id="value: None"),
        pytest.param(lambda: Write("k", 7), id="value: int"),
        pytest.param(lambda: Write("k", "v", [("a", 1)]), id="metadata: list"),
        pytest.param(lambda: Write("k", "v", {1: "a"}), id="metadata: int key"),
        pytest.param(lambda: Write("k", "v", {"a": {1, 2}}), id="metadata: set"),
        pytest.param(lambda: Write("k", "v", {"a": float("nan")}), id="metadata: nan"),
        pytest.param(lambda: Write("k", "v", {"a": "\ud83d\ude00"}), id="metadata: a pair as two halves"),
        pytest.param(lambda: Write("k", "v", expires_at_turn=True), id="expiry: bool"),
        pytest.param(lambda: Write("k", "v", expires_at_turn=1.0), id="expiry: float"),
        pytest.param(lambda: Write("k", "v", expected_version="1"), id="version: str"),
        pytest.param(lambda: Write("k", "v", expected_version=True), id="version: bool"),
        pytest.param(lambda: CompareAndSet("k", 1, "v"), id="expected: int"),
        pytest.param(lambda: CompareAndSet("k", None, None), id="compare-and-set to None"),
        pytest.param(lambda: Delete(None), id="delete None"),
        pytest.param(lambda: SetTurn("1"), id="turn: str"),
        pytest.param(lambda: SetTurn(True), id="turn: bool"),
    ],
)
def test_wrong_types_are_refused_before_anything(make: Callable[[], Any]) -> None:
    """A command of wrong types cannot even be made."""
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Write("k", "v", expires_at_turn=-1), id="expiry below 0"),
        pytest.param(lambda: Write("k", "v", expires_at_turn=2**53), id="expiry too high"),
        pytest.param(lambda: SetTurn(-1), id="turn below 0"),
        pytest.param(lambda: SetTurn(2**53), id="turn too high"),
    ],
)
def test_numbers_out_of_bounds_are_refused_before_anything(make: Callable[[], Any]) -> None:
    """A turn or an expiry lies within 0 and 2**53 - 1."""
    with pytest.raises(ValueError, match=r"within 0 and 2\*\*53 - 1"):
        make()


def test_the_last_turn_is_the_last(log: EventLog) -> None:
    """A run at the highest turn stays there: advancing it is an error and records nothing."""
    log.execute([SetTurn(2**53 - 1)], run="main")
    with pytest.raises(ValueError, match=r"within 0 and 2\*\*53 - 1"):
        log.execute([Write("k", "v"), AdvanceTurn()], run="main")
    assert recorded_events(log) == [TurnSet(2**53 - 1)]


def test_the_last_turn_can_be_reached(log: EventLog) -> None:
    """The last step up to the highest turn is allowed, and so is an expiry at it."""
    last = 2**53 - 1
    commands = [Write("k", "v", expires_at_turn=last), SetTurn(last - 1), AdvanceTurn()]
    assert log.execute(commands, run="main") == [1, last - 1, last]
    assert recorded_events(log)[-1] == TurnAdvanced(last)
    log.execute([Write("k", "v", expires_at_turn=0)], run="main")
    with log.reading() as db:
        assert list(check_log(db)) == []


@pytest.mark.parametrize("created_at", [-1, 0, 1, -62_135_596_800_000, 253_402_300_799_999])
def test_a_life_may_have_begun_at_any_date(log: EventLog, tell: Callable[..., Any], created_at: int) -> None:
    """A time before 1970, the millisecond before it included, is kept like any other."""
    event = EntryWritten("k", "v", created_at=created_at)
    log.execute([tell(event)], run="main")
    assert recorded_events(log) == [event]
    with log.reading() as db:
        assert list(check_log(db)) == []


class Text(str):
    """Text of a class of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        """What nobody should see."""
        return "shown"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Write(Text("k"), "v"), id="key"),
        pytest.param(lambda: Write("k", Text("v")), id="value"),
        pytest.param(lambda: Write(Text("k"), Text("v")), id="both"),
        pytest.param(lambda: CompareAndSet(Text("k"), Text("w"), Text("v")), id="compare-and-set"),
        pytest.param(lambda: Delete(Text("k")), id="delete"),
    ],
)
def test_text_of_another_class_is_taken_as_plain_text(make: Callable[[], Any]) -> None:
    """What a command holds is the text itself, of class `str`, whatever its own class makes of it."""
    command = make()
    for attribute, text in (("key", "k"), ("value", "v"), ("expected", "w")):
        held = getattr(command, attribute, text)
        assert (type(held), held) == (str, text)


def test_metadata_may_hold_tuples_and_half_emojis(log: EventLog) -> None:
    """A tuple is metadata as the equal list is, also beside text that has to be escaped."""
    log.execute([Write("k", "v", {"half": "\ud83d", "pair": ("a", ["b", ("c",)])})], run="main")
    (event,) = recorded_events(log)
    assert event == EntryWritten("k", "v", '{"half":"\\ud83d","pair":["a",["b",["c"]]]}')


@pytest.mark.parametrize(
    ("run", "agent", "activity", "error"),
    [
        pytest.param("", None, None, ValueError, id="empty run"),
        pytest.param(1, None, None, TypeError, id="run: int"),
        pytest.param("main", 1, None, TypeError, id="agent: int"),
        pytest.param("main", None, b"a", TypeError, id="activity: bytes"),
        pytest.param("r" * 101, None, None, ValueError, id="run too long"),
        pytest.param("main", "a" * 101, None, ValueError, id="agent too long"),
        pytest.param("main", None, "é" * 51, ValueError, id="activity too long"),
        pytest.param("main", "😀" * 26, None, ValueError, id="agent too long, of four bytes each"),
    ],
)
def test_names_are_checked_before_the_lock(
    path: Any, connect: Callable[..., Any], run: Any, agent: Any, activity: Any, error: type[Exception]
) -> None:
    """A name that cannot be is refused at once, though another writer holds the lock."""
    with EventLog(path, limits=Limits(key=100), busy_timeout_s=30) as log:
        connect().execute("begin immediate")
        with pytest.raises(error):
            log.execute([Write("k", "v")], run=run, agent=agent, activity=activity)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param(Write("k" * 101, "v"), "the key has 101 bytes of UTF-8; the limit is 100", id="key"),
        pytest.param(Write("é" * 51, "v"), "the key has 102 bytes", id="key, in bytes"),
        pytest.param(Write("\ud800" * 34, "v"), "the key has 102 bytes", id="key, half emojis"),
        pytest.param(Delete("k" * 101), "the key has 101 bytes", id="key to delete"),
        pytest.param(Write("k", "v" * 1001), "the value of key 'k' has 1,001 bytes", id="value"),
        pytest.param(
            CompareAndSet("k", None, "é" * 501), "the value of key 'k' has 1,002 bytes", id="attempt"
        ),
        pytest.param(
            Write("k", "v", {"m": "x" * 493}), "the metadata of key 'k' has 501 bytes", id="metadata"
        ),
        pytest.param(
            Write("k", "v", {"agent": "a" * 101}),
            "the name of the agent has 101 bytes",
            id="agent in metadata",
        ),
        pytest.param(
            Delete("k", agent="a" * 101), "the name of the agent has 101 bytes", id="agent of a command"
        ),
    ],
)
def test_sizes_are_checked_before_the_lock(
    path: Any, connect: Callable[..., Any], command: Command[Any], message: str
) -> None:
    """What is too large is refused with size and limit, at once, though another writer holds the lock."""
    with EventLog(path, limits=Limits(key=100, value=1000, metadata=500), busy_timeout_s=30) as log:
        connect().execute("begin immediate")
        with pytest.raises(ValueError, match=message):
            log.execute([command], run="main")


def test_what_is_just_within_the_limits_is_kept(path: Any) -> None:
    """The limits themselves are allowed."""
    with EventLog(path, limits=Limits(key=100, value=1000, metadata=500)) as log:
        command = Write("é" * 50, "v" * 1000, {"m": "x" * 492})
        assert log.execute([command], run="r" * 100, agent="a" * 100) == [1]
        (recorded,) = log.read()
        assert isinstance(recorded.event, EntryWritten)
        assert (recorded.run, recorded.agent) == ("r" * 100, "a" * 100)
        assert (recorded.event.key, recorded.event.value) == ("é" * 50, "v" * 1000)


def test_the_default_limits_are_those_documented(log: EventLog) -> None:
    """Keys of 4 KiB, values of 64 MiB, metadata of 1 MiB."""
    assert log.limits == Limits(key=4096, value=64 * 1024 * 1024, metadata=1024 * 1024)
    log.execute([Write("k" * 4096, "v")], run="main")
    with pytest.raises(ValueError, match="4,097 bytes"):
        log.execute([Write("k" * 4097, "v")], run="main")


_TEXTS = [
    pytest.param("", id="empty"),
    pytest.param("\0", id="NUL"),
    pytest.param("a\0b\0", id="NULs inside"),
    pytest.param("\ud83d", id="half an emoji"),
    pytest.param("\ude00\ud83d", id="halves in the wrong order"),
    pytest.param("\ud83d\ude00", id="a pair as two code points"),
    pytest.param("😀", id="an emoji"),
    pytest.param("\u00e9", id="composed"),
    pytest.param("e\u0301", id="decomposed"),
    pytest.param("007", id="digits"),
    pytest.param("1e5", id="a number"),
    pytest.param("%_[*]?", id="wildcards"),
    pytest.param(" \t\r\n\ufeff", id="blanks"),
    pytest.param("'; drop table events; --", id="SQL"),
]


@pytest.mark.parametrize("text", _TEXTS)
def test_any_text_round_trips(log: EventLog, text: str) -> None:
    """Key, value, agent, activity and run come back exactly as they went in."""
    name = text or "main"
    log.execute([Write(text, text)], run=name, agent=name, activity=name)
    (recorded,) = log.read()
    assert recorded.event == EntryWritten(text, text)
    assert (recorded.run, recorded.agent, recorded.activity) == (name, name, name)
    assert log.execute([CompareAndSet(text, text, "new")], run=name) == [True]


@pytest.mark.parametrize("commands", [[None], ["x"], [{"op": "set"}], "abc"], ids=repr)
def test_what_is_no_command_is_refused(log: EventLog, commands: Any) -> None:
    """Anything but commands is a TypeError, before anything is written."""
    with pytest.raises(TypeError, match="takes commands"):
        log.execute(commands, run="main")
    assert list(log.read()) == []


@pytest.mark.parametrize("names", [{"run": ""}, {"agent": ""}, {"activity": ""}], ids=str)
def test_a_name_is_not_empty(log: EventLog, names: dict[str, str]) -> None:
    """Nobody is called nothing: unknown is None."""
    with pytest.raises(ValueError, match="must not be empty"):
        log.execute([Write("k", "v")], **{"run": "main"} | names)
    with pytest.raises(ValueError, match="must not be empty"):
        log.execute([Delete("k", agent="")], run="main")
    assert list(log.read()) == []


def test_texts_that_look_alike_are_different_keys(log: EventLog) -> None:
    """No two of the texts above share an entry."""
    texts = [str(case.values[0]) for case in _TEXTS]
    log.execute([CompareAndSet(text, None, f"value {n}") for n, text in enumerate(texts)], run="main")
    outcomes = log.execute(
        [CompareAndSet(text, f"value {n}", "found") for n, text in enumerate(texts)], run="main"
    )
    assert outcomes == [True] * len(texts)


def test_a_command_of_a_layer_above_may_state_any_fact(log: EventLog, tell: Callable[..., Any]) -> None:
    """Commands need no registration; what they state is recorded in one batch and answered."""
    facts = (Restored(4, to=None, by="somebody", reason="because"), EntryWritten("k", "v", created_at=5))
    (told,) = log.execute([tell(*facts)], run="main")
    assert [recorded.event for recorded in told] == list(facts)
    assert list(log.read()) == told
    assert [recorded.batch for recorded in told] == [0, 1]


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        pytest.param(EntryDeleted("absent"), ValueError, id="delete what is not there"),
        pytest.param(EntryWritten("a", "x", birth=2), ValueError, id="another's birth"),
        pytest.param(EntryWritten("absent", "x", birth=1), ValueError, id="a life that nobody has"),
        pytest.param(EntryWritten("a", "x", None, 5, 2), ValueError, id="another's birth, with an expiry"),
        pytest.param(
            EntryWritten("a", "x", birth=1, created_at=5), ValueError, id="another time of creation"
        ),
        pytest.param(TurnAdvanced(2), ValueError, id="two turns at once"),
        pytest.param(RunForked("0" * 32, 1, 0), TypeError, id="a fork"),
        pytest.param(Redacted(((1, bytes(32)),)), TypeError, id="an erasure"),
        pytest.param(NothingChanged(), TypeError, id="a note that nothing changed"),
    ],
)
def test_a_command_cannot_record_what_is_not_so(
    log: EventLog, tell: Callable[..., Any], everything: Callable[[], Any], fact: Any, error: type[Exception]
) -> None:
    """What a command of an upper layer decides is held against the present; nothing is written."""
    log.execute([Write("a", "of a"), Write("b", "of b")], run="main")
    before = everything()
    for command in (tell(fact), Once("a key", tell(fact))):
        with pytest.raises(error, match=r"does not follow from its present|cannot record"):
            log.execute([Write("c", "of c"), command], run="main")
        assert everything() == before
