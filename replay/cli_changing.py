"""`turnlog restore, fork`: taking a run back, and beginning another from its past. Both only append."""

from __future__ import annotations

import shlex
import warnings
from typing import TYPE_CHECKING

import click

from .cli_options import (
    asking,
    at_option,
    change_done,
    chosen_timeline,
    database_argument,
    exact_text,
    json_option,
    run_option,
    who_option,
    writing,
)
from .cli_output import Screen
from .cli_state import place
from .cli_text import counted

if TYPE_CHECKING:
    from ..eventlog import EventLog, Recorded

__all__ = ["fork", "restore"]


@click.command(short_help="Take a run back to an earlier point; can be undone.")
@database_argument
@run_option
@click.option("--at", metavar="A", required=True, help="Where to: 3, 3.1, @120 or a UTC time.")
@who_option
@click.option("--reason", metavar="WHY", callback=exact_text, help="Why, for the history.")
@json_option
def restore(db: str, run: str | None, at: str, who: str | None, reason: str | None, as_json: bool) -> None:
    """Make a run's entries and turn again what they were at a point.

    Nothing is rewritten: events that point to the past are appended, in one batch, and blame still names the
    original authors. Reserved entries stay as they are. To undo it, restore the point before it.
    A position inside a batch is refused, since nobody ever saw that state.

    \b
    turnlog restore team.db --at 3 --as ops --reason "bad merge"
    """
    screen = Screen(as_json=as_json)
    with writing(db) as log:
        timeline = chosen_timeline(log, run)
        point = timeline.point(at=at)
        with asking(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            restored = timeline.restore(at=at, by=who, reason=reason)
        change_done(f"@{restored.position}")
        put_back, removed = _count_changes(log, restored)
    undo = f"@{restored.position - 1}"
    if as_json:
        screen.record(
            {
                "run": restored.run,
                "turn": restored.turn,
                "position": restored.position,
                "to": f"@{point.position}",
                "put_back": put_back,
                "removed": removed,
                "undo": undo,
                "warnings": [str(each.message) for each in warned],
            }
        )
        return
    entries = f"{counted(put_back, 'entry', 'entries')} put back, {removed:,} removed"
    screen.say(f"run {restored.run} is back at {place(point)}: {entries}")
    screen.say(f"nothing was rewritten; the restore itself is event @{restored.position}")
    for each in warned:
        screen.say(f"but {each.message}")
    screen.say(f"to undo it: {_command('restore', db, '--run', restored.run, '--at', undo)}")


@click.command(short_help="Begin a new run from another's state at a point.")
@database_argument
@run_option
@at_option
@click.option(
    "--as",
    "name",
    metavar="NAME",
    callback=exact_text,
    required=True,
    help="What the new run is called; not who asks for it.",
)
@json_option
def fork(db: str, run: str | None, at: str | None, name: str, as_json: bool) -> None:
    """Begin a new run that starts from a run's state at a point; no event is copied, and the run goes on.

    A position inside a batch is refused, since nobody ever saw that state.

    \b
    turnlog fork team.db --at 3 --as what-if
    """
    screen = Screen(as_json=as_json)
    with writing(db) as log:
        timeline = chosen_timeline(log, run)
        point = timeline.point(at=at)
        with asking():
            forked = timeline.fork(at=at, run=name)
        head = log.head(name)
        change_done(f"run {name}" if head is None else f"@{head.position}")
        entries = len(forked.state())
    if as_json:
        screen.record(
            {
                "run": name,
                "parent": timeline.run,
                "turn": point.turn,
                "from": f"@{point.position}",
                "entries": entries,
                "position": None if head is None else head.position,
            }
        )
        return
    count = counted(entries, "entry", "entries")
    screen.say(f"run {name} begins from {timeline.run} at {place(point)}, with {count}; no event was copied")
    screen.say(f"to see it: {_command('state', db, '--run', name)}")


def _count_changes(log: EventLog, restored: Recorded) -> tuple[int, int]:
    """How many entries a restore put back, and how many it removed."""
    from ..eventlog import EntryDeleted

    put_back = removed = 0
    for each in log.read(after=restored.position, run=restored.run):
        if each.batch == 0:
            break
        if isinstance(each.event, EntryDeleted):
            removed += 1
        else:
            put_back += 1
    return put_back, removed


def _command(*words: str) -> str:
    """A command to copy."""
    return shlex.join(["turnlog", *words])
