"""`turnlog demo`: a team of agents works on real files, and then its memory is looked into.

Nothing here is played. The agents read real Python files, compete for one entry, and leave what they know in
a log; what is shown afterwards is read back from that log alone.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from ..eventlog import EventLog
from ..memory.event_sourced import EventSourcedStore
from ..projections import EntriesProjection
from .cli_output import Screen
from .demo_files import SourceFolder, choose_files
from .demo_team import DemoTeam
from .demo_view import DemoView
from .verification import verify

__all__ = ["main"]

RUN = "survey"
FILE = "turnlog-demo.db"


def main(folder: str | None, database: str | None) -> None:
    """Let the team survey a folder, and show what its memory tells.

    Args:
        folder: a folder with Python files; None for a package of the standard library.
        database: the file to log to, made if it is missing; a log that exists gets one run more. None for a
            new file in a new temporary folder.

    Raises:
        NotFound: the folder has no Python files.
        StorageError: the folder or the database cannot be read or made.
        NotOurs, TooNew, Corrupt, Busy: the database is not to be used; it was left as it was.
        SystemExit: with status 1, if the log did not stand up to its verification.
    """
    began = time.perf_counter()
    files = choose_files(folder)
    path = Path(tempfile.mkdtemp(prefix="turnlog-demo-"), FILE) if database is None else Path(database)
    with EventLog(path, projections=(EntriesProjection(),)) as log:
        store, team = _begin(log, files)
        view = DemoView(Screen(as_json=False), log, store.run)
        view.opening(files)
        with _parsing_quietly():
            stages = list(team.work())
        view.stages(stages)
        view.report()
        view.two_turns_back()
        view.what_changed()
        view.contention()
        view.blame()
        verification = verify(log)
        view.verification(verification)
        view.commands(time.perf_counter() - began)
    if not verification.ok:
        raise SystemExit(1)


def _begin(log: EventLog, files: SourceFolder) -> tuple[EventSourcedStore, DemoTeam]:
    """A team in a run of its own, beside whatever else the log holds."""
    taken = {info.run.name for info in log.runs()}
    for number in count(1):
        name = RUN if number == 1 else f"{RUN}-{number}"
        if name not in taken:
            store = EventSourcedStore(log, run=name)
            team = DemoTeam(store, files)
            if team.begin():  # else somebody has begun a run of that name since we looked
                return store, team
    raise AssertionError("unreachable: counting does not end")


@contextmanager
def _parsing_quietly() -> Generator[None]:
    """Around parsing in threads: what Python would like to tell the authors of the files is not for us.

    The filters belong to the whole process, so threads must not set them one by one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
