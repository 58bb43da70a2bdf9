"""Keys that belong to the framework and to turnlog itself, not to agents."""

from __future__ import annotations

__all__ = ["RESERVED_PREFIXES", "is_reserved"]

RESERVED_PREFIXES = ("__oma_checkpoint__/", "__oma_approval__/", "__turnlog__/")
"""Entries below these are hidden from agents' reads, listings and summaries, and survive every restore.

The first two are the original framework's names, kept so that its records can be handed over (rule E20).
"""


def is_reserved(key: str) -> bool:
    """Whether `key` lies below a reserved prefix."""
    return key.startswith(RESERVED_PREFIXES)
