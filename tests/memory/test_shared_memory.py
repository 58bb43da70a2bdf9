"""Writing to and reading from shared memory: names, metadata, versions, conditions, and what stays hidden."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import Conflict, EntryDeleted, EntryWritten, EventLog, KeyReused, Limits, WriteRefused
from turnlog.memory import EventSourcedStore, InMemoryStore, SharedEntry, SharedMemory

from .conftest import PlainStore

RESERVED = ["__oma_checkpoint__", "__oma_approval__", "__turnlog__"]


def keys(entries: list[SharedEntry[Any]]) -> list[str]:
    """The keys of a listing."""
    return [entry.key for entry in entries]


# -- names


def test_a_key_is_the_agent_a_slash_and_its_own_key(memory: SharedMemory) -> None:
    """Any agent reads it under its whole name; the agent's own key may contain slashes."""
    memory.write("researcher", "a/b", "v")
    assert memory.store.list()[0].key == "researcher/a/b"
    assert memory.read("researcher/a/b").value == "v"
    assert memory.read("a/b") is None


def test_two_owners_never_share_a_cell(memory: SharedMemory) -> None:
    """An agent cannot have a slash in its name, so `a/b` + `c` is not `a` + `b/c`."""
    memory.write("a", "b/c", "mine")
    with pytest.raises(ValueError, match="'/'"):
        memory.write("a/b", "c", "theirs")
    assert memory.read("a/b/c").value == "mine"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param("a/b", id="slash"),
        pytest.param("/", id="only a slash"),
        pytest.param("a\nb", id="line feed"),
        pytest.param("a\x00", id="NUL"),
        pytest.param("a\x1b[31m", id="escape"),
        pytest.param("a\x7f", id="delete"),
        pytest.param("a\u0085b", id="next line"),
        pytest.param("a\u2028b", id="line separator"),
        *(pytest.param(name, id=name) for name in RESERVED),
    ],
)
def test_names_that_no_agent_can_have(memory: SharedMemory, name: str) -> None:
    """Every way to write or to act under such a name is a ValueError, and nothing is written."""
    for attempt in (
        lambda: memory.write(name, "k", "v"),
        lambda: memory.write_expiring(name, "k", "v", 1),
        lambda: memory.compare_and_set(name, "k", None, "v"),
        lambda: memory.delete(name, "k"),
        lambda: memory.agent(name),
    ):
        with pytest.raises(ValueError, match="agent"):
            attempt()
    assert memory.store.list() == []


@pytest.mark.parametrize(
    "name",
    [
        "john_doe", "john-doe", "JOHN_DOE", "john", "johnny", "%", "*", "[a]", "\\", "a'b", 'x" OR 1=1 --',
        "日本", "\ud83d", " ", ".", "__oma_checkpoint__x", "__oma", "_unknown",
    ],
)  # fmt: skip
def test_any_other_name_is_an_agent_of_its_own(memory: SharedMemory, name: str) -> None:
    """Names are compared exactly, and half an emoji is a name."""
    memory.write("other", "k", "v")
    memory.write(name, "k", {"by": name})
    entry = memory.read(f"{name}/k")
    assert entry.value == {"by": name}
    assert entry.metadata["agent"] == name
    assert keys(memory.list_by_agent(name)) == [f"{name}/k"]


@pytest.mark.parametrize("wrong", [None, 1, b"a", ["a"]])
def test_names_and_keys_must_be_text(memory: SharedMemory, wrong: Any) -> None:
    """A wrong type is a TypeError wherever it is given."""
    for attempt in (
        lambda: memory.write(wrong, "k", "v"),
        lambda: memory.write("a", wrong, "v"),
        lambda: memory.delete("a", wrong),
        lambda: memory.read(wrong),
        lambda: memory.list_by_agent(wrong),
        lambda: memory.agent(wrong),
    ):
        with pytest.raises(TypeError):
            attempt()
    assert memory.store.list() == []


def test_a_key_must_not_be_empty(memory: SharedMemory) -> None:
    """An agent's own key is at least one character."""
    with pytest.raises(ValueError, match="key must not be empty"):
        memory.write("a", "", "v")
    with pytest.raises(ValueError, match="key must not be empty"):
        memory.delete("a", "")
    assert memory.store.list() == []


