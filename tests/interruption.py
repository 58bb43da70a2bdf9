"""Ctrl-C at a chosen line of whatever is carried out."""

from __future__ import annotations

import _thread
import gc
import signal
import sys
from collections.abc import Callable
from typing import Any


class _Interrupt:
    """Sends Ctrl-C when it is subscripted; as always, Python notices at its next opportunity."""

    __getitem__ = _thread.interrupt_main


class Interruption:
    """Ctrl-C while something is carried out, at the line it comes to as number `at`.

    Attributes:
        lines: how many lines it came to.
    """

    def __init__(self, at: int) -> None:
        self.at, self.lines = at, 0
        self._interrupt = _Interrupt()

    def during(self, action: Callable[[], Any]) -> None:
        """Carry it out."""
        handler, trace = signal.signal(signal.SIGINT, signal.default_int_handler), sys.gettrace()
        gc.disable()  # an interrupt in a callback of the collector's would be nobody's
        try:
            sys.settrace(self._line)
            try:
                action()
            finally:
                sys.settrace(trace)
        finally:
            gc.enable()
            signal.signal(signal.SIGINT, handler)

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)  # tracing on would be an opportunity at every line
                self._interrupt[signal.SIGINT]  # not a call, since a call is an opportunity as well
        return self._line
