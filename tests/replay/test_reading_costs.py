"""What looking back costs, counted in the work that SQLite does instead of in time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import AdvanceTurn, CompareAndSet, Delete, EventLog, NotFound, SetTurn, Write
from turnlog.eventlog.driver import driver
from turnlog.replay import Timeline

Look = Callable[[Timeline], object]

REFUSED = CompareAndSet("target", "never", "x")


@contextmanager
def told(path: Path, *batches: list[Any]) -> Iterator[EventLog]:
    """A log whose run `main` consists of `batches`."""
    with turnlog.open(path, durability="os") as log:
        for batch in batches:
            log.execute(batch, run="main")
        yield log


def work(log: EventLog, look: Look) -> int:
    """Steps of SQLite's virtual machine that a look back takes, all its statements together."""
    timeline = Timeline(log)
    look(timeline)  # so that the statements are prepared: that counts too
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    with log.reading() as db:
        db.set_progress_handler(step, 1)
    look(timeline)
    with log.reading() as db:
        db.set_progress_handler(None, 1)
    assert count > 20, "another connection was watched than the one that was used"
    return count


def noise(count: int, keys: int = 20) -> list[Any]:
    """So many writes to a few other keys."""
    return [Write(f"noise {number % keys}", str(number)) for number in range(count)]


def story(length: int, refusals: int) -> list[list[Any]]:
    """A key that is written early, in the middle of so many other writes, and refused so many times since."""
    return [
        noise(length),
        [Write("target", "1"), *noise(3), AdvanceTurn()],
        [Write("other", "1"), AdvanceTurn()],
        [REFUSED] * refusals,
        noise(length),
    ]


LOOKS = [
    pytest.param(lambda timeline: timeline.entry("target"), id="entry-now"),
    pytest.param(lambda timeline: timeline.entry("target", turn=0), id="entry-at-a-turn"),
    pytest.param(lambda timeline: timeline.entry("target", turn=2), id="entry-at-the-latest-turn"),
    pytest.param(lambda timeline: timeline.entry("target", at="0.1"), id="entry-at-a-visit"),
    pytest.param(lambda timeline: timeline.entry("target", position=1), id="entry-before-it-was-written"),
    pytest.param(lambda timeline: timeline.entry("other", turn=1), id="entry-of-another-key"),
    pytest.param(lambda timeline: timeline.blame("target"), id="blame-now"),
    pytest.param(lambda timeline: timeline.blame("target", at="0"), id="blame-at-a-turn"),
    pytest.param(lambda timeline: timeline.point(turn=1), id="latest-visit"),
    pytest.param(lambda timeline: timeline.point(turn=2), id="latest-visit-that-goes-on"),
    pytest.param(lambda timeline: timeline.turns(), id="all-visits"),
    pytest.param(lambda timeline: timeline.state(turn=1), id="whole-state"),
    pytest.param(lambda timeline: timeline.state(turn=1, all=True), id="whole-state-with-what-is-hidden"),
    pytest.param(lambda timeline: timeline.blame(at="1"), id="blame-of-everything"),
    pytest.param(lambda timeline: timeline.diff("0", "1"), id="diff-of-neighbours"),
    pytest.param(lambda timeline: list(timeline.history("other")), id="history"),
    pytest.param(lambda timeline: list(timeline.history("target", limit=1)), id="first-of-a-history"),
    pytest.param(
        lambda timeline: list(timeline.history("target", reverse=True, limit=1)), id="last-of-a-history"
    ),
    pytest.param(lambda timeline: timeline.first("target", "1"), id="first"),
    pytest.param(lambda timeline: timeline.first("target", "2"), id="first-that-never-was"),
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EventLog]]:
    """The same story short, long, and with many refusals."""
    folder = tmp_path_factory.mktemp("costs")
    with (
        told(folder / "short.db", *story(40, 2)) as short,
        told(folder / "long.db", *story(4_000, 2)) as long,
        told(folder / "refused.db", *story(40, 20_000)) as refused,
    ):
        yield {"short": short, "long": long, "refused": refused}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("other", ["long", "refused"])
def test_looking_back_does_not_cost_with_the_length_of_the_log(
    logs: dict[str, EventLog], other: str, look: Look
) -> None:
    """A log a hundred times longer, or 20,000 refusals after a write, make no step more than a few."""
    assert work(logs[other], look) <= work(logs["short"], look) * 1.02


def test_a_whole_state_costs_with_the_number_of_distinct_keys(tmp_path: Path) -> None:
    """Twenty times the writes cost the same, ten times the keys cost ten times as much."""

    def state(timeline: Timeline) -> object:
        return timeline.state(turn=0)

    with (
        told(tmp_path / "few.db", noise(100, keys=50), [AdvanceTurn()]) as few,
        told(tmp_path / "often.db", noise(2_000, keys=50), [AdvanceTurn()]) as often,
        told(tmp_path / "many.db", noise(2_000, keys=500), [AdvanceTurn()]) as many,
    ):
        once = work(few, state)
        assert work(often, state) <= once * 1.02
        assert 5 * once <= work(many, state) <= 11 * once


