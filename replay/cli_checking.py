"""`turnlog verify, doctor`: is the log what it was, and is all well around it. Exit code 1 if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .cli_log import newest_position
from .cli_options import database_argument, json_option, reading, verdict
from .cli_output import Column, Screen
from .cli_progress import progress
from .cli_text import counted

if TYPE_CHECKING:
    from .verification import Verification

__all__ = ["doctor", "verify"]

_STYLES = {"fine": "", "warning": "yellow", "wrong": "bold red"}


@click.command(short_help="Check every hash, and the live table against the log.")
@database_argument
@json_option
def verify(db: str, as_json: bool) -> None:
    """Check a file from its first event: SQLite's own integrity, every hash, and the live table.

    Prints the head of each run. Whoever keeps those elsewhere can tell later whether the past was altered: a
    file whose end was cut off, or that was made anew, is in order in itself. Exits with 1 if anything is
    wrong.

    \b
    turnlog verify team.db
    """
    from .verification import verify as check

    screen = Screen(as_json=as_json)
    with reading(db) as log, progress("verifying", newest_position(log)) as done:
        found = check(log, progress=done)
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
            screen.say(f"{events} in {runs}: everything holds", "green")


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
    return {
        "ok": found.ok,
        "events": found.events,
        "heads": [
            {"run": head.run, "revision": head.revision, "turn": head.turn, "hash": head.hash.hex()}
            for head in found.heads
        ],
        "problems": [
            {"position": problem.position, "run": problem.run, "what": problem.what}
            for problem in found.problems
        ],
    }
