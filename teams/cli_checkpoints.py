"""`turnlog checkpoints`: every checkpoint ever saved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, cast

import click

from ..replay.cli_options import database_argument, exact_text, json_option, reading, verdict
from ..replay.cli_output import Cell, Column, Row, Screen
from ..replay.cli_text import counted, iso_time

if TYPE_CHECKING:
    from ..eventlog import EventLog
    from .checkpoint_history import SavedCheckpoint

__all__ = ["checkpoints"]


@click.command(short_help="Every checkpoint ever saved.")
@database_argument
@click.option("--run", metavar="RUN", callback=exact_text, help="Only this run and those it was forked from.")
@json_option
def checkpoints(db: str, run: str | None, as_json: bool) -> None:
    """List the checkpoints of every run, oldest first, or those of one run and of what it was forked from.

    A later checkpoint replaces the one before in the store, but not in the log. The first column is an
    address: the state of the run there is the one the checkpoint belongs to. Exits with 1 if what was saved
    is not a checkpoint.

    \b
    turnlog checkpoints team.db
    turnlog state team.db --run trip-42 --at @120
    """
    screen = Screen(as_json=as_json)
    with reading(db) as log:
        found = [_record(saved) for saved in _saved(log, run)]
    with verdict(ok=not any("error" in record for record in found)):
        if as_json:
            for record in found:
                screen.record(record)
            return
        columns = [
            Column("at", right=True, style="cyan"),
            Column("run", cut=True, style="bold"),
            Column("turn", right=True),
            Column("saved (UTC)", spare=True, style="dim"),
            Column("version", right=True),
            Column("tasks done", right=True),
            Column("remark", cut=True),
        ]
        screen.table(columns, (_row(screen, record) for record in found))
        if not found:
            screen.title("no checkpoints yet")


def _saved(log: EventLog, run: str | None) -> Iterator[SavedCheckpoint]:
    from .checkpoint_history import saved_checkpoints

    if run is not None:
        yield from saved_checkpoints(log, run)
        return
    for info in log.runs():
        yield from saved_checkpoints(log, info.run.name, inherited=False)


def _record(saved: SavedCheckpoint) -> dict[str, object]:
    """A checkpoint as `--json` shows it; what was saved itself is not kept in memory."""
    from .checkpoint_error import BadCheckpoint

    record: dict[str, object] = {
        "position": saved.position,
        "run": saved.run,
        "revision": saved.revision,
        "turn": saved.turn,
        "saved_at": iso_time(saved.recorded_at),
        "key": saved.key,
    }
    try:
        snapshot = saved.load()
    except BadCheckpoint as error:
        return record | {"error": str(error)}
    tasks = cast("list[object]", snapshot["queue"]["tasks"])
    statuses = [cast("dict[str, object]", task).get("status") for task in tasks if isinstance(task, dict)]
    return record | {
        "version": saved.version,
        "mode": snapshot["mode"],
        "run_id": snapshot["identity"]["runId"],
        "attempt": snapshot["identity"]["attempt"],
        "tasks_done": statuses.count("completed"),
        "tasks": len(tasks),
        "under_way": len(snapshot["inFlightTasks"]),
        "pending_approvals": len(snapshot["pendingApprovals"]),
    }


def _row(screen: Screen, record: dict[str, object]) -> Row:
    place = [f"@{record['position']}", cast("str", record["run"]), str(record["turn"])]
    saved = screen.time(datetime.fromisoformat(cast("str", record["saved_at"])))
    if "error" in record:
        return [*place, saved, None, None, Cell(f"WRONG: {record['error']}", "red")]
    under_way, waiting = cast("int", record["under_way"]), cast("int", record["pending_approvals"])
    remarks = [counted(under_way, "task", "tasks") + " under way"] if under_way else []
    remarks += [counted(waiting, "approval", "approvals") + " pending"] if waiting else []
    done = f"{record['tasks_done']}/{record['tasks']}"
    return [*place, saved, str(record["version"]), done, ", ".join(remarks) or None]
