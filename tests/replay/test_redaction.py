"""What was erased is nowhere in the files, and everything that can be asked is still answered."""

from __future__ import annotations

import random
import string
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    BadAddress,
    BadImport,
    Busy,
    CompareAndSet,
    Conflict,
    Delete,
    EntryDeleted,
    EntryWritten,
    EventLog,
    NotFound,
    Once,
    Redacted,
    StorageError,
    Write,
    WriteRefused,
)
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.history import entries_at
from turnlog.eventlog.intake import import_lines
from turnlog.eventlog.integrity import count_erased
from turnlog.memory import EventSourcedStore, SharedMemory
from turnlog.projections import first_difference
from turnlog.replay import Timeline, redact
from turnlog.replay.restore import Restore
from turnlog.replay.verification import verify

ROOT = Path(__file__).parents[2]
SECRET = "sk-Zq7vXw29LmPbT4"
WHY: dict[str, str] = {"reason": "leaked token", "by": "dpo"}


def open_log(path: Path) -> EventLog:
    """A log as users open it, without waiting for the disk."""
    return turnlog.open(path, durability="os")


def files(path: Path) -> bytes:
    """All bytes of a log's files; call it only where this process does not have the log open."""
    companions = [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))]
    return b"".join(each.read_bytes() for each in companions if each.exists())


_CAT = """
import pathlib, sys
for suffix in ("", "-wal", "-journal"):
    file = pathlib.Path(sys.argv[1] + suffix)
    if file.exists():
        sys.stdout.buffer.write(file.read_bytes())
"""


def files_elsewhere(path: Path) -> bytes:
    """The same while the log is open, by a process that has no lock to lose."""
    return subprocess.run(
        [sys.executable, "-c", _CAT, path], capture_output=True, check=True, timeout=60
    ).stdout


def spellings(secret: str) -> list[bytes]:
    """How a text may lie in a file."""
    return [
        secret.encode("utf-8", "surrogatepass"),
        secret.encode("utf-8", "surrogatepass").hex().encode(),
        secret.encode("utf-16-le", "surrogatepass"),
    ]


def check_whole(log: EventLog, gone: Sequence[str] = ()) -> None:
    """Every point of every run answers, table and fold agree, the chain holds, nothing shows what is gone."""
    assert verify(log).ok
    with log.reading() as db:
        assert first_difference(db) is None
        views = ("event_log", "current_entries")
        shown = [db.execute(f"select * from {view}").fetchall() for view in views]
        assert not any(text in repr(shown) for text in gone)
    for info in log.runs():
        timeline = Timeline(log, info.run.name)
        keys: set[str] = set()
        for position in range(info.head.position + 1):
            try:
                state = timeline.state(position=position, all=True)
            except BadAddress:
                continue  # before the run began, or an event of another run
            assert dict(state) == dict(timeline.folded(position=position))
            assert not any(text in repr(state) for text in gone)
            keys.update(state)
        for key in keys:
            told = list(timeline.history(key))
            assert told == list(timeline.history(key, reverse=True))[::-1]
            assert not any(text in repr(told) for text in gone)
        store = EventSourcedStore(log, info.run.name)
        assert store.list() == [store.get(entry.key) for entry in store.list()]
        assert {entry.key: entry.value for entry in store.list()} == {
            key: entry.value for key, entry in timeline.state(all=True).items()
        }
        timeline.blame()
        timeline.diff("0", "head")


def judged(path: Path) -> subprocess.CompletedProcess[str]:
    """What the example of another program that verifies says."""
    command = [sys.executable, "-I", ROOT / "docs" / "verify_example.py", path]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


# -- what is erased, and what is left of it


