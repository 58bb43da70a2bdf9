"""A store that lets no credentials through: what it has, what it refuses, and shared memory over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest

import turnlog
from turnlog import (
    AsyncEventSourcedStore,
    AsyncInMemoryStore,
    AsyncRedactingStore,
    AsyncSharedMemory,
    CompareAndSet,
    Conflict,
    EventSourcedStore,
    InMemoryStore,
    Once,
    RedactingStore,
    SharedMemory,
    Timeline,
    Write,
)
from turnlog.eventlog import EntryWritten
from turnlog.memory import WriteExpiring

from ..blocking import Blocking, Loop
from .conftest import ExpiringStore, PlainStore

ABILITIES = ("set_with_expiry", "execute", "scan", "get_turn", "advance_turn", "set_turn")


@pytest.fixture(params=["sync", "async"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any, Any]]:
    """A store in memory, a redacting one around it, and shared memory over that; of both colours."""
    if request.param == "sync":
        inner = InMemoryStore()
        store = RedactingStore(inner, patterns=[r"\bbob\b"])
        yield inner, store, SharedMemory(store)
        return
    with Loop() as loop:
        twin = AsyncInMemoryStore()
        around = AsyncRedactingStore(twin, patterns=[r"\bbob\b"])
        yield tuple(Blocking(each, loop) for each in (twin, around, AsyncSharedMemory(around)))


def test_values_and_metadata_are_scrubbed(pair: tuple[Any, Any, Any]) -> None:
    """D1, D2 mended: whatever is written by `set` and `set_with_expiry`, metadata too; keys stay."""
    inner, store, _ = pair
    store.set("pwd=x", "pwd=x", {"password": 1, "note": ["token=y", 2], "n": 1.0})
    store.set_with_expiry("b", '{"pwd":1}', 3, {"via": "bob"})
    assert inner.list() == store.list()
    assert [(entry.key, entry.value, entry.metadata) for entry in inner.list()] == [
        ("pwd=x", "pwd=[redacted]", {"password": "[redacted]", "note": ["token=[redacted]", 2], "n": 1.0}),
        ("b", '{"pwd":"[redacted]"}', {"via": "[redacted]"}),
    ]


@dataclass(frozen=True)
class Told:
    """A command of somebody else's, which writes a text."""

    key: str
    text: str
    agent: str | None = None

    def check(self, limits: Any) -> None:
        """Nothing to check."""

    def decide(self, view: Any) -> Any:
        """One write."""
        return Write(self.key, self.text).decide(view)

    def outcome(self, recorded: Any) -> int:
        """Its version."""
        return recorded[-1].position


def test_commands_are_scrubbed(pair: tuple[Any, Any, Any]) -> None:
    """Those of the library and those of others, conditions and all."""
    inner, store, _ = pair

    class Custom:
        agent = "custom"

        def check(self, limits: Any) -> None:
            pass

        def decide(self, view: Any) -> list[Any]:
            return Write("c", "pwd=x", {"token": "y"}).decide(view)

        def outcome(self, recorded: Any) -> int:
            return recorded[-1].position

    versions = store.execute(
        [
            Write("a", "pwd=x", {"token": "y"}, 5, 0),
            WriteExpiring(Write("b", "pwd=x", {"token": "y"}), 2),
            Custom(),
        ]
    )
    entries = inner.list()
    assert [entry.version for entry in entries] == versions
    assert {(entry.value, str(entry.metadata)) for entry in entries} == {
        ("pwd=[redacted]", str({"token": "[redacted]"}))
    }
    assert [entry.expires_at_turn for entry in entries] == [5, 2, None]
    with pytest.raises(Conflict):
        store.execute([Write("a", "z", expected_version=versions[0] + 9)])


def test_commands_that_are_carried_out_once_are_scrubbed_too(pair: tuple[Any, Any, Any]) -> None:
    """What an idempotency key stands for is scrubbed like any other, and is known again when repeated."""
    inner, store, memory = pair
    asked = [Once("first", Write("a", "pwd=x")), Once("second", Told("b", "pwd=y"))]
    outcomes = store.execute(asked)
    assert store.execute(asked) == outcomes
    assert [entry.value for entry in inner.list()] == ["pwd=[redacted]", "pwd=[redacted]"]
    assert memory.write("w", "k", "token=z", idempotency_key="third") == inner.get("w/k").version
    with pytest.raises(TypeError, match="compares and sets nothing"):
        store.execute([Once("fourth", CompareAndSet("c", None, "pwd=x"))])


def test_nothing_is_compared_and_set(pair: tuple[Any, Any, Any]) -> None:
    """D1: neither as a method nor in a list nor through shared memory; nothing of the list is written."""
    inner, store, memory = pair
    with pytest.raises(AttributeError):
        store.compare_and_set("a", None, "1")
    with pytest.raises(TypeError, match=r"key 'a'.*compares and sets nothing.*Nothing was written"):
        store.execute([Write("b", "1"), CompareAndSet("a", None, "1")])
    with pytest.raises(TypeError, match="RedactingStore has no compare_and_set"):
        memory.compare_and_set("w", "a", None, "1")
    assert inner.list() == []


