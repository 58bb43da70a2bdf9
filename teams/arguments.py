"""What callers give, looked at before anything is done with it: refused in words that say how to write it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TypeVar, cast

from ..eventlog import EventLog
from ..memory.async_shared import AsyncSharedMemory
from ..memory.contract import check_store
from ..memory.shared import SharedMemory

__all__ = [
    "a_log",
    "check_bool",
    "check_function",
    "check_given_store",
    "check_no_lookalike",
    "kind_of",
    "several",
]

T = TypeVar("T")


def kind_of(value: object) -> str:
    """What `value` is, for a message: the name of its type, or which class it is."""
    if value is None:
        return "None"
    return f"the class {value.__name__}" if inspect.isclass(value) else type(value).__name__


def several(name: str, given: object, kind: type[T], *, many: str, one: str) -> list[T]:
    """The items of `given`, each of them a `kind`.

    Args:
        name: of the parameter.
        given: what the caller gave.
        kind: what each item must be.
        many: how to write the list for a single item.
        one: how to write an item.

    Raises:
        TypeError: one item and no list, something that is no list of items, or an item of another kind.
    """
    if isinstance(given, kind):
        raise TypeError(
            f"{name} must be {kind.__name__} objects in a list, not one {kind.__name__}; write {many}"
        )
    if isinstance(given, str | bytes | Mapping) or inspect.isclass(given) or not isinstance(given, Iterable):
        raise TypeError(
            f"{name} must be {kind.__name__} objects in a list, not {kind_of(cast('object', given))}; "
            f"an item is {one}"
        )
    items = list(cast("Iterable[object]", given))
    for index, item in enumerate(items):
        if not isinstance(item, kind):
            a = "an" if kind.__name__[0] in "AEIO" else "a"
            raise TypeError(f"{name}[{index}] must be {a} {kind.__name__}, not {kind_of(item)}; write {one}")
    return cast("list[T]", items)


def check_bool(name: str, given: object) -> None:
    """Refuse what is neither True nor False.

    Raises:
        TypeError: names the parameter.
    """
    if type(given) is not bool:
        raise TypeError(f"{name} must be True or False, not {kind_of(given)}")


def check_function(
    name: str, given: object, *parameters: str, optional: bool = False, awaited: str | None = None
) -> None:
    """Refuse what could not be called with as many arguments as there are `parameters`.

    Args:
        name: of the parameter.
        given: what the caller gave.
        parameters: what the arguments are called.
        optional: whether None may be given in its place; it is up to the caller to let that through.
        awaited: None if a coroutine function will do; else what to do in its place, nobody awaiting it.

    Raises:
        TypeError: it cannot be called, cannot be called so, or is a coroutine function.
    """
    told = ", ".join(parameters)
    if not callable(given):
        or_none = " or None" if optional else ""
        raise TypeError(f"{name} must be a function of ({told}){or_none}, not {kind_of(given)}")
    if awaited is not None and inspect.iscoroutinefunction(given):
        raise TypeError(f"{name} is a coroutine function, which nobody awaits{awaited}")
    try:
        # What a decorator wraps is not what is called.
        signature = inspect.signature(given, follow_wrapped=False)
    except (TypeError, ValueError):  # written in C, some say nothing
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        raise TypeError(f"{name} is called with ({told}), but is one that takes {signature}") from None


def a_log(given: object) -> EventLog:
    """`given`, if it is a log.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(given, EventLog):
        raise TypeError(f"log must be an open EventLog (turnlog.open(path)), not {kind_of(given)}")
    return given


def check_given_store(name: str, given: object, *, asynchronous: bool, twin: str) -> None:
    """`check_store`, with a word on what is often given in place of a store.

    Raises:
        TypeError: not a store of that colour.
    """
    check_no_lookalike(name, given, asynchronous=asynchronous)
    check_store(given, asynchronous=asynchronous, twin=twin)


def check_no_lookalike(name: str, given: object, *, asynchronous: bool) -> None:
    """Refuse what leads to a store but is none: a path, a log, a shared memory.

    Raises:
        TypeError: it is one of these; says how to write the store.
    """
    kind = "AsyncMemoryStore" if asynchronous else "MemoryStore"
    told = f"{name} must be a {kind}, not {kind_of(given)}"
    if isinstance(given, str | bytes | PathLike | EventLog):
        opened = "log" if isinstance(given, EventLog) else "turnlog.open(path)"
        raise TypeError(f"{told}; on a log that is {kind[:-11]}EventSourcedStore({opened}, run)")
    if isinstance(given, SharedMemory | AsyncSharedMemory):
        raise TypeError(f"{told}; write memory.store")
