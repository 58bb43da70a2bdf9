"""A search for one name returns the rows of another that looks like it, or of everybody."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, SharedMemory
from turnlog.eventlog import EventLog
from turnlog.eventlog.driver import driver

NAMES = [
    "john_doe",
    "john-doe",
    "JOHN_DOE",
    "john",
    "johnny",
    "%",
    "*",
    "[a]",
    "\\",
    "a'b",
    'x" OR 1=1 --',
]


@pytest.fixture
def everybody(memory: SharedMemory) -> SharedMemory:
    """Every agent has written something."""
    for name in NAMES:
        memory.write(name, "k", name)
    return memory


@pytest.mark.parametrize("name", NAMES)
def test_each_agent_gets_its_own(everybody: SharedMemory, log: EventLog, name: str) -> None:
    """Nobody else's entries, in memory, in the store and in the log."""
    assert [entry.value for entry in everybody.list_by_agent(name)] == [name]
    assert [entry.key for entry in EventSourcedStore(log).scan(f"{name}/")] == [f"{name}/k"]
    assert [each.agent for each in log.read(agent=name)] == [name]
    assert [each.position for each in log.read(key=f"{name}/k")] == [NAMES.index(name) + 1]


def test_prefixes_are_literal(everybody: SharedMemory, store: EventSourcedStore) -> None:
    """The empty prefix means everything; any other only what begins with exactly that."""
    assert [entry.key for entry in store.scan("")] == [f"{name}/k" for name in NAMES]
    assert [entry.key for entry in store.scan("john")] == [
        "john_doe/k",
        "john-doe/k",
        "john/k",
        "johnny/k",
    ]
    assert [entry.key for entry in store.scan("john_")] == ["john_doe/k"]


def test_no_text_of_a_caller_is_in_any_statement(
    everybody: SharedMemory, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for is bound, never spelled into SQL."""
    statements: list[str] = []

    class Listening(driver().Connection):  # type: ignore[misc]
        def execute(self, statement: str, *given: Any) -> Any:
            statements.append(statement)
            return super().execute(statement, *given)

    monkeypatch.setattr(driver(), "connect", partial(driver().connect, factory=Listening))
    with turnlog.open(log.path) as listening:
        memory = SharedMemory(EventSourcedStore(listening))
        name = NAMES[-1]
        memory.write(name, "k", "again")
        assert memory.list_by_agent(name)
        assert list(listening.read(agent=name, key=f"{name}/k"))
        assert list(turnlog.Timeline(listening).history(f"{name}/k"))
    assert len(statements) > 10
    assert [statement for statement in statements if "1=1" in statement] == []