def test_reads_take_keys_of_any_form(memory: SharedMemory) -> None:
    """Keys that other software put into the store are readable as they are."""
    for key in ("plain", "", "/", "a//b", "\n"):
        memory.store.set(key, f"value of {key}")
    assert [memory.read(key).value for key in ("plain", "", "/", "a//b", "\n")] == [
        "value of plain", "value of ", "value of /", "value of a//b", "value of \n",
    ]  # fmt: skip
    assert memory.read("missing") is None


# -- listing


def test_listing_is_in_birth_order(memory: SharedMemory) -> None:
    """Overwriting keeps the place, deleting and writing ends it."""
    for agent in ("b", "a", "c"):
        memory.write(agent, "k", "v")
    memory.write("b", "k", "again")
    memory.delete("a", "k")
    memory.write("a", "k", "anew")
    assert keys(memory.list_all()) == ["b/k", "c/k", "a/k"]
    assert memory.list_all() == [memory.read("b/k"), memory.read("c/k"), memory.read("a/k")]


def test_listing_by_agent_takes_the_name_literally(memory: SharedMemory) -> None:
    """No wildcard, no case folding, no neighbour whose name begins alike."""
    agents = ["john_doe", "john-doe", "JOHN_DOE", "john", "johnny", "%", "*", "[a]", "\\", "a'b", 'x" OR 1=1']
    for agent in agents:
        memory.write(agent, "k", "v")
    for agent in agents:
        assert keys(memory.list_by_agent(agent)) == [f"{agent}/k"]
    assert memory.list_by_agent("nobody") == []


def test_listing_by_an_empty_agent(memory: SharedMemory) -> None:
    """It finds the keys that begin with a slash, and no others."""
    memory.store.set("/x", "1")
    memory.write("a", "/x", "2")
    assert keys(memory.list_by_agent("")) == ["/x"]


def test_listing_by_agent_without_scan(plain: SharedMemory) -> None:
    """A store with the five verbs only answers the same."""
    plain.write("john", "k", "v")
    plain.write("johnny", "k", "v")
    assert keys(plain.list_by_agent("john")) == ["john/k"]


# -- reserved prefixes


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_records_are_hidden(memory: SharedMemory, name: str) -> None:
    """Reads, listings, summary and snapshot pass over them; the store still shows them."""
    memory.store.set(f"{name}/latest", "secret")
    memory.write("a", "k", "v")
    assert memory.read(f"{name}/latest") is None
    assert memory.list_by_agent(name) == []
    assert keys(memory.list_all()) == ["a/k"]
    assert "secret" not in memory.get_summary()
    assert [entry["key"] for entry in memory.snapshot()["entries"]] == ["a/k"]
    assert memory.store.get(f"{name}/latest").value == "secret"


@pytest.mark.parametrize("name", RESERVED)
def test_a_prefix_is_reserved_only_as_a_whole_and_in_front(memory: SharedMemory, name: str) -> None:
    """The bare name, the name with more letters, and the prefix deeper in the key are ordinary."""
    ordinary = [name, f"{name}x/k", f"a/{name}/k", f" {name}/k"]
    for key in ordinary:
        memory.store.set(key, "v")
    assert keys(memory.list_all()) == ordinary
    assert all(memory.read(key) is not None for key in ordinary)


# -- metadata


def test_metadata_names_the_agent(memory: SharedMemory) -> None:
    """It is never absent, and carries what the caller gave."""
    memory.write("a", "k", "v")
    assert memory.read("a/k").metadata == {"agent": "a"}
    memory.write("a", "k", "v", {"source": {"url": "x"}})
    assert memory.read("a/k").metadata == {"agent": "a", "source": {"url": "x"}}