def test_a_value_is_erased_everywhere_and_the_record_stays(tmp_path: Path) -> None:
    """Value, metadata and salt go; who, when and the key stay; a present value is written over."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        store = EventSourcedStore(log)
        store.set("ops/token", SECRET, {"agent": "ops", "note": SECRET})
        store.set("ops/other", "kept", {"agent": "ops"})
        receipt = redact(log, matching=r"sk-\w+", **WHY)
        assert (receipt.events, receipt.rewritten, receipt.names, receipt.deleted) == (1, 1, 0, 0)
        assert (receipt.runs, receipt.wal_emptied, receipt.names_left) == (("main",), True, ())
        assert SECRET.encode() not in files_elsewhere(path)
        first, _, redacted, cover = log.read()
        assert first.event == EntryWritten("ops/token", "[redacted]", '{"redacted":true}')
        assert first.agent == "ops"
        assert isinstance(redacted.event, Redacted)
        assert (redacted.event.reason, redacted.agent, redacted.event.key) == (
            "leaked token",
            "dpo",
            "ops/token",
        )
        assert isinstance(cover.event, EntryWritten)
        entry = store.get("ops/token")
        assert entry is not None
        assert entry.value == "[redacted]"
        assert entry.metadata == {"redacted": True, "reason": "leaked token", "agent": "dpo"}
        assert entry.created_at == store.list()[0].created_at
        assert store.compare_and_set("ops/token", "[redacted]", "a new one")
        other = store.get("ops/other")
        assert other is not None
        assert other.value == "kept"
        check_whole(log, [SECRET])
        with log.reading() as db:
            assert count_erased(db) == 1
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_the_history_of_the_key_says_who_and_why(tmp_path: Path) -> None:
    """The redaction stands between what was erased and what was written over it."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", SECRET), Write("l", "v")], run="main")
        log.execute([Write("k", "harmless")], run="main")
        redact(log, position=1, **WHY)
        told = list(Timeline(log).history("k"))
        assert [type(each.event) for each in told] == [EntryWritten, EntryWritten, Redacted]
        assert (told[-1].agent, told[-1].event.reason) == ("dpo", "leaked token")  # type: ignore[union-attr]
        assert [type(each.event) for each in Timeline(log).history("l")] == [EntryWritten]
        newest = list(Timeline(log).history("k", reverse=True, limit=2))
        assert newest == told[:0:-1]
        assert Timeline(log).state(position=1)["k"].metadata == {"redacted": True}
        assert Timeline(log).state(position=1)["k"].value == "[redacted]"


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"key": "k"}, {2, 6}),
        ({"run": "main"}, {5, 6}),
        ({"matching": "one"}, {3, 4, 6}),
        ({"key": "k", "matching": "one"}, {2, 3, 4, 6}),
        ({"key": "k", "run": "side"}, {1, 2, 3, 4, 6}),
        ({"position": 4}, {1, 2, 3, 5, 6}),
        ({"run": "side", "key": "l"}, {1, 2, 3, 4, 5}),
    ],
    ids=str,
)
def test_what_was_chosen_is_erased_and_nothing_else(
    tmp_path: Path, chosen: dict[str, Any], left: set[int]
) -> None:
    """Key, run and pattern narrow each other down; a refused attempt loses its salt as well."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "one"), Write("l", "one"), Write("k", "two")], run="main")
        log.execute([CompareAndSet("k", "no", "three")], run="main")
        log.execute([Write("k", "one"), Write("l", "two")], run="side")
        redact(log, **chosen, **WHY)
        with log.reading() as db:
            query = "select position from events where position < 7 and salt is not null"
            kept = db.execute(query).fetchall()
        assert {position for (position,) in kept} == left
        check_whole(log)


def test_an_attempt_that_was_refused_keeps_no_trace(tmp_path: Path) -> None:
    """The digest of what was not written cannot be guessed at any more."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "v"), CompareAndSet("k", "x", SECRET)], run="main")
        assert redact(log, position=2, **WHY).events == 1
        refused = next(iter(log.read(type=WriteRefused))).event
        assert isinstance(refused, WriteRefused)
        assert refused.attempt.salt is None
        check_whole(log)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({}, ValueError),
        ({"position": 1, "key": "k"}, ValueError),
        ({"name": "k", "run": "main"}, ValueError),
        ({"position": True}, TypeError),
        ({"position": "1"}, TypeError),
        ({"position": 0}, NotFound),
        ({"position": 2**70}, NotFound),
        ({"position": 3}, ValueError),
        ({"run": "nowhere"}, NotFound),
        ({"name": "nobody"}, NotFound),
        ({"name": "main"}, ValueError),
        ({"matching": "("}, ValueError),
        ({"matching": 7}, TypeError),
        ({"key": 7}, TypeError),
        ({"key": "k", "reason": ""}, ValueError),
        ({"key": "k", "by": ""}, ValueError),
        ({"matching": "leak.*n"}, ValueError),
        ({"name": "dpo"}, ValueError),
        ({"name": "token"}, ValueError),
        ({"matching": "^dpo$"}, ValueError),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, wrong: dict[str, Any], error: type[Exception]
) -> None:
    """Nothing is written; also where reason or name would keep what is to go."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "v"), Write("token", "v"), AdvanceTurn()], run="main", agent="dpo")
        with pytest.raises(error):
            redact(log, **(WHY | wrong))
        assert len(list(log.read())) == 3


def test_a_log_that_is_read_only_is_not_redacted(tmp_path: Path) -> None:
    """The error says so before anything is looked for."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "v")], run="main")
    with (
        turnlog.open(tmp_path / "team.db", read_only=True) as log,
        pytest.raises(StorageError, match="read only"),
    ):
        redact(log, key="k", **WHY)


