"""What a process is killed in the middle of, and how to tell afterwards what has become of it.

A new verb joins with one line in `OPERATIONS`: what a worker does, named by a tag of its own, and whether
that has happened. To be asked in the parent, `became` may look at anything that lies in the folder.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    EntryDeleted,
    EntryWritten,
    EventLog,
    Recorded,
    Redacted,
    Restored,
    RunForked,
    Write,
    WriteRefused,
)
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.memory import EventSourcedStore, SharedMemory, acting_as
from turnlog.projections import EntriesProjection
from turnlog.projections import rebuild as rebuild_beside
from turnlog.replay import Timeline, anchor, backup, read_anchor, redact, sweep, verify
from turnlog.replay.cli import turnlog as command_line
from turnlog.teams import Agent, Task, Team, run_tasks

__all__ = ["ARRIVALS", "OPERATIONS", "Aftermath", "Operation", "Work", "prepare"]

ARRIVALS = 8
_KEYS = ("a", "b", "c", "caf\u00e9")
_EXPORT = "arrivals.jsonl"
_ANCHOR = "team.anchor"
_OLD = Path(__file__).parents[1] / "golden" / "format-1.db"


@dataclass
class Work:
    """What a worker has at hand.

    Attributes:
        path: the log's file; what else is made lies beside it.
        log: the log, open.
        random: the worker's own.
    """

    path: Path
    log: EventLog
    random: random.Random

    def __post_init__(self) -> None:
        """The runs that everybody writes to."""
        self.store = EventSourcedStore(self.log, "main")
        self.memory = SharedMemory(EventSourcedStore(self.log, "shared"))

    @property
    def key(self) -> str:
        """Some key."""
        return self.random.choice(_KEYS)

    @property
    def position(self) -> int:
        """Some position of the log that is not inside a batch of the run."""
        timeline = Timeline(self.log, "main")
        while True:
            position = self.random.randrange(timeline.point().position + 1)
            if not timeline.point(position=position).inside_batch:
                return position

    def beside(self, name: str) -> Path:
        """A file beside the log."""
        return self.path.with_name(name)


@dataclass
class Aftermath:
    """What a round left behind.

    Attributes:
        path, log: the log, opened anew.
        batches: its events by the tag that they carry as activity or agent.
        gone: texts of which no byte may be left in the file or beside it, once the log is closed.
    """

    path: Path
    log: EventLog
    batches: dict[str, list[Recorded]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the log."""
        for recorded in self.log.read():
            self.batches.setdefault(recorded.activity or recorded.agent or "", []).append(recorded)

    def batch(self, tag: str, *kinds: type, more: type | None = None) -> list[Recorded]:
        """The events of `tag`: none, or one whole batch of those kinds, and then any number of `more`."""
        found = self.batches.get(tag, [])
        if found:
            assert [each.batch for each in found] == list(range(len(found))), tag
            assert [each.position - found[0].position for each in found] == list(range(len(found))), tag
            told = [type(each.event) for each in found]
            assert told[: len(kinds)] == list(kinds), (tag, told)
            assert set(told[len(kinds) :]) <= {more}, (tag, told)
        return found

    def state(self, run: str, position: int) -> dict[str, tuple[Any, ...]]:
        """What a run held at a position, in order."""
        found = Timeline(self.log, run).state(position=position, all=True)
        return {
            entry.key: (entry.value, entry.metadata, entry.created_at, entry.expires_at_turn)
            for entry in found.values()
        }

    def beside(self, name: str) -> Path:
        """A file beside the log."""
        return self.path.with_name(name)


class Operation(NamedTuple):
    """Something that must happen wholly or not at all.

    Attributes:
        carry_out: do it, in the worker; what the caller is told (JSON).
        became: in the parent: whether it happened, given the tag and, if it was acknowledged, what was told.
            Anything between happened and not is an AssertionError.
    """

    carry_out: Callable[[Work, str], Any]
    became: Callable[[Aftermath, str, Any], bool]


