"""`turnlog redact`: erasing texts from the past for good."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .cli_options import (
    WHO,
    Refused,
    asking,
    change_done,
    database_argument,
    exact_text,
    json_option,
    verdict,
    writing,
)
from .cli_output import Screen
from .cli_text import counted

if TYPE_CHECKING:
    from .redaction import Receipt

__all__ = ["redact"]

_SHOWN = 10
_NOT_REACHED = "backups, exports, other copies of the file, and what was read from it before"


def _number(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A position, with or without the @ that it has in addresses."""
    return None if value is None else click.IntRange(min=1)(value.removeprefix("@"), param, ctx)


@click.command(short_help="Erase texts for good, leaving proof that they were there.")
@database_argument
@click.option("--position", metavar="P", callback=_number, help="The text of this one event: 120 or @120.")
@click.option("--key", metavar="KEY", callback=exact_text, help="Every value of this key.")
@click.option("--run", metavar="RUN", callback=exact_text, help="Only what this run recorded.")
@click.option("--matching", metavar="REGEX", callback=exact_text, help="Values and metadata in which it is.")
@click.option("--name", metavar="NAME", callback=exact_text, help="A key, agent or activity by its name.")
@click.option("--as", "who", metavar="WHO", required=True, callback=exact_text, help=WHO)
@click.option("--reason", metavar="TEXT", required=True, callback=exact_text, help="Why, for the record.")
@click.option("--yes", is_flag=True, help="Do not ask, where --run alone means everything a run recorded.")
@json_option
def redact(db: str, who: str, reason: str, yes: bool, as_json: bool, **chosen: str | int | None) -> None:
    """Erase values and metadata of events, or a name, from a log, its forks, its WAL and its free pages.

    An event is appended that says who erased what and why, and keeps the hash chain whole. A present value
    reads [redacted] from then on, and so does the past. Choose by --position, by --name, or by any of --key,
    --run and --matching together; --run alone, which means all of it, asks first. Asking again does no harm.

    The file is written anew afterwards: it needs room for a second one. The exit code is 1 if another
    process kept reading the log meanwhile: old copies then stay in the file and its WAL until the same is
    asked again. Copies elsewhere are not reached.

    \b
    turnlog redact team.db --matching 'sk-[A-Za-z0-9]{20,}' --as dpo --reason "leaked token"
    turnlog redact team.db --key alice/address --as dpo --reason "request 17"
    """
    from .redaction import redact as erase

    screen = Screen(as_json=as_json)
    with writing(db) as log, asking():
        if not yes and [name for name, value in chosen.items() if value is not None] == ["run"]:
            _confirm_all(screen, log.lineage(str(chosen["run"])).run.name)
        receipt = erase(log, reason=reason, by=who, **chosen)  # pyright: ignore[reportArgumentType]
    change_done(_erased(receipt))
    with verdict(ok=receipt.wal_emptied):
        if as_json:
            screen.record(_record(receipt))
        else:
            _say(screen, receipt, db)


def _confirm_all(screen: Screen, run: str) -> None:
    if not screen.terminal or not sys.stdin.isatty():
        raise Refused(f"--run alone erases everything that run {run!r:.80} recorded; if so, say --yes too")
    if not click.confirm(screen.shown(f"Erase everything that run {run} recorded, for good?")):
        raise Refused("nothing was erased")


def _record(receipt: Receipt) -> dict[str, object]:
    return {
        "events": receipt.events,
        "names": receipt.names,
        "rewritten": receipt.rewritten,
        "deleted": receipt.deleted,
        "runs": list(receipt.runs),
        "wal_emptied": receipt.wal_emptied,
        "names_left": list(receipt.names_left),
        "runs_left": list(receipt.runs_left),
        "positions_left": list(receipt.positions_left),
        "reserved": receipt.reserved,
        "not_reached": _NOT_REACHED,
    }


def _erased(receipt: Receipt) -> str:
    names = counted(receipt.names, "name", "names")
    return f"{counted(receipt.events, 'text', 'texts')} and {names} erased"


def _say(screen: Screen, receipt: Receipt, db: str) -> None:
    runs = "" if not receipt.runs else f", recorded in run {', '.join(receipt.runs)}"
    screen.say(f"{_erased(receipt)}{runs}")
    if receipt.rewritten:
        written_over = counted(receipt.rewritten, "present value", "present values")
        screen.say(f"{written_over} written over: [redacted]")
    if receipt.deleted:
        screen.say(f"{counted(receipt.deleted, 'entry', 'entries')} deleted with the name of their key")
    if receipt.reserved:
        records = counted(receipt.reserved, "reserved record", "reserved records")
        screen.say(f"{records} among them; what they belong to cannot be resumed from them")
    if receipt.names_left:
        left = ", ".join(map(repr, receipt.names_left))
        screen.say(f"found in names too, which stay (erase them with --name): {left}")
    if receipt.runs_left:
        screen.say(
            f"found in names of runs too, which cannot be erased: {', '.join(map(repr, receipt.runs_left))}"
        )
    if receipt.positions_left:
        first = ", ".join(f"@{position}" for position in receipt.positions_left[:_SHOWN])
        more = len(receipt.positions_left) - _SHOWN
        screen.say(f"found in events too, which stay: {first}{f' and {more:,} more' if more > 0 else ''}")
    if receipt.wal_emptied:
        screen.say(_gone(receipt))
    else:
        screen.say(f"somebody else uses the log, so old copies stay in {db} and its WAL: ask again later")
    screen.say(f"not reached: {_NOT_REACHED}")


def _gone(receipt: Receipt) -> str:
    if not receipt.events and not receipt.names:
        return "the file and its WAL hold no old copies of what was erased before"
    if receipt.names_left or receipt.runs_left or receipt.positions_left:
        return "the file and its WAL hold what was erased no longer, and what stays still"
    return "the file and its WAL hold them no longer"
