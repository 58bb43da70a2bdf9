"""`turnlog diff, history, blame, bisect`: what changed, when, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .cli_options import (
    at_option,
    chosen_timeline,
    database_argument,
    exact_text,
    json_option,
    key_argument,
    reading,
    run_option,
)
from .cli_output import Cell, Column, Row, Screen
from .cli_state import mark_inside, place
from .cli_text import counted

if TYPE_CHECKING:
    from ..memory.entry import MemoryEntry
    from .state import Difference
    from .timeline import Timeline

__all__ = ["bisect", "blame", "diff", "history"]

_CHANGE_STYLES = {"added": "green", "changed": "yellow", "removed": "red"}


@click.command(short_help="What changed between two points.")
@database_argument
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@run_option
@json_option
def diff(db: str, before: str, after: str, run: str | None, as_json: bool) -> None:
    """Show what agents saw change between two points: entries added, changed and removed.

    An entry that expired in between was removed. The exit code is 0, with differences or without.

    \b
    turnlog diff team.db 2 3
    turnlog diff team.db @100 head
    """
    screen = Screen(as_json=as_json)
    with reading(db) as log:
        timeline = chosen_timeline(log, run)
        points = [timeline.point(at=address) for address in (before, after)]
        for point, address in zip(points, (before, after), strict=True):
            mark_inside(screen, point, address)
        found = timeline.diff(before, after)
    if as_json:
        for difference in found:
            screen.record(_difference_record(difference))
        return
    old, new = map(place, points)
    count = counted(len(found), "difference", "differences")
    screen.title(f"{timeline.run} from {old} to {new}: {count}")
    columns = [
        Column("change"),
        Column("key", cut=True, style="bold"),
        Column("before", cut=True),
        Column("after", cut=True),
    ]
    screen.table(columns, (_difference_row(difference) for difference in found))


@click.command(short_help="Every change of a key, and every refused attempt.")
@database_argument
@key_argument
@run_option
@click.option("--last", metavar="N", type=click.IntRange(min=0), help="Only the newest N.")
@json_option
def history(db: str, key: str, run: str | None, last: int | None, as_json: bool) -> None:
    """Show everything that ever happened to KEY in a run and those it was forked from, oldest first.

    What a restore put back is shown with its original author. Of a refused attempt only its length is known.

    \b
    turnlog history team.db report/merged
    """
    from .cli_records import history_record, history_texts

    screen = Screen(as_json=as_json)
    with reading(db) as log:
        timeline = chosen_timeline(log, run)
        if last is None:
            found = timeline.history(key)
        else:
            found = reversed(list(timeline.history(key, reverse=True, limit=last)))
        if as_json:
            for recorded in found:
                screen.record(history_record(timeline, recorded))
            return
        columns = [
            Column("at", right=True, style="cyan"),
            Column("time (UTC)", spare=True, style="dim"),
            Column("turn", right=True),
            Column("change"),
            Column("agent", cut=True),
            Column("value", cut=True),
        ]

        def rows() -> Iterator[Row]:
            for recorded in found:
                change, agent, value = history_texts(timeline, recorded)
                place = f"@{recorded.position}", screen.time(recorded.recorded_at), str(recorded.turn)
                yield [*place, Cell(change, _history_style(change)), agent, value]

        screen.table(columns, rows())


@click.command(short_help="Who wrote what is there, now or then.")
@database_argument
@click.argument("key", callback=exact_text, required=False)
@run_option
@at_option
@json_option
def blame(db: str, key: str | None, run: str | None, at: str | None, as_json: bool) -> None:
    """Show, for each entry visible at a point or only for KEY, the event that wrote its value.

    KEY is one whole key, agent and slash included; left out, all of them. --at A looks at what was there
    then, which may have been written long before: the turn and the position shown are those of the writing.

    \b
    turnlog blame team.db
    turnlog blame team.db writer/draft --at 3
    """
    from .cli_records import blame_record, value_text

    screen = Screen(as_json=as_json)
    with reading(db) as log:
        timeline = chosen_timeline(log, run)
        mark_inside(screen, timeline.point(at=at), at)
        found = timeline.blame(key, at=at)
    if as_json:
        for name, recorded in found.items():
            screen.record(blame_record(name, recorded))
        return
    columns = [
        Column("key", cut=True, style="bold"),
        Column("agent", cut=True),
        Column("turn", right=True),
        Column("at", right=True, style="cyan"),
        Column("time (UTC)", spare=True, style="dim"),
        Column("value", cut=True),
    ]
    screen.table(
        columns,
        (
            [
                name,
                recorded.agent,
                str(recorded.turn),
                f"@{recorded.position}",
                screen.time(recorded.recorded_at),
                value_text(recorded),
            ]
            for name, recorded in found.items()
        ),
    )
    if not found:
        screen.title("nothing is visible there")


@click.command(short_help="When a key came to be, or came to contain a text.")
@database_argument
@click.argument("what", metavar="KEY[~TEXT]", callback=exact_text)
@run_option
@json_option
def bisect(db: str, what: str, run: str | None, as_json: bool) -> None:
    """Find the first point at which KEY existed, or at which its value, as it is stored, contained TEXT.

    Exits with 1 if it never did. Where the key itself contains ~, the shortest key that the run knows counts.

    \b
    turnlog bisect team.db writer/draft
    turnlog bisect team.db "writer/draft~X reduces Y"
    """
    from .cli_records import blame_record, value_text
    from .cli_text import iso_time

    screen = Screen(as_json=as_json)
    with reading(db) as log:
        timeline = chosen_timeline(log, run)
        key, text = _split(timeline, what)
        point = timeline.first(key, text)
        wanted = f"contained {text!r}" if text else "was visible"
        if point is None:
            screen.note(f"run {timeline.run!r}: key {key!r} never {wanted}")
            raise click.exceptions.Exit(1)
        recorded = timeline.blame(key, at=f"@{point.position}")[key]
    if as_json:
        place = {"at": f"@{point.position}", "revision": point.revision}
        screen.record(place | blame_record(key, recorded))
        return
    who = "somebody" if recorded.agent is None else recorded.agent
    screen.say(f"@{point.position}, turn {point.turn}: the first point at which {key} {wanted}")
    screen.say(f"written by {who} at @{recorded.position}, {iso_time(recorded.recorded_at)}:")
    screen.say(value_text(recorded))


def _split(timeline: Timeline, what: str) -> tuple[str, str]:
    """KEY and TEXT of `KEY~TEXT`, such that the run knows the key if possible."""
    from ..eventlog import NotFound

    pieces = what.split("~")
    splits = [("~".join(pieces[:count]), "~".join(pieces[count:])) for count in range(1, len(pieces) + 1)]
    for key, text in splits:
        try:
            timeline.history(key, limit=1)
        except NotFound:
            continue
        return key, text
    return splits[0]


def _difference_record(difference: Difference) -> dict[str, object]:
    from ..memory.values import decode_value

    before, after = (
        None if entry is None else decode_value(entry.value, entry.metadata)
        for entry in (difference.before, difference.after)
    )
    beside = _beside(difference)
    return {
        "key": difference.key,
        "change": difference.change,
        "before": before,
        "after": after,
        **({"detail": beside} if beside else {}),
    }


def _difference_row(difference: Difference) -> Row:
    from .cli_text import json_line

    beside = _beside(difference)
    if beside:
        before, after = (
            json_line({name: sides[side] for name, sides in beside.items()}) for side in ("before", "after")
        )
    else:
        before, after = _value(difference.before), _value(difference.after)
    apart = _common(before, after)
    change = Cell(difference.change, _CHANGE_STYLES[difference.change])
    return [change, difference.key, Cell(before, "", apart), Cell(after, "", apart)]


def _beside(difference: Difference) -> dict[str, dict[str, object]]:
    """What differs beside the value, where the value is the same."""
    before, after = difference.before, difference.after
    if before is None or after is None or before.value != after.value:
        return {}
    sides: dict[str, dict[str, object]] = {
        "metadata": {"before": before.metadata, "after": after.metadata},
        "expires_at_turn": {"before": before.expires_at_turn, "after": after.expires_at_turn},
    }
    return {name: side for name, side in sides.items() if side["before"] != side["after"]}


def _value(entry: MemoryEntry | None) -> str:
    from .cli_text import shown_value

    return "-" if entry is None else shown_value(entry.value, entry.metadata)


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with in common; 0 if one of them is not there."""
    if "-" in (one, other):
        return 0
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)


def _history_style(change: str) -> str:
    return next(
        (
            style
            for name, style in (("refused", "yellow"), ("deleted", "red"), ("restored", "magenta"))
            if change.startswith(name)
        ),
        "",
    )