def text(tag: str) -> str:
    """The value that belongs to a tag: mostly short, sometimes over several pages."""
    number = zlib.crc32(tag.encode())
    return tag + "." * (number % 20_000 if number % 5 == 0 else number % 60)


def prepare(path: Path) -> None:
    """Make the log that is to be written, and the export that is to be imported."""
    with turnlog.open(path.with_name("source.db"), durability="os") as source:
        for number in range(ARRIVALS):
            source.execute(
                [Write(f"k{key}", text(f"{number} {key}")) for key in range(40)], run=f"in {number}"
            )
        path.with_name(_EXPORT).write_text("\n".join(export_lines(source)), "utf-8")
    with turnlog.open(path, durability="os") as log:
        log.execute([Write(key, "first") for key in _KEYS], run="main")
        log.execute([Write("writer/draft", "first")], run="shared")


# -- single writes


def set_value(work: Work, tag: str) -> int:
    with acting_as("worker", activity=tag):
        return work.store.set(work.key, text(tag), {"tag": tag})


def was_set(after: Aftermath, tag: str, told: Any) -> bool:
    found = after.batch(tag, EntryWritten)
    assert told is None or [each.position for each in found] == [told]
    return bool(found) and is_value(found[0], tag)


def is_value(recorded: Recorded, tag: str) -> bool:
    assert isinstance(recorded.event, EntryWritten)
    assert recorded.event.value == text(tag)
    assert json.loads(recorded.event.metadata or "null") == {"tag": tag}
    return True


def compare_and_set(work: Work, tag: str) -> bool:
    key = work.key
    held = work.store.get(key)
    with acting_as("worker", activity=tag):
        return work.store.compare_and_set(key, held and held.value, text(tag), {"tag": tag})


def was_compared(after: Aftermath, tag: str, told: Any) -> bool:
    found = after.batches.get(tag, [])
    if found and isinstance(found[0].event, WriteRefused):
        assert len(found) == 1
        assert told is not True
        return True
    assert told is not False
    return bool(after.batch(tag, EntryWritten)) and is_value(found[0], tag)


# -- many events at once


def batch(work: Work, tag: str) -> list[Any]:
    writes = [Write(f"{tag}/{number}", text(f"{tag} {number}")) for number in range(20)]
    with acting_as("worker", activity=tag):
        return work.store.execute([*writes, AdvanceTurn()])


def was_batch(after: Aftermath, tag: str, told: Any) -> bool:
    found = after.batch(tag, *[EntryWritten] * 20, turnlog.eventlog.TurnAdvanced)
    values = [each.event.value for each in found if isinstance(each.event, EntryWritten)]
    assert values == [text(f"{tag} {number}") for number in range(20)][: len(values)]
    assert len(found) in (0, 21)
    return bool(found)


def clear(work: Work, tag: str) -> list[Any]:
    with acting_as("worker", activity=tag):
        return work.store.execute([*(Write(f"{tag}/{number}", "v") for number in range(4)), Clear()])


def was_cleared(after: Aftermath, tag: str, told: Any) -> bool:
    found = after.batch(tag, *[EntryWritten] * 4, more=EntryDeleted)
    if found:
        assert after.state("main", found[-1].position) == {}
    return bool(found)


def restore(work: Work, tag: str) -> int:
    return Timeline(work.log, "main").restore(position=work.position, by=tag).position


def was_restored(after: Aftermath, tag: str, told: Any) -> bool:
    found = after.batches.get(tag, [])
    if not found:
        return False
    assert [each.batch for each in found] == list(range(len(found)))
    restored = found[0].event
    assert isinstance(restored, Restored)
    assert restored.to is not None
    timeline = Timeline(after.log, "main")
    wanted = after.state("main", timeline.original(restored.to).position) if restored.to else {}
    assert after.state("main", found[-1].position) == wanted
    return True


def restore_snapshot(work: Work, tag: str) -> None:
    work.memory.restore({"version": 1, "turnCount": 3, "entries": saved(tag)}, by=tag)


