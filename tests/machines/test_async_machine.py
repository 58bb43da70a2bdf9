"""The machine of `test_memory_machine`, writing and reading through the asynchronous store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from turnlog.memory import AsyncEventSourcedStore

from ..blocking import Blocking, Loop
from .test_memory_machine import MemoryMachine


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("examples", "steps"),
    [pytest.param(10, 30, id="some"), pytest.param(150, 60, id="many", marks=pytest.mark.long)],
)
def test_every_way_to_a_state_agrees_with_the_asynchronous_store(examples: int, steps: int) -> None:
    """What tasks write is, after every step and at every past point, what the plain model says."""
    with Loop() as loop:

        class AsyncMachine(MemoryMachine):
            def store(self, run: str, which: int) -> Any:
                return Blocking(AsyncEventSourcedStore(self.logs[which % len(self.logs)], run), loop)

        run_state_machine_as_test(
            AsyncMachine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
