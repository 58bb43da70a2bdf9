"""Replay: timelines, restore, fork, audit and the command line.

A name is imported when it is first used: the command line lives here and must answer quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_HOMES = (
    ".timeline",
    ".state",
    ".address",
    ".visits",
    ".verification",
    ".anchoring",
    ".anchors",
    ".backups",
    ".sweeping",
    ".redaction",
)

if TYPE_CHECKING:
    from .address import Point
    from .anchoring import anchor, read_anchor
    from .anchors import Anchor, AnchoredHead
    from .backups import backup
    from .redaction import Receipt, redact
    from .state import Difference, State
    from .sweeping import Sweep, sweep
    from .timeline import Timeline
    from .verification import Problem, RunHead, Verification, verify
    from .visits import Visit
else:

    def __getattr__(name: str) -> object:
        """A public name."""
        if name in __all__:
            for home in _HOMES:
                module = import_module(home, __name__)
                if name in module.__all__:
                    return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """Everything there is, imported yet or not."""
        return sorted({*globals(), *__all__})


__all__ = [
    "Anchor",
    "AnchoredHead",
    "Difference",
    "Point",
    "Problem",
    "Receipt",
    "RunHead",
    "State",
    "Sweep",
    "Timeline",
    "Verification",
    "Visit",
    "anchor",
    "backup",
    "read_anchor",
    "redact",
    "sweep",
    "verify",
]
