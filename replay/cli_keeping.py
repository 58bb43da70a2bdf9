"""`turnlog backup, rebuild, sweep`: what keeps a log in good order over a long time."""

from __future__ import annotations

from pathlib import Path

import click

from .cli_options import (
    any_run_option,
    asking,
    change_done,
    database_argument,
    json_option,
    reading,
    who_option,
    writing,
)
from .cli_output import Screen
from .cli_progress import progress
from .cli_text import counted

__all__ = ["backup", "rebuild", "sweep"]


@click.command(short_help="A whole, verified copy, while others go on writing.")
@database_argument
@click.argument("out", type=click.Path(path_type=Path))
@json_option
def backup(db: str, out: Path, as_json: bool) -> None:
    """Copy the log to OUT, which must not exist, as it is at this moment; others go on reading and writing.

    OUT appears, private (0600) and flushed, only once it is whole and has been verified against the log. An
    interrupted backup leaves no OUT; after a kill -9 there may be an OUT.partial-PROCESS-RANDOM, which is
    named by the next backup to OUT, and not removed, since it could be that of a backup under way.
    Never copy a log that is in use with cp: what is in its -wal file would be missing.

    \b
    turnlog backup team.db team-monday.db
    """
    from ..eventlog.files import drafts_of
    from .backups import backup as copy

    screen = Screen(as_json=as_json)
    with reading(db) as log:
        with log.reading() as connection:
            (pages,) = connection.execute("pragma page_count").fetchone()
        with progress("backing up", pages) as done:
            found = copy(log, out, progress=None if done is None else lambda copied, _: done(copied))
    for left in drafts_of(out):
        click.echo(
            f"warning: {left} is the draft of a copy; if no backup is under way there, remove it", err=True
        )
    if as_json:
        heads = [
            {"run": head.run, "uid": head.uid, "revision": head.revision, "hash": head.hash.hex()}
            for head in found.heads
        ]
        screen.record({"path": str(out), "events": found.events, "heads": heads})
        return
    events, runs = counted(found.events, "event", "events"), counted(len(found.heads), "run", "runs")
    screen.say(f"{out}: {events} in {runs}, verified")


@click.command(short_help="Make the live tables anew from the events.")
@database_argument
@click.argument("projection", required=False)
@json_option
def rebuild(db: str, projection: str | None, as_json: bool) -> None:
    """Fold every event again into the tables that stores read; others go on reading and writing meanwhile.

    Mends a table that was altered, emptied or dropped, also for programs that have the log open. Events are
    not touched. PROJECTION is by default every one there is (`entries`).

    \b
    turnlog rebuild team.db
    """
    from ..projections import rebuild as make_anew

    screen = Screen(as_json=as_json)
    with writing(db) as log, progress("folding", len(log.runs())) as done:
        names = make_anew(log, projection, progress=done)
    for name in names:
        if as_json:
            screen.record({"projection": name})
        else:
            screen.say(f"{name} was made anew")


@click.command(short_help="Delete the entries that have expired.")
@database_argument
@any_run_option
@who_option
@json_option
def sweep(db: str, run: str | None, who: str | None, as_json: bool) -> None:
    """Append a deletion for every entry that has expired at its run's present turn: of all runs, or of --run.

    Agents see the same as before, and the history keeps what was there; but setting a run's turn back no
    longer shows it again.

    \b
    turnlog sweep team.db --as janitor
    """
    from .sweeping import sweep as delete_expired

    screen = Screen(as_json=as_json)
    with writing(db) as log, asking():
        swept = delete_expired(log, run, agent=who)
    change_done(f"{counted(sum(swept.values()), 'entry', 'entries')} deleted")
    for name, number in swept.items():
        if as_json:
            screen.record({"run": name, "deleted": number})
        else:
            screen.say(f"run {name}: {counted(number, 'entry', 'entries')} deleted")