@pytest.mark.parametrize(
    "secret",
    [
        "s3cr3t-päßwörd-✓",
        'tab\there "quoted" back\\slash\nline',
        "half \ud800 an emoji secret",
        "\udfff\udfff\udfff lone",
        "x" * 3 + "Zq7" * 400_000,
    ],
    ids=["unicode", "escapes", "surrogate", "only halves", "overflow pages"],
)
@pytest.mark.parametrize("structured", [False, True], ids=["text", "JSON"])
def test_any_text_is_found_and_erased(tmp_path: Path, secret: str, structured: bool) -> None:
    """However it is spelled in the file, also where JSON has escapes in the middle of it."""
    import re

    path = tmp_path / "team.db"
    needle = secret[:40]
    with open_log(path) as log:
        memory = SharedMemory(EventSourcedStore(log))
        value: Any = {"deep": [{"token": secret}], secret[:30]: 1} if structured else f"before {secret} after"
        memory.write("ops", "token", value)
        memory.write("ops", "other", "kept")
        log.execute([Write("raw", "v", {"note": secret[:300]})], run="main")
        assert redact(log, matching=re.escape(needle), **WHY).events == 2
        check_whole(log, [needle])
    data = files(path)
    for text in (secret[3:23], secret[-20:]):
        for spelled in spellings(text):
            assert spelled not in data
    assert judged(path).returncode == 0


def test_a_forged_mark_protects_nothing(tmp_path: Path) -> None:
    """What only looks like an earlier redaction is searched like anything else."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write("k", "[redacted]", {"redacted": True, "note": SECRET})], run="main")
        assert redact(log, matching=SECRET, **WHY).events == 1
        log.execute([Write("k", "[redacted]", {"redacted": True, "note": SECRET})], run="main")
        position = log.head("main").position  # type: ignore[union-attr]
        assert redact(log, position=position, **WHY).events == 1
    assert SECRET.encode() not in files(path)


def test_asking_again_changes_nothing(tmp_path: Path) -> None:
    """Neither by pattern, key, position nor name."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        asked: list[dict[str, Any]] = [{"matching": "sk-"}, {"key": "k"}, {"position": 1}, {"name": SECRET}]
        for each in asked:
            redact(log, **each, **WHY)
        before = len(list(log.read()))
        for each in asked:
            receipt = redact(log, **each, **WHY)
            assert (receipt.events, receipt.names, receipt.wal_emptied) == (0, 0, True)
        assert len(list(log.read())) == before


# -- restores and forks


