"""Forks: a run that goes on from a point of another one, and how its past is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    CompareAndSet,
    Delete,
    EntryRestored,
    EventLog,
    NotFound,
    RunExists,
    RunForked,
    Write,
)
from turnlog.eventlog.history import content_at, entries_at, entry_at, event_position
from turnlog.eventlog.runs import NEWEST_REVISION, Segment

RUN_NUMBERS = {"main": 1, "b": 2, "c": 3, "early": 4, "at own mark": 5, "of b's past": 6, "nothing": 7}


@pytest.fixture
def family(log: EventLog) -> EventLog:
    """A run of six revisions, a fork of it, forks of that fork at all the corners, and a fork of nothing."""
    log.execute([Write("k", "1"), Write("x", "1"), AdvanceTurn()], run="main")
    log.execute([Write("k", "2"), Delete("x"), Write("y", "1")], run="main")  # revisions 4, 5, 6
    log.fork("main", 4, run="b", turn=1, agent="editor")  # b's revision 5 is its mark
    log.execute([Write("k", "b"), Write("x", "b")], run="b")  # 6, 7
    log.fork("b", 7, run="c", turn=1)  # at the parent's head
    log.fork("main", 6, run="early", turn=1)  # at the root's head
    log.fork("b", 5, run="at own mark", turn=1)
    log.fork("b", 3, run="of b's past", turn=1)  # before b's own fork
    log.fork("b", 0, run="nothing", turn=0)
    return log


def values(log: EventLog, run: str, revision: int = NEWEST_REVISION) -> dict[str, str]:
    """What the run's keys held at a revision, by way of the history index."""
    past = log.lineage(run)
    with log.reading() as db:
        return {
            entry.key: content_at(db, past, entry.content).value for entry in entries_at(db, past, revision)
        }


@pytest.mark.parametrize(
    ("run", "segments"),
    [
        pytest.param("main", [("main", 0, NEWEST_REVISION)], id="a root"),
        pytest.param("b", [("b", 4, NEWEST_REVISION), ("main", 0, 4)], id="a fork"),
        pytest.param(
            "c", [("c", 7, NEWEST_REVISION), ("b", 4, 7), ("main", 0, 4)], id="a fork of a fork, at its head"
        ),
        pytest.param("early", [("early", 6, NEWEST_REVISION), ("main", 0, 6)], id="at the root's head"),
        pytest.param(
            "at own mark",
            [("at own mark", 5, NEWEST_REVISION), ("b", 4, 5), ("main", 0, 4)],
            id="at the fork's first event",
        ),
        pytest.param(
            "of b's past",
            [("of b's past", 3, NEWEST_REVISION), ("main", 0, 3)],
            id="before the parent's own fork",
        ),
        pytest.param("nothing", [("nothing", 0, NEWEST_REVISION)], id="at revision 0"),
    ],
)
def test_a_lineage_holds_each_revision_once(
    family: EventLog, run: str, segments: list[tuple[str, int, int]]
) -> None:
    """The segments of a run go back through its ancestors, each only up to where the next one left it."""
    past = family.lineage(run)
    assert past.run.name == run
    assert list(past.segments) == [Segment(RUN_NUMBERS[name], after, upto) for name, after, upto in segments]


@pytest.mark.parametrize(
    ("revision", "segments"),
    [
        pytest.param(9, [("c", 7, 9), ("b", 4, 7), ("main", 0, 4)], id="in the run itself"),
        pytest.param(8, [("c", 7, 8), ("b", 4, 7), ("main", 0, 4)], id="at its first event"),
        pytest.param(7, [("b", 4, 7), ("main", 0, 4)], id="at the fork"),
        pytest.param(5, [("b", 4, 5), ("main", 0, 4)], id="in the parent"),
        pytest.param(4, [("main", 0, 4)], id="at the parent's fork"),
        pytest.param(1, [("main", 0, 1)], id="at the very first"),
        pytest.param(0, [], id="before the first"),
    ],
)
def test_a_lineage_is_cut_at_a_revision(
    family: EventLog, revision: int, segments: list[tuple[str, int, int]]
) -> None:
    """`upto` leaves of a lineage just what lies at or before a revision."""
    cut = family.lineage("c").upto(revision)
    assert list(cut) == [Segment(RUN_NUMBERS[name], after, upto) for name, after, upto in segments]


