"""Positions are reused, renumbered or skipped, so that who reads on from the last one misses events."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, Write
from turnlog.eventlog import EventLog
from turnlog.eventlog.driver import driver


class Refused:
    """A command that fails after something was decided."""

    agent = None

    def check(self, limits: Any) -> None:
        """Nothing."""

    def decide(self, view: Any) -> list[Any]:
        """Fail."""
        raise ArithmeticError("rolled back")

    def outcome(self, recorded: Any) -> None:
        """Never asked."""


def test_what_was_rolled_back_leaves_no_gap(path: Path) -> None:
    """Three, one that fails, one more, VACUUM, one more: one to five."""
    with turnlog.open(path) as log:
        for number in range(3):
            log.execute([Write("k", str(number))], run="main")
        with pytest.raises(ArithmeticError):
            log.execute([Write("k", "never"), Refused()], run="main")
        log.execute([Write("k", "3")], run="main")
    with closing(driver().connect(path, isolation_level=None)) as db:
        db.execute("vacuum")
    with turnlog.open(path) as log:
        log.execute([Write("k", "4")], run="main")
        found = [(each.position, each.event.value) for each in log.read()]  # type: ignore[union-attr]
        assert found == [(number + 1, str(number)) for number in range(5)]


@pytest.mark.parametrize(
    "statement",
    ["delete from events where position = 2", "update events set position = 9", "delete from events"],
)
def test_no_position_comes_free(path: Path, log: EventLog, store: EventSourcedStore, statement: str) -> None:
    """Another program cannot delete or renumber what was recorded."""
    store.set("k", "1")
    store.set("k", "2")
    with (
        closing(driver().connect(path, isolation_level=None)) as db,
        pytest.raises(driver().IntegrityError, match="append-only"),
    ):
        db.execute(statement)
    assert store.set("k", "3") == 3


def test_who_reads_on_sees_every_event_once(path: Path) -> None:
    """Eight writers on two log objects, and a reader that goes on from its last position."""
    failed: list[BaseException] = []
    with turnlog.open(path, durability="os") as one, turnlog.open(path, durability="os") as other:

        def write(log: EventLog, name: str) -> None:
            try:
                for number in range(40):
                    log.execute([Write(name, str(number)), Write("k", name)], run="main")
            except BaseException as error:  # noqa: BLE001 - told to the test
                failed.append(error)

        writers = [
            threading.Thread(target=write, args=((one, other)[number % 2], f"w{number}"))
            for number in range(8)
        ]
        seen: list[Any] = []
        with turnlog.open(path, read_only=True) as reader:
            for writer in writers:
                writer.start()
            while any(writer.is_alive() for writer in writers):
                seen += reader.read(after=seen[-1].position if seen else 0)
            seen += reader.read(after=seen[-1].position if seen else 0)
        assert failed == []
        assert seen == list(one.read())
        assert [each.position for each in seen] == list(range(1, 8 * 40 * 2 + 1))
