"""`turnlog export, import`: runs out of a file and into another, to the same hashes."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from .cli_log import newest_position
from .cli_options import Refused, change_done, database_argument, exact_text, json_option, reading, writing
from .cli_output import Screen
from .cli_progress import progress
from .cli_text import counted

if TYPE_CHECKING:
    from ..eventlog import EventLog

__all__ = ["export", "import_"]

_STEP = 256
_SQLITE = b"SQLite format 3\0"


@click.command(short_help="The runs as JSON lines, to standard output or a file.")
@database_argument
@click.option("--run", metavar="RUN", callback=exact_text, help="Only this run and those it was forked from.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write here, - being standard output; appears when it is complete.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there already (but never a database).")
def export(db: str, run: str | None, output: Path | None, force: bool) -> None:
    """Write every event as JSON lines in UTF-8, from which `turnlog import` makes the same log again.

    \b
    turnlog export team.db -o team.jsonl
    turnlog export team.db --run trip-42 | gzip > trip-42.jsonl.gz
    """
    from ..eventlog.export import export_lines

    if output == Path("-"):
        output = None
    if output is not None:
        _refuse_taken(output, Path(db), force=force)
    with reading(db) as log:
        lines = export_lines(log, run)
        with _target(output) as target, progress("exporting", _size(log, run)) as done:
            for count, line in enumerate(lines):
                target.write(line.encode("utf-8") + b"\n")
                if done is not None and count % _STEP == 0:
                    done(count)


@click.command("import", short_help="The runs of an export into a file.")
@database_argument
@click.argument("source", metavar="[FILE|-]", default="-")
@click.option(
    "--run",
    metavar="RUN",
    callback=exact_text,
    help="Only this run of the export, with those it was forked from.",
)
@json_option
def import_(db: str, source: str, run: str | None, as_json: bool) -> None:
    """Take in what `turnlog export` wrote, all or nothing, checking every hash; makes DB if it is missing.

    Without FILE, or for -, the export is read from standard input. A log that has runs already takes in one
    more with --run.

    \b
    turnlog import copy.db team.jsonl
    turnlog export a.db --run trip-42 | turnlog import b.db --run trip-42
    """
    from ..eventlog.intake import import_lines

    screen = Screen(as_json=as_json)
    with _source(source) as (name, size, stream):
        lines = _checked(name, stream)
        with (
            _receiver(Path(db)) as path,
            writing(str(path), create=True) as log,
            progress("importing", size) as done,
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("always", UserWarning)
            names = import_lines(log, _counted(lines, done), run)
            heads = [(name, log.head(name)) for name in names]
    change_done(f"{counted(len(heads), 'run', 'runs')} taken in")
    for warning in warned:
        click.echo(f"warning: {warning.message}", err=True)
    for name, head in heads:
        if head is None:
            continue
        if as_json:
            fields = {"run": name, "revision": head.revision, "turn": head.turn, "hash": head.hash.hex()}
            screen.record(fields)
        else:
            screen.say(f"run {name}: up to revision {head.revision:,}, turn {head.turn}; every hash holds")


@contextmanager
def _receiver(target: Path) -> Generator[Path]:
    """Where to import to: the log, or if there is none a file that takes its name once it is complete."""
    from ..eventlog.files import companions, draft_for

    if target.exists() or target.is_symlink() or not target.parent.is_dir():
        yield target
        return
    for left in companions(target):
        if left.exists():  # SQLite would take it for this file's, and play it back over what was imported
            raise Refused(
                f"{left} was left by another file of that name; move it away first. Nothing was imported"
            )
    with draft_for(target) as draft:
        yield draft
        try:
            os.link(draft, target)  # unlike a renaming, this never takes the place of another file
        except FileExistsError as error:
            raise Refused(f"{target} was made by somebody else meanwhile; nothing was imported") from error


def _size(log: EventLog, run: str | None) -> int:
    """About how many lines an export will have."""
    if run is None:
        return newest_position(log)
    head = log.head(run)
    return 0 if head is None else head.revision


def _refuse_taken(output: Path, db: Path, *, force: bool) -> None:
    """Refuse to write over what may be somebody's memory, or somebody's work."""
    from ..eventlog.files import belongs_to

    if belongs_to(output, db):  # and must not be opened but by SQLite
        raise Refused(f"{output} belongs to the log itself; choose another file for the export")
    if not output.is_file():
        return
    with output.open("rb") as there:
        if there.read(len(_SQLITE)) == _SQLITE:
            raise Refused(f"{output} is a SQLite database, maybe another log; choose another file")
    if not force:
        raise Refused(f"{output} is there already; choose another file, or give --force to replace it")


@contextmanager
def _target(output: Path | None) -> Generator[IO[bytes]]:
    """Where to write: standard output, or a file that appears under its name only once it is complete."""
    from ..eventlog.files import draft_for

    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if output.exists() and not stat.S_ISREG(output.stat().st_mode):  # a device or a named pipe
        with output.open("wb") as target:
            yield target
        return
    # As private as a log, unless somebody has opened the file that this replaces to others.
    mode = stat.S_IMODE(output.stat().st_mode) if output.exists() else 0o600
    with draft_for(output) as draft:
        with draft.open("wb") as target:
            yield target
            target.flush()
            os.fchmod(target.fileno(), mode)
            os.fsync(target.fileno())
        draft.replace(output)


@contextmanager
def _source(source: str) -> Generator[tuple[str, int, IO[bytes]]]:
    """Name, size in bytes (0 if unknown) and bytes of the export."""
    if source == "-":
        if sys.stdin.isatty():
            raise click.UsageError("give the FILE to import, or send an export to standard input")
        yield "standard input", 0, sys.stdin.buffer
        return
    path = Path(source)
    with path.open("rb") as stream:
        yield source, path.stat().st_size, stream


def _checked(name: str, stream: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, once the first has shown that they may be an export: nothing is made for anything else."""
    lines = iter(stream)
    first = next(lines, b"")
    if b"turnlog-export" not in first[:1000]:
        raise Refused(
            f"{name} is no export of turnlog: its first line must be the header; nothing was imported"
        )
    return chain([first], lines)


def _counted(lines: Iterable[bytes], done: Callable[[int], None] | None) -> Iterator[str]:
    """The lines as text, counted in bytes."""
    read = 0
    for number, line in enumerate(lines, start=1):
        read += len(line)
        if done is not None and number % _STEP == 0:
            done(read)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(f"line {number}: it is not UTF-8; nothing was imported") from error
