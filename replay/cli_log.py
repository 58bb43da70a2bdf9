"""`turnlog log`: the events of a file, as they were or as they come."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from .cli_options import (
    Refused,
    any_run_option,
    chosen_timeline,
    database_argument,
    exact_text,
    json_option,
    reading,
)
from .cli_output import PAGE, Cell, Column, Row, Screen, Sheet

if TYPE_CHECKING:
    from ..eventlog import Event, EventLog, Recorded

__all__ = ["Wanted", "log"]

_POLL_S = 0.2
_POSITION = re.compile(r"@\d{1,18}", re.ASCII)

_STYLES = {
    "EntryDeleted": "red",
    "WriteRefused": "yellow",
    "EntryRestored": "magenta",
    "Restored": "magenta",
    "Redacted": "red",
}

_NEWEST = "select coalesce(max(position), 0) from events"


def event_type(ctx: click.Context, param: click.Parameter, value: str | None) -> type[Event] | None:
    """The class of event that is called so, in any case of letters."""
    from ..eventlog.codec import CODES

    if value is None:
        return None
    known = {kind.__name__.lower(): kind for kind in CODES}
    if value.lower() not in known:
        names = ", ".join(kind.__name__ for kind in CODES)
        raise click.BadParameter(f"{value!r} is none of {names}", ctx, param)
    return known[value.lower()]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events were asked for."""

    run: str | None
    agent: str | None
    key: str | None
    type: type[Event] | None

    def read(self, log: EventLog, **bounds: Any) -> Iterator[Recorded]:
        """Those between the bounds; see `EventLog.read`."""
        return log.read(run=self.run, agent=self.agent, key=self.key, type=self.type, **bounds)

    def follow(self, log: EventLog, after: int) -> Iterator[list[Recorded]]:
        """Those behind position `after` and then every one that comes, each once, in pages; without end.

        An empty page means that nothing is left for now.
        """
        while True:
            newest = newest_position(log)
            # Not by run: that would go through the whole run, where this only touches what is new.
            found = (
                log.read(after=after, agent=self.agent, key=self.key, type=self.type)
                if newest > after
                else iter(())
            )
            coming = (each for each in found if self.run in (None, each.run))
            while page := [each for each in islice(coming, PAGE) if each.position <= newest]:
                yield page
            after = newest
            yield []


@click.command(short_help="The events, oldest first; --follow goes on as they come.")
@database_argument
@any_run_option
@click.option("--last", metavar="N", type=click.IntRange(min=0), help="Only the newest N of them.")
@click.option("--agent", metavar="NAME", callback=exact_text, help="Only what this agent did.")
@click.option("--key", metavar="KEY", callback=exact_text, help="Only what happened to this key.")
@click.option("--type", "kind", metavar="TYPE", callback=event_type, help="Only this type of event.")
@click.option("--since", metavar="A", help="Only what came after this point or UTC time.")
@click.option("--follow", is_flag=True, help="Go on with new events as they are committed, until Ctrl-C.")
@json_option
def log(
    db: str,
    run: str | None,
    last: int | None,
    agent: str | None,
    key: str | None,
    kind: type[Event] | None,
    since: str | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Show the events of a file, oldest first, of all its runs or of one.

    A fork's own events begin with RunForked; what it inherited is in its parent's.

    \b
    turnlog log team.db --last 20
    turnlog log team.db --since 3 --agent writer    what writer did after turn 3
    turnlog log team.db --type WriteRefused --json
    turnlog log team.db --follow

    TYPE is EntryWritten, EntryDeleted, EntryRestored, WriteRefused, TurnAdvanced, TurnSet, Restored,
    RunForked, NothingChanged or Redacted.
    """
    screen = Screen(as_json=as_json)
    with reading(db) as events:
        wanted = Wanted(run and events.lineage(run).run.name, agent, key, kind)
        after = 0 if since is None else _position_before(events, run, since)
        newest = newest_position(events)
        printer = _Printer(screen, events, one_run=run is not None)
        if last is not None:
            found = reversed(list(wanted.read(events, after=after, reverse=True, limit=last)))
        else:
            found = wanted.read(events, after=after)
        while page := list(islice(found, PAGE)):
            printer.print(page)
            newest = max(newest, page[-1].position)
        if follow:
            screen.flush()
            for page in wanted.follow(events, newest):
                if page:
                    printer.print(page)
                else:
                    screen.flush()
                    _wait(screen)
        elif not printer.count:
            screen.title("no such events")


def newest_position(log: EventLog) -> int:
    """The position of the newest event of the file; 0 if it has none."""
    with log.reading() as db:
        return db.execute(_NEWEST).fetchone()[0]


class _Printer:
    """Prints events as rows or as JSON lines."""

    def __init__(self, screen: Screen, log: EventLog, *, one_run: bool) -> None:
        from .cli_records import Places

        one_run = one_run or len(log.runs()) < 2
        columns = [
            Column("at", right=True, style="cyan"),
            Column("time (UTC)", spare=True, style="dim"),
            Column("turn", right=True),
        ]
        if not one_run:
            columns.append(Column("run", cut=True))
        columns += [
            Column("event"),
            Column("agent", cut=True),
            Column("key", cut=True, style="bold"),
            Column("value", cut=True),
        ]
        self._screen = screen
        self._one_run = one_run
        self._places = Places(log)
        self._sheet = Sheet(screen, columns)
        self.count = 0

    def print(self, page: Sequence[Recorded]) -> None:
        from .cli_records import event_record

        self.count += len(page)
        if self._screen.as_json:
            for recorded in page:
                self._screen.record(event_record(recorded))
        else:
            self._sheet.add([self._row(recorded) for recorded in page])

    def _row(self, recorded: Recorded) -> Row:
        from .cli_records import event_text

        kind = type(recorded.event).__name__
        row: list[str | Cell | None] = [
            f"@{recorded.position}",
            self._screen.time(recorded.recorded_at),
            str(recorded.turn),
        ]
        if not self._one_run:
            row.append(recorded.run)
        key: str | None = getattr(recorded.event, "key", None)
        row += [
            Cell(kind, _STYLES.get(kind, "")),
            recorded.agent,
            key,
            event_text(recorded, self._places),
        ]
        return row


def _position_before(log: EventLog, run: str | None, since: str) -> int:
    """The position after which `since` begins."""
    if _POSITION.fullmatch(since):
        return int(since[1:])
    try:
        when = datetime.fromisoformat(since) if "-" in since else None
    except ValueError:
        when = None
    if when is None:
        return chosen_timeline(log, run).point(at=since).position
    if when.tzinfo is None:
        raise Refused(f"{since!r} names no zone; write a UTC time like 2026-11-30T02:13Z")
    return next((each.position for each in log.read(run=run, reverse=True) if each.recorded_at <= when), 0)


def _wait(screen: Screen) -> None:
    """Let a moment pass; `BrokenPipeError` if by then nobody reads any longer."""
    time.sleep(_POLL_S)
    screen.check_reader()