@pytest.mark.parametrize(
    ("run", "state"),
    [
        pytest.param("main", {"k": "2", "y": "1"}, id="the root is untouched"),
        pytest.param("b", {"k": "b", "x": "b"}, id="the fork has its own"),
        pytest.param("c", {"k": "b", "x": "b"}, id="at the parent's head"),
        pytest.param("early", {"k": "2", "y": "1"}, id="at the root's head"),
        pytest.param("at own mark", {"k": "2", "x": "1"}, id="at the fork's first event"),
        pytest.param("of b's past", {"k": "1", "x": "1"}, id="before the parent's own fork"),
        pytest.param("nothing", {}, id="at revision 0"),
    ],
)
def test_a_fork_begins_with_the_state_at_its_point(family: EventLog, run: str, state: dict[str, str]) -> None:
    """A new fork holds what its parent held at the point, and what came later in either is apart."""
    assert values(family, run) == state


@pytest.mark.parametrize(
    ("run", "position", "revision", "turn", "parent", "at"),
    [
        pytest.param("b", 7, 5, 1, "main", 4, id="a fork"),
        pytest.param("c", 10, 8, 1, "b", 7, id="a fork of a fork"),
        pytest.param("at own mark", 12, 6, 1, "b", 5, id="at the parent's mark"),
        pytest.param("of b's past", 13, 4, 1, "main", 3, id="names the run that holds the point"),
        pytest.param("nothing", 14, 1, 0, "main", 0, id="at revision 0"),
    ],
)
def test_a_fork_begins_with_its_mark(
    family: EventLog, run: str, position: int, revision: int, turn: int, parent: str, at: int
) -> None:
    """The first event of a fork continues the count of revisions and says where it comes from."""
    first = next(family.read(run=run))
    uids = {info.run.name: info.run.uid for info in family.runs()}
    assert first.event == RunForked(uids[parent], at, turn)
    assert (first.position, first.revision, first.turn, first.batch) == (position, revision, turn, 0)


def test_a_fork_returns_its_head_and_names_its_agent(family: EventLog) -> None:
    """Forking answers with the new head; who forked is kept with the mark."""
    head = family.fork("main", 6, run="new", turn=3, agent="somebody")
    assert head == family.head("new")
    (mark,) = family.read(run="new")
    assert (mark.agent, mark.turn) == ("somebody", 3)


def test_runs_tell_their_parents(family: EventLog) -> None:
    """A listing names the run each fork left; a fork of nothing has none."""
    assert {info.run.name: info.parent for info in family.runs()} == {
        "main": None,
        "b": "main",
        "c": "b",
        "early": "main",
        "at own mark": "b",
        "of b's past": "main",
        "nothing": None,
    }


def test_a_fork_copies_no_event(family: EventLog) -> None:
    """All that a fork adds to the log is its one mark."""
    before = family.head("nothing")
    family.fork("c", 8, run="d", turn=1)
    after = family.head("d")
    assert before is not None
    assert after is not None
    assert after.position == before.position + 1


def test_parent_and_fork_do_not_disturb_each_other(family: EventLog) -> None:
    """Writes on either side after the fork stay there, and the past of both stays as it was."""
    family.execute([Write("k", "main again"), Clear()], run="main")
    family.execute([Write("k", "b again"), Write("z", "b")], run="b")
    assert values(family, "main") == {}
    assert values(family, "b") == {"k": "b again", "x": "b", "z": "b"}
    assert values(family, "c") == {"k": "b", "x": "b"}
    assert values(family, "b", 4) == values(family, "main", 4) == {"k": "2", "x": "1"}