def test_a_restore_to_before_shows_the_mark(tmp_path: Path) -> None:
    """Going back does not bring back; entries restored earlier point to what is gone, too."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write("k", SECRET), Write("l", "v")], run="main")  # 1, 2
        log.execute([Delete("k")], run="main")  # 3
        timeline = Timeline(log)
        timeline.restore(position=2)  # 4, 5: k points to 1
        redact(log, matching=SECRET, **WHY)
        store = EventSourcedStore(log)
        assert store.get("k").value == "[redacted]"  # type: ignore[union-attr]
        for position in (2, 5):
            timeline.restore(position=position)
            assert store.get("k").value == "[redacted]"  # type: ignore[union-attr]
            assert timeline.state(position=position)["k"].value == "[redacted]"
        check_whole(log, [SECRET])
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_forks_lose_it_too(tmp_path: Path) -> None:
    """Made before or after, of a fork or of the run, whether it is their present or their past."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write("k", SECRET), Write("l", "v")], run="main")
        for source, run in (("main", "a"), ("a", "b"), ("b", "c"), ("main", "d")):
            Timeline(log, source).fork(run=run)
        log.execute([Write("k", "another")], run="d")
        log.execute([Write("k", "another"), Write("m", f"{SECRET} in main only")], run="main")
        log.execute([Write("n", f"{SECRET} in b only")], run="b")
        receipt = redact(log, matching=SECRET, **WHY)
        assert (receipt.events, receipt.rewritten) == (3, 5)
        assert set(receipt.runs) == {"main", "a", "b", "c"}
        for run, value in (("main", "another"), ("a", "[redacted]"), ("c", "[redacted]"), ("d", "another")):
            assert EventSourcedStore(log, run).get("k").value == value  # type: ignore[union-attr]
        Timeline(log, "main").fork(run="late", position=2)
        Timeline(log, "c").fork(run="later", position=2)
        for run in ("late", "later"):
            assert EventSourcedStore(log, run).get("k").value == "[redacted]"  # type: ignore[union-attr]
        check_whole(log, [SECRET])
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_one_run_may_be_meant_alone(tmp_path: Path) -> None:
    """Of a fork, only what it recorded itself."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "shared")], run="main")
        Timeline(log).fork(run="fork")
        log.execute([Write("l", "own")], run="fork")
        assert redact(log, run="fork", **WHY).events == 1
        assert EventSourcedStore(log, "fork").get("k").value == "shared"  # type: ignore[union-attr]
        assert redact(log, run="main", **WHY).rewritten == 2
        check_whole(log)


# -- names


def test_a_name_is_erased_with_the_entries_under_it(tmp_path: Path) -> None:
    """In every run of the family; what it was is shown by a stand-in, which can be asked for."""
    path = tmp_path / "team.db"
    key = f"customer/{SECRET}"
    with open_log(path) as log:
        log.execute([Write(key, "v"), Write("l", "w")], run="main", agent=SECRET)
        Timeline(log).fork(run="fork")
        receipt = redact(log, name=key, **WHY)
        assert (receipt.names, receipt.deleted, receipt.events) == (1, 2, 0)
        assert redact(log, name=SECRET, **WHY).names == 1
        for run in ("main", "fork"):
            assert [entry.key for entry in EventSourcedStore(log, run).list()] == ["l"]
        stand_in = next(iter(Timeline(log).state(position=1)))
        assert stand_in.startswith("[redacted ")
        assert Timeline(log).entry(stand_in, position=1).value == "v"  # type: ignore[union-attr]
        assert [type(each.event) for each in Timeline(log).history(stand_in)] == [EntryWritten, EntryDeleted]
        assert next(iter(log.read())).agent.startswith("[redacted ")  # type: ignore[union-attr]
        check_whole(log, [SECRET])
        # What is shown can be restored, forked, written and deleted like any key.
        Timeline(log).restore(position=2)
        Timeline(log).fork(run="late", position=2)
        for run in ("main", "late"):
            store = EventSourcedStore(log, run)
            assert store.get(stand_in).value == "v"  # type: ignore[union-attr]
            assert [entry.key for entry in store.scan(after=stand_in)] == ["l"]
            store.set(stand_in, "changed")
            check_whole(log, [SECRET])
            store.delete(stand_in)
            assert store.get(stand_in) is None
        with log.reading() as db:
            assert db.execute("select count(*) from names where text like '[red%'").fetchone() == (0,)
        log.execute([Write(key, "a new life")], run="main")
        assert EventSourcedStore(log).get(key).value == "a new life"  # type: ignore[union-attr]
        check_whole(log)
        assert redact(log, name=key, **WHY).names == 1
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_what_is_shown_for_a_name_can_be_asked_for(tmp_path: Path) -> None:
    """The log can be filtered by it, as key and as agent."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("alice", "v"), Write("l", "w")], run="main", agent="bob")
        log.execute([Write("l", "x")], run="main")
        redact(log, name="bob", **WHY)
        redact(log, name="alice", **WHY)
        agent = next(iter(log.read())).agent
        key = next(iter(log.read())).event.key  # type: ignore[union-attr]
        assert [each.position for each in log.read(agent=agent)] == [1, 2]
        assert [each.position for each in log.read(key=key, type=EntryWritten)] == [1]
        assert list(log.read(key="[redacted 00000000]")) == []
        assert list(log.read(key="alice")) == []


