"""Who is acting: carried by context, so that plain store calls can be attributed too."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..eventlog.commands import exact_str

__all__ = ["Acting", "acting_as", "actor", "current_actor"]


@dataclass(frozen=True, slots=True)
class Acting:
    """The ambient agent and the activity its events belong to; either may be unknown."""

    agent: str | None = None
    activity: str | None = None


_acting: ContextVar[Acting] = ContextVar("turnlog_acting", default=Acting())  # noqa: B039 - it is frozen


def current_actor() -> Acting:
    """Who acts in this context."""
    return _acting.get()


def actor(agent: str | None, activity: str | None) -> Acting:
    """Who acts: as it is said here, else who acts in this context."""
    ambient = _acting.get()
    if agent is None and activity is None:
        return ambient
    return Acting(
        ambient.agent if agent is None else agent,
        ambient.activity if activity is None else activity,
    )


@contextmanager
def acting_as(agent: str, *, activity: str | None = None) -> Generator[None]:
    """Attribute what is written in the block to `agent`, where an entry's own metadata names no agent.

    It is carried by context (`contextvars`): tasks started inside the block inherit it, and so do threads
    where they inherit context (`asyncio.to_thread`; plain threads not before Python 3.14).

    Raises:
        TypeError, ValueError: `agent` is not a non-empty str.
    """
    if not exact_str("agent", agent):
        raise ValueError("agent must not be empty")
    token = _acting.set(Acting(agent, None if activity is None else exact_str("activity", activity)))
    try:
        yield
    finally:
        _acting.reset(token)
