"""What holds for every test: how hypothesis judges time, what Ctrl-C means, and how to be careless."""

from __future__ import annotations

import signal
import threading

import pytest
from hypothesis import HealthCheck, settings

from turnlog.eventlog.batch import Batch

# How long an example takes says how busy the machine is; what must be quick has tests that measure it.
settings.register_profile("turnlog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("turnlog")

# A shell that starts the tests in the background lets them ignore Ctrl-C, and with them whatever they start.
_IN_MAIN_THREAD = threading.current_thread() is threading.main_thread()
if _IN_MAIN_THREAD and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands may state what is not so, as another program that appends could."""
    monkeypatch.setattr(Batch, "_check_true", lambda batch, event: None)