@pytest.mark.parametrize("value", ["[1]", [1], {"a": 1}])
def test_callers_forge_neither_agent_nor_encoding(memory: SharedMemory, value: Any) -> None:
    """Both marks are ours, for text as for structured values."""
    memory.write("a", "k", value, {"agent": "boss", "sharedMemoryValueEncoding": "json"})
    entry = memory.read("a/k")
    assert entry.value == value
    assert entry.metadata["agent"] == "a"
    assert ("sharedMemoryValueEncoding" in entry.metadata) == (not isinstance(value, str))


def test_a_forged_encoding_is_dropped_and_a_real_one_set(memory: SharedMemory) -> None:
    """A structured value is marked whatever the caller says; writing text drops the mark."""
    memory.write("a", "k", [1], {"sharedMemoryValueEncoding": "none"})
    assert memory.read("a/k").metadata["sharedMemoryValueEncoding"] == "json"
    assert memory.read("a/k").value == [1]
    memory.write("a", "k", "[1]")
    assert memory.read("a/k").metadata == {"agent": "a"}
    assert memory.read("a/k").value == "[1]"


@pytest.mark.parametrize(
    "wrong", [pytest.param("x", id="str"), pytest.param([], id="list"), pytest.param({1: 2}, id="int key"),
              pytest.param({"x": {1}}, id="set")],
)  # fmt: skip
def test_metadata_must_be_a_dict_of_json(memory: SharedMemory, wrong: Any) -> None:
    """Anything else is a TypeError, and nothing is written."""
    with pytest.raises(TypeError):
        memory.write("a", "k", "v", wrong)
    assert memory.store.list() == []


def test_nothing_is_shared_with_the_caller(memory: SharedMemory) -> None:
    """Changing what went in or came out does not change the memory."""
    value, metadata = {"list": [1]}, {"tags": ["x"]}
    memory.write("a", "k", value, metadata)
    value["list"].append(2)
    metadata["tags"].append("y")
    read = memory.read("a/k")
    read.value["list"].append(3)
    read.metadata["tags"].append("z")
    memory.list_all()[0].value["list"].append(4)
    memory.snapshot()["entries"][0]["metadata"]["tags"].append("w")
    assert memory.read("a/k").value == {"list": [1]}
    assert memory.read("a/k").metadata["tags"] == ["x"]


def test_entries_are_frozen(memory: SharedMemory) -> None:
    """An entry cannot be changed in place."""
    memory.write("a", "k", "v")
    with pytest.raises(dataclasses.FrozenInstanceError):
        memory.read("a/k").value = "w"


# -- versions


def test_write_returns_the_version_that_read_shows(memory: SharedMemory) -> None:
    """The number grows with every write of the key, by whatever verb."""
    versions = [
        memory.write("a", "k", "1"),
        memory.write_expiring("a", "k", "2", 5),
        memory.write("a", "k", "3"),
    ]
    assert versions == sorted(set(versions))
    assert memory.read("a/k").version == versions[-1]
    assert [entry.version for entry in memory.list_all()] == [versions[-1]]


def test_created_at_survives_overwriting(memory: SharedMemory) -> None:
    """It tells when the key's present life began."""
    memory.write("a", "k", "1")
    created_at = memory.read("a/k").created_at
    memory.write_expiring("a", "k", "2", 5)
    memory.write("a", "k", "3")
    assert memory.read("a/k").created_at == created_at


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda memory, value: memory.write("a", "k", value), id="write"),
        pytest.param(
            lambda memory, value: memory.write_expiring("a", "k", value, 1), id="write that expires"
        ),
        pytest.param(
            lambda memory, value: memory.compare_and_set("a", "k", None, value), id="compare and set"
        ),
        pytest.param(
            lambda memory, value: memory.write("a", "k", value, idempotency_key="request 1"), id="once"
        ),
    ],
)
def test_the_limits_of_the_store_hold_for_every_way_to_write(write: Any) -> None:
    """A value of the greatest size is kept, and one byte more is refused and changes nothing."""
    memory = SharedMemory(InMemoryStore(limits=Limits(value=100)))
    with pytest.raises(ValueError, match="the limit is 100"):
        write(memory, "v" * 101)
    assert memory.store.list() == []
    write(memory, "v" * 100)
    assert [entry.value for entry in memory.store.list()] == ["v" * 100]