def saved(tag: str) -> list[dict[str, str]]:
    created_at = "2026-11-30T02:13:00.123Z"
    return [
        {"key": f"writer/{tag} {number}", "value": text(f"{tag} {number}"), "createdAt": created_at}
        for number in range(10)
    ]


def was_put_back(after: Aftermath, tag: str, told: Any) -> bool:
    found = after.batches.get(tag, [])
    if found:
        assert [each.batch for each in found] == list(range(len(found)))
        state = after.state("shared", found[-1].position)
        assert [(key, entry[0]) for key, entry in state.items()] == [
            (entry["key"], entry["value"]) for entry in saved(tag)
        ]
    return bool(found)


def rebuild(work: Work, tag: str) -> bool:
    work.log.transact(EntriesProjection().rebuild)
    return True


def rebuild_beside_others(work: Work, tag: str) -> bool:
    return rebuild_beside(work.log) == ["entries"]


def was_rebuilt(after: Aftermath, tag: str, told: Any) -> bool:
    return told is True  # what it may have left half done, the check of the table finds


# -- runs


def fork(work: Work, tag: str) -> int:
    Timeline(work.log, "main").fork(run=tag, position=work.position, by="worker")
    head = work.log.head(tag)
    assert head is not None
    return head.position


def was_forked(after: Aftermath, tag: str, told: Any) -> bool:
    head = after.log.head(tag)
    if head is None:
        return False
    (first,) = after.log.read(run=tag)
    assert isinstance(first.event, RunForked)
    assert told is None or first.position == told
    origin = first.event.revision
    timeline = Timeline(after.log, "main")
    wanted = after.state("main", timeline.original(origin).position) if origin else {}
    assert after.state(tag, head.position) == wanted
    return True


def arrival(tag: str) -> str:
    """Which run of the export a tag imports."""
    return f"in {zlib.crc32(tag.encode()) % ARRIVALS}"


def import_run(work: Work, tag: str) -> list[str]:
    lines = work.beside(_EXPORT).read_text("utf-8").splitlines()
    return import_lines(work.log, lines, arrival(tag))


def was_imported(after: Aftermath, tag: str, told: Any) -> bool:
    head = after.log.head(arrival(tag))
    if head is None:
        return False
    with turnlog.open(after.beside("source.db"), read_only=True) as source:
        there = source.head(arrival(tag))
    assert there is not None
    assert (head.hash, head.revision) == (there.hash, there.revision)
    return True


# -- files


def export(work: Work, tag: str) -> bool:
    words = ["export", str(work.path), "--output", str(work.beside(f"{tag}.jsonl"))]
    while True:
        try:
            command_line.main(words, standalone_mode=False)
        except click.ClickException as error:
            if "erased meanwhile" not in error.message:
                raise  # else another worker redacts, and says so
        else:
            return True


def was_exported(after: Aftermath, tag: str, told: Any) -> bool:
    file = after.beside(f"{tag}.jsonl")
    if not file.exists():
        return False
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert lines[-1]["kind"] == "end"
    assert sum(line["kind"] == "event" for line in lines) == lines[-1]["events"] > 0
    file.unlink()
    return True


def import_file(work: Work, tag: str) -> bool:
    words = ["import", str(work.beside(f"{tag}.db")), str(work.beside(_EXPORT))]
    command_line.main(words, standalone_mode=False)
    return True


def was_copied(after: Aftermath, tag: str, told: Any) -> bool:
    file = after.beside(f"{tag}.db")
    if not file.exists():
        return False
    with turnlog.open(file) as log:
        assert len(log.runs()) == ARRIVALS
        assert verify(log).problems == []
    file.unlink()
    return True


def create(work: Work, tag: str) -> int:
    with turnlog.open(work.beside(f"{tag}.db")) as log:
        return EventSourcedStore(log).set("k", text(tag))


