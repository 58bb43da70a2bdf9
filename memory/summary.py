"""The team's memory as a short markdown text, grouped by agent, for a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .javascript import JAVASCRIPT_SPACES, javascript_json
from .keys import owned
from .shared_entry import SharedEntry

__all__ = ["render_summary", "results_of"]

HEADING = "## Shared Team Memory"

LONGEST = 200
"""Code points of a value that are shown whole."""

CUT = 197
"""Code points shown of a longer value, before the ellipsis."""

_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\u0085\u2028\u2029]")


def render_summary(entries: Iterable[SharedEntry[Any]]) -> str:
    r"""The summary of `entries`; `""` if there are none.

    One section per agent, in the order of its first entry, one line per entry. Line breaks of any kind are
    shown as `\n`, so that neither a key nor a value can forge a heading or another agent's line.
    """
    sections: dict[str, list[str]] = {}
    for entry in entries:
        agent, local_key = owned(entry.key)
        sections.setdefault(agent, []).append(f"- {_on_one_line(local_key)}: {_shown(entry.value)}")
    if not sections:
        return ""
    lines = [HEADING, ""]
    for agent, section in sections.items():
        lines += [f"### {_on_one_line(agent)}", *section, ""]
    return "\n".join(lines).rstrip(JAVASCRIPT_SPACES)


def results_of(entries: Iterable[SharedEntry[Any]], task_ids: Iterable[str]) -> Iterable[SharedEntry[Any]]:
    """Those of `entries` that hold the result of a task in `task_ids`: key `<agent>/task:<id>:result`."""
    wanted = set(task_ids)
    return (entry for entry in entries if _task_of(owned(entry.key).local_key) in wanted)


def _task_of(local_key: str) -> str | None:
    if local_key.startswith("task:") and local_key.endswith(":result"):
        return local_key[len("task:") : -len(":result")]
    return None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else javascript_json(value)
    return _on_one_line(text if len(text) <= LONGEST else f"{text[:CUT]}…")


def _on_one_line(text: str) -> str:
    return _LINE_BREAK.sub(r"\\n", text)
