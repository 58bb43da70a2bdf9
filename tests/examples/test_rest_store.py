"""The example store over HTTP keeps the contract, and never takes a failure for a missing key."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing

import pytest
from rest_store import (
    BadAnswer,
    Refused,
    RestStore,
    Service,
    ServiceError,
    Unreachable,
    WriteUnknown,
    from_wire,
    to_wire,
)

from turnlog import OutcomeUnknown, TurnlogError
from turnlog.testing import StoreContract

from .memory_service import PREFIX, MemoryService


@pytest.fixture
def store(service: MemoryService) -> RestStore:
    """A store over it, which does not wait for long."""
    return RestStore(Service(service.url, timeout_s=5), page_size=3)


class TestRestStore(StoreContract):
    """The contract, in pages of three."""

    durable = True

    @pytest.fixture
    def open_store(self, service: MemoryService) -> Callable[[], RestStore]:
        """Opens the store over the service of this test."""
        return lambda: RestStore(Service(service.url), page_size=3)


def test_keys_are_percent_encoded(store: RestStore, service: MemoryService) -> None:
    """What stands for something else in an address is the key's own all the same."""
    key = "writer/a b?c=d&e#f%2Fü\\😀\ud83d"
    store.set(key, "v")
    assert store.get(key) is not None
    assert service.asked[-1] == (
        f"GET {PREFIX}/fact?key=writer%2Fa+b%3Fc%3Dd%26e%23f%252F%C3%BC%5C%5C%F0%9F%98%80%5Cud83d"
    )
    assert [entry.key for entry in store.list()] == [key]


@pytest.mark.parametrize(
    "text", ["", "plain", "\\", "\\ud83d", "\ud83d", "\\\ud83d", "😀", "\ud83d\ude00", "\\\\u"]
)
def test_the_wire_form_is_valid_and_reads_back(text: str) -> None:
    """It is UTF-8, and no two texts share one."""
    to_wire(text).encode()
    assert from_wire(to_wire(text)) == text


def test_all_pages_are_read(store: RestStore, service: MemoryService) -> None:
    """Ten entries in pages of three are four requests, and clearing removes all ten."""
    for number in range(10):
        store.set(f"k{number}", "v")
    service.asked.clear()
    assert [entry.key for entry in store.list()] == [f"k{number}" for number in range(10)]
    assert len(service.asked) == 4
    store.clear()
    assert service.facts == {}


FAILURES = [
    pytest.param((500, b"{}"), Unreachable, WriteUnknown, id="500"),
    pytest.param((503, b"busy"), Unreachable, WriteUnknown, id="503"),
    pytest.param((429, b"{}"), Unreachable, WriteUnknown, id="429"),
    pytest.param((401, b"{}"), Refused, Refused, id="401"),
    pytest.param((301, b""), Refused, Refused, id="301"),
    pytest.param((404, b'{"error": "no such workspace"}'), ServiceError, Refused, id="another 404"),
    pytest.param((404, b"<h1>Not found</h1>"), BadAnswer, WriteUnknown, id="404 of a proxy"),
    pytest.param((200, b"<h1>Welcome</h1>"), BadAnswer, WriteUnknown, id="not JSON"),
    pytest.param((200, b'{"key": "a"'), BadAnswer, WriteUnknown, id="half of JSON"),
    pytest.param((200, b"\xff"), BadAnswer, WriteUnknown, id="not text"),
    pytest.param((200, b"[]"), BadAnswer, WriteUnknown, id="no object"),
    pytest.param("cut short", Unreachable, WriteUnknown, id="cut short"),
    pytest.param("hang up", Unreachable, WriteUnknown, id="hangs up"),
]


@pytest.mark.parametrize(("trouble", "reading", "writing"), FAILURES)
def test_a_failure_is_an_error_of_its_kind(
    store: RestStore,
    service: MemoryService,
    trouble: tuple[int, bytes] | str,
    reading: type[ServiceError],
    writing: type[ServiceError],
) -> None:
    """No read calls it a missing key or an empty store, and a write says if it may have happened."""
    store.set("a", "1")
    service.trouble = trouble
    for read in (lambda: store.get("a"), store.list):
        with pytest.raises(reading):
            read()
    for write in (lambda: store.set("a", "2"), lambda: store.delete("a")):
        with pytest.raises(writing):
            write()
    with pytest.raises(ServiceError):
        store.clear()
    service.trouble = None
    assert issubclass(writing, OutcomeUnknown) == (writing is WriteUnknown)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"{}", id="nothing"),
        pytest.param(b'{"key": "a", "content": 1, "committed_at": "2026-01-01T00:00:00Z"}', id="no text"),
        pytest.param(b'{"key": "a", "content": "1", "committed_at": "yesterday"}', id="no time"),
        pytest.param(b'{"key": "a", "content": "1", "committed_at": "2026-01-01T00:00:00"}', id="no zone"),
        pytest.param(
            b'{"key": "a", "content": "1", "committed_at": "2026-01-01T00:00:00Z", "attributes": {}}',
            id="other attributes",
        ),
    ],
)
def test_what_is_no_fact_is_a_bad_answer(store: RestStore, service: MemoryService, answer: bytes) -> None:
    """An entry is never made up from half of one."""
    service.trouble = (200, answer)
    with pytest.raises(BadAnswer):
        store.get("a")
    service.trouble = (200, b'{"facts": [' + answer + b'], "next_page": null}')
    with pytest.raises(BadAnswer):
        store.list()


def test_a_service_that_does_not_answer_is_given_up(service: MemoryService) -> None:
    """After the time that was allowed a read is an error, and a write may have happened."""
    store = RestStore(Service(service.url, timeout_s=0.1))
    service.trouble = "hang"
    with pytest.raises(Unreachable, match="TimeoutError"):
        store.get("a")
    with pytest.raises(WriteUnknown, match="may have been written"):
        store.set("a", "1")


def test_a_service_that_is_not_there_has_written_nothing() -> None:
    """Without a connection it is clear that nothing happened."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="no connection"):
        RestStore(Service(f"http://127.0.0.1:{port}/v1")).set("a", "1")


def test_pages_that_go_in_a_circle_end(store: RestStore, service: MemoryService) -> None:
    """A page that was seen before is a bad answer, not a list without end."""
    store.set("a", "1")
    service.trouble = "circle"
    with pytest.raises(BadAnswer, match="circle"):
        store.list()


def test_errors_belong_to_the_tree_of_the_library() -> None:
    """Who catches `TurnlogError` catches these, and an address that cannot be is refused at once."""
    assert issubclass(ServiceError, TurnlogError)
    with pytest.raises(ValueError, match="not the address of a service"):
        Service("memory.example/v1")
