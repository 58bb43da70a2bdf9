"""The command line, `turnlog`: its verbs, and how it ends.

Exit codes: 0 fine (also for a diff with differences), 1 a check found something wrong (`verify`, `anchor`,
`doctor`) or nothing (`bisect`), 2 usage or unreadable input, 130 after Ctrl-C, 143 after SIGTERM. Whatever
goes wrong is one line on standard error. Help must be quick, so rich, pydantic and sqlite_utils are imported
where they are used.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from .cli_changing import fork, restore
from .cli_checking import anchor, doctor, verify
from .cli_history import bisect, blame, diff, history
from .cli_keeping import backup, rebuild, sweep
from .cli_log import log
from .cli_options import Refused, done_already
from .cli_reading import runs, show, turns
from .cli_redacting import redact
from .cli_state import get, state
from .cli_text import escaped
from .cli_transfer import export, import_

__all__ = ["CommandLine", "Failure", "end_on_signals", "turnlog"]


@click.command(short_help="Let a team of agents work on real files, and look into its memory.")
@click.argument("folder", required=False)
@click.option("--db", metavar="FILE", help="Where to keep the log.")
def demo(folder: str | None, db: str | None) -> None:
    """Let a team of agents, without any model, survey the Python files of FOLDER, then look into its memory.

    FOLDER is by default a package of Python's own standard library. Takes under ten seconds.

    \b
    turnlog demo
    turnlog demo src --db survey.db
    """
    from .demo import main

    main(folder, db)


_SECTIONS: dict[str, list[click.Command]] = {
    "See what is there, now or then": [runs, turns, state, get, log, show],
    "Find out what happened": [diff, history, blame, bisect],
    "Go back, or try something else": [restore, fork],
    "Check": [verify, anchor, doctor],
    "Keep": [backup, rebuild, sweep],
    "Take secrets out": [redact],
    "Move": [export, import_],
    "Try": [demo],
}


class CommandLine(click.Group):
    """The group of all verbs: help in sections, and one way to end for each kind of failure."""

    def add_section(self, title: str, commands: list[click.Command]) -> None:
        """Add the verbs of a layer above, which cannot be known here."""
        _SECTIONS[title] = commands
        for command in commands:
            self.add_command(command)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The verbs, in the order of the sections."""
        return [command.name or "" for commands in _SECTIONS.values() for command in commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The verbs with a line each, section by section."""
        width = max(map(len, self.commands))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{command.name or '':<{width}}", command.get_short_help_str(limit=100))
                        for command in commands
                    ]
                )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What stands before the verb."""
        if not args:  # help is shown
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _usage(error, ctx) from error

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """What stands before the verb is read here, and help printed."""
        with _failures():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; whatever it raises becomes a line on standard error and an exit code."""
        with _failures():
            if getattr(sys, "stdout", None) is None:
                raise Failure("standard output is closed; there is nowhere to print to")
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                raise _usage(error, ctx) from error
            finally:
                sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told


@contextmanager
def _failures() -> Generator[None]:
    """One way to end for each kind of failure in the block."""
    try:
        yield
    except (click.exceptions.Exit, Failure):
        raise
    except Refused as error:
        raise Failure(error.message) from error
    except json.JSONDecodeError as error:
        raise Failure(
            f"the file holds JSON that cannot be read ({error}); `turnlog verify` finds where"
        ) from error
    except (OverflowError, RecursionError) as error:
        raise Failure(
            f"the file holds something that cannot be shown ({error}); `turnlog verify` finds where"
        ) from error
    except BrokenPipeError as error:
        _forget_output()
        before = error.__context__
        raise click.exceptions.Exit(
            before.exit_code if isinstance(before, click.exceptions.Exit) else 0
        ) from None
    except OSError as error:
        _forget_output()
        name = error.filename or "the output could not be written"
        done = done_already()
        but = "" if done is None else f", but it was done: {done}"
        raise Failure(f"{name}: {error.strerror or error}{but}") from error
    except KeyboardInterrupt:
        _forget_output()
        raise click.exceptions.Exit(130) from None
    except Exception as error:
        from ..eventlog import TurnlogError

        if isinstance(error, TurnlogError):
            raise Failure(str(error)) from error
        raise


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end the process in good order: what was begun is removed; exit code 128 + n."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # else somebody has it ignored, as nohup does
            signal.signal(number, _end)


def _end(number: int, _: object) -> NoReturn:
    _forget_output()  # a reader who does not read would else hold up the end
    sys.exit(128 + number)


class Failure(click.ClickException):
    """How every failure is shown: one line, nothing in it that a terminal would act on."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        """Print it to standard error."""
        click.echo(f"turnlog: {escaped(self.message)}", file=file, err=True)


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="turnlog", message="turnlog %(version)s")
def turnlog() -> None:
    """Shared memory of a team of AI agents, event by event: replay it to any turn, see who wrote what.

    \b
    A point of the past (A, B, --at) is
      3                   the end of the latest visit to turn 3
      3.1                 the end of the first visit to turn 3
      @120                right after the event at position 120
      head                now
      2026-11-30T02:13Z   after the newest event recorded by then (UTC)

    A KEY is whole: agent, slash, the agent's own key (writer/draft).

    What a verb shows are tables on a terminal, plain aligned text in a pipe, and with --json one JSON object
    per line (all verbs but export and demo have it). Times are UTC. Control characters are shown as escapes.
    Reading a log never changes it, but can leave an empty FILE-wal and a FILE-shm beside it, as SQLite does.
    """


for _commands in _SECTIONS.values():
    for _command in _commands:
        turnlog.add_command(_command)


def _usage(error: click.UsageError, ctx: click.Context) -> Failure:
    """A mistake in what was typed, with where to read how it is meant."""
    verb = ctx.command_path if error.ctx is None else error.ctx.command_path
    said = error.format_message().rstrip(".")
    return Failure(f"{said}{'' if said.endswith('?') else '.'} Try `{verb} --help`.")


def _forget_output() -> None:
    """Let nothing more go to standard output, not even what Python flushes when it ends."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # it is no file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
