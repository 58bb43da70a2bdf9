"""The example stores on Redis and PostgreSQL keep the contract, on servers that really run."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest
import redis
from postgres_store import PostgresStore
from redis_store import RedisStore

from turnlog import SharedMemory
from turnlog.testing import StoreContract

pytestmark = pytest.mark.servers

names = map("store-{}".format, itertools.count())


class TestRedisStore(StoreContract):
    """The contract, on Valkey."""

    durable = True

    @pytest.fixture
    def open_store(self, valkey_url: str) -> Callable[[], Any]:
        """Opens the store of this test; each has a name of its own."""
        name = next(names)
        return lambda: RedisStore(valkey_url, name)


class TestPostgresStore(StoreContract):
    """The contract, on PostgreSQL."""

    durable = True

    @pytest.fixture
    def open_store(self, postgres_conninfo: str) -> Callable[[], Any]:
        """Opens the store, whose table is made anew for this test."""
        drop_table(postgres_conninfo)
        return lambda: PostgresStore(postgres_conninfo)


def drop_table(conninfo: str) -> None:
    """Begin without a table."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET client_min_messages = warning")
        connection.execute("DROP TABLE IF EXISTS turnlog_entries")


@pytest.fixture(params=["redis", "postgres"])
def open_store(request: pytest.FixtureRequest) -> Callable[[], Any]:
    """Opens one of both stores, empty at first."""
    if request.param == "redis":
        url, name = request.getfixturevalue("valkey_url"), next(names)
        return lambda: RedisStore(url, name)
    conninfo = request.getfixturevalue("postgres_conninfo")
    drop_table(conninfo)
    return lambda: PostgresStore(conninfo)


@pytest.fixture
def stores(open_store: Callable[[], Any]) -> Iterator[list[Any]]:
    """Four clients of one store, which begin at the same moment."""
    with ExitStack() as stack, ThreadPoolExecutor(4) as threads:
        yield [stack.enter_context(store) for store in threads.map(lambda _: open_store(), range(4))]


def test_compare_and_set_is_atomic_between_clients(stores: list[Any]) -> None:
    """Of increments by four clients, each with a connection of its own, none is lost."""
    stores[0].set("n", "0")

    def count(store: Any) -> None:
        for _ in range(25):
            while True:
                held = store.get("n").value
                if store.compare_and_set("n", held, str(int(held) + 1)):
                    break

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, stores))
    assert stores[0].get("n").value == "100"


def test_only_one_client_makes_a_key(stores: list[Any]) -> None:
    """Of four that claim a missing key at the same moment, one wins; twenty times over."""
    with ThreadPoolExecutor(4) as threads:
        for number in range(20):

            def claim(store: Any, key: str = f"k{number}") -> bool:
                return store.compare_and_set(key, None, "mine")

            assert sorted(threads.map(claim, stores)) == [False, False, False, True]
    assert [entry.key for entry in stores[1].list()] == [f"k{number}" for number in range(20)]


def test_shared_memory_works_over_it(open_store: Callable[[], Any]) -> None:
    """Structured values, attribution and expiry come back through another client."""
    with open_store() as store:
        memory = SharedMemory(store)
        memory.write("researcher", "findings", {"claim": "X", "confidence": 0.8})
        memory.write_expiring("researcher", "hint", "soon gone", ttl_turns=1)
    with open_store() as store:
        memory = SharedMemory(store)
        found = memory.read("researcher/findings")
        assert found is not None
        assert found.value == {"claim": "X", "confidence": 0.8}
        assert found.metadata is not None
        assert found.metadata["agent"] == "researcher"
        assert memory.read("researcher/hint") is not None
        memory.advance_turn()
        assert memory.read("researcher/hint") is None


def test_a_write_whose_answer_is_lost_is_not_repeated(valkey_url: str) -> None:
    """It is an error, although it happened; repeated, it would say that another one had won."""
    name = next(names)
    with RedisStore(valkey_url, name) as store, losing_answers(valkey_url) as (url, sent):
        store.set("k", "v")  # the server knows the script from now on
        with RedisStore(url, name) as behind, pytest.raises(redis.ConnectionError):
            behind.compare_and_set("new", None, "mine")
        assert sent == ["EVALSHA"]
        entry = store.get("new")
    assert entry is not None
    assert entry.value == "mine"


@contextmanager
def losing_answers(url: str) -> Iterator[tuple[str, list[str]]]:
    """Passes commands on, but hangs up instead of answering a script; gives its URL, and the scripts sent."""
    sent: list[str] = []
    over = threading.Event()

    def carry(client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(url.removeprefix("unix://"))
            while commands := client.recv(65536):
                server.sendall(commands)
                answer = server.recv(65536)  # which is there when the commands have been carried out
                if b"EVALSHA" in commands:
                    sent.append("EVALSHA")
                    return
                client.sendall(answer)

    def accept(listener: socket.socket) -> None:
        while True:
            client, _ = listener.accept()
            if over.is_set():
                client.close()
                return
            carry(client)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=accept, args=(listener,))
        thread.start()
        try:
            yield f"redis://127.0.0.1:{port}/0", sent
        finally:
            over.set()
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


def test_a_server_that_is_gone_is_an_error_and_no_missing_key() -> None:
    """Errors of the client come through, from a read as from a write."""
    store = RedisStore("unix:///nowhere/socket")
    for attempt in (lambda: store.get("a"), lambda: store.set("a", "1"), store.list):
        with pytest.raises(redis.ConnectionError):
            attempt()
    with pytest.raises(psycopg.OperationalError):
        PostgresStore("host=/nowhere dbname=postgres")
