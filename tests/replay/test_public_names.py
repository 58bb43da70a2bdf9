"""What `turnlog.replay` offers is imported when it is first used, and is what its modules define."""

from __future__ import annotations

import turnlog.replay


def test_every_public_name_can_be_had() -> None:
    """Each name of `__all__` is there, sorted, and none of them is a module in disguise."""
    found = {name: getattr(turnlog.replay, name) for name in turnlog.replay.__all__}
    assert list(found) == sorted(found)
    assert all(each.__module__.startswith("turnlog.") for each in found.values())
