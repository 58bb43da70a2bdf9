"""Random histories: whatever happened before, no byte of what was erased is left."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import (
    AdvanceTurn,
    BadAddress,
    Conflict,
    Delete,
    EventLog,
    NotFound,
    Write,
)
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.memory import EventSourcedStore
from turnlog.replay import Timeline, redact
from turnlog.replay.verification import verify

from .erased import WHY, files, judged, open_log, taken_in


class History:
    """A random history of some runs, in which every text is made of a mark of its own."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.log = open_log(path)
        self.runs = ["main"]
        self.keys: dict[str, str] = {}  # mark by key
        self.texts: dict[str, str] = {}  # key by mark
        self.gone: set[str] = set()
        self.log.execute([Write("first", "v")], run="main")

    def mark(self) -> str:
        """A text that occurs nowhere else."""
        return "".join(self.chance.choices(string.ascii_lowercase, k=12))

    def long(self, mark: str, most: int) -> str:
        """The mark, repeated, so that any piece of it that is left can be found."""
        return mark * self.chance.choice([1, 2, 5, 20, most // 12])

    def step(self) -> None:
        """Anything that can happen."""
        run = self.chance.choice(self.runs)
        happen: Callable[[str], None] = self.chance.choice(
            [self.write, self.write, self.write, self.delete, self.refuse, self.turn, self.restore, self.fork]
        )
        happen(run)

    def write(self, run: str) -> None:
        """Some texts, under old and new keys."""
        commands = []
        for _ in range(self.chance.choice([1, 3, 30])):
            if not self.keys or self.chance.random() < 0.3:
                mark = self.mark()
                self.keys[self.long(mark, 1200)] = mark
            key, text = self.chance.choice(sorted(self.keys)), self.mark()
            metadata = {"note": text} if self.chance.random() < 0.3 else None
            commands.append(Write(key, self.long(text, 9000), metadata))
            self.texts[text] = key
        self.log.execute(commands, run=run)

    def delete(self, run: str) -> None:
        """A key, if it is there."""
        self.log.execute([Delete(self.chance.choice(["first", *sorted(self.keys)]))], run=run)

    def refuse(self, run: str) -> None:
        """A condition that does not hold."""
        key = self.chance.choice(["first", *sorted(self.keys)])
        with suppress(Conflict):
            self.log.execute([Write(key, "v", expected_version=10**9)], run=run)

    def turn(self, run: str) -> None:
        """The next turn."""
        self.log.execute([AdvanceTurn()], run=run)

    def restore(self, run: str) -> None:
        """Back to anywhere."""
        timeline = Timeline(self.log, run)
        with suppress(BadAddress):
            timeline.restore(position=self.chance.randint(1, timeline.point().position))

    def fork(self, run: str) -> None:
        """From anywhere."""
        if len(self.runs) < 6:
            timeline, name = Timeline(self.log, run), f"fork {len(self.runs)}"
            try:
                timeline.fork(run=name, position=self.chance.randint(1, timeline.point().position))
            except BadAddress:
                return
            self.runs.append(name)

    def erase(self) -> None:
        """Some texts by pattern, or all of a key, or a name."""
        way = self.chance.choice(["texts", "texts", "key", "name"])
        if way == "texts" and self.texts:
            some = self.chance.sample(
                sorted(self.texts), min(len(self.texts), self.chance.choice([1, 5, 40]))
            )
            redact(self.log, matching="|".join(some), **WHY)
        elif way == "key" and self.texts:
            key = self.chance.choice(sorted(set(self.texts.values()) & set(self.keys)) or ["first"])
            some = [text for text, of in self.texts.items() if of == key]
            redact(self.log, key=key, **WHY)
        elif way == "name" and self.keys:
            key = self.chance.choice(sorted(self.keys))
            some = [self.keys.pop(key)]
            try:
                redact(self.log, name=key, **WHY)
            except NotFound:
                return
        else:
            return
        for text in some:
            self.texts.pop(text, None)
        self.gone.update(some)

    def check(self) -> None:
        """Nothing that is gone is anywhere in the files."""
        self.log.close()
        data = files(self.path)
        assert [mark for mark in self.gone if mark.encode() in data] == []
        self.log = open_log(self.path)


SEEDS = [*range(4), *(pytest.param(each, marks=pytest.mark.long) for each in range(4, 60))]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_left_after_any_history(tmp_path: Path, seed: int) -> None:
    """Whatever happened before, in between and since: no byte of it, and every question is answered."""
    history = History(tmp_path / "team.db", seed)
    try:
        for _ in range(4):
            for _ in range(history.chance.randint(1, 10)):
                history.step()
            history.erase()
            history.check()
        check_some(history.log, history.gone)
    finally:
        history.log.close()
    assert judged(history.path).returncode == 0


def check_some(log: EventLog, gone: set[str]) -> None:
    """`check_whole`, at some points of a log that may be long."""
    assert verify(log).ok
    for info in log.runs():
        timeline = Timeline(log, info.run.name)
        for position in range(1, info.head.position + 1, max(1, info.head.position // 6)):
            try:
                state = timeline.state(position=position, all=True)
            except BadAddress:
                continue
            assert dict(state) == dict(timeline.folded(position=position))
            assert not any(mark in repr(state) for mark in gone)


def test_where_a_row_lay_before_it_was_moved_is_written_over(tmp_path: Path) -> None:
    """Pages that were split keep copies of the rows that went to the page beside; names lie in such pages."""
    path = tmp_path / "team.db"
    chance = random.Random(0)
    marks = ["".join(chance.choices(string.ascii_lowercase, k=12)) for _ in range(400)]
    with open_log(path) as log:
        commands = [Write(mark * chance.choice([1, 5, 20, 60, 100]), "v") for mark in marks]
        keys = {mark: command.key for mark, command in zip(marks, commands, strict=True)}
        for first in range(0, len(commands), 7):
            log.execute(commands[first : first + 7], run="main")
        gone = chance.sample(marks, 12)
        for mark in gone:
            redact(log, name=keys[mark], **WHY)
    data = files(path)
    assert [mark for mark in gone if mark.encode() in data] == []


@pytest.mark.parametrize(
    "seed", [100, *(pytest.param(each, marks=pytest.mark.long) for each in range(101, 120))]
)
def test_copies_of_any_history_hold_the_same(tmp_path: Path, seed: int) -> None:
    """A whole export, one of each run, and one taken in where an older export, with all texts, was before."""
    history = History(tmp_path / "team.db", seed)
    try:
        older: list[str] = []
        for _ in range(3):
            for _ in range(history.chance.randint(1, 8)):
                history.step()
            older = list(export_lines(history.log))
            history.erase()
        whole = list(export_lines(history.log))
        runs = [info.run.name for info in history.log.runs()]
        states = {run: shown(history.log, run) for run in runs}
        assert not any(mark in line for mark in history.gone for line in whole)
        with taken_in(tmp_path / "whole.db", whole) as log:
            check_copy(log, states)
            assert list(export_lines(log)) == whole
        for number, run in enumerate(runs):
            with taken_in(tmp_path / f"{number}.db", list(export_lines(history.log, run))) as log:
                check_copy(log, {run: states[run]})
        with taken_in(tmp_path / "older.db", older) as log:
            Timeline(log).fork(run="a fork of its own")
            for run in runs:
                import_lines(log, whole, run)
            check_copy(log, states)
            assert shown(log, "a fork of its own") is not None
        data = files(tmp_path / "older.db")
        assert [mark for mark in history.gone if mark.encode() in data] == []
    finally:
        history.log.close()


def shown(log: EventLog, run: str) -> dict[str, Any]:
    """The present of a run, as far as it is the same in every copy."""
    state = Timeline(log, run).state(all=True)
    assert [entry.key for entry in EventSourcedStore(log, run).list()] == list(state)
    return {key: (entry.value, entry.metadata, entry.created_at) for key, entry in state.items()}


def check_copy(log: EventLog, states: dict[str, dict[str, Any]]) -> None:
    """It is whole, and shows what the original shows."""
    assert verify(log).ok
    assert {run: shown(log, run) for run in states} == states
