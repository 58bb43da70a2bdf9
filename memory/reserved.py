"""The prefixes under which records are kept that are nobody's memory."""

from __future__ import annotations

__all__ = ["APPROVAL_PREFIX", "CHECKPOINT_PREFIX", "RESERVED_PREFIXES", "TURNLOG_PREFIX", "is_reserved"]

CHECKPOINT_PREFIX = "__oma_checkpoint__/"
"""Where checkpoints live; the name is the one other implementations look for."""

APPROVAL_PREFIX = "__oma_approval__/"
"""Where approvals live; the name is the one other implementations look for."""

TURNLOG_PREFIX = "__turnlog__/"
"""Where turnlog remembers what it needs beside events: leases, owners, cursors."""

RESERVED_PREFIXES = (CHECKPOINT_PREFIX, APPROVAL_PREFIX, TURNLOG_PREFIX)


def is_reserved(key: str) -> bool:
    """Whether `key`, whole, begins with a reserved prefix, slash included.

    Such an entry is hidden from what agents read and survives a restore; a store shows it like any other.
    """
    return key.startswith(RESERVED_PREFIXES)
