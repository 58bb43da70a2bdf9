"""What teams raise of their own, beside the errors of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ..eventlog import TurnlogError

__all__ = ["BadPlan", "PayloadCode", "PayloadError", "RunTaken"]

_SHOWN = 20

PayloadCode = Literal["DEPENDENCY_STRUCTURED_RESULT_MISSING", "DEPENDENCY_PAYLOAD_TOO_LARGE"]
"""Why a task cannot be given what it asks of its dependencies; the names are shared with other tools."""


class BadPlan(TurnlogError, ValueError):  # noqa: N818 - reads as a state, like the rest of the tree
    """Tasks that do not make a plan; none of them was begun.

    Attributes:
        problems: everything that is wrong, one sentence each.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        shown = "".join(f"\n- {problem}" for problem in problems[:_SHOWN])
        rest = f"\n- and {len(problems) - _SHOWN:,} more" if len(problems) > _SHOWN else ""
        super().__init__(f"these tasks cannot be run; nothing was begun:{shown}{rest}")
        self.problems = tuple(problems)


class RunTaken(TurnlogError):  # noqa: N818 - reads as a state, like the rest of the tree
    """Somebody else has gone on with a run since it was begun or restored here; this attempt at it ends.

    Which of two is told is settled by their checkpoints: the first to keep one goes on. What the other
    completed afterwards is not recorded, on a store that carries out lists; `restore` goes on from where the
    run is by then.

    Attributes:
        key: where the checkpoint is kept.
    """

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


class PayloadError(TurnlogError):
    """A dependency cannot be handed on in the form that a task asks for; the task fails with this code."""

    def __init__(self, code: PayloadCode, message: str) -> None:
        super().__init__(message)
        self.code: PayloadCode = code
