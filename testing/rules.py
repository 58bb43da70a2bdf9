"""What makes a test a rule: the abilities it is about, and what its failure says to a store's author."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

__all__ = ["abilities_of", "needs", "rules"]

Test = TypeVar("Test", bound=Callable[..., None])
Suite = TypeVar("Suite", bound=type)


def needs(*abilities: str) -> Callable[[Test], Test]:
    """The test is about stores that have these attributes; for others it is skipped."""

    def mark(test: Test) -> Test:
        test.__dict__["needs"] = abilities
        return test

    return mark


def abilities_of(test: object) -> tuple[str, ...]:
    """What `needs` said of a test."""
    return cast("tuple[str, ...]", getattr(test, "needs", ()))


def rules(suite: Suite) -> Suite:
    """Let every test of the class say, when it fails, the rule that is its docstring."""
    for name, test in list(vars(suite).items()):
        if name.startswith("test_"):
            setattr(suite, name, _rule(name, test))
    return suite


def _rule(name: str, test: Callable[..., None]) -> Callable[..., None]:
    rule = " ".join(inspect.cleandoc(test.__doc__ or "").split())

    @functools.wraps(test)
    def explained(*given: object, **named: object) -> None:
        __tracebackhide__ = True
        try:
            test(*given, **named)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"\nThe store breaks this rule of the contract: {rule}\n({name})")
            raise

    return explained
