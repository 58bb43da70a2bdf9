"""Whether a history of several clients could have come from one register that does one thing at a time.

Every operation on a linearizable register seems to happen at one instant between its call and its return. The
search (after Wing and Gong) tries each operation that no other ended before as the next one, and remembers
which sets of operations, with what in the register, have led nowhere. Registers do not touch each other, so
each key's history is searched on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

__all__ = ["Operation", "apply", "is_linearizable"]


class Operation(NamedTuple):
    """One call and what came of it.

    Attributes:
        called, returned: by one clock for all; `returned` is infinite where nobody knows the outcome, so that
            it may have happened at any time after the call, or never.
        kind: what was called.
        answer: what it gave: a value or None for `get`, whether it did for `compare_and_set`, None for `set`.
        value: what was to be written.
        expected: what `compare_and_set` compared with.
    """

    called: float
    returned: float
    kind: Literal["get", "set", "compare_and_set"]
    answer: str | bool | None = None
    value: str | None = None
    expected: str | None = None


def apply(held: str | None, operation: Operation) -> tuple[bool, str | None]:
    """Whether a register that holds `held` could have given that answer, and what it holds then."""
    unknown = operation.returned == float("inf")
    match operation.kind:
        case "get":
            return unknown or operation.answer == held, held
        case "set":
            return True, operation.value
        case "compare_and_set":
            fits = held == operation.expected
            return unknown or operation.answer is fits, operation.value if fits else held


def is_linearizable(history: Sequence[Operation], held: str | None = None) -> bool:
    """Whether some order of the operations, in keeping with time and with every answer, exists.

    Args:
        history: operations of one register, in any order.
        held: what it held at first.
    """
    operations = sorted(history, key=lambda each: (each.called, each.returned))
    known = sum(1 << number for number, each in enumerate(operations) if each.returned != float("inf"))
    dead: set[tuple[int, str | None]] = set()
    open_ends = [(0, held)]  # bits of what has happened, and what the register holds
    while open_ends:
        done, held = place = open_ends.pop()
        if done & known == known:
            return True
        if place in dead:
            continue
        dead.add(place)
        for number in _next(operations, done):
            possible, then = apply(held, operations[number])
            if possible:
                open_ends.append((done | 1 << number, then))
    return False


def _next(operations: Sequence[Operation], done: int) -> list[int]:
    """Those that may come next: not yet done, and called before any other of these returned."""
    first_return = float("inf")
    found: list[int] = []
    for number, each in enumerate(operations):
        if done >> number & 1:
            continue
        if each.called > first_return:
            break  # they are sorted by call, so nobody behind comes before either
        found.append(number)
        first_return = min(first_return, each.returned)
    return found