def test_a_fork_is_a_run_like_any_other(family: EventLog) -> None:
    """Every command works on inherited entries; births go back into the parent."""
    past = family.lineage("c")
    with family.reading() as db:
        before = entry_at(db, past, "k", NEWEST_REVISION)
    assert family.execute([CompareAndSet("k", "2", "no"), CompareAndSet("k", "b", "c")], run="c") == [
        False,
        True,
    ]
    with family.reading() as db:
        after = entry_at(db, past, "k", NEWEST_REVISION)
    assert before is not None
    assert after is not None
    assert (before.birth, before.created_at) == (after.birth, after.created_at) == (1, 1000)
    assert family.execute([Delete("k"), Delete("k"), Clear()], run="c") == [True, False, 1]
    assert values(family, "c") == {}
    assert values(family, "b") == {"k": "b", "x": "b"}


def test_a_fork_may_restore_what_its_parent_wrote(family: EventLog, tell: Callable[..., Any]) -> None:
    """A restored entry points by revision, and the revision may lie in an ancestor."""
    family.execute([Delete("k")], run="c")
    family.execute([tell(EntryRestored("k", content=1, birth=1, created_at=1000))], run="c")
    assert values(family, "c") == {"k": "1", "x": "b"}
    past = family.lineage("c")
    with family.reading() as db:
        assert event_position(db, past, 1) == 1
        assert event_position(db, past, 7) == 9  # b's own
        assert event_position(db, past, 0) == 0


def test_versions_in_a_fork_are_positions_of_the_file(family: EventLog) -> None:
    """An inherited entry keeps its version, so a condition read before the fork holds in it."""
    with family.reading() as db:
        inherited = entry_at(db, family.lineage("of b's past"), "k", NEWEST_REVISION)
    assert inherited is not None
    assert inherited.version == 1
    version = family.execute([Write("k", "w", expected_version=1)], run="of b's past")
    assert version == [15]


@pytest.mark.parametrize(
    ("source", "revision", "run", "turn", "error", "message"),
    [
        pytest.param("main", 7, "new", 0, NotFound, "no revision 7; it ends at 6", id="beyond the head"),
        pytest.param("main", -1, "new", 0, NotFound, "no revision -1", id="before the beginning"),
        pytest.param(
            "absent", 1, "new", 0, NotFound, "no run 'absent'; it has 'main', 'b'", id="no such run"
        ),
        pytest.param("main", 1, "b", 0, RunExists, "run 'b' exists already", id="name taken"),
        pytest.param("main", 1, "", 0, ValueError, "must not be empty", id="empty name"),
        pytest.param("main", 1, 5, 0, TypeError, "run must be a str", id="name: int"),
        pytest.param(7, 1, "new", 0, TypeError, "source must be a str", id="source: int"),
        pytest.param("main", 1.0, "new", 0, TypeError, "revision must be an int, not float", id="float"),
        pytest.param("main", True, "new", 0, TypeError, "revision must be an int, not bool", id="bool"),
        pytest.param("main", 1, "new", "0", TypeError, "turn must be an int, not str", id="turn: str"),
        pytest.param("main", 1, "new", -1, ValueError, "turn must lie within 0", id="turn below 0"),
        pytest.param("main", 1, "new", 2**53, ValueError, "turn must lie within 0", id="turn too high"),
    ],
)
def test_a_fork_that_cannot_be_is_refused(
    family: EventLog,
    everything: Callable[[], Any],
    source: Any,
    revision: Any,
    run: Any,
    turn: Any,
    error: type[Exception],
    message: str,
) -> None:
    """What cannot be forked is a typed error that says why, and nothing is written."""
    before = everything()
    with pytest.raises(error, match=message):
        family.fork(source, revision, run=run, turn=turn)
    assert everything() == before
