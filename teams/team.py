"""A team: agents, and the memory they share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import cast

from ..memory.async_shared import AsyncSharedMemory
from ..memory.contract import AsyncMemoryStore, MemoryStore
from ..memory.shared import SharedMemory
from .agent import Agent
from .arguments import check_no_lookalike, several

__all__ = ["Team"]


class Team:
    """Agents and the memory they share.

    Args:
        agents: at least one; no two of the same name.
        shared_memory: True for a memory that dies with the process.
        shared_memory_store: where memory is kept: a `MemoryStore`, which is used from several threads at
            once, or an `AsyncMemoryStore`. It wins over `shared_memory`, and gives the team a memory even if
            that is False. Neither means none.

    Raises:
        TypeError: not agents, not a bool, or not a store (names the missing methods).
        ValueError: no agents, or two of the same name.
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        *,
        shared_memory: bool = False,
        shared_memory_store: MemoryStore | AsyncMemoryStore | None = None,
    ) -> None:
        self._agents = MappingProxyType(_by_name(agents))
        if type(shared_memory) is not bool:
            raise TypeError(
                f"shared_memory must be True or False, not {type(shared_memory).__name__}; pass a store as "
                "shared_memory_store"
            )
        self._memory: SharedMemory | AsyncSharedMemory | None = None
        if shared_memory_store is not None:
            self._memory = _memory_on(shared_memory_store)
        elif shared_memory:
            self._memory = SharedMemory()

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents by name, in the order given."""
        return self._agents

    @property
    def memory(self) -> SharedMemory | AsyncSharedMemory | None:
        """What they share, of the store's colour; None if they share nothing."""
        return self._memory

    @property
    def store(self) -> MemoryStore | AsyncMemoryStore | None:
        """The store, as it was given."""
        return None if self._memory is None else self._memory.store


def _by_name(agents: Iterable[Agent]) -> dict[str, Agent]:
    named: dict[str, Agent] = {}
    for agent in several("agents", agents, Agent, many="Team([agent])", one="Agent(name, run)"):
        if agent.name in named:
            raise ValueError(f"two agents are called {agent.name!r}; give each a name of its own")
        named[agent.name] = agent
    if not named:
        raise ValueError("a team needs at least one agent")
    return named


def _memory_on(store: MemoryStore | AsyncMemoryStore) -> SharedMemory | AsyncSharedMemory:
    asynchronous = inspect.iscoroutinefunction(getattr(store, "get", None))
    check_no_lookalike("shared_memory_store", store, asynchronous=asynchronous)
    if asynchronous:
        return AsyncSharedMemory(cast("AsyncMemoryStore", store))
    return SharedMemory(cast("MemoryStore", store))