def test_a_write_with_an_idempotency_key_is_carried_out_once(memory: SharedMemory) -> None:
    """Repeated, it gives the first version again and changes nothing; another write under it is refused."""
    first = memory.write("planner", "plan", {"step": 1}, idempotency_key="request 1")
    second = memory.write("planner", "plan", {"step": 2})
    assert memory.write("planner", "plan", {"step": 1}, idempotency_key="request 1") == first
    found = memory.read("planner/plan")
    assert found is not None
    assert (found.value, found.version) == ({"step": 2}, second)
    with pytest.raises(KeyReused, match="request 1"):
        memory.agent("planner").write("plan", {"step": 3}, idempotency_key="request 1")
    with pytest.raises(ValueError, match="must not be empty"):
        memory.write("planner", "plan", "x", idempotency_key="")


def test_an_expected_version_excludes_lost_updates(memory: SharedMemory) -> None:
    """Who writes from an old read gets a Conflict with both versions, and changes nothing."""
    first = memory.write("planner", "plan", "v1", expected_version=0)
    second = memory.write("planner", "plan", "v2", expected_version=first)
    with pytest.raises(Conflict) as caught:
        memory.write("planner", "plan", "v3", expected_version=first)
    assert (caught.value.key, caught.value.expected, caught.value.found) == ("planner/plan", first, second)
    with pytest.raises(Conflict):
        memory.write("planner", "plan", "v3", expected_version=0)
    assert memory.read("planner/plan").value == "v2"


@pytest.mark.parametrize("wrong", [True, "1", 1.0])
def test_an_expected_version_is_an_integer(memory: SharedMemory, wrong: Any) -> None:
    """Anything else is a TypeError."""
    with pytest.raises(TypeError):
        memory.write("a", "k", "v", expected_version=wrong)
    assert memory.store.list() == []


def test_a_store_without_versions_refuses_the_condition(plain: SharedMemory) -> None:
    """What cannot be checked is refused; a plain write returns no version."""
    assert plain.write("a", "k", "1") is None
    with pytest.raises(TypeError, match="PlainStore has no execute"):
        plain.write("a", "k", "2", expected_version=0)
    assert plain.read("a/k").value == "1"
    assert plain.read("a/k").version is None


# -- compare and set


def test_compare_and_set_with_structured_values(memory: SharedMemory) -> None:
    """Expected and new value are what `read` gives and `write` takes."""
    assert memory.compare_and_set("a", "k", None, {"n": 1, "m": [1.5]}) is True
    assert memory.compare_and_set("a", "k", None, {"n": 2}) is False
    assert memory.compare_and_set("a", "k", {"n": 1}, {"n": 2}) is False
    assert memory.compare_and_set("a", "k", {"n": 1, "m": [1.5]}, {"n": 2}, {"x": 1}) is True
    assert memory.read("a/k").value == {"n": 2}
    assert memory.read("a/k").metadata["x"] == 1


def test_compare_and_set_knows_a_value_however_it_is_spelled(memory: SharedMemory) -> None:
    """Member order and white space, as other software writes them, do not matter; types do."""
    marked = {"sharedMemoryValueEncoding": "json"}
    memory.store.set("a/k", '{"b": 1e-7, "a": [1, true]}', marked)
    assert memory.compare_and_set("a", "k", {"a": [True, True], "b": 1e-7}, "lost") is False
    assert memory.compare_and_set("a", "k", {"a": (1, True), "b": 1e-7}, "won") is True
    assert memory.read("a/k").value == "won"


def test_compare_and_set_of_an_expired_key(memory: SharedMemory) -> None:
    """None means that nothing is to be read, so an expired key can be claimed, once."""
    memory.write_expiring("a", "k", "old", 1)
    assert memory.compare_and_set("a", "k", None, "new") is False
    memory.advance_turn()
    assert memory.read("a/k") is None
    assert memory.compare_and_set("a", "k", None, "new") is True
    assert memory.compare_and_set("a", "k", None, "newer") is False
    assert memory.read("a/k").value == "new"