def test_a_history_costs_with_the_changes_of_its_key(tmp_path: Path) -> None:
    """Other keys' events are not read."""

    def history(timeline: Timeline) -> object:
        return list(timeline.history("target"))

    mine = [Write("target", "1"), REFUSED] * 50
    with (
        told(tmp_path / "alone.db", mine) as alone,
        told(tmp_path / "among.db", noise(2_000), mine, noise(2_000)) as among,
        told(tmp_path / "more.db", mine * 4) as more,
    ):
        once = work(alone, history)
        assert work(among, history) <= once * 1.02
        assert 3 * once <= work(more, history) <= 4 * once


def test_an_unknown_key_costs_no_more_than_a_look_at_some_keys(tmp_path: Path) -> None:
    """The search for a hint ends after a few thousand keys."""

    def unknown(timeline: Timeline) -> None:
        with pytest.raises(NotFound, match="never had a key 'nose 17'"):
            timeline.blame("nose 17")

    with (
        told(tmp_path / "many.db", noise(4_000, keys=4_000)) as many,
        told(tmp_path / "more.db", noise(8_000, keys=8_000)) as more,
    ):
        assert work(more, unknown) <= work(many, unknown) * 1.02


def test_following_a_run_does_not_cost_with_its_length(logs: dict[str, EventLog]) -> None:
    """What was appended to a run since a position is found by halving, not by reading the whole run."""

    def newest(log: EventLog) -> Look:
        return lambda timeline: list(log.read(run="main", after=timeline.point().position - 2))

    short, long = logs["short"], logs["long"]
    assert work(long, newest(long)) <= work(short, newest(short)) * 1.5


# -- plans


def unknown(timeline: Timeline) -> None:
    """Ask for a key that is almost there."""
    with pytest.raises(NotFound, match="did you mean"):
        timeline.history("hiden")


PLANNED = [
    pytest.param(
        lambda timeline: timeline.entry("a", turn=0), {"events_changes", "events_turns"}, id="entry"
    ),
    pytest.param(lambda timeline: timeline.state(turn=0), {"events_changes", "events_visits"}, id="state"),
    pytest.param(lambda timeline: timeline.blame(at="0.1"), {"events_changes", "events_turns"}, id="blame"),
    pytest.param(
        lambda timeline: timeline.blame("a"), {"events_changes", "events_revision"}, id="blame-of-one"
    ),
    pytest.param(
        lambda timeline: list(timeline.history("a")), {"events_changes", "events_refusals"}, id="history"
    ),
    pytest.param(
        lambda timeline: list(timeline.history("a", reverse=True)),
        {"events_changes", "events_refusals"},
        id="history-backwards",
    ),
    pytest.param(lambda timeline: timeline.diff("0", "1"), {"events_revision", "events_expiries"}, id="diff"),
    pytest.param(lambda timeline: timeline.turns(), {"events_visits", "events_revision"}, id="turns"),
    pytest.param(lambda timeline: timeline.first("hidden"), {"events_changes", "events_visits"}, id="first"),
    pytest.param(
        lambda timeline: timeline.bisect(lambda state: "a" in state), {"events_revision"}, id="bisect"
    ),
    pytest.param(unknown, {"events_changes"}, id="hint"),
    pytest.param(lambda timeline: timeline.point(at="2100-01-01T00:00Z"), {"events_revision"}, id="time"),
]


@pytest.fixture(scope="module", params=[False, True], ids=["without-statistics", "with-statistics"])
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventLog]:
    """A fork with a bit of everything, with and without the planner's statistics from `analyze`."""
    path = tmp_path_factory.mktemp("plans") / "team.db"
    with told(
        path,
        [Write(f"k{number}", "1", None, number % 9 or None) for number in range(300)],
        [Write("a", "1"), REFUSED, Write("hidden", "1", None, 0), AdvanceTurn()],
        [REFUSED] * 600,
        noise(600, keys=1),
        [Delete("a"), SetTurn(0), Write("a", "2"), AdvanceTurn()],
    ) as log:
        Timeline(log).fork(run="what-if")
        log.execute([Write("a", "3"), Write("b", "1"), SetTurn(0), REFUSED], run="what-if")
        if request.param:
            with closing(driver().connect(path)) as db:
                db.execute("analyze")
        yield log


@pytest.mark.parametrize(("look", "indexes"), PLANNED)
def test_every_statement_of_a_look_back_uses_an_index(
    planned: EventLog, look: Look, indexes: set[str]
) -> None:
    """Each finds its events by the index made for it or by position; none reads them all."""
    statements: list[str] = []
    timeline = Timeline(planned, "what-if")
    with planned.reading() as db:
        db.set_trace_callback(statements.append)
    look(timeline)
    with planned.reading() as db:
        db.set_trace_callback(None)
        plan = [
            step
            for statement in dict.fromkeys(statements)
            for *_, step in db.execute(f"explain query plan {statement}").fetchall()
        ]
    assert plan, "another connection was watched than the one that was used"
    assert [step for step in plan if re.match(r"SCAN (events|e|b)\b", step)] == []
    used = {found[1] for step in plan if (found := re.search(r"INDEX (events_\w+)", step))}
    assert indexes <= used
