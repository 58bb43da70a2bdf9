"""What changed between two points, everything that ever happened to a key, and who wrote what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    BadAddress,
    CompareAndSet,
    Delete,
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    EventLog,
    NotFound,
    SetTurn,
    Write,
    WriteRefused,
)
from turnlog.memory import EventSourcedStore, acting_as
from turnlog.replay import Difference, Timeline

Stores = Callable[[str], EventSourcedStore]
Timelines = Callable[..., Timeline]

MIRRORED = {"added": "removed", "removed": "added", "changed": "changed"}


def told(differences: list[Difference]) -> list[tuple[str, str, str | None, str | None]]:
    """Key, change and values of each."""
    return [
        (each.key, each.change, each.before and each.before.value, each.after and each.after.value)
        for each in differences
    ]


# -- diff


def test_a_diff_tells_what_was_added_changed_and_removed(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Differences carry both entries and come in the order in which their keys were born."""
    for key in ("stays", "goes", "changes"):
        store.set(key, "1")
    store.advance_turn()
    store.set("comes", "1")
    store.set("changes", "2")
    store.set("changes", "3")
    store.delete("goes")
    assert told(timeline_of().diff("0", "1")) == [
        ("goes", "removed", "1", None),
        ("changes", "changed", "1", "3"),
        ("comes", "added", None, "1"),
    ]


