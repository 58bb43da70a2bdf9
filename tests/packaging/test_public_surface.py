"""The public names: pinned here, so that none comes or goes unnoticed."""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnlog

FACE = Path(__file__).resolve().parents[2] / "src" / "turnlog" / "__init__.py"

PUBLIC = [
    "AdvanceTurn",
    "Agent",
    "AgentMemory",
    "ApprovalLedger",
    "ApprovalRequest",
    "AsyncAgentMemory",
    "AsyncApprovalLedger",
    "AsyncCheckpoint",
    "AsyncEventSourcedStore",
    "AsyncFileStore",
    "AsyncInMemoryStore",
    "AsyncMemoryStore",
    "AsyncRedactingStore",
    "AsyncSharedMemory",
    "BadAddress",
    "BadAnchor",
    "BadCheckpoint",
    "BadImport",
    "BadPlan",
    "Busy",
    "Checkpoint",
    "Clear",
    "Closed",
    "CompareAndSet",
    "Conflict",
    "Corrupt",
    "Delete",
    "DurableApprovalError",
    "EventLog",
    "EventSourcedStore",
    "FileChanged",
    "FileStore",
    "InMemoryStore",
    "KeyReused",
    "Limits",
    "MemoryEntry",
    "MemoryStore",
    "NotFound",
    "NotOurs",
    "Once",
    "OutcomeUnknown",
    "RedactingStore",
    "RunExists",
    "RunTaken",
    "SetTurn",
    "SharedEntry",
    "SharedMemory",
    "StorageError",
    "Suspend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskEvent",
    "TaskResult",
    "Team",
    "TeamResult",
    "Timeline",
    "TooNew",
    "TurnlogError",
    "Write",
    "acting_as",
    "arestore",
    "arun_tasks",
    "redact",
    "restore",
    "run_tasks",
]
"""Every public name of `turnlog` but `open`, sorted. A change here belongs into CHANGELOG.md."""


def test_the_public_names_are_the_pinned_ones() -> None:
    """`turnlog.__all__` is exactly the pinned list."""
    assert turnlog.__all__ == PUBLIC


def test_the_public_names_are_sorted() -> None:
    """`turnlog.__all__` can be read by a person."""
    assert sorted(turnlog.__all__) == turnlog.__all__


def imports_of_the_face() -> list[ast.stmt]:
    """What type checkers see imported in `turnlog/__init__.py`; at run time a name comes when it is used."""
    (block,) = [node for node in ast.parse(FACE.read_text("utf-8")).body if isinstance(node, ast.If)]
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    return block.body


def test_every_imported_name_is_public_and_every_public_name_is_imported() -> None:
    """What `turnlog/__init__.py` imports and what it declares are the same."""
    imports = imports_of_the_face()
    assert {type(node) for node in imports} == {ast.ImportFrom}
    bound = [alias.asname or alias.name for node in imports for alias in node.names]
    assert sorted(bound) == sorted([*turnlog.__all__, "open"])


def test_every_public_name_is_what_type_checkers_take_it_for() -> None:
    """A name that is imported when it is used comes from the module that the declared import names."""
    for node in imports_of_the_face():
        assert isinstance(node, ast.ImportFrom)
        home = importlib.import_module(str(node.module))
        for alias in node.names:
            assert getattr(turnlog, alias.name) is getattr(home, alias.name)
    assert {*turnlog.__all__, "open"} <= set(dir(turnlog))


def test_a_star_leaves_pythons_open_alone() -> None:
    """`open` is had as `turnlog.open` only; whoever imports everything goes on opening files."""
    done: dict[str, object] = {}
    exec("from turnlog import *\nfound = open", done)
    assert done["found"] is open
    assert turnlog.open is importlib.import_module("turnlog._open").open


def test_a_name_that_is_not_public_is_missing() -> None:
    """Asking for anything else is an `AttributeError`, as with any module."""
    with pytest.raises(AttributeError, match="module 'turnlog' has no attribute 'Manager'"):
        turnlog.Manager  # noqa: B018


def test_everything_public_says_what_it_is() -> None:
    """Each public class and function, and each public method of them, has a docstring of its own."""
    undocumented = [name for name, thing in documented_things() if not own_docstring(thing)]
    assert undocumented == []


def documented_things() -> Iterator[tuple[str, object]]:
    """Public classes and functions by name, and the public methods and properties the classes define."""
    for name in (*turnlog.__all__, "open"):
        thing = getattr(turnlog, name)
        if inspect.isclass(thing):
            members = vars(thing).items()
            yield from ((f"{name}.{key}", member) for key, member in members if is_public_method(key, member))
        if inspect.isclass(thing) or inspect.isroutine(thing):
            yield name, thing


def is_public_method(name: str, member: object) -> bool:
    """Whether a class attribute is something a user calls or reads by a method."""
    kinds = (types.FunctionType, property, classmethod, staticmethod)
    return not name.startswith("_") and isinstance(member, kinds)


def own_docstring(thing: object) -> str | None:
    """The docstring somebody wrote; what `dataclass` and `NamedTuple` generate does not count."""
    text = thing.__doc__
    generated = inspect.isclass(thing) and text is not None and text.startswith(f"{thing.__name__}(")
    return None if generated else text
