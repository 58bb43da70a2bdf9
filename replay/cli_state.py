"""`turnlog get, state`: what the memory was, at any point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .cli_options import (
    Refused,
    at_option,
    chosen_timeline,
    database_argument,
    json_option,
    key_argument,
    reading,
    run_option,
)
from .cli_output import Cell, Column, Screen
from .cli_text import counted

if TYPE_CHECKING:
    from ..memory.entry import MemoryEntry
    from .address import Point
    from .state import State
    from .timeline import Timeline

__all__ = ["get", "mark_inside", "place", "state"]


@click.command(short_help="The value of a key, now or then.")
@database_argument
@key_argument
@run_option
@at_option
@click.option("--raw", is_flag=True, help="The stored text, byte for byte, and nothing else.")
@json_option
def get(db: str, key: str, run: str | None, at: str | None, raw: bool, as_json: bool) -> None:
    """Print the value of KEY, as agents saw it at a point.

    A structured value is printed as compact JSON. Line breaks and tabs are printed as they are, other control
    characters as escapes; --raw prints exactly what is stored, with no line end added.

    \b
    turnlog get team.db writer/draft
    turnlog get team.db writer/draft --at 3
    turnlog get team.db writer/draft --raw > draft.md
    """
    if raw and as_json:
        raise click.UsageError("--raw and --json exclude each other")
    screen = Screen(as_json=as_json)
    with reading(db) as log:
        timeline = chosen_timeline(log, run)
        mark_inside(screen, timeline.point(at=at), at)
        entry = timeline.entry(key, at=at)
        if entry is None:
            raise Refused(_why_missing(timeline, key, at))
        if raw:
            screen.write_bytes(entry.value.encode("utf-8", "surrogatepass"))
        elif as_json:
            from .cli_records import author, entry_record

            screen.record(entry_record(entry, author(log, timeline, entry)))
        else:
            screen.write(screen.shown(_plain_value(entry) if entry.value else "", prose=True))


@click.command(short_help="What the memory held, now or then.")
@database_argument
@run_option
@at_option
@click.option("--all", "everything", is_flag=True, help="Expired and reserved entries too, marked.")
@json_option
def state(db: str, run: str | None, at: str | None, everything: bool, as_json: bool) -> None:
    """Show what agents would have seen of a run's memory at a point, in the order of the entries' births.

    \b
    turnlog state team.db
    turnlog state team.db --at 3
    turnlog state team.db --at @120 --json
    turnlog state team.db --at 2026-11-30T02:13Z
    """
    from .cli_records import author, entry_record

    screen = Screen(as_json=as_json)
    with reading(db) as log:
        timeline = chosen_timeline(log, run)
        found = timeline.state(at=at, all=everything)
        mark_inside(screen, found.point, at)
        if as_json:
            for entry in found.values():
                screen.record(
                    entry_record(entry, author(log, timeline, entry)) | _marks(found, entry, everything)
                )
            return
        count = counted(len(found), "entry", "entries")
        screen.title(f"{timeline.run} at {place(found.point)}: {count}")
        columns = [
            Column("key", cut=True, style="bold"),
            Column("version", right=True, style="cyan"),
            Column("agent", cut=True),
            Column("expires", right=True),
            Column("value", cut=True),
        ]
        screen.table(
            columns,
            (
                [
                    entry.key,
                    f"@{entry.version}",
                    author(log, timeline, entry),
                    _expiry(found, entry),
                    Cell(_plain_value(entry), "dim" if entry.key in found.expired else ""),
                ]
                for entry in found.values()
            ),
        )


def place(point: Point) -> str:
    """A point, for people."""
    return f"turn {point.turn} (@{point.position})"


def mark_inside(screen: Screen, point: Point, at: str | None) -> None:
    """Say so, beside the result, where a position was asked for that lies between events committed together.

    Ends of turns often do: a task's last write and the turn's advance are one batch.
    """
    if point.inside_batch and at is not None and at.startswith("@"):
        screen.note(f"position {point.position} lies inside a batch: nobody ever saw this state")


def _plain_value(entry: MemoryEntry) -> str:
    from .cli_text import shown_value

    return shown_value(entry.value, entry.metadata)


def _marks(found: State, entry: MemoryEntry, everything: bool) -> dict[str, object]:
    if not everything:
        return {}
    return {"expired": entry.key in found.expired, "reserved": entry.key in found.reserved}


def _expiry(found: State, entry: MemoryEntry) -> str | None:
    mark = " reserved" if entry.key in found.reserved else ""
    if entry.expires_at_turn is None:
        return mark.strip() or None
    return f"{'expired' if entry.key in found.expired else 'turn'} {entry.expires_at_turn}{mark}"


def _why_missing(timeline: Timeline, key: str, at: str | None) -> str:
    """Why `key` shows nothing at a point, from its history.

    Raises:
        NotFound: the run never had such a key; says which are near.
    """
    from ..eventlog import EntryDeleted, EntryRestored, EntryWritten

    point = timeline.point(at=at)
    subject = f"run {timeline.run!r}: key {key!r}"
    for recorded in timeline.history(key, reverse=True):
        if recorded.revision > point.revision:
            continue
        who = "" if recorded.agent is None else f" by {recorded.agent}"
        if isinstance(recorded.event, EntryDeleted):
            return f"{subject} was deleted at position {recorded.position}, turn {recorded.turn}{who}"
        if isinstance(recorded.event, EntryWritten | EntryRestored):
            expiry = recorded.event.expires_at_turn
            return f"{subject} expired at turn {expiry}; `turnlog history` shows what it held"
    return f"{subject} did not exist yet at {place(point)}; `turnlog history` shows when it came"