def was_created(after: Aftermath, tag: str, told: Any) -> bool:
    file = after.beside(f"{tag}.db")
    if not file.exists():
        return False
    with turnlog.open(file) as log:
        assert verify(log).problems == []
        entry = EventSourcedStore(log).get("k")
    assert entry is None or entry.value == text(tag)
    file.unlink()
    return entry is not None


def migrate(work: Work, tag: str) -> int:
    """Open a file of the first format; workers that come to this at the same time share one."""
    copy, file = work.beside(f"{tag}.copy"), old_file(work, tag)
    shutil.copyfile(_OLD, copy)
    with suppress(FileExistsError):  # another worker was faster
        os.link(copy, file)
    copy.unlink()
    with turnlog.open(file, busy_timeout_s=60) as log:
        return EventSourcedStore(log, "after").set(tag, text(tag))


def old_file(at: Work | Aftermath, tag: str) -> Path:
    round_, number = tag.split("w")[0], tag.split("-")[1]
    return at.beside(f"{round_}-{number}.old.db")


def was_migrated(after: Aftermath, tag: str, told: Any) -> bool:
    after.beside(f"{tag}.copy").unlink(missing_ok=True)
    file = old_file(after, tag)
    if not file.exists():
        return False
    with turnlog.open(file) as log:
        assert verify(log).problems == []
        with log.reading() as db:
            assert db.execute("pragma user_version").fetchone() == (2,)
        heads = [(info.run.name, info.head) for info in log.runs()]
        assert [(name, head and head.hash.hex()) for name, head in heads][: len(OLD_HEADS)] == OLD_HEADS
        entry = EventSourcedStore(log, "after").get(tag)
    assert entry is None or (entry.value, told) in ((text(tag), entry.version), (text(tag), None))
    return entry is not None


def old_heads() -> list[tuple[str, str | None]]:
    """The runs of the old file, and the hash of the newest event of each."""
    golden = json.loads(_OLD.with_suffix(".json").read_text("utf-8"))
    return [(run["run"], run["head"]["hash"]) for run in golden["runs"]]


def back_up(work: Work, tag: str) -> int:
    return backup(work.log, work.beside(f"{tag}.backup.db")).events


def was_backed_up(after: Aftermath, tag: str, told: Any) -> bool:
    file = after.beside(f"{tag}.backup.db")
    if not file.exists():
        return False
    with turnlog.open(file, read_only=True) as log:
        found = verify(log)
    assert found.problems == []
    assert told in (None, found.events)
    assert found.events > 0
    file.unlink()
    return True


def append_anchor(work: Work, tag: str) -> int:
    return anchor(work.log, work.beside(_ANCHOR)).counter


def was_anchored(after: Aftermath, tag: str, told: Any) -> bool:
    file = after.beside(_ANCHOR)
    if not file.exists() or told is None:
        return False  # lines do not say whose they are; that each is whole and follows, all readers check
    if not file.read_bytes().endswith(b"\n"):
        anchor(after.log, file)  # a killed process left half a line, which the next anchor takes away
    assert read_anchor(file).counter >= told
    assert verify(after.log, anchor=file).problems == []
    return True


# -- taking out


def secret(tag: str) -> str:
    return f"sk-{zlib.crc32(tag.encode()):08x}-{tag}-" + "s" * (zlib.crc32(tag.encode()) % 9000)


def keep_secret(work: Work, tag: str) -> None:
    """A run, and a fork of it, whose present and past show the same secret in several ways."""
    log, run, key = work.log, f"{tag} secret", f"{tag}/secret"
    with acting_as("worker", activity=f"{tag} before"):
        store = EventSourcedStore(log, run)
        store.execute([Write(key, secret(tag)), Write("beside", "v"), AdvanceTurn()])
        store.set(key, "nothing", {"note": secret(tag)})
        Timeline(log, run).fork(run=f"{tag} fork", turn=0)
        store.execute([Write(key, secret(tag) + "!"), AdvanceTurn()])
        Timeline(log, run).restore(turn=0)