def test_a_diff_carries_the_entries_themselves(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Before and after are what the states at the two points hold."""
    store.set("a", "1", {"agent": "ada"})
    store.advance_turn()
    store.set_with_expiry("a", "1", 9, {"agent": "ada"})
    timeline = timeline_of()
    (difference,) = timeline.diff("0", "1")
    assert difference == Difference("a", "changed", timeline.state(turn=0)["a"], timeline.state(turn=1)["a"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(Write("k", "1"), Write("k", "2"), id="value"),
        pytest.param(Write("k", ""), Write("k", "\0"), id="nul"),
        pytest.param(Write("k", "caf\u00e9"), Write("k", "cafe\u0301"), id="normal-forms"),
        pytest.param(Write("k", "1"), Write("k", "1", {}), id="empty-metadata-against-none"),
        pytest.param(Write("k", "1", {"n": 1}), Write("k", "1", {"n": 2}), id="metadata"),
        pytest.param(Write("k", "1", {"n": 1}), Write("k", "1", {"n": True}), id="true-is-not-one"),
        pytest.param(Write("k", "1", {"n": [0]}), Write("k", "1", {"n": [False]}), id="false-is-not-zero"),
        pytest.param(Write("k", "1", {"n": 1}), Write("k", "1", {"n": 1.0}), id="a-float-is-not-an-int"),
        pytest.param(Write("k", "1"), Write("k", "1", None, 9), id="expiry-set"),
        pytest.param(Write("k", "1", None, 8), Write("k", "1", None, 9), id="expiry-moved"),
        pytest.param(Write("k", "1", None, 8), CompareAndSet("k", "1", "1"), id="expiry-cleared"),
    ],
)
def test_value_metadata_and_expiry_count_as_changes(
    log: EventLog, timeline_of: Timelines, before: Write, after: Write
) -> None:
    """An entry is changed if agents could tell the difference."""
    log.execute([before], run="main")
    log.execute([after], run="main")
    assert [each.change for each in timeline_of().diff("@1", "@2")] == ["changed"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([Write("k", "1")], [Write("k", "1")], id="written-again"),
        pytest.param([Write("k", "1")], [Delete("k"), Write("k", "1")], id="a-new-life"),
        pytest.param([Write("k", "1")], [Write("k", "2"), Write("k", "1")], id="there-and-back"),
        pytest.param(
            [Write("k", "1", {"a": 1, "b": 2})], [Write("k", "1", {"b": 2, "a": 1})], id="member-order"
        ),
        pytest.param([Write("k", "1")], [CompareAndSet("k", "2", "3")], id="refused"),
        pytest.param([Write("x", "1")], [Write("k", "1"), Delete("k")], id="came-and-went"),
        pytest.param([Write("k", "1")], [Write("__turnlog__/k", "1")], id="reserved"),
        pytest.param([Write("x", "1")], [Write("k", "1", None, 0)], id="born-expired"),
        pytest.param([Write("k", "1", None, 0)], [Write("k", "2", None, 0)], id="changed-while-expired"),
    ],
)
def test_what_agents_cannot_tell_apart_is_no_difference(
    log: EventLog, timeline_of: Timelines, before: list[Any], after: list[Any]
) -> None:
    """Only what was visible counts, and where it came from does not."""
    log.execute(before, run="main")
    log.execute(after, run="main")
    timeline = timeline_of()
    assert timeline.diff(f"@{len(before)}", "head") == []
    assert timeline.diff("head", f"@{len(before)}") == []


def test_an_entry_that_expires_is_removed_without_an_event(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """The turn alone makes the difference, forwards and back, at exactly the turn of expiry."""
    store.set_with_expiry("scratch", "s", 2)
    for _ in range(3):
        store.advance_turn()
    timeline = timeline_of()
    assert told(timeline.diff("0", "1")) == []
    assert told(timeline.diff("1", "2")) == [("scratch", "removed", "s", None)]
    assert told(timeline.diff("2", "3")) == []
    assert told(timeline.diff("3", "0")) == [("scratch", "added", None, "s")]


def test_a_diff_to_a_turn_gone_back_to_shows_what_came_back(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Setting the turn down revives what had expired, and the diff says so."""
    store.set_with_expiry("scratch", "s", 2)
    store.set_turn(5)
    store.set_turn(1)
    assert told(timeline_of().diff("5", "1")) == [("scratch", "added", None, "s")]


def test_a_diff_turned_round_is_the_mirror_image(
    log: EventLog, store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """`diff(b, a)` has the keys of `diff(a, b)` in the same order, with before and after exchanged."""
    log.execute([Write(f"k{n}", "1", None, n % 5 or None) for n in range(20)], run="main")
    log.execute([Delete("k3"), Write("k4", "2"), Delete("k5"), Write("k5", "3"), AdvanceTurn()], run="main")
    timeline_of().restore(turn=0)
    log.execute([Write("k6", "4"), Write("new", "5"), SetTurn(3)], run="main")
    timeline = timeline_of()
    points = [f"@{position}" for position in range(timeline.point().position + 1)]
    for one in points:
        for other in points:
            there, back = timeline.diff(one, other), timeline.diff(other, one)
            assert back == [
                Difference(each.key, MIRRORED[each.change], each.after, each.before)  # pyright: ignore[reportArgumentType]
                for each in there
            ]


def test_a_diff_of_a_point_with_itself_is_empty(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Nothing differs from itself."""
    store.set("a", "1")
    assert timeline_of().diff("head", "head") == timeline_of().diff("@0", "@0") == []


def test_a_diff_reaches_across_the_fork(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """A fork is compared with its parent's past; what the parent did later is no part of it."""
    store.set("a", "1")
    store.set_with_expiry("scratch", "s", 1)
    store.advance_turn()
    fork = timeline_of().fork(run="what-if")
    store.set("b", "parent only")
    store_of("what-if").set("a", "2")
    assert told(fork.diff("@1", "head")) == [("a", "changed", "1", "2")]
    assert told(fork.diff("0", "head")) == [("a", "changed", "1", "2"), ("scratch", "removed", "s", None)]


@pytest.mark.parametrize("addresses", [("0", "never"), ("never", "0"), ("7", "0")])
def test_a_diff_refuses_bad_addresses(
    store: EventSourcedStore, timeline_of: Timelines, addresses: tuple[str, str]
) -> None:
    """Either address may be the bad one."""
    store.set("a", "1")
    with pytest.raises(BadAddress):
        timeline_of().diff(*addresses)


@pytest.mark.parametrize("addresses", [(0, "0"), ("0", 1), ("0", None), (True, "0")])
def test_a_diff_refuses_what_is_no_address(
    store: EventSourcedStore, timeline_of: Timelines, addresses: tuple[Any, Any]
) -> None:
    """Addresses are text; a number could be a turn or a position."""
    store.set("a", "1")
    with pytest.raises(TypeError, match="an address must be a str, not"):
        timeline_of().diff(*addresses)


# -- history


def test_a_history_tells_every_change_and_refusal_of_a_key(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Writes, deletions, refusals and restores, in order; other keys are left out."""
    store.set("k", "1")
    store.set("other", "1")
    store.compare_and_set("k", "0", "2")
    store.compare_and_set("k", "1", "2")
    store.delete("k")
    store.compare_and_set("k", "2", "3")
    store.advance_turn()
    timeline_of().restore(position=1)
    told = list(timeline_of().history("k"))
    assert [type(each.event) for each in told] == [
        EntryWritten,
        WriteRefused,
        EntryWritten,
        EntryDeleted,
        WriteRefused,
        EntryRestored,
    ]
    assert [each.position for each in told] == [1, 3, 4, 5, 6, 10]
    restored = told[-1].event
    assert isinstance(restored, EntryRestored)
    assert timeline_of().original(restored.content) == told[0]


def test_a_key_that_was_only_ever_refused_has_a_history(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """A refusal is a fact about its key."""
    store.compare_and_set("k", "0", "1")
    (told,) = timeline_of().history("k")
    assert isinstance(told.event, WriteRefused)
    assert told.event.reason == "key is missing"


@pytest.mark.parametrize("refusals", [0, 1, 511, 512, 513, 1_025, 1_537])
@pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])
def test_a_history_goes_on_through_pages_of_refusals(
    log: EventLog, timeline_of: Timelines, refusals: int, reverse: bool
) -> None:
    """No number of refusals between two changes hides one, repeats one or changes their order."""
    refused = [CompareAndSet("k", "never", "x")] * refusals
    log.execute([Write("k", "1"), *refused, Write("noise", "1"), Write("k", "2")], run="main")
    fork = timeline_of().fork(run="what-if")
    log.execute([*refused, Write("k", "3")], run="what-if")
    expected = [
        *range(1, refusals + 2),
        refusals + 3,
        *range(refusals + 5, 2 * refusals + 6),
    ]
    if reverse:
        expected.reverse()
    assert [each.revision for each in fork.history("k", reverse=reverse)] == expected
    for limit in (0, 1, 2, 511, 512, 513, 1_024, len(expected), len(expected) + 1):
        told = fork.history("k", reverse=reverse, limit=limit)
        assert [each.revision for each in told] == expected[:limit]


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        pytest.param(-1, ValueError, id="negative"),
        pytest.param(True, TypeError, id="bool"),
        pytest.param("1", TypeError, id="str"),
        pytest.param(1.0, TypeError, id="float"),
    ],
)
def test_a_history_refuses_a_limit_that_is_none(
    store: EventSourcedStore, timeline_of: Timelines, limit: Any, error: type[Exception]
) -> None:
    """At once, not when the first event is asked for."""
    store.set("k", "1")
    with pytest.raises(error, match="limit must"):
        timeline_of().history("k", limit=limit)


def test_a_history_may_be_read_while_the_key_is_written(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Reading holds no lock, and what was there at the start is told once."""
    for number in range(600):
        store.set("k", str(number))
    told = timeline_of().history("k", reverse=True)
    first = next(told)
    store.set("k", "later")
    store.delete("k")
    assert [first.revision, *(each.revision for each in told)] == list(range(600, 0, -1))


@pytest.mark.parametrize("method", ["history", "blame", "first"])
def test_an_unknown_key_is_refused_with_a_hint(
    store: EventSourcedStore, timeline_of: Timelines, method: str
) -> None:
    """A key the run never had is an error that names similar ones."""
    store.set("writer/draft", "1")
    store.set("reader/notes", "1")
    store.delete("writer/draft")
    with pytest.raises(
        NotFound, match="run 'main' never had a key 'writer/daft'; did you mean 'writer/draft'"
    ):
        getattr(timeline_of(), method)("writer/daft")
    with pytest.raises(NotFound, match=r"never had a key 'zzz'$"):
        getattr(timeline_of(), method)("zzz")


def test_a_hint_names_only_keys_of_the_runs_own_past(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """What the parent wrote after the fork is not there to be meant."""
    store.set("early", "1")
    fork = timeline_of().fork(run="what-if")
    store.set("later", "1")
    with pytest.raises(NotFound, match=r"never had a key 'late'$"):
        fork.history("late")
    with pytest.raises(NotFound, match=r"never had a key 'later'$"):
        fork.history("later")
    with pytest.raises(NotFound, match="did you mean 'early'"):
        fork.history("erly")


@pytest.mark.parametrize("method", ["history", "blame", "entry", "first"])
@pytest.mark.parametrize("key", [3, b"k", True, ("k",)], ids=repr)
def test_a_key_that_is_no_text_is_refused(
    store: EventSourcedStore, timeline_of: Timelines, method: str, key: Any
) -> None:
    """Keys are str."""
    store.set("k", "1")
    with pytest.raises(TypeError, match="key must be a str, not"):
        getattr(timeline_of(), method)(key)


@pytest.mark.parametrize(
    ("revision", "error"),
    [
        pytest.param(0, NotFound, id="beginning"),
        pytest.param(2, NotFound, id="ahead"),
        pytest.param(-1, NotFound, id="negative"),
        pytest.param(2**63, NotFound, id="huge"),
        pytest.param("1", TypeError, id="str"),
        pytest.param(True, TypeError, id="bool"),
    ],
)
def test_an_original_that_is_not_there_is_refused(
    store: EventSourcedStore, timeline_of: Timelines, revision: Any, error: type[Exception]
) -> None:
    """`original` takes a revision of the run."""
    store.set("k", "1")
    with pytest.raises(error, match="revision"):
        timeline_of().original(revision)


# -- blame


def test_blame_tells_who_wrote_what_is_there(store: EventSourcedStore, timeline_of: Timelines) -> None:
    """Each visible entry with the event that wrote its value: who, when, at which turn."""
    store.set("a", "1", {"agent": "ada"})
    store.advance_turn()
    with acting_as("bob", activity="task 7"):
        store.set("b", "1")
        store.set("c", "1", {"agent": "cyd"})
    store.set("d", "1")
    store.set("__turnlog__/lease", "1")
    store.set_with_expiry("gone", "1", 0)
    blamed = timeline_of().blame()
    assert [(key, each.agent, each.turn, each.position) for key, each in blamed.items()] == [
        ("a", "ada", 0, 1),
        ("b", "bob", 1, 3),
        ("c", "cyd", 1, 4),
        ("d", None, 1, 5),
    ]
    assert blamed["b"].activity == "task 7"
    assert all(isinstance(each.event, EntryWritten) for each in blamed.values())


def test_blame_names_the_author_of_the_present_value(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """The last successful write counts; refused ones do not."""
    store.set("a", "1", {"agent": "ada"})
    store.compare_and_set("a", "1", "2", {"agent": "bob"})
    store.compare_and_set("a", "1", "3", {"agent": "cyd"})
    timeline = timeline_of()
    assert timeline.blame("a")["a"].agent == "bob"
    assert timeline.blame("a", at="@1")["a"].agent == "ada"


def test_blame_after_a_restore_names_the_original_author(
    store: EventSourcedStore, timeline_of: Timelines
) -> None:
    """Whoever restored an entry did not write it."""
    store.set("a", "1", {"agent": "ada"})
    store.advance_turn()
    store.set("a", "2", {"agent": "bob"})
    timeline = timeline_of()
    timeline.restore(turn=0, by="cyd")
    assert (timeline.blame("a")["a"].agent, timeline.blame("a")["a"].position) == ("ada", 1)
    timeline.restore(turn=1, by="cyd")
    assert timeline.blame("a")["a"].agent == "bob"
    store.set("a", "3", {"agent": "dee"})
    assert timeline.blame("a")["a"].agent == "dee"


def test_blame_in_a_fork_names_the_author_in_the_parent(
    store: EventSourcedStore, store_of: Stores, timeline_of: Timelines
) -> None:
    """Through a fork of a fork, and through a restore made there."""
    store.set("a", "1", {"agent": "ada"})
    fork = timeline_of().fork(run="one", by="zoe").fork(run="two", by="zoe")
    assert [(each.run, each.agent) for each in fork.blame().values()] == [("main", "ada")]
    store_of("two").set("a", "2", {"agent": "bob"})
    assert [(each.run, each.agent) for each in fork.blame().values()] == [("two", "bob")]
    fork.restore(position=1, by="zoe")
    assert [(each.run, each.agent) for each in fork.blame().values()] == [("main", "ada")]


@pytest.mark.parametrize(
    ("key", "at"),
    [
        pytest.param("later", "@1", id="before-it-began"),
        pytest.param("deleted", "head", id="after-it-was-deleted"),
        pytest.param("expired", "head", id="after-it-expired"),
    ],
)
def test_blame_refuses_a_key_that_is_not_there_at_the_point(
    store: EventSourcedStore, timeline_of: Timelines, key: str, at: str
) -> None:
    """A key that the run knows, but that agents would not have seen then, has nobody to blame."""
    store.set("deleted", "1")
    store.set("later", "1")
    store.set_with_expiry("expired", "1", 1)
    store.delete("deleted")
    store.advance_turn()
    with pytest.raises(NotFound, match=f"run 'main': key '{key}' does not exist at turn"):
        timeline_of().blame(key, at=at)
    assert key not in timeline_of().blame(at=at)
