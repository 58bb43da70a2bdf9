"""What the demo shows: how the work went, and what a timeline tells of it afterwards."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..eventlog import EntryWritten, EventLog, WriteRefused
from ..memory.keys import owned
from .cli_output import Cell, Column, Screen
from .cli_records import history_texts
from .demo_files import SourceFolder
from .demo_report import Report
from .demo_team import REPORT, TEXT, Stage
from .state import Difference
from .timeline import Timeline
from .verification import Verification

__all__ = ["DemoView"]

BACK = 2  # turns
AROUND = 7  # rows of a history

_SIGNS = {"added": Cell("+", "green"), "changed": Cell("~", "yellow"), "removed": Cell("-", "red")}


class DemoView:
    """The run of the demo on a screen; everything but the stages is read from the log."""

    def __init__(self, screen: Screen, log: EventLog, run: str) -> None:
        self._screen = screen
        self._log = log
        self._timeline = Timeline(log, run)

    def opening(self, files: SourceFolder) -> None:
        """What is about to happen, and where it is logged."""
        count = len(files.names)
        more = " (the first of more)" if files.more else ""
        self._screen.say(
            f"A team surveys {files.title}: {count:,} Python file{'s' * (count != 1)}{more}.", "bold"
        )
        self._screen.say(f"Its memory is run {self._timeline.run!r} of {self._log.path}")

    def stages(self, stages: Sequence[Stage]) -> None:
        """What each task did, how long it took, and what it left in the log."""
        self._heading("The work, a turn for each task")
        columns = [
            Column("turn", right=True),
            Column("task", style="bold"),
            Column("by"),
            Column("what was done", cut=True),
            Column("events", right=True),
            Column("time", right=True),
        ]
        rows = [
            (str(each.turn), each.name, each.agents, each.done, f"{each.events:,}", f"{each.seconds:.2f} s")
            for each in stages
        ]
        self._screen.table(columns, rows)

    def report(self) -> None:
        """What the writer made of it."""
        self._heading(f"The report, which memory holds as {TEXT}")
        for line in self._timeline.state()[TEXT].value.splitlines():
            self._screen.say(f"  {line}".rstrip())

    def two_turns_back(self) -> None:
        """How many entries each agent had two turns ago, and has now."""
        now = self._timeline.state()
        then = self._timeline.state(turn=now.point.turn - BACK)
        self._heading(f"Two turns back: memory at turn {then.point.turn}, against turn {now.point.turn} now")
        past, present = _by_owner(then), _by_owner(now)
        columns = [
            Column("owner", style="bold"),
            Column("then", right=True),
            Column("now", right=True),
            Column("only then, or only now", cut=True),
        ]
        self._screen.table(
            columns,
            [
                (owner, f"{past[owner]:,}", f"{present[owner]:,}", _named(set(then) ^ set(now), owner))
                for owner in sorted(past | present)
            ],
        )

    def what_changed(self) -> None:
        """The difference between the ends of turns 1 and 3."""
        before, after = self._span()
        self._heading(f"What changed between the ends of turn {before} and turn {after}")
        columns = [Column(""), Column("key", style="bold"), Column("what", cut=True)]
        rows = [
            (_SIGNS[each.change], each.key, _change(each))
            for each in self._timeline.diff(str(before), str(after))
        ]
        self._screen.table(columns, rows)

    def contention(self) -> None:
        """The part of the shared report's history where attempts were first refused."""
        history = list(self._timeline.history(REPORT))
        refused = [place for place, each in enumerate(history) if isinstance(each.event, WriteRefused)]
        written = len(history) - len(refused)
        self._heading(f"The history of {REPORT}: {written:,} writes, {len(refused):,} refused attempts")
        first = max(0, refused[0] - 1) if refused else 0
        columns = [
            Column("at", right=True, style="cyan"),
            Column("time (UTC)", style="dim"),
            Column("turn", right=True),
            Column("agent", style="bold"),
            Column("what", cut=True),
        ]
        rows: list[Sequence[str | Cell]] = []
        for each in history[first : first + AROUND]:
            what, agent, _ = history_texts(self._timeline, each)
            style = "yellow" if isinstance(each.event, WriteRefused) else ""
            clock = f"{each.recorded_at:%H:%M:%S.%f}"[:-3]
            rows.append((f"@{each.position}", clock, str(each.turn), agent or "-", Cell(what, style)))
        self._screen.table(columns, rows)
        left = len(history) - first - len(rows)
        if left:
            self._screen.say(f"  and {left:,} more")

    def blame(self) -> None:
        """Who wrote the first entry of each owner."""
        self._heading("Blame: who wrote what memory holds now, an entry of each owner")
        first: dict[str, tuple[str, str, str, str]] = {}
        for key, each in self._timeline.blame().items():
            by = each.agent or "-"
            first.setdefault(owned(key).agent, (key, by, str(each.turn), f"@{each.position}"))
        columns = [
            Column("key", cut=True, style="bold"),
            Column("written by"),
            Column("turn", right=True),
            Column("at", right=True, style="cyan"),
        ]
        self._screen.table(columns, (first[owner] for owner in sorted(first)))

    def verification(self, verification: Verification) -> None:
        """Whether the log is whole."""
        self._heading("Verified" if verification.ok else "NOT verified")
        for problem in verification.problems:
            self._screen.say(f"  {problem}", "red")
        for head in verification.heads:
            if head.run == self._timeline.run:
                events = f"{verification.events:,} events"
                self._screen.say(
                    f"  {events}: each hash follows from the one before, each entry from the events."
                )
                self._screen.say("  The newest hash, worth keeping elsewhere:")
                self._screen.say(f"  {head.hash.hex()}")

    def commands(self, seconds: float) -> None:
        """The commands that show the same."""
        events = Counter(type(each.event) for each in self._log.read(run=self._timeline.run))
        written, refused = events[EntryWritten], events[WriteRefused]
        self._heading(
            f"All this took {seconds:.1f} s: {sum(events.values()):,} events, {written:,} writes, "
            f"{refused:,} refused. See for yourself:"
        )
        for command in self.command_lines():
            self._screen.say(f"  {shlex.join(command)}", "cyan")

    def command_lines(self) -> list[list[str]]:
        """Each command, as a list of arguments."""
        program = _program()
        now = self._timeline.point().turn
        before, after = self._span()
        files = Report.model_validate_json(self._timeline.state()[REPORT].value).files
        run = ["--run", self._timeline.run] if len(self._log.runs()) > 1 else []
        return [
            [*program, *command[:1], self._log.path, *command[1:], *run]
            for command in (
                ["get", TEXT, "--raw"],
                ["state", "--at", str(now - BACK)],
                ["diff", str(before), str(after)],
                ["history", REPORT],
                ["log", "--type", "WriteRefused"],
                ["blame"],
                ["bisect", f'{REPORT}~"files":{files},'],
                ["turns"],
            )
        ] + [[*program, "verify", self._log.path]]

    def _span(self) -> tuple[int, int]:
        now = self._timeline.point().turn
        return now - 3, now - 1

    def _heading(self, text: str) -> None:
        self._screen.say("")
        self._screen.say(text, "bold")


def _program() -> list[str]:
    """How whoever started this process can start the command line again."""
    called, found = Path(sys.argv[0]), shutil.which("turnlog")
    if called.name != "turnlog" or not called.is_file():
        return [sys.executable, "-m", "turnlog"]
    return ["turnlog"] if found is not None and called.samefile(found) else [str(called)]


def _by_owner(keys: Iterable[str]) -> Counter[str]:
    return Counter(owned(key).agent for key in keys)


def _named(keys: Iterable[str], owner: str) -> str:
    return ", ".join(sorted(key for key in keys if owned(key).agent == owner)) or "-"


def _change(difference: Difference) -> str:
    before, after = difference.before, difference.after
    if before is not None and after is not None:
        merged = [Report.model_validate_json(entry.value).files for entry in (before, after)]
        return f"{merged[0]:,} files merged in it before, {merged[1]:,} after"
    if before is not None and before.expires_at_turn is not None:
        return f"expired at turn {before.expires_at_turn}"
    return difference.change
