"""`turnlog approvals`: what waits for a reviewer, and deciding it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

import click

from ..replay.cli import Failure
from ..replay.cli_options import (
    Refused,
    change_done,
    database_argument,
    exact_text,
    json_option,
    reading,
    verdict,
    writing,
)
from ..replay.cli_output import Cell, Column, Row, Screen
from ..replay.cli_text import iso_time

if TYPE_CHECKING:
    from ..eventlog import EventLog
    from .approval_error import DurableApprovalError
    from .approval_history import KeptApproval
    from .approval_record import ApprovalRecord

__all__ = ["approvals"]

_FOUND_WRONG = ("APPROVAL_CONFLICT", "APPROVAL_INTEGRITY_ERROR", "APPROVAL_STALE_DECISION")
_NAMED = 3
_STYLES = {"pending": "yellow", "approved": "green", "rejected": "red"}


class Decided(NamedTuple):
    """A decision as it was typed; without `stated`, the content must be confirmed."""

    verb: Literal["approve", "reject"]
    who: str
    name: str | None
    stated: str | None


class Declined(Failure):
    """What was asked was looked into and found wrong: decided already, altered since, or damaged."""

    exit_code = 1


def _verb(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001
    """Refused here, since click would name the argument by half of its brackets."""
    if value not in (None, "show", "decide"):
        raise click.UsageError(f"{value!r:.80} is neither show nor decide", ctx)
    return value


@click.command(short_help="Approvals: what waits for a reviewer; decide it.")
@database_argument
@click.argument("verb", required=False, metavar="[show|decide", callback=_verb)
@click.argument("ident", required=False, metavar="ID]", callback=exact_text)
@click.option("--run", metavar="RUN", callback=exact_text, help="Only this run.")
@click.option("--pending", is_flag=True, help="List only those nobody has decided.")
@click.option("--approve", is_flag=True, help="decide: let the run go on with it.")
@click.option("--reject", is_flag=True, help="decide: do not.")
@click.option(
    "--as",
    "who",
    metavar="WHO",
    callback=exact_text,
    help="decide: who decides: any name, kept in the record.",
)
@click.option("--name", metavar="NAME", callback=exact_text, help="decide: how they are called.")
@click.option("--hash", "stated", metavar="H", help="decide: the hash of what was reviewed, from `show`.")
@json_option
def approvals(
    db: str,
    verb: str | None,
    ident: str | None,
    run: str | None,
    pending: bool,
    approve: bool,
    reject: bool,
    who: str | None,
    name: str | None,
    stated: str | None,
    as_json: bool,
) -> None:
    """List the approvals of every run, or of one; show one, with the exact content; or decide one.

    A decision is final, and binds the very content that was reviewed: its hash must be stated, or the content
    confirmed on a terminal. Exits with 1 if a record is damaged or altered, and if a request was decided by
    somebody else or is not what was reviewed.

    \b
    turnlog approvals team.db
    turnlog approvals team.db show apr_0123...
    turnlog approvals team.db decide apr_0123... --approve --as eve --hash 4567...

    ID and hash are given whole.
    """
    screen = Screen(as_json=as_json)
    if verb is not None and ident is None:
        raise Refused(f"say which: turnlog approvals DB {verb} ID")
    if verb is not None and pending:
        raise Refused("--pending belongs to the list")
    if verb != "decide" and (approve or reject or (who, name, stated) != (None, None, None)):
        raise Refused("--approve, --reject, --as, --name and --hash belong to decide")
    if ident is None:
        _list(screen, db, run, pending=pending)
    elif verb == "show":
        _show(screen, db, run, ident)
    elif approve == reject:
        raise Refused("say one of --approve and --reject")
    elif who is None:
        raise Refused("say who decides, with --as")
    else:
        _decide(screen, db, run, ident, Decided("approve" if approve else "reject", who, name, stated))


def _show(screen: Screen, db: str, run: str | None, ident: str) -> None:
    with reading(db) as log:
        kept = _find(log, run, ident)
    record = _read(kept)
    if screen.as_json:
        screen.record(_told(kept, record) | {"content": record.request.content})
    else:
        _print(screen, kept, record)


def _decide(screen: Screen, db: str, run: str | None, ident: str, decided: Decided) -> None:
    with writing(db) as log:
        kept = _find(log, run, ident)
        stated = _confirmed(screen, kept, decided.verb) if decided.stated is None else decided.stated
        _write(log, kept, decided, stated)
        done = _find(log, kept.run, ident)
    change_done(f"@{done.position}")
    if screen.as_json:
        screen.record(_told(done, _read(done)))
        return
    screen.say(f"{ident} of run {done.run} is {_read(done).state}, by {decided.who}")
    screen.say(f"the decision is event @{done.position}; it is final")


def _list(screen: Screen, db: str, run: str | None, *, pending: bool) -> None:
    from .approval_error import DurableApprovalError
    from .approval_history import kept_approvals

    rows: list[tuple[KeptApproval, ApprovalRecord | DurableApprovalError]] = []
    with reading(db) as log:
        for kept in kept_approvals(log, run):
            try:
                record: ApprovalRecord | DurableApprovalError = kept.read()
            except DurableApprovalError as error:
                record = error
            if isinstance(record, DurableApprovalError) or not pending or record.decision is None:
                rows.append((kept, record))
    with verdict(ok=not any(isinstance(record, DurableApprovalError) for _, record in rows)):
        if screen.as_json:
            for kept, record in rows:
                screen.record(_told(kept, record))
            return
        columns = [
            Column("id", style="cyan"),
            Column("run", cut=True, style="bold"),
            Column("what", cut=True),
            Column("state"),
            Column("requested (UTC)", spare=True, style="dim"),
            Column("by", cut=True),
        ]
        screen.table(columns, (_row(screen, kept, record) for kept, record in rows))
        if not rows:
            screen.title("nothing waits for a reviewer" if pending else "no approvals yet")


def _find(log: EventLog, run: str | None, ident: str) -> KeptApproval:
    from .approval_history import kept_approvals

    found = list(kept_approvals(log, run, ident))
    if not found:
        meant = [kept.id for kept in kept_approvals(log, run) if ident and kept.id.startswith(ident)]
        if meant:
            raise Refused(f"give the id whole: {' or '.join(map(repr, meant[:_NAMED])):.400}")
        raise Refused(f"{log.path} has no approval {ident!r:.80}; `turnlog approvals` lists those there are")
    if len(found) > 1:
        runs = ", ".join(repr(kept.run) for kept in found)
        raise Refused(f"{ident!r:.80} is in several runs; choose one with --run: {runs}")
    return found[0]


def _read(kept: KeptApproval) -> ApprovalRecord:
    from .approval_error import DurableApprovalError

    try:
        return kept.read()
    except DurableApprovalError as error:
        raise Declined(str(error)) from error


def _confirmed(screen: Screen, kept: KeptApproval, decision: str) -> str:
    """The hash of what is shown, once whoever sits at the terminal has said yes to it."""
    record = _read(kept)
    if record.decision is not None:
        by = record.decision.reviewer
        raise Declined(f"{kept.id} of run {kept.run} was {record.state} already, by {by}; that is final")
    if not screen.terminal or not sys.stdin.isatty():
        raise Refused("state what was reviewed with --hash, as `turnlog approvals DB show ID` gives it")
    _print(screen, kept, record)
    if not click.confirm(f"{decision.capitalize()} exactly this?"):
        raise Refused("nothing was decided")
    return record.request.request_hash


def _write(log: EventLog, kept: KeptApproval, decided: Decided, stated: str) -> None:
    from ..memory.event_sourced import EventSourcedStore
    from .approval_error import DurableApprovalError
    from .approval_ledger import ApprovalLedger

    ledger = ApprovalLedger(EventSourcedStore(log, kept.run))
    try:
        ledger.decide(
            kept.id,
            request_hash=stated,
            decision=decided.verb,
            reviewer=decided.who,
            display_name=decided.name,
        )
    except DurableApprovalError as error:
        if error.code in _FOUND_WRONG:
            raise Declined(str(error)) from error
        raise
    except ValueError as error:
        raise Refused(str(error)) from error


def _told(kept: KeptApproval, record: ApprovalRecord | DurableApprovalError) -> dict[str, object]:
    """An approval as `--json` shows it."""
    from .approval_error import DurableApprovalError

    place: dict[str, object] = {"id": kept.id, "run": kept.run, "position": kept.position}
    if isinstance(record, DurableApprovalError):
        return place | {"state": "wrong", "code": record.code, "error": str(record)}
    request, decision = record.request, record.decision
    return place | {
        "state": record.state,
        "run_id": request.run_id,
        "scope": request.scope,
        "boundary": request.boundary,
        "hash": request.request_hash,
        "requested_at": iso_time(request.requested_at),
        "reason": request.reason,
        "reviewer": decision and decision.reviewer,
        "reviewer_name": decision and decision.reviewer_name,
        "decided_at": decision and decision.decided_at,
    }


def _row(screen: Screen, kept: KeptApproval, record: ApprovalRecord | DurableApprovalError) -> Row:
    from .approval_error import DurableApprovalError

    if isinstance(record, DurableApprovalError):
        return [kept.id, kept.run, str(record), Cell("WRONG", "red"), None, None]
    request, decision = record.request, record.decision
    return [
        kept.id,
        kept.run,
        f"{request.scope} {request.boundary}",
        Cell(record.state, _STYLES[record.state]),
        screen.time(request.requested_at),
        decision and decision.reviewer,
    ]


def _print(screen: Screen, kept: KeptApproval, record: ApprovalRecord) -> None:
    """An approval for people: every member, and the content as JSON, exact but for escapes."""
    fields = {name: value for name, value in _told(kept, record).items() if value is not None}
    width = max(map(len, fields))
    for name, value in fields.items():
        screen.say(f"{name:<{width}}  {value}")
    screen.say("content")
    for line in json.dumps(record.request.content, ensure_ascii=False, indent=2).splitlines():
        screen.say(f"  {line}")