@pytest.mark.parametrize(
    ("inner", "has"),
    [
        pytest.param(PlainStore(), (), id="plain"),
        pytest.param(ExpiringStore(), ("set_with_expiry",), id="expiring"),
        pytest.param(InMemoryStore(), ABILITIES, id="in memory"),
        pytest.param(RedactingStore(ExpiringStore()), ("set_with_expiry",), id="redacting"),
    ],
)
def test_it_has_what_the_inner_store_has(inner: Any, has: tuple[str, ...]) -> None:
    """D1: an ability is there exactly if it is there within; anything else is an attribute error as usual."""
    store = RedactingStore(inner)
    assert tuple(name for name in ABILITIES if hasattr(store, name)) == has
    assert store.inner is inner
    for name in ("compare_and_set", "search", "_nothing"):
        with pytest.raises(AttributeError, match=f"RedactingStore.*{name}"):
            getattr(store, name)


@pytest.mark.parametrize(
    ("kind", "inner", "message"),
    [
        pytest.param(RedactingStore, AsyncInMemoryStore(), "use AsyncRedactingStore", id="async in sync"),
        pytest.param(AsyncRedactingStore, InMemoryStore(), "use RedactingStore", id="sync in async"),
        pytest.param(RedactingStore, InMemoryStore, "is a class", id="class"),
        pytest.param(RedactingStore, {}, "dict is not a MemoryStore", id="dict"),
    ],
)
def test_the_inner_store_is_looked_at_when_it_is_handed_over(kind: Any, inner: Any, message: str) -> None:
    """What is no store, or one of the other colour, is refused at once."""
    with pytest.raises(TypeError, match=message):
        kind(inner)


class Invoice(pydantic.BaseModel):
    """A value with a type."""

    total: float
    currency: str
    lines: list[str] = []


def test_shared_memory_over_it(pair: tuple[Any, Any, Any]) -> None:
    """Without a secret inside, structured and typed values come back as they were; with one, masked."""
    _, _, memory = pair
    invoice = Invoice(total=1299.0, currency="USD", lines=["tokens: 3", "\ud83d"])
    memory.write("extractor", "invoice", invoice, schema=Invoice)
    assert memory.read("extractor/invoice", schema=Invoice).value == invoice
    memory.write("w", "plan", {"steps": [1, 2.0], "password": 12345, "b": "see bob"})
    entry = memory.read("w/plan")
    assert entry.value == {"steps": [1, 2.0], "password": "[redacted]", "b": "see [redacted]"}
    assert entry.metadata["agent"] == "w"


def test_who_wrote_stays_known(pair: tuple[Any, Any, Any]) -> None:
    """The agent that the key names anyway and the mark of the encoding are no secrets to any pattern."""
    inner, store, memory = pair
    memory.write("bob", "n", {"a": 1})
    assert inner.get("bob/n").metadata == {"sharedMemoryValueEncoding": "json", "agent": "bob"}
    store.set("x/n", "1", {"agent": "bob"})
    assert inner.get("x/n").metadata == {"agent": "[redacted]"}


def test_snapshots_are_scrubbed_when_they_are_put_back(pair: tuple[Any, Any, Any]) -> None:
    """Secrets of a snapshot from elsewhere do not get in; what was scrubbed before is left as it is."""
    inner, _, memory = pair
    memory.write("w", "a", "pwd=x")
    version = inner.get("w/a").version
    snapshot = memory.snapshot()
    born = snapshot["entries"][0]["createdAt"]
    snapshot["entries"].append({"key": "w/b", "value": "pwd=y", "metadata": {"token": 1}, "createdAt": born})
    memory.restore(snapshot)
    assert [(entry.value, entry.metadata) for entry in inner.list()] == [
        ("pwd=[redacted]", {"agent": "w"}),
        ("pwd=[redacted]", {"token": "[redacted]"}),
    ]
    assert inner.get("w/a").version == version


def test_bad_input_is_refused_as_without_it(pair: tuple[Any, Any, Any]) -> None:
    """Wrong types are TypeErrors, before anything is scrubbed or written."""
    inner, store, _ = pair
    for arguments in ((1, "v"), ("k", b"v"), ("k", "v", {"x": {1}}), ("k", "v", "agent")):
        with pytest.raises(TypeError):
            store.set(*arguments)
    assert inner.list() == []


def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    """Over a log, neither values nor refused attempts leave the secret in any of its files."""
    secret = "hunter2hunter2"
    with turnlog.open(tmp_path / "team.db") as log:
        store = RedactingStore(EventSourcedStore(log, "run"))
        memory = SharedMemory(store)
        version = memory.write("w", "a", {"password": secret, "note": f"pwd={secret}"}, {"token": secret})
        assert version is not None
        memory.write_expiring("w", "b", f"Authorization Bearer {secret}", 2)
        with pytest.raises(Conflict):
            memory.write("w", "a", f"pwd={secret}", expected_version=version + 7)
        (written,) = [
            change.event
            for change in Timeline(log, run="run").history("w/a")
            if isinstance(change.event, EntryWritten)
        ]
        assert written.value == '{"password":"[redacted]","note":"pwd=[redacted]"}'
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) >= 1
    assert [file for file in files if secret.encode() in file.read_bytes()] == []


def test_tasks_write_through_it_on_a_log(tmp_path: Path) -> None:
    """The asynchronous twin over the asynchronous store on a log, turns and scans included."""
    with turnlog.open(tmp_path / "team.db") as log, Loop() as loop:
        memory = Blocking(AsyncSharedMemory(AsyncRedactingStore(AsyncEventSourcedStore(log, "run"))), loop)
        memory.write("w", "a", "pwd=x")
        assert memory.advance_turn() == 1
        assert [entry.value for entry in memory.list_by_agent("w")] == ["pwd=[redacted]"]
        assert EventSourcedStore(log, "run").get_turn() == 1