def test_a_restore_of_what_was_erased_meanwhile_is_refused(tmp_path: Path) -> None:
    """Who read the past before the name was gone cannot write it down again."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("alice", "v"), Write("l", "w")], run="main")
        log.execute([Delete("alice")], run="main")
        timeline = Timeline(log)
        point = timeline.point(position=2)
        with log.reading() as db:
            entries = {each.key: each for each in entries_at(db, timeline.lineage, point.revision)}
        redact(log, name="alice", **WHY)
        for _ in range(2):
            with pytest.raises(ValueError, match="'alice' was erased meanwhile"):
                log.execute([Restore(point, entries)], run="main")
            log.execute([Write("alice", "another")], run="main")
        timeline.restore(position=2)
        check_whole(log)


def test_names_in_which_it_is_found_are_told(tmp_path: Path) -> None:
    """By pattern texts are erased, names only listed."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write(f"customer/{SECRET}", SECRET)], run="main")
        receipt = redact(log, matching="sk-", **WHY)
        assert receipt.names_left == (f"customer/{SECRET}",)


def test_what_stays_is_told(tmp_path: Path) -> None:
    """Reasons, idempotency keys and names by pattern; texts too, where a name was erased."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "alice", {"agent": "alice"}), Write("l", "malice")], run="main")  # 1, 2
        log.execute([Once("for alice", AdvanceTurn())], run="main")  # 3
        Timeline(log).restore(position=2, reason="alice asked")  # 4
        log.execute([Write("alice/x", "v"), Write("alice", "v")], run="main", agent="alice")  # 5, 6
        receipt = redact(log, name="alice", **WHY)
        assert receipt.names == 1
        assert receipt.names_left == ("alice/x",)
        assert receipt.positions_left == (1, 3, 4)
        receipt = redact(log, matching="alice", **WHY)
        assert receipt.events == 2
        assert receipt.names_left == ("alice/x",)
        assert receipt.positions_left == (3, 4)


def test_other_writers_do_not_go_on_with_a_name_that_is_gone(tmp_path: Path) -> None:
    """What a log object remembers of names, this one's and another's, is forgotten with them."""
    path = tmp_path / "team.db"
    with open_log(path) as log, open_log(path) as other:
        for each in (log, other):
            each.execute([Write("alice", "v")], run="main", agent="alice")
        redact(log, name="alice", **WHY)
        for each in (other, log):
            each.execute([Write("alice", "w")], run="main", agent="alice")
            assert EventSourcedStore(each).get("alice").value == "w"  # type: ignore[union-attr]
            check_whole(each)


def test_threads_that_write_meanwhile_lose_nothing(tmp_path: Path) -> None:
    """A name that is erased while threads write under it is a new name from then on."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("alice", "0")], run="main")
        stop = threading.Event()
        failed: list[Exception] = []

        def write() -> None:
            try:
                while not stop.is_set():
                    log.execute([Write("alice", "v")], run="main", agent="alice")
            except Exception as error:  # noqa: BLE001 - told to the test
                failed.append(error)

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(4):
            redact(log, name="alice", **WHY)
            log.execute([Write("alice", "again")], run="main")
        stop.set()
        for thread in threads:
            thread.join()
        assert failed == []
        log.execute([Write("alice", "last")], run="main")
        assert EventSourcedStore(log).get("alice").value == "last"  # type: ignore[union-attr]
        assert verify(log).ok


# -- exports


def taken_in(path: Path, lines: Sequence[str], run: str | None = None) -> EventLog:
    """A log at `path` that took in an export."""
    log = open_log(path)
    import_lines(log, lines, run)
    return log


def test_an_export_holds_nothing_that_was_erased(tmp_path: Path) -> None:
    """It is taken in elsewhere to the same hashes, whole."""
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        Timeline(log).fork(run="fork")
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        lines = list(export_lines(log))
        assert SECRET not in "".join(lines)
        heads = [info.head.hash for info in log.runs()]
    with taken_in(tmp_path / "b.db", lines) as log:
        assert [info.head.hash for info in log.runs()] == heads
        assert list(export_lines(log)) == lines
        check_whole(log, [SECRET])
    assert judged(tmp_path / "b.db").returncode == 0


@pytest.mark.parametrize("run", ["fork", "fork of it"])
def test_a_fork_is_exported_with_the_erasures_of_its_past(tmp_path: Path, run: str) -> None:
    """What its ancestor lost after the fork is lost in it, and the copy can be verified."""
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        Timeline(log).fork(run="fork")
        log.execute([Write("own", SECRET)], run="fork")
        Timeline(log, "fork").fork(run="fork of it")
        log.execute([Write("k", "later"), Write("n", f"{SECRET} after the fork")], run="main")
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        log.execute([Write("later still", "v")], run="main")
        lines = list(export_lines(log, run))
        state = Timeline(log, run).state(all=True)
    assert SECRET not in "".join(lines)
    assert "later still" not in "".join(lines)
    with taken_in(tmp_path / "b.db", lines) as log:
        copied = Timeline(log, run).state(all=True)
        assert {key: entry.value for key, entry in copied.items()} == {
            key: entry.value for key, entry in state.items()
        }
        check_whole(log, [SECRET])
    assert judged(tmp_path / "b.db").returncode == 0


