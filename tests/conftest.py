"""What holds for every test: how hypothesis judges time."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is; what must be quick has tests that measure it.
settings.register_profile("turnlog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("turnlog")
