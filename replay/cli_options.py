"""What the verbs of the command line share: their arguments and options, and how they open a log."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..eventlog import EventLog
    from .timeline import Timeline

__all__ = [
    "WHO",
    "Refused",
    "any_run_option",
    "asking",
    "at_option",
    "change_done",
    "chosen_run",
    "chosen_timeline",
    "database_argument",
    "done_already",
    "exact_text",
    "json_option",
    "key_argument",
    "reading",
    "run_option",
    "verdict",
    "who_option",
    "writing",
]

_DONE = f"{__name__}.done"
_AS_IT_LIES = "the log is read as it lies, without locks; what is written meanwhile is not seen"
_HALVES = re.compile("[\ud800-\udfff]")


class Refused(click.ClickException):
    """What was asked for cannot be done; said in one line on standard error."""

    exit_code = 2


def exact_text(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Any text, half an emoji included, which a shell gives as its bytes (in bash: `$'\\xed\\xa0\\xbd'`)."""
    if value is None or not _HALVES.search(value):
        return value
    try:
        return os.fsencode(value).decode("utf-8", "surrogatepass")
    except UnicodeEncodeError:  # from a program in this process: it is text already
        return value
    except UnicodeDecodeError as error:
        raise click.BadParameter("it is not UTF-8", ctx, param) from error


database_argument = click.argument("db")
key_argument = click.argument("key", callback=exact_text)
run_option = click.option(
    "--run",
    metavar="RUN",
    callback=exact_text,
    help="Which run; may be left out where the file has only one.",
)
any_run_option = click.option(
    "--run", metavar="RUN", callback=exact_text, help="Only this run; left out, all of them."
)
at_option = click.option(
    "--at",
    metavar="A",
    help="When: a turn (3), a visit (3.1), a position (@120), head, or a UTC time (2026-11-30T02:13Z); "
    "left out, now.",
)
WHO = "Who asks for it: any name, kept in the history."
who_option = click.option("--as", "who", metavar="WHO", callback=exact_text, help=WHO)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")


@contextmanager
def reading(path: str) -> Generator[EventLog]:
    """The log at `path`, opened so that not a byte of it can change."""
    from ..eventlog import EventLog
    from ..projections import EntriesProjection

    with asking():
        log = EventLog(path, projections=(EntriesProjection(),), read_only=True)
    if log.as_it_lies:
        click.echo(f"turnlog: {_AS_IT_LIES}", err=True)
    with log:
        yield log


@contextmanager
def writing(path: str, *, create: bool = False) -> Generator[EventLog]:
    """The log at `path`, opened to append to; made only if `create`."""
    from ..eventlog import EventLog
    from ..projections import EntriesProjection

    with asking():
        log = EventLog(path, projections=(EntriesProjection(),), create=create)
    with log:
        yield log


@contextmanager
def asking() -> Generator[None]:
    """Around a call that takes what the user typed: a `TypeError` or `ValueError` is about that."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Refused(str(error)) from error


def change_done(what: str) -> None:
    """Note that the verb has changed the log, to be told if its output cannot be written."""
    click.get_current_context().meta[_DONE] = what


def done_already() -> str | None:
    """What the verb has changed so far."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_DONE)


@contextmanager
def verdict(*, ok: bool) -> Generator[None]:
    """Around the printing of what a check found: the exit code is 1 unless `ok`, even if nobody reads it."""
    try:
        yield
    except BrokenPipeError:
        if ok:
            raise
    if not ok:
        raise click.exceptions.Exit(1)


def chosen_run(log: EventLog, run: str | None) -> str:
    """The run to work on: the one asked for, else the only one there is.

    Raises:
        NotFound: there is no such run; lists those there are.
        Refused: there are several, listed, or none.
    """
    if run is not None:
        return log.lineage(run).run.name
    names = [info.run.name for info in log.runs()]
    if len(names) == 1:
        return names[0]
    if not names:
        raise Refused(f"{log.path} has no runs yet: nothing was ever written to it")
    shown = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise Refused(f"{log.path} has {len(names)} runs; choose one with --run: {shown}")


def chosen_timeline(log: EventLog, run: str | None) -> Timeline:
    """The timeline of `chosen_run`."""
    from .timeline import Timeline

    return Timeline(log, chosen_run(log, run))
