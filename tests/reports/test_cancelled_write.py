"""A task that is cancelled between BEGIN and COMMIT leaves a transaction open, which others then join.

`tests/memory/test_async_cancellation.py` cancels at every step, `tests/crash/test_mutators.py` interrupts the
synchronous methods at their lines.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from turnlog import AsyncEventSourcedStore
from turnlog.eventlog import EventLog

from .conftest import others_can_write

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_half_of_fifty_writes_are_cancelled(path: Path, log: EventLog) -> None:
    """Each write is there or not; those that were not cancelled are; who asks can find out which."""

    async def main() -> list[object]:
        store = AsyncEventSourcedStore(log)
        tasks = [asyncio.create_task(store.set(f"{number}", "v")) for number in range(50)]
        for step in range(25):
            await asyncio.sleep(0)
            tasks[2 * step].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(main())
    others_can_write(path)
    there = {each.position: each.event.key for each in log.read()}  # type: ignore[union-attr]
    kept = {version: f"{number}" for number, version in enumerate(outcomes) if isinstance(version, int)}
    assert len(kept) >= 25
    assert kept.items() <= there.items()
    assert len(there) == len(set(there.values()))


def test_the_docs_say_how_asyncio_is_used() -> None:
    """Whoever uses asyncio finds the twin classes, and what a cancellation means."""
    assert "cancelled" in (DOCS / "async.md").read_text("utf-8")
