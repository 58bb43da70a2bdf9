"""The command line with the verbs of every layer: the lower ones cannot know those above."""

from __future__ import annotations

from turnlog.replay.cli import turnlog
from turnlog.teams.cli_approvals import approvals
from turnlog.teams.cli_checkpoints import checkpoints

__all__ = ["turnlog"]

turnlog.add_section("See what a team waits for, and from where it can go on", [approvals, checkpoints])