def test_an_import_erases_what_is_here_still(tmp_path: Path) -> None:
    """A copy that has the older part loses the text too, in forks of its own as well."""
    path = tmp_path / "b.db"
    with open_log(tmp_path / "a.db") as log:
        log.execute(
            [Write("k", SECRET, {"m": SECRET}), Write(SECRET, "under it"), Write("l", "v")], run="main"
        )
        older = list(export_lines(log))
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        newer = list(export_lines(log))
    with taken_in(path, older) as log:
        assert EventSourcedStore(log).get("k").value == SECRET  # type: ignore[union-attr]
        Timeline(log).fork(run="own fork")
        import_lines(log, newer, "main")
        assert SECRET.encode() not in files_elsewhere(path)
        assert EventSourcedStore(log, "own fork").get("k").value == "[redacted]"  # type: ignore[union-attr]
        check_whole(log, [SECRET])
        with log.reading() as db:
            shown = db.execute(
                "select key, value, metadata from current_entries where run = 'own fork'"
            ).fetchall()
        assert shown[0] == ("k", "[redacted]", '{"redacted":true}')
        assert shown[1][0].startswith("[redacted ")
        EventSourcedStore(log, "own fork").delete(shown[1][0])
        assert [entry.key for entry in EventSourcedStore(log, "own fork").list()] == ["k", "l"]
        import_lines(log, newer, "main")
        check_whole(log, [SECRET])
    assert judged(path).returncode == 0


def test_an_import_that_cannot_clear_the_file_warns(tmp_path: Path) -> None:
    """A reader that stays keeps old copies in the file; the next redaction or import clears them."""
    path = tmp_path / "b.db"
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", SECRET)], run="main")
        older = list(export_lines(log))
        redact(log, matching=SECRET, **WHY)
        newer = list(export_lines(log))
    taken_in(path, older).close()
    with turnlog.open(path, durability="os", busy_timeout_s=0.2) as log, open_log(path) as reader:
        with reader.reading() as db:
            db.execute("begin")
            db.execute("select count(*) from events").fetchone()
            with pytest.warns(UserWarning, match="old copies stay"):
                import_lines(log, newer, "main")
            db.execute("rollback")
        assert redact(log, matching=SECRET, **WHY).wal_emptied
    assert SECRET.encode() not in files(path)


def test_an_export_under_way_does_not_end_with_a_gap(tmp_path: Path) -> None:
    """What was erased after it began is in it as a gap that nothing vouches for, so it says to begin anew."""
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", f"{SECRET} {number}") for number in range(1200)], run="main")
        under_way = export_lines(log)
        begun = [next(under_way) for _ in range(20)]
        redact(log, key="k", **WHY)
        with pytest.raises(Busy, match="export again"):
            list(under_way)
        assert begun
        lines = list(export_lines(log))
    with taken_in(tmp_path / "b.db", lines) as log:
        assert verify(log).ok


def test_an_export_from_before_does_not_bring_it_back(tmp_path: Path) -> None:
    """It is the same history as far as it goes, so nothing of it is taken in."""
    path = tmp_path / "a.db"
    with open_log(path) as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        older = list(export_lines(log))
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        import_lines(log, older, "main")
        check_whole(log, [SECRET])
    assert SECRET.encode() not in files(path)


def test_an_erasure_that_nothing_vouches_for_is_not_taken_in(tmp_path: Path) -> None:
    """An export whose texts or names were cut out by hand."""
    import json

    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", "v")], run="main")
        redact(log, name="k", **WHY)
        lines = list(export_lines(log))
    redacted = next(number for number, line in enumerate(lines) if '"type":22' in line)
    facts = json.loads(lines[redacted])
    end = json.loads(lines[-1])
    cut = [
        *lines[:redacted],
        json.dumps(
            end
            | {"events": end["events"] - 1, "heads": {facts["run"]: json.loads(lines[redacted - 1])["hash"]}}
        ),
    ]
    with open_log(tmp_path / "b.db") as log, pytest.raises(BadImport, match="has no text"):
        import_lines(log, cut)


