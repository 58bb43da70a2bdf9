"""One agent's view of shared memory, and what is attributed to whom."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pydantic import BaseModel

from turnlog.eventlog import Conflict, EventLog
from turnlog.memory import EventSourcedStore, SharedMemory, acting_as


class Note(BaseModel):
    """A model."""

    text: str


def test_an_agent_writes_its_own_keys_and_reads_everybodys(memory: SharedMemory) -> None:
    """Writing takes the agent's own key, reading the whole one; `read_own` takes the own one."""
    writer = memory.agent("writer")
    memory.write("researcher", "findings", {"claim": "x"})
    version = writer.write("draft", "text", {"m": 1})
    assert (writer.name, writer.memory) == ("writer", memory)
    assert writer.read("researcher/findings").value == {"claim": "x"}
    assert writer.read("writer/draft") == writer.read_own("draft") == memory.read("writer/draft")
    assert writer.read("draft") is None
    assert writer.read_own("draft").version == version
    assert writer.read_own("draft").metadata == {"m": 1, "agent": "writer"}
    assert [entry.key for entry in writer.list_own()] == ["writer/draft"]
    assert [entry.key for entry in writer.list_all()] == ["researcher/findings", "writer/draft"]
    assert writer.get_summary() == memory.get_summary()


def test_every_verb_of_writing(memory: SharedMemory) -> None:
    """They do what those of the memory do, conditions and schemas included."""
    writer = memory.agent("writer")
    version = writer.write("k", {"text": "1"}, schema=Note, expected_version=0)
    assert writer.read("writer/k", schema=Note).value == Note(text="1")
    assert writer.read_own("k", schema=Note).value == Note(text="1")
    with pytest.raises(Conflict):
        writer.write("k", "2", expected_version=version + 1)
    with pytest.raises(TypeError, match="schema"):
        writer.write("k", {}, schema=Note)
    assert writer.compare_and_set("k", {"text": "2"}, "x") is False
    assert writer.compare_and_set("k", {"text": "1"}, {"text": "3"}, {"m": 1}, schema=Note) is True
    writer.write_expiring("t", Note(text="4"), 2, {"m": 2}, schema=Note)
    assert writer.read_own("t").expires_at_turn == 2
    writer.delete("k")
    assert [entry.key for entry in writer.list_own()] == ["writer/t"]
    assert writer.get_summary(["t"]) == ""


def test_a_key_of_ones_own_must_not_be_empty(memory: SharedMemory) -> None:
    """Reading it is a mistake too, unlike reading a whole key."""
    with pytest.raises(ValueError, match="key must not be empty"):
        memory.agent("writer").read_own("")


def test_writes_are_recorded_with_agent_and_activity(log: EventLog) -> None:
    """Each view is an activity of its own; a given id is used as it is."""
    memory = SharedMemory(EventSourcedStore(log))
    first, second, named = memory.agent("a"), memory.agent("a"), memory.agent("b", activity="task 7")
    first.write("k", "1")
    second.write_expiring("k", "2", 1)
    second.compare_and_set("k", "wrong", "3")
    named.delete("missing")
    named.write("k", "1")
    named.delete("k")
    memory.write("a", "k", "4")
    memory.write_expiring("b", "k", "5", 1)
    memory.compare_and_set("c", "k", None, "6")
    assert first.activity != second.activity
    assert [(one.agent, one.activity) for one in log.read()] == [
        ("a", first.activity),
        ("a", second.activity),
        ("a", second.activity),
        ("b", "task 7"),
        ("b", "task 7"),
        ("a", None),
        ("b", None),
        ("c", None),
    ]


def test_a_block_attributes_what_goes_to_the_store_directly(log: EventLog) -> None:
    """Inside it the agent is the ambient one, afterwards it is not."""
    store = EventSourcedStore(log)
    memory = SharedMemory(store)
    with memory.agent("writer") as writer:
        store.set("x", "1")
        memory.advance_turn()
        memory.write("other", "k", "v")
        writer.write("k", "v")
    store.set("x", "2")
    activity = writer.activity
    assert [(one.agent, one.activity) for one in log.read()] == [
        ("writer", activity),
        ("writer", activity),
        ("other", activity),
        ("writer", activity),
        (None, None),
    ]


def test_blocks_nest_and_end_with_an_error(log: EventLog) -> None:
    """The outer agent acts again after the inner block, however that ended."""
    store = EventSourcedStore(log)
    memory = SharedMemory(store)

    def fail() -> None:
        store.set("x", "1")
        raise RuntimeError("on purpose")

    with memory.agent("outer"):
        with pytest.raises(RuntimeError, match="on purpose"), memory.agent("inner"):
            fail()
        store.set("x", "2")
    assert [one.agent for one in log.read()] == ["inner", "outer"]


def test_a_view_is_in_one_block_at_a_time(memory: SharedMemory) -> None:
    """A second block around the same view is refused; one after the other is fine."""
    writer = memory.agent("writer")
    with writer:
        with pytest.raises(RuntimeError, match="take another one"), writer:
            pass
        writer.write("k", "1")
    with writer:
        writer.write("k", "2")
    assert memory.read("writer/k").value == "2"


def test_a_view_can_be_used_from_threads(log: EventLog) -> None:
    """Its writes are attributed in whatever thread they are made."""
    memory = SharedMemory(EventSourcedStore(log))
    with memory.agent("writer") as writer:
        threads = [threading.Thread(target=writer.write, args=(f"k{number}", number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {(one.agent, one.activity) for one in log.read()} == {("writer", writer.activity)}
    assert len(writer.list_own()) == 4


def test_acting_as_names_who_acts_on_the_store(log: EventLog) -> None:
    """Metadata that names an agent wins; outside the block nobody is named."""
    store = EventSourcedStore(log)
    with acting_as("ambient", activity="night shift"):
        store.set("x", "1")
        store.set("x", "2", {"agent": "named"})
        store.set("x", "3", {"agent": 7})
        store.delete("x")
    store.set("x", "4")
    assert [one.agent for one in log.read()] == ["ambient", "named", "ambient", "ambient", None]


@pytest.mark.parametrize(("agent", "error"), [("", ValueError), (None, TypeError), (1, TypeError)])
def test_acting_as_needs_a_name(agent: Any, error: type[Exception]) -> None:
    """Nobody can act without one."""
    with pytest.raises(error), acting_as(agent):
        pass


def test_an_activity_is_text(memory: SharedMemory) -> None:
    """A wrong type is refused when the view is made."""
    with pytest.raises(TypeError, match="activity"):
        memory.agent("writer", activity=7)