def test_compare_and_set_needs_a_store_that_can(plain: SharedMemory) -> None:
    """Without it the memory refuses, and names what is missing."""
    with pytest.raises(TypeError, match=r"PlainStore has no compare_and_set\(\)"):
        plain.compare_and_set("a", "k", None, "v")
    assert plain.list_all() == []


def test_a_refused_compare_and_set_is_in_the_history(log: EventLog) -> None:
    """The attempt is recorded with the agent who made it, and without the text."""
    memory = SharedMemory(EventSourcedStore(log))
    memory.write("a", "k", {"n": 1})
    assert memory.compare_and_set("a", "k", {"n": 7}, {"n": 8}) is False
    refused = list(log.read())[-1]
    assert isinstance(refused.event, WriteRefused)
    assert (refused.agent, refused.event.key, refused.event.reason) == ("a", "a/k", "value differs")


# -- deleting


def test_delete_removes_the_agents_key(memory: SharedMemory) -> None:
    """Other agents' keys of the same name stay; a missing key is silent."""
    memory.write("a", "k", "1")
    memory.write("b", "k", "2")
    memory.delete("a", "k")
    memory.delete("a", "k")
    assert keys(memory.list_all()) == ["b/k"]


def test_delete_on_a_plain_store(plain: SharedMemory, plain_store: PlainStore) -> None:
    """The five verbs are enough."""
    plain.write("a", "k", "1")
    plain.delete("a", "k")
    assert plain_store.entries == {}


def test_the_history_says_who_wrote_and_deleted(log: EventLog) -> None:
    """Events carry the agent that owns the key."""
    memory = SharedMemory(EventSourcedStore(log))
    memory.write("a", "k", {"n": 1}, {"source": "x"})
    memory.delete("a", "k")
    written, deleted = log.read()
    assert isinstance(written.event, EntryWritten)
    assert isinstance(deleted.event, EntryDeleted)
    assert (written.agent, deleted.agent) == ("a", "a")


def test_a_lost_update_is_visible_in_the_history(log: EventLog) -> None:
    """Two plain writes from the same old read: the last wins, and both values are kept with their writers."""
    memory = SharedMemory(EventSourcedStore(log))
    memory.write("a", "plan", "from b's read", {"by": "b"})
    memory.write("a", "plan", "from a's read", {"by": "a"})
    assert memory.read("a/plan").value == "from a's read"
    assert [recorded.event.value for recorded in log.read(key="a/plan")] == ["from b's read", "from a's read"]


def test_values_survive_closing_and_opening(tmp_path: Any) -> None:
    """What was written, its metadata and its version are there again."""
    import turnlog

    with turnlog.open(tmp_path / "x.db") as log:
        memory = SharedMemory(EventSourcedStore(log))
        memory.write("a", "k", {"half": "\ud83d", "n": 0.1}, {"t": [1]})
        before = memory.read("a/k")
    with turnlog.open(tmp_path / "x.db") as log:
        assert SharedMemory(EventSourcedStore(log)).read("a/k") == before


def test_memories_over_one_store_see_each_other() -> None:
    """The state is the store's, the turn included."""
    store = InMemoryStore()
    one, other = SharedMemory(store), SharedMemory(store)
    one.write_expiring("a", "k", "v", 1)
    assert other.read("a/k").value == "v"
    other.advance_turn()
    assert one.turn == 1
    assert one.read("a/k") is None


def test_one_of_many_takes_an_expired_lock(tmp_path: Path) -> None:
    """Of those who take the place of an expired entry at once, all with the same value, exactly one wins."""
    with turnlog.open(tmp_path / "team.db", durability="os") as log:
        memory = SharedMemory(EventSourcedStore(log))
        for number in range(40):
            memory.write_expiring("lock", f"{number}", "taken", 1)
        memory.advance_turn()
        assert not memory.compare_and_set("lock", "0", "taken", "by whom cannot see it")
        wins: list[int] = []
        start = threading.Barrier(4)

        def take() -> None:
            for number in range(40):
                start.wait(20)
                if memory.compare_and_set("lock", f"{number}", None, "taken"):
                    wins.append(number)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(wins) == list(range(40))
