"""Rules of the original that are followed to the letter, one test each, over the stores that anybody uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, FileStore, InMemoryStore, SharedMemory

from .conftest import PlainStore


@pytest.fixture(params=["in memory", "in a file", "on a log"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """An empty store."""
    if request.param == "in memory":
        yield InMemoryStore()
    elif request.param == "in a file":
        with FileStore(tmp_path / "memory.json") as store:
            yield store
    else:
        with turnlog.open(tmp_path / "team.db", durability="os") as log:
            yield EventSourcedStore(log)


def test_a_value_is_text_and_a_missing_key_is_none(store: Any) -> None:
    """A1, A2: key and value are strings, metadata and expiry may be absent, missing is no error."""
    assert store.get("missing") is None
    store.set("k", "1")
    entry = store.get("k")
    assert (entry.key, entry.value, entry.metadata, entry.expires_at_turn) == ("k", "1", None, None)


def test_abilities_are_probed(store: Any) -> None:
    """A3, A5: ours compare and set, and keep an expiry; a store without the method is one that cannot."""
    assert callable(store.compare_and_set)
    assert callable(store.set_with_expiry)
    with pytest.raises(TypeError, match="no compare_and_set"):
        SharedMemory(PlainStore()).compare_and_set("w", "k", None, "1")


def test_a_store_never_judges_expiry(store: Any) -> None:
    """A4: it keeps the number and hands it back."""
    store.set_with_expiry("k", "1", 0)
    assert store.get("k").expires_at_turn == 0
    assert len(store.list()) == 1


def test_keys_are_opaque(store: Any) -> None:
    """A6: no trimming, folding, normalising or handling as a path."""
    keys = ["", " ", "/", "a//b", "__proto__", "\x00", "é", "e\u0301", "😀", "\ud83d", "K", "k"]
    for key in keys:
        store.set(key, key)
    assert [entry.key for entry in store.list()] == keys


def test_set_replaces_the_whole_entry(store: Any) -> None:
    """B1, B3: new value, new metadata or none, no expiry; so does a compare-and-set that succeeds."""
    store.set_with_expiry("k", "1", 5, {"x": 1})
    store.set("k", "2")
    entry = store.get("k")
    assert (entry.value, entry.metadata, entry.expires_at_turn) == ("2", None, None)
    store.set_with_expiry("k", "1", 5)
    assert store.compare_and_set("k", "1", "2", {"y": 1})
    assert (store.get("k").metadata, store.get("k").expires_at_turn) == ({"y": 1}, None)


def test_a_life_begins_with_the_first_write(store: Any) -> None:
    """B2, B4: created_at and place survive every overwriting, and a delete ends them."""
    for key in "abc":
        store.set(key, "1")
    born = store.get("a").created_at
    store.set("a", "2")
    store.set_with_expiry("a", "3", 1)
    assert store.compare_and_set("a", "3", "4")
    assert store.get("a").created_at == born
    store.delete("b")
    store.set("b", "1")
    assert [entry.key for entry in store.list()] == ["a", "c", "b"]


def test_compare_and_set_is_exact(store: Any) -> None:
    """B5: None is missing, `""` is a value, the same value again succeeds, a failure changes nothing."""
    assert store.compare_and_set("k", "", "1") is False
    assert store.compare_and_set("k", None, "") is True
    assert store.compare_and_set("k", None, "1") is False
    assert store.compare_and_set("k", "", "") is True
    assert store.get("k").value == ""


def test_deleting_and_clearing_are_silent(store: Any) -> None:
    """B6: of what is not there too; clear takes reserved keys along."""
    store.delete("missing")
    store.clear()
    store.set("__oma_approval__/x", "1")
    store.clear()
    assert store.list() == []


def test_a_refused_write_stores_nothing(store: Any) -> None:
    """E3: schema, then what JSON can hold, then the store; any failure leaves it untouched."""
    memory = SharedMemory(store)
    for attempt in ({"value": object()}, {"value": "x", "schema": int}):
        with pytest.raises(TypeError):
            memory.write("w", "k", **attempt)
    assert store.list() == []


def test_marks_cannot_be_forged(store: Any) -> None:
    """E8: the agent and the mark of the encoding win over the caller's; a string drops the mark."""
    memory = SharedMemory(store)
    memory.write("w", "k", [1], {"agent": "other", "sharedMemoryValueEncoding": "x", "n": 1})
    assert store.get("w/k").metadata == {"agent": "w", "sharedMemoryValueEncoding": "json", "n": 1}
    memory.write("w", "k", "[1]", {"sharedMemoryValueEncoding": "json"})
    assert store.get("w/k").metadata == {"agent": "w"}
    assert memory.read("w/k").value == "[1]"


def test_reads_hide_what_is_reserved_or_expired(store: Any) -> None:
    """E10, E11: in every view, which keep the store's order; keys without a slash can be read."""
    memory = SharedMemory(store)
    store.set("plain", "1")
    store.set("__oma_checkpoint__/latest", "{}")
    store.set("/odd", "2")
    memory.write_expiring("w", "old", "3", 1)
    memory.advance_turn()
    assert memory.read("__oma_checkpoint__/latest") is None
    assert memory.read("w/old") is None
    assert memory.read("plain").value == "1"
    assert [entry.key for entry in memory.list_all()] == ["plain", "/odd"]
    assert [entry.key for entry in memory.list_by_agent("")] == ["/odd"]
    assert [entry["key"] for entry in memory.snapshot()["entries"]] == ["plain", "/odd"]
    assert "old" not in memory.get_summary()


def test_a_summary_of_some_tasks(store: Any) -> None:
    """E15: only the results of the listed ids; none listed is no filter; what does not match is `""`."""
    memory = SharedMemory(store)
    for key in ("task:a:b:result", "task:t1:verdict", "note", "x/task:t1:result"):
        memory.write("w", key, "v")
    assert "task:a:b:result" in memory.get_summary(["a:b"])
    assert memory.get_summary(["t1"]) == ""
    assert memory.get_summary([]) == memory.get_summary()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1", True, None, float("inf")])
def test_a_ttl_is_at_least_one_turn(wrong: Any) -> None:
    """E17: anything else is refused, whatever the value; a store without expiry keeps it for good."""
    store = PlainStore()
    memory = SharedMemory(store)
    with pytest.raises(ValueError, match="ttl_turns"):
        memory.write_expiring("w", "k", object(), wrong)
    memory.write_expiring("w", "k", "v", 1)
    memory.set_turn(9)
    assert memory.read("w/k").value == "v"


def test_the_shape_of_a_snapshot(store: Any) -> None:
    """E19: version, turnCount and the visible entries, absent members left out."""
    memory = SharedMemory(store)
    memory.write_expiring("w", "k", [1], 2)
    store.set("plain", "1")
    snapshot = memory.snapshot()
    born = [entry["createdAt"] for entry in snapshot["entries"]]
    mark = {"sharedMemoryValueEncoding": "json", "agent": "w"}
    assert snapshot == {
        "version": 1,
        "turnCount": 0,
        "entries": [
            {"key": "w/k", "value": "[1]", "metadata": mark, "createdAt": born[0], "expiresAtTurn": 2},
            {"key": "plain", "value": "1", "createdAt": born[1]},
        ],
    }
    assert all(len(each) == 24 and each[-1] == "Z" for each in born)
