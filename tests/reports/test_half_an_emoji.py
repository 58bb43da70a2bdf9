"""A lone surrogate in some tool's output makes the session impossible to save, for ever."""

from __future__ import annotations

import json

from click.testing import CliRunner

from turnlog import EventSourcedStore, SharedMemory, Timeline, acting_as
from turnlog.eventlog import EventLog
from turnlog.replay.cli import turnlog as command_line

HALF = "\ud83d"
OTHER = json.loads('"\\udc88"')


def test_half_an_emoji_is_kept_everywhere(log: EventLog, store: EventSourcedStore) -> None:
    """As value, key, agent, metadata, reason and prefix; nothing is replaced."""
    with acting_as(f"agent {HALF}"):
        store.set(f"key {HALF}", f"value {OTHER}", {f"meta {HALF}": OTHER})
    entry = store.get(f"key {HALF}")
    assert entry is not None
    assert (entry.value, entry.metadata) == (f"value {OTHER}", {f"meta {HALF}": OTHER})
    assert [each.key for each in store.scan(f"key {HALF}")] == [entry.key]
    assert [each.key for each in store.scan(f"key {OTHER}")] == []
    restored = Timeline(log).restore(position=1, by=HALF, reason=f"why {OTHER}")
    assert restored.agent == HALF
    assert [each.agent for each in log.read(agent=f"agent {HALF}")] == [f"agent {HALF}"]
    memory = SharedMemory(store)
    memory.write(f"a{HALF}", f"k{OTHER}", {"x": HALF})
    found = memory.read(f"a{HALF}/k{OTHER}")
    assert found is not None
    assert found.value == {"x": HALF}


def test_the_command_line_shows_it(log: EventLog, store: EventSourcedStore) -> None:
    """It is escaped, and nothing ends in an error."""
    store.set(f"key {HALF}", f"value {OTHER}")
    for words in (
        ["log", log.path],
        ["state", log.path],
        ["state", log.path, "--json"],
        ["verify", log.path],
    ):
        done = CliRunner().invoke(command_line, words)
        assert done.exit_code == 0, done.output
        done.stdout.encode("utf-8")
