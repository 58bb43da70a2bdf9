"""Which names are those of secrets: the members and variables whose values are never kept."""

from __future__ import annotations

import re

__all__ = ["is_sensitive_name"]

_SENSITIVE = re.compile(
    "(?:api|private|access)[_-]?key|auth[_-]?token|secret|password|passwd|pwd|authorization|cookie|session"
    "|credential|bearer|(?:access|refresh|id|github)token"
    r"|(?:^|[_.-])token$|^token[_-]",
    re.IGNORECASE | re.ASCII,
)


def is_sensitive_name(name: str) -> bool:
    """Whether what bears this name is a secret, as `api_key`, `GITHUB-TOKEN` and `db.password` are.

    Letters are compared as ASCII, whatever their case. `token_count` counts as sensitive; `tokens`,
    `tokenUsage` and `input_tokens` do not.
    """
    return _SENSITIVE.search(name) is not None
