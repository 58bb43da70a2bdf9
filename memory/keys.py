"""Who owns a key: `<agent>/<key>`, told apart at the first slash."""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

from ..eventlog.commands import exact_str
from .reserved import RESERVED_PREFIXES

__all__ = ["Owned", "check_agent", "full_key", "owned"]

UNKNOWN_AGENT = "_unknown"
"""Whose a key without a slash is shown to be."""

# Control characters, and the two separators that break lines: neither belongs in a name that heads a list.
_NOT_IN_NAMES = ("Cc", "Zl", "Zp")


class Owned(NamedTuple):
    """A whole key, taken apart."""

    agent: str
    local_key: str


def check_agent(agent: object) -> str:
    """`agent`, if it can own keys.

    Raises:
        TypeError: not a str.
        ValueError: empty, with a slash or a control character in it, or reserved.
    """
    name = exact_str("agent", agent)
    if not name:
        raise ValueError("agent must not be empty")
    if "/" in name:
        raise ValueError(
            f"agent {name!r:.80} contains '/', which parts agent and key; two owners could share a cell"
        )
    if any(unicodedata.category(letter) in _NOT_IN_NAMES for letter in name):
        raise ValueError(f"agent {name!r:.80} contains a control character or line break")
    if f"{name}/" in RESERVED_PREFIXES:
        raise ValueError(f"agent {name!r} is a reserved name; choose another")
    return name


def full_key(agent: object, key: object) -> str:
    """The whole key of `agent`'s `key`; the key may contain slashes.

    Raises:
        TypeError: not a str.
        ValueError: a name that cannot own keys (see `check_agent`), or an empty key.
    """
    owner = check_agent(agent)
    local_key = exact_str("key", key)
    if not local_key:
        raise ValueError(f"agent {owner!r}: key must not be empty")
    return f"{owner}/{local_key}"


def owned(key: str) -> Owned:
    """The agent and the local key of a whole key of any form."""
    agent, slash, local_key = key.partition("/")
    return Owned(agent, local_key) if slash else Owned(UNKNOWN_AGENT, key)
