"""The quick ways to the past give what the fold of the log gives, whatever has happened."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnlog
from turnlog.eventlog import AdvanceTurn, BadAddress, Clear, Delete, EventLog, SetTurn, Write
from turnlog.eventlog.events import moment
from turnlog.memory.reserved import is_reserved
from turnlog.replay import Difference, State, Timeline

KEYS = ["a", "b", "a/b", "\ud83d", "__turnlog__/lease", "never written"]
RUNS = ["main", "fork", "fork of a fork"]


@pytest.fixture(scope="module", params=range(3))
def wandered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventLog]:
    """A run that went back and forth, a fork of it that did so too, and a fork of that."""
    chance = random.Random(request.param)
    with turnlog.open(tmp_path_factory.mktemp("ways") / "team.db", durability="os") as log:
        for run in RUNS:
            for _ in range(60):
                wander(log, run, chance)
            if run != RUNS[-1]:
                timeline = Timeline(log, run)
                revision = chance.randrange(1, timeline.point().revision)
                turn = timeline.point(position=timeline.original(revision).position).turn
                log.fork(run, revision, run=RUNS[RUNS.index(run) + 1], turn=turn)  # also inside a batch
        yield log


def wander(log: EventLog, run: str, chance: random.Random) -> None:
    """A batch of random commands, or one step back."""
    if chance.random() < 0.1 and log.head(run) is not None:
        timeline = Timeline(log, run)
        timeline.restore(turn=chance.choice(timeline.turns()).turn)
        return
    keys = KEYS[:-1]
    commands = [
        chance.choice(
            [
                Write(chance.choice(keys), str(chance.randint(0, 2)), chance.choice([None, {"n": 1}])),
                Write(chance.choice(keys), "passing", None, chance.randint(0, 4)),
                Delete(chance.choice(keys)),
                AdvanceTurn(),
                chance.choice([SetTurn(1), SetTurn(chance.randint(0, 3)), Clear()]),
            ]
        )
        for _ in range(chance.randint(1, 4))
    ]
    log.execute(commands, run=run)


def shown(state: State) -> State:
    """What agents would have seen of a whole state."""
    hidden = state.expired | state.reserved
    return State(state.point, [entry for key, entry in state.items() if key not in hidden])


@pytest.mark.parametrize("run", RUNS)
def test_one_key_at_a_turn_is_what_the_fold_has(wandered: EventLog, run: str) -> None:
    """At every turn visited, and at the latest visit to it, in roots and forks."""
    timeline = Timeline(wandered, run)
    for turn in {visit.turn for visit in timeline.turns()}:
        folded = timeline.folded(turn=turn)
        for key in KEYS:
            expected = None if key in folded.expired else folded.get(key)
            assert timeline.entry(key, turn=turn) == expected
            assert timeline.entry(key, at=str(turn)) == expected


@pytest.mark.parametrize("run", RUNS)
def test_states_and_versions_are_what_the_fold_has(wandered: EventLog, run: str) -> None:
    """Visible or all, in birth order, after every third event."""
    timeline = Timeline(wandered, run)
    for revision in range(1, timeline.point().revision, 3):
        position = timeline.original(revision).position
        folded = timeline.folded(position=position)
        every = timeline.state(position=position, all=True)
        assert [*every.items()] == [*folded.items()]
        assert (every.expired, every.reserved) == (folded.expired, folded.reserved)
        visible = timeline.state(position=position)
        assert [*visible.items()] == [*shown(folded).items()]
        versions = timeline.versions(position=position)
        assert [*versions.items()] == [(key, entry.version) for key, entry in visible.items()]


@pytest.mark.parametrize("run", RUNS)
def test_a_difference_is_that_of_the_states_however_far_apart(
    wandered: EventLog, run: str, compared: Callable[[State, State], dict[str, Difference]]
) -> None:
    """Between neighbours the events in between tell, between distant points whole states are compared."""
    timeline = Timeline(wandered, run)
    newest = timeline.point().position
    positions = [*range(0, newest, 17), newest]
    for before in positions[:3]:
        for after in positions:
            found = timeline.diff(f"@{before}", f"@{after}")
            states = (timeline.state(position=position) for position in (before, after))
            assert {each.key: each for each in found} == compared(*states)


@pytest.fixture
def compared() -> Callable[[State, State], dict[str, Difference]]:
    """Compares two states key by key."""

    def compare(before: State, after: State) -> dict[str, Difference]:
        found: dict[str, Difference] = {}
        for key in before.keys() | after.keys():
            old, new = before.get(key), after.get(key)
            if old is None or new is None:
                found[key] = Difference(key, "added" if old is None else "removed", old, new)
            elif (old.value, old.metadata, old.expires_at_turn) != (
                new.value,
                new.metadata,
                new.expires_at_turn,
            ):
                found[key] = Difference(key, "changed", old, new)
        return found

    return compare


def test_versions_know_no_reserved_keys(tmp_path: Path) -> None:
    """Nor those that have expired; an address that cannot be is refused as by `state`."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        writes = [Write("kept", "1"), Write("__turnlog__/x", "1"), Write("gone", "1", None, 1)]
        log.execute([*writes, AdvanceTurn(), Write("kept", "2")], run="main")
        timeline = Timeline(log)
        assert is_reserved("__turnlog__/x")
        assert timeline.versions() == {"kept": 5}
        assert timeline.versions(turn=0) == {"kept": 1, "gone": 3}
        assert timeline.versions(position=0) == {}
        with pytest.raises(BadAddress, match="never was at turn 9"):
            timeline.versions(turn=9)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999) | st.integers(0, 2**42 + 10))
def test_a_moment_is_exact(milliseconds: int) -> None:
    """Every millisecond of the years 1 to 9999 becomes the time it is, to the microsecond."""
    assert moment(milliseconds) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
