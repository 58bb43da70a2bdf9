"""The memory service that the example stores over HTTP are tried with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .memory_service import MemoryService, running


@pytest.fixture(scope="session")
def running_service() -> Iterator[MemoryService]:
    """One service for all tests."""
    with running() as service:
        yield service


@pytest.fixture
def service(running_service: MemoryService) -> MemoryService:
    """The service, which knows nothing yet."""
    running_service.begin_anew()
    return running_service
