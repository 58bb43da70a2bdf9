"""The error of everything that can go wrong with a durable approval."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Literal

from ..eventlog import TurnlogError

__all__ = ["ApprovalCode", "DurableApprovalError", "altered", "invalid", "refusing"]

ApprovalCode = Literal[
    "APPROVAL_ATOMIC_STORE_REQUIRED",
    "APPROVAL_CONFLICT",
    "APPROVAL_INTEGRITY_ERROR",
    "APPROVAL_NOT_FOUND",
    "APPROVAL_STALE_DECISION",
    "APPROVAL_VALIDATION_ERROR",
]


class DurableApprovalError(TurnlogError, ValueError):
    """An approval could not be requested, read or decided; nothing was written.

    Attributes:
        code: which of six kinds, the same on every implementation:
            `APPROVAL_VALIDATION_ERROR`: what was asked cannot be;
            `APPROVAL_NOT_FOUND`: there is no such request;
            `APPROVAL_INTEGRITY_ERROR`: a stored record is damaged, altered, or belongs elsewhere;
            `APPROVAL_STALE_DECISION`: the reviewer saw something else than what is to be decided;
            `APPROVAL_CONFLICT`: somebody else was first;
            `APPROVAL_ATOMIC_STORE_REQUIRED`: the store cannot compare and set.
    """

    def __init__(self, code: ApprovalCode, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code: ApprovalCode = code


def invalid(message: str) -> DurableApprovalError:
    """What was asked cannot be."""
    return DurableApprovalError("APPROVAL_VALIDATION_ERROR", message)


def altered(message: str) -> DurableApprovalError:
    """What is stored cannot be right."""
    return DurableApprovalError("APPROVAL_INTEGRITY_ERROR", message)


@contextmanager
def refusing(what: str, refuse: Callable[[str], DurableApprovalError]) -> Generator[None]:
    """Around the reading of `what`: that it is no JSON, or not of the right shape, is that refusal."""
    try:
        yield
    except DurableApprovalError:
        raise
    except (TypeError, ValueError) as error:
        raise refuse(f"{what}: {error}") from error
