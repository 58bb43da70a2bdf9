"""`turnlog verify, anchor, doctor`: is the log what it was, and is all well around it. Exit code 1 if not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from .cli_log import newest_position
from .cli_options import database_argument, json_option, reading, verdict
from .cli_output import Column, Screen
from .cli_progress import progress
from .cli_text import counted

if TYPE_CHECKING:
    from .verification import Verification

__all__ = ["anchor", "doctor", "verify"]

_STYLES = {"fine": "", "warning": "yellow", "wrong": "bold red"}


@click.command(short_help="Check every hash, table and guard; a log against its anchor.")
@database_argument
@click.option("--anchor", metavar="FILE", help="Hold the log against this file, made by `turnlog anchor`.")
@json_option
def verify(db: str, anchor: str | None, as_json: bool) -> None:
    """Check a file from its first event: SQLite's own integrity, every hash, the tables and their guards, and
    the live table against the log. Names the first position that is wrong, and what.

    A log whose newest events were cut off, that was made anew, or that was replaced by an older copy is in
    order in itself: only --anchor notices. Prints the head of each run. Exits with 1 if anything is wrong.

    \b
    turnlog verify team.db
    turnlog verify team.db --anchor /mnt/safe/team.anchor
    """
    from .verification import verify as check

    screen = Screen(as_json=as_json)
    with reading(db) as log, progress("verifying", newest_position(log)) as done:
        found = check(log, anchor=anchor, progress=done)
    with verdict(ok=found.ok):
        if as_json:
            screen.record(_verification_record(found))
            return
        columns = [
            Column("run", cut=True, style="bold"),
            Column("turn", right=True),
            Column("revision", right=True),
            Column("head", style="cyan"),
        ]
        heads = ([head.run, str(head.turn), str(head.revision), head.hash.hex()] for head in found.heads)
        screen.table(columns, heads)
        for problem in found.problems:
            screen.say(str(problem), "red")
        if found.ok:
            events = counted(found.events, "event", "events")
            runs = counted(len(found.heads), "run", "runs")
            redacted = f"; {found.redacted:,} redacted" if found.redacted else ""
            screen.say(f"{events} in {runs}: everything holds{redacted}", "green")
        if found.ok and found.anchor is not None:
            since = found.events - found.anchor.events
            screen.say(
                f"it went on from anchor {found.anchor.counter} of {found.anchor.anchored_at}, with "
                f"{counted(since, 'event', 'events')} since"
            )


@click.command(short_help="Note the heads of all runs in a file kept elsewhere.")
@database_argument
@click.argument("file")
@json_option
def anchor(db: str, file: str, as_json: bool) -> None:
    """Append to FILE how far the log has come: the newest event of each run, and the order of all events.

    Keep FILE where whoever can write the log cannot write it. `turnlog verify DB --anchor FILE` then notices
    if the end of the log was cut off, its runs were made anew, or an older copy of it was put back. A log
    that contradicts FILE is not anchored, and the exit code is 1. The format is in docs/format.md.

    \b
    turnlog anchor team.db /mnt/safe/team.anchor
    """
    from ..eventlog import BadAnchor
    from .anchoring import anchor as append
    from .anchors import line_of

    screen = Screen(as_json=as_json)
    with reading(db) as log:
        try:
            made = append(log, file)
        except BadAnchor as error:
            screen.note(str(error))
            raise click.exceptions.Exit(1) from error
    if as_json:
        screen.record(json.loads(line_of(made)))
        return
    events, runs = counted(made.events, "event", "events"), counted(len(made.heads), "run", "runs")
    screen.say(f"anchor {made.counter}: {events} in {runs}")


@click.command(short_help="The SQLite, the settings and the file around a log.")
@database_argument
@json_option
def doctor(db: str, as_json: bool) -> None:
    """Look at what surrounds a log: which SQLite reads it and whether that has known faults, how durable a
    commit is, the file's size and permissions, its tables and guards, and whether its live table is in step.

    Exits with 1 if anything is wrong; a warning is not. `turnlog verify` checks the events themselves.

    \b
    turnlog doctor team.db
    """
    from .doctor import examine

    screen = Screen(as_json=as_json)
    with reading(db) as log:
        found = list(examine(log))
    with verdict(ok=all(finding.level != "wrong" for finding in found)):
        if as_json:
            for finding in found:
                screen.record(
                    {
                        "what": finding.what,
                        "level": finding.level,
                        "value": finding.value,
                        "advice": finding.advice or None,
                    }
                )
            return
        width = max(len(finding.what) for finding in found)
        for finding in found:
            mark = "" if finding.level == "fine" else f"{finding.level.upper()}: "
            screen.say(f"{finding.what:<{width}}  {mark}{finding.value}", _STYLES[finding.level])
            if finding.advice:
                screen.say(f"{'':<{width}}  {finding.advice}")


def _verification_record(found: Verification) -> dict[str, object]:
    anchored = found.anchor
    against: dict[str, object] = (
        {}
        if anchored is None
        else {
            "anchor": {
                "counter": anchored.counter,
                "anchored_at": anchored.anchored_at,
                "events": anchored.events,
            }
        }
    )
    return against | {
        "ok": found.ok,
        "events": found.events,
        "redacted": found.redacted,
        "heads": [
            {
                "run": head.run,
                "uid": head.uid,
                "revision": head.revision,
                "turn": head.turn,
                "hash": head.hash.hex(),
            }
            for head in found.heads
        ],
        "problems": [
            {"position": problem.position, "run": problem.run, "what": problem.what}
            for problem in found.problems
        ],
    }