# -- trouble


def test_a_reader_that_stays_is_told_of(tmp_path: Path) -> None:
    """Old pages cannot go while it reads; asking again does the rest."""
    path = tmp_path / "team.db"
    with turnlog.open(path, durability="os", busy_timeout_s=0.2) as log, open_log(path) as reader:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        with reader.reading() as db:
            db.execute("begin")
            db.execute("select count(*) from events").fetchone()
            assert not redact(log, matching=SECRET, **WHY).wal_emptied
            assert not redact(log, name=SECRET, **WHY).wal_emptied
            assert SECRET.encode() in files_elsewhere(path)
            db.execute("rollback")
        assert redact(log, name=SECRET, **WHY).wal_emptied
        assert SECRET.encode() not in files_elsewhere(path)
        check_whole(log, [SECRET])


_REDACT = """
import sys
import turnlog
from turnlog.replay import redact

with turnlog.open(sys.argv[1], durability="os", busy_timeout_s=60) as log:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(3):
        redact(log, matching="sk-", reason="leaked", by=sys.argv[2])
"""


def test_two_processes_redact_at_once(tmp_path: Path) -> None:
    """Each text is erased once, and the log is whole."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write(f"k{number % 40}", f"{SECRET} {number}") for number in range(600)], run="main")
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", _REDACT, path, f"process {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for process in asking:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in asking:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(timeout=60) for process in asking] == [0, 0]
    for process in asking:
        process.communicate()
    assert SECRET.encode() not in files(path)
    with open_log(path) as log, log.reading() as db:
        assert count_erased(db) == 600
        assert verify(log).ok


_KILLED = """
import os, signal, sys, threading, time
import turnlog
from turnlog.replay import redact

def kill():
    time.sleep(float(sys.argv[2]))
    os.kill(os.getpid(), signal.SIGKILL)

with turnlog.open(sys.argv[1]) as log:
    threading.Thread(target=kill, daemon=True).start()
    redact(log, matching="sk-", reason="leaked", by="dpo")