def redact_key(work: Work, tag: str) -> int:
    keep_secret(work, tag)
    return redact(work.log, key=f"{tag}/secret", by=tag, reason="asked for").events


def redact_matching(work: Work, tag: str) -> int:
    keep_secret(work, tag)
    return redact(work.log, matching=secret(tag)[:24], by=tag, reason="asked for").events


def was_redacted(after: Aftermath, tag: str, told: Any) -> bool:
    """All of it or none, in the run as in its fork; then it is asked for again, and is done."""
    log, key = after.log, f"{tag}/secret"
    began = after.batches.get(f"{tag} before", [])
    written = [each for each in began if isinstance(each.event, EntryWritten) and each.event.key == key]
    kept = [each for each in written if secret(tag) in f"{each.event.value}{each.event.metadata}"]
    done = any(isinstance(each.event, Redacted) for each in after.batches.get(tag, []))
    assert not done or kept == []
    assert done or len(kept) == len(written)
    if written:  # else it was killed before there was such a key
        redact(log, key=key, by=f"{tag} again", reason="asked for")
    for run in {each.run for each in began} & {info.run.name for info in log.runs()}:
        assert (entry := EventSourcedStore(log, run).get(key)) is None or entry.value == "[redacted]"
    after.gone.append(secret(tag)[:24])
    return done


def sweep_run(work: Work, tag: str) -> int:
    with acting_as("worker", activity=f"{tag} before"):
        writes = [Write(f"k{number}", text(tag), expires_at_turn=1 + number % 2) for number in range(10)]
        work.log.execute([*writes, AdvanceTurn()], run=tag)
    return sweep(work.log, tag, agent=tag)[tag]


def was_swept(after: Aftermath, tag: str, told: Any) -> bool:
    found = after.batch(tag, more=EntryDeleted)
    assert len(found) in (0, 5)
    assert told in (None, len(found))
    return bool(found)


# -- teams


def do_tasks(work: Work, tag: str) -> bool:
    team = Team(
        [Agent("writer", lambda prompt, memory, context: text(tag))],
        shared_memory_store=EventSourcedStore(work.log, tag),
    )
    tasks = [Task("one", "", "writer"), Task("two", "", "writer", depends_on=["one"])]
    return run_tasks(team, tasks, on_event=lambda event: None).success


def were_done(after: Aftermath, tag: str, told: Any) -> bool:
    if after.log.head(tag) is None:
        return False
    store = EventSourcedStore(after.log, tag)
    results = [(entry.key, entry.value) for entry in store.list()]
    assert results == [(f"writer/task:{name}:result", text(tag)) for name in ("one", "two")][: len(results)]
    assert store.get_turn() == len(results)
    assert told is None or (told, len(results)) == (True, 2)
    return len(results) == 2


OLD_HEADS = old_heads()

OPERATIONS = {
    "redact a key": Operation(redact_key, was_redacted),
    "redact by pattern": Operation(redact_matching, was_redacted),
    "migrate": Operation(migrate, was_migrated),
    "back up": Operation(back_up, was_backed_up),
    "set": Operation(set_value, was_set),
    "compare_and_set": Operation(compare_and_set, was_compared),
    "batch": Operation(batch, was_batch),
    "clear": Operation(clear, was_cleared),
    "restore": Operation(restore, was_restored),
    "restore a snapshot": Operation(restore_snapshot, was_put_back),
    "rebuild": Operation(rebuild, was_rebuilt),
    "rebuild beside others": Operation(rebuild_beside_others, was_rebuilt),
    "sweep": Operation(sweep_run, was_swept),
    "anchor": Operation(append_anchor, was_anchored),
    "tasks": Operation(do_tasks, were_done),
    "fork": Operation(fork, was_forked),
    "import": Operation(import_run, was_imported),
    "export": Operation(export, was_exported),
    "import to a new file": Operation(import_file, was_copied),
    "create": Operation(create, was_created),
}
