"""`turnlog runs, turns, show`: what a file holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from .cli_options import (
    Refused,
    chosen_timeline,
    database_argument,
    json_option,
    reading,
    run_option,
)
from .cli_output import Column, Row, Screen

if TYPE_CHECKING:
    from ..eventlog import EventLog, Recorded, RunInfo
    from .visits import Visit

__all__ = ["runs", "show", "turns"]

_POSITION = re.compile(r"@?(\d{1,18})", re.ASCII)


@click.command(short_help="The runs of a file.")
@database_argument
@json_option
def runs(db: str, as_json: bool) -> None:
    """List the runs of a file, oldest first: where each stands, and how many entries it shows now.

    \b
    turnlog runs team.db
    """
    screen = Screen(as_json=as_json)
    with reading(db) as log:
        found = log.runs()
        if as_json:
            for info in found:
                screen.record(_run_record(log, info))
            return
        columns = [
            Column("run", cut=True, style="bold"),
            Column("turn", right=True),
            Column("revision", right=True),
            Column("entries", right=True),
            Column("created (UTC)", spare=True, style="dim"),
            Column("newest (UTC)", spare=True, style="dim"),
            Column("forked from", cut=True),
        ]
        screen.table(columns, (_run_row(screen, log, info) for info in found))
        if not found:
            screen.title("no runs yet: nothing was ever written to it")


@click.command(short_help="The turns of a run, and what happened in each.")
@database_argument
@run_option
@json_option
def turns(db: str, run: str | None, as_json: bool) -> None:
    """List the visits of a run: each stretch it spent at one turn, oldest first, with its events.

    A restore can lead back to a turn, which is then visited again; the first column is the address of the end
    of each visit.

    \b
    turnlog turns team.db
    turnlog state team.db --at 3.1
    """
    screen = Screen(as_json=as_json)
    with reading(db) as log:
        visits = chosen_timeline(log, run).turns()
    if as_json:
        for visit in visits:
            screen.record(_visit_record(visit))
        return
    columns = [
        Column("at", right=True, style="cyan"),
        Column("events", right=True),
        Column("from", right=True),
        Column("to", right=True),
        Column("began (UTC)", spare=True, style="dim"),
        Column("ended (UTC)", spare=True, style="dim"),
    ]
    screen.table(
        columns,
        (
            [
                visit.address,
                f"{visit.events:,}",
                f"@{visit.first_position}" if visit.events else None,
                f"@{visit.last_position}" if visit.events else None,
                screen.time(visit.began_at),
                screen.time(visit.ended_at),
            ]
            for visit in visits
        ),
    )


@click.command(short_help="One event, whole.")
@database_argument
@click.argument("position", metavar="@P")
@json_option
def show(db: str, position: str, as_json: bool) -> None:
    """Show everything the log has of the event at a position.

    \b
    turnlog show team.db @120
    """
    match = _POSITION.fullmatch(position)
    if match is None:
        raise Refused(f"{position!r} is no position; write it like @120")
    screen = Screen(as_json=as_json)
    with reading(db) as log:
        recorded = _event_at(log, int(match[1]))
        record = _whole(recorded)
        if as_json:
            screen.record(record)
            return
        from .cli_records import Places, event_text

        text = event_text(recorded, Places(log))
        record |= {"value": text} if record["value"] is not None else {"what": text}
    _print_fields(screen, record)


def _visit_record(visit: Visit) -> dict[str, object]:
    from .cli_text import iso_time

    return {
        "turn": visit.turn,
        "visit": visit.visit,
        "address": visit.address,
        "events": visit.events,
        "first_position": visit.first_position,
        "last_position": visit.last_position,
        "began_at": visit.began_at and iso_time(visit.began_at),
        "ended_at": visit.ended_at and iso_time(visit.ended_at),
    }


def _run_record(log: EventLog, info: RunInfo) -> dict[str, object]:
    from ..eventlog.events import moment
    from .cli_text import iso_time

    return {
        "run": info.run.name,
        "turn": info.head.turn,
        "revision": info.head.revision,
        "entries": _count_entries(log, info),
        "created_at": iso_time(moment(info.run.created_at)),
        "parent": info.parent,
    }


def _run_row(screen: Screen, log: EventLog, info: RunInfo) -> Row:
    from ..eventlog.events import moment

    return [
        info.run.name,
        str(info.head.turn),
        str(info.head.revision),
        f"{_count_entries(log, info):,}",
        screen.time(moment(info.run.created_at)),
        screen.time(moment(info.head.recorded_at_ms)),
        None if info.parent is None else f"{info.parent}, revision {info.run.fork_revision}",
    ]


def _count_entries(log: EventLog, info: RunInfo) -> int:
    """How many entries agents of the run see now; their values are not read."""
    from ..eventlog.history import entries_at
    from .state import is_visible

    with log.reading() as db:
        entries = entries_at(db, log.lineage(info.run.name), info.head.revision)
    return sum(is_visible(entry, info.head.turn) for entry in entries)


def _event_at(log: EventLog, position: int) -> Recorded:
    if position > 0:
        for recorded in log.read(after=position - 1, limit=1):
            if recorded.position == position:
                return recorded
    newest = next((each.position for each in log.read(reverse=True, limit=1)), 0)
    raise Refused(f"{log.path} has no event at position {position}; its positions go from 1 to {newest}")


def _whole(recorded: Recorded) -> dict[str, object]:
    from ..eventlog import WriteRefused
    from .cli_records import event_record

    record = event_record(recorded)
    record |= {"batch_offset": recorded.batch, "idempotency_key": recorded.idempotency_key}
    if isinstance(recorded.event, WriteRefused):
        attempt = recorded.event.attempt
        record["attempt"] = {"digest": attempt.digest.hex(), "salt": attempt.salt and attempt.salt.hex()}
    return record


def _print_fields(screen: Screen, fields: dict[str, object]) -> None:
    from .cli_text import json_line

    flat: dict[str, object] = {}
    for name, value in fields.items():
        if name in ("detail", "attempt") and isinstance(value, dict):
            flat |= value
        else:
            flat[name] = value
    width = max(map(len, flat))
    for name, value in flat.items():
        if value is not None:
            text = value if isinstance(value, str) else json_line(value)
            screen.say(f"{name:<{width}}  {text}")
