"""The demo's team: surveyors, critics, editors and a writer, who meet only in shared memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ..eventlog import Busy, NotFound
from ..memory.acting import acting_as
from ..memory.agent import AgentMemory
from ..memory.event_sourced import EventSourcedStore
from ..memory.keys import full_key, owned
from ..memory.shared import SharedMemory
from ..memory.values import ENCODING_MARK, JSON_MARK
from ..memory.writing import AGENT_MARK
from .demo_files import SourceFolder
from .demo_findings import Survey, look, recheck
from .demo_report import Report, Verdict, merge, render

__all__ = ["NOTES", "REPORT", "TEXT", "DemoTeam", "Stage"]

E = TypeVar("E")
T = TypeVar("T")

REPORT = "team/report"
"""The key that all editors write."""
TEXT = "writer/report"
NOTES = "notes"
"""What an agent leaves for those who come next: worth reading for two turns."""

SURVEYORS, CRITICS, EDITORS = 3, 2, 3
NOTES_TURNS = 2
PATIENCE_S = 60.0  # for the other editors to come to the table


@dataclass(frozen=True, slots=True)
class Stage:
    """A finished task of the team.

    Attributes:
        turn: the turn it was done in.
        name: what it is called.
        agents: who did it.
        done: what was done, in a few words.
        events: how many events it left in the log.
        seconds: how long it took.
    """

    turn: int
    name: str
    agents: str
    done: str
    events: int
    seconds: float


class DemoTeam:
    """A team that surveys the Python files of a folder, in a memory of its own.

    Each task is done by agents in threads, and its end advances the turn. What one stage hands to the next
    goes through memory: findings and verdicts to stay, notes on what to do first to expire.
    """

    def __init__(self, store: EventSourcedStore, folder: SourceFolder) -> None:
        self._store = store
        self._folder = folder
        self._memory = SharedMemory(store)

    def begin(self) -> bool:
        """Lay an empty report on the table; whether the run was ours to begin."""
        with acting_as("lead", activity="turn-0:lead"):
            return self._store.compare_and_set(REPORT, None, *_stored(Report(), "lead"))

    def work(self) -> Iterator[Stage]:
        """Do the four tasks, one after the other; what was done is told after each."""
        tasks = (
            ("survey", self._survey),
            ("check", self._check),
            ("merge", self._merge),
            ("write", self._write),
        )
        for name, task in tasks:
            began, before, turn = time.perf_counter(), self._revision(), self._memory.turn
            agents, done = task()
            with acting_as("lead", activity=f"turn-{turn}:lead"):
                self._memory.advance_turn()
            yield Stage(turn, name, agents, done, self._revision() - before, time.perf_counter() - began)

    # -- the tasks

    def _survey(self) -> tuple[str, str]:
        names = self._folder.names
        found = self._together("surveyor", SURVEYORS, names, self._survey_files)
        done = f"{_number(len(names), 'file')}, {_number(sum(found), 'finding')}"
        return _number(len(found), "surveyor"), done

    def _check(self) -> tuple[str, str]:
        surveys = [survey for notes in self._notes("surveyor", SURVEYORS) for survey in notes]
        found = self._together("critic", CRITICS, surveys, self._check_surveys)
        upheld, rejected = (sum(counts) for counts in zip(*found, strict=True))
        return _number(len(found), "critic"), f"{upheld:,} upheld, {rejected:,} rejected"

    def _merge(self) -> tuple[str, str]:
        verdicts = [verdict for notes in self._notes("critic", CRITICS) for verdict in notes]
        start = threading.Barrier(min(EDITORS, len(verdicts)))

        def edit(me: AgentMemory, share: Sequence[str]) -> int:
            try:
                return self._merge_verdicts(me, share, len(verdicts), start)
            except BaseException:
                start.abort()  # or the others would wait
                raise

        refused = self._together("editor", EDITORS, verdicts, edit)
        files, attempts = _number(len(verdicts), "file"), len(verdicts) + sum(refused)
        done = f"{files}, {_number(attempts, 'attempt')}, {sum(refused):,} refused"
        return _number(len(refused), "editor"), done

    def _write(self) -> tuple[str, str]:
        with self._memory.agent("writer", activity=f"turn-{self._memory.turn}:writer") as me:
            report = _present(me.read(REPORT, schema=Report), REPORT)
            text = render(report.value, self._folder.title)
            me.write(owned(TEXT).local_key, text)
        return "1 writer", f"{len(text.splitlines())} lines of text"

    # -- one agent's part in them

    def _survey_files(self, me: AgentMemory, names: Sequence[str]) -> int:
        """How many findings there are in these files."""
        findings: dict[str, int] = {}
        for name in names:
            survey = look(self._folder, name)
            me.write(name, survey)
            findings[full_key(me.name, name)] = len(survey.findings)
        doubtful_first = sorted(findings, key=lambda key: -findings[key])
        me.write_expiring(NOTES, doubtful_first, NOTES_TURNS)
        return sum(findings.values())

    def _check_surveys(self, me: AgentMemory, surveys: Sequence[str]) -> tuple[int, int]:
        """How many findings of these surveys hold, and how many do not."""
        upheld = rejected = 0
        checked: list[str] = []
        for key in surveys:
            entry = _present(me.read(key, schema=Survey), key)
            hold, fail = recheck(self._folder, owned(key).local_key, entry.value)
            me.write(key, Verdict(survey=entry.version, upheld=tuple(hold), rejected=tuple(fail)))
            checked.append(full_key(me.name, key))
            upheld, rejected = upheld + len(hold), rejected + len(fail)
        me.write_expiring(NOTES, checked, NOTES_TURNS)
        return upheld, rejected

    def _merge_verdicts(
        self, me: AgentMemory, verdicts: Sequence[str], most: int, start: threading.Barrier
    ) -> int:
        """Merge these of `most` verdicts into the report; how many attempts were refused."""
        refused = 0
        for place, key in enumerate(verdicts):
            verdict = _present(me.read(key, schema=Verdict), key).value
            survey_key = owned(key).local_key
            survey = _present(me.read(survey_key, schema=Survey), survey_key).value
            for _ in range(most):  # a refusal means that another one was merged, so there are fewer of them
                entry = _present(self._store.get(REPORT), REPORT)
                if place == 0 and refused == 0:
                    # Nobody writes before everybody has read, so the first time all want the same place.
                    start.wait(PATIENCE_S)
                report = Report.model_validate_json(entry.value)
                report = merge(report, owned(survey_key).local_key, survey, verdict, me.name)
                if self._store.compare_and_set(REPORT, entry.value, *_stored(report, me.name)):
                    break
                refused += 1
            else:
                raise Busy(f"{REPORT!r} was changed too often: somebody else writes to the demo's run too")
        return refused

    # -- how they work together

    def _together(
        self, role: str, most: int, things: Sequence[str], work: Callable[[AgentMemory, Sequence[str]], T]
    ) -> list[T]:
        """Divide `things` among at most `most` agents of a role, each in a thread; what each returns."""
        agents = _names(role, min(most, len(things)))
        turn = self._memory.turn

        def act(number: int) -> T:
            with self._memory.agent(agents[number], activity=f"turn-{turn}:{agents[number]}") as me:
                return work(me, things[number :: len(agents)])

        with ThreadPoolExecutor(len(agents)) as pool:
            futures = [pool.submit(act, number) for number in range(len(agents))]
        errors = [error for future in futures if (error := future.exception()) is not None]
        # An agent that failed while others waited for it left a broken barrier: its own error tells more.
        for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
            raise error
        return [future.result() for future in futures]

    def _notes(self, role: str, most: int) -> list[list[str]]:
        """What each of the agents of a role, at most `most`, left in its notes."""
        found = (self._memory.read(f"{agent}/{NOTES}", schema=list[str]) for agent in _names(role, most))
        return [entry.value for entry in found if entry is not None]

    def _revision(self) -> int:
        head = self._store.log.head(self._store.run)
        return 0 if head is None else head.revision


def _names(role: str, number: int) -> list[str]:
    return [f"{role}-{each}" for each in range(1, number + 1)]


def _stored(report: Report, agent: str) -> tuple[str, dict[str, str]]:
    """Value and metadata for the store: `SharedMemory` reads the entry like one of its own."""
    return report.model_dump_json(), {ENCODING_MARK: JSON_MARK, AGENT_MARK: agent}


def _present(entry: E | None, key: str) -> E:
    """The entry, which an earlier stage wrote.

    Raises:
        NotFound: somebody else has removed it from the run.
    """
    if entry is None:
        raise NotFound(f"the entry {key!r} is gone: somebody else has written to the demo's run")
    return entry


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