"""


@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.long)])
def test_a_redaction_that_is_killed_is_whole_or_absent(tmp_path: Path, rounds: int) -> None:
    """At whatever moment; asking again completes it."""
    chance = random.Random(7)
    path = tmp_path / "team.db"
    number = 300
    for _ in range(rounds):
        for each in tmp_path.iterdir():
            each.unlink()
        with open_log(path) as log:
            log.execute([Write(f"k{each % 40}", f"{SECRET} {each}") for each in range(number)], run="main")
        subprocess.run(
            [sys.executable, "-c", _KILLED, path, str(chance.uniform(0, 0.15))], check=False, timeout=60
        )
        with open_log(path) as log:
            with log.reading() as db:
                assert count_erased(db) in (0, number)
            assert verify(log).ok
            assert redact(log, matching="sk-", **WHY).wal_emptied
            with log.reading() as db:
                assert count_erased(db) == number
        assert SECRET.encode() not in files(path)


# -- any history


class History:
    """A random history of some runs, in which every text is made of a mark of its own."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.log = open_log(path)
        self.runs = ["main"]
        self.keys: dict[str, str] = {}  # mark by key
        self.texts: dict[str, str] = {}  # key by mark
        self.gone: set[str] = set()
        self.log.execute([Write("first", "v")], run="main")

    def mark(self) -> str:
        """A text that occurs nowhere else."""
        return "".join(self.chance.choices(string.ascii_lowercase, k=12))

    def long(self, mark: str, most: int) -> str:
        """The mark, repeated, so that any piece of it that is left can be found."""
        return mark * self.chance.choice([1, 2, 5, 20, most // 12])

    def step(self) -> None:
        """Anything that can happen."""
        run = self.chance.choice(self.runs)
        happen: Callable[[str], None] = self.chance.choice(
            [self.write, self.write, self.write, self.delete, self.refuse, self.turn, self.restore, self.fork]
        )
        happen(run)

    def write(self, run: str) -> None:
        """Some texts, under old and new keys."""
        commands = []
        for _ in range(self.chance.choice([1, 3, 30])):
            if not self.keys or self.chance.random() < 0.3:
                mark = self.mark()
                self.keys[self.long(mark, 1200)] = mark
            key, text = self.chance.choice(sorted(self.keys)), self.mark()
            metadata = {"note": text} if self.chance.random() < 0.3 else None
            commands.append(Write(key, self.long(text, 9000), metadata))
            self.texts[text] = key
        self.log.execute(commands, run=run)

    def delete(self, run: str) -> None:
        """A key, if it is there."""
        self.log.execute([Delete(self.chance.choice(["first", *sorted(self.keys)]))], run=run)

    def refuse(self, run: str) -> None:
        """A condition that does not hold."""
        key = self.chance.choice(["first", *sorted(self.keys)])
        with suppress(Conflict):
            self.log.execute([Write(key, "v", expected_version=10**9)], run=run)

    def turn(self, run: str) -> None:
        """The next turn."""
        self.log.execute([AdvanceTurn()], run=run)

    def restore(self, run: str) -> None:
        """Back to anywhere."""
        timeline = Timeline(self.log, run)
        with suppress(BadAddress):
            timeline.restore(position=self.chance.randint(1, timeline.point().position))

    def fork(self, run: str) -> None:
        """From anywhere."""
        if len(self.runs) < 6:
            timeline, name = Timeline(self.log, run), f"fork {len(self.runs)}"
            try:
                timeline.fork(run=name, position=self.chance.randint(1, timeline.point().position))
            except BadAddress:
                return
            self.runs.append(name)

    def erase(self) -> None:
        """Some texts by pattern, or all of a key, or a name."""
        way = self.chance.choice(["texts", "texts", "key", "name"])
        if way == "texts" and self.texts:
            some = self.chance.sample(
                sorted(self.texts), min(len(self.texts), self.chance.choice([1, 5, 40]))
            )
            redact(self.log, matching="|".join(some), **WHY)
        elif way == "key" and self.texts:
            key = self.chance.choice(sorted(set(self.texts.values()) & set(self.keys)) or ["first"])
            some = [text for text, of in self.texts.items() if of == key]
            redact(self.log, key=key, **WHY)
        elif way == "name" and self.keys:
            key = self.chance.choice(sorted(self.keys))
            some = [self.keys.pop(key)]
            try:
                redact(self.log, name=key, **WHY)
            except NotFound:
                return
        else:
            return
        for text in some:
            self.texts.pop(text, None)
        self.gone.update(some)

    def check(self) -> None:
        """Nothing that is gone is anywhere in the files."""
        self.log.close()
        data = files(self.path)
        assert [mark for mark in self.gone if mark.encode() in data] == []
        self.log = open_log(self.path)


SEEDS = [*range(4), *(pytest.param(each, marks=pytest.mark.long) for each in range(4, 60))]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_left_after_any_history(tmp_path: Path, seed: int) -> None:
    """Whatever happened before, in between and since: no byte of it, and every question is answered."""
    history = History(tmp_path / "team.db", seed)
    try:
        for _ in range(4):
            for _ in range(history.chance.randint(1, 10)):
                history.step()
            history.erase()
            history.check()
        check_some(history.log, history.gone)
    finally:
        history.log.close()
    assert judged(history.path).returncode == 0


def check_some(log: EventLog, gone: set[str]) -> None:
    """`check_whole`, at some points of a log that may be long."""
    assert verify(log).ok
    for info in log.runs():
        timeline = Timeline(log, info.run.name)
        for position in range(1, info.head.position + 1, max(1, info.head.position // 6)):
            try:
                state = timeline.state(position=position, all=True)
            except BadAddress:
                continue
            assert dict(state) == dict(timeline.folded(position=position))
            assert not any(mark in repr(state) for mark in gone)


def test_where_a_row_lay_before_it_was_moved_is_written_over(tmp_path: Path) -> None:
    """Pages that were split keep copies of the rows that went to the page beside; names lie in such pages."""
    path = tmp_path / "team.db"
    chance = random.Random(0)
    marks = ["".join(chance.choices(string.ascii_lowercase, k=12)) for _ in range(400)]
    with open_log(path) as log:
        commands = [Write(mark * chance.choice([1, 5, 20, 60, 100]), "v") for mark in marks]
        keys = {mark: command.key for mark, command in zip(marks, commands, strict=True)}
        for first in range(0, len(commands), 7):
            log.execute(commands[first : first + 7], run="main")
        gone = chance.sample(marks, 12)
        for mark in gone:
            redact(log, name=keys[mark], **WHY)
    data = files(path)
    assert [mark for mark in gone if mark.encode() in data] == []
