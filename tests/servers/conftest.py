"""The servers, started when the first test needs them and stopped after the last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib.util import find_spec

import pytest

from .running import NoServer, postgres, valkey

# Only `make test-servers` installs the clients; where none of these tests is asked for, they are not missed.
collect_ignore_glob = [] if find_spec("psycopg") and find_spec("redis") else ["test_*.py"]


def running(server: AbstractContextManager[str]) -> Iterator[str]:
    """The address of the server, for as long as it is needed; or a skip that says what is missing."""
    try:
        address = server.__enter__()
    except NoServer as reason:
        pytest.skip(str(reason))
    try:
        yield address
    finally:
        server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A running Valkey."""
    yield from running(valkey())


@pytest.fixture(scope="session")
def postgres_conninfo() -> Iterator[str]:
    """A running PostgreSQL."""
    yield from running(postgres())
