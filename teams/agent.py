"""An agent: a name, and what does its work."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from ..eventlog.commands import exact_str
from ..eventlog.jsonvalue import encode_json
from ..memory.keys import check_agent
from ..memory.schemas import check_schema, conform
from .arguments import check_function, kind_of
from .result import Output

__all__ = ["Agent"]


@dataclass(frozen=True, slots=True)
class Agent:
    """A member of a team.

    `run(prompt, memory, context)` does one attempt at a task and returns its result. `memory` is the team's
    memory in this agent's hands: an `AgentMemory`, or an `AsyncAgentMemory` if `run` is a coroutine function;
    None if the team has no memory. `context` is a `TaskContext`. What `run` raises fails the attempt.

    Attributes:
        name: who it is; owns what it writes.
        run: a function, or a coroutine function, or an object that is called like one. Plain functions run
            in threads, several at once.
        result_type: None if `run` returns text; else any type that pydantic can validate. Then `run` returns
            a value of it, or text that is either such a value or the JSON of one.

    Raises:
        TypeError, ValueError: a name that no agent can have, something that cannot be called, no such type.
    """

    name: str
    run: Callable[[str, Any, Any], object]
    result_type: object = None

    def __post_init__(self) -> None:
        """Check everything, so that no agent is refused in the middle of a run."""
        if not isinstance(self.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"name must be a str, not {kind_of(self.name)}; write Agent(name, run)")
        check_agent(self.name)
        if inspect.isclass(self.run):
            raise TypeError(
                f"agent {self.name!r}: run must be a function or an object that is called like one, not "
                f"{kind_of(self.run)}; pass an instance of it"
            )
        check_function(f"agent {self.name!r}: run", self.run, "prompt", "memory", "context")
        if self.result_type is not None:
            try:
                check_schema(self.result_type)
            except Exception as error:  # what is no type at all, pydantic meets unprepared
                raise TypeError(
                    f"agent {self.name!r}: result_type must be a type that pydantic can validate, "
                    f"not {self.result_type!r:.80}"
                ) from error

    @property
    def is_async(self) -> bool:
        """Whether `run` is a coroutine function."""
        called = getattr(type(self.run), "__call__", None)  # noqa: B004 - it is asked what kind it is
        return inspect.iscoroutinefunction(self.run) or inspect.iscoroutinefunction(called)

    def judge(self, returned: object) -> Output:
        """What `run` returned, as output.

        Raises:
            TypeError: not text, or no value of the result type (with one `path: message` line each), or a
                validator of the type broke.
            ValueError: a value that nests too deep or has too long an integer.
        """
        if self.result_type is None:
            if not isinstance(returned, str):
                raise TypeError(
                    f"agent {self.name!r} returned {_a(returned)}; it must return a str or have a result_type"
                )
            return Output(exact_str("output", returned))
        forbidden = f"agent {self.name!r} returned what its result_type {_named(self.result_type)} forbids"
        try:
            value = self._value(returned)
            structured = encode_json(value)
        except TypeError as error:
            raise TypeError(f"{forbidden}: {error}") from error
        except ValueError as error:
            raise ValueError(f"{forbidden}: {error}") from error
        except Exception as error:
            raise TypeError(f"{forbidden}: {type(error).__name__}: {error}") from error
        if isinstance(returned, str):
            return Output(exact_str("output", returned), structured)
        return Output(value if isinstance(value, str) else structured, structured)

    def _value(self, returned: object) -> object:
        try:
            return conform(returned, self.result_type)
        except TypeError:
            if not isinstance(returned, str):
                raise
            try:
                decoded = _decode(returned)
            except (ValueError, RecursionError):
                decoded = returned
            if isinstance(decoded, str):
                raise
            return conform(decoded, self.result_type)


def _named(result_type: object) -> str:
    return result_type.__qualname__ if inspect.isclass(result_type) else f"{result_type!r:.80}"


def _a(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__qualname__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode
