"""Makes the golden log of format 2, and what it must read back as.

Once a release has written this format the two files never change again. Until then make them anew with

    .venv/bin/python tests/golden/make_format_2.py
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from turnlog.eventlog import (
    AdvanceTurn,
    Clear,
    CompareAndSet,
    Conflict,
    Delete,
    Entry,
    EntryDeleted,
    EntryRestored,
    EntryWritten,
    Event,
    EventLog,
    Limits,
    Once,
    Recorded,
    Restored,
    SetTurn,
    View,
    Write,
)
from turnlog.eventlog.batch import Actor
from turnlog.eventlog.chain import content_commitment
from turnlog.eventlog.history import entries_at
from turnlog.eventlog.redaction import Redact
from turnlog.eventlog.runs import genesis
from turnlog.projections import EntriesProjection, read_entries

HERE = Path(__file__).parent
LOG, EXPECTED = HERE / "format-2.db", HERE / "format-2.json"

FIRST_MILLISECOND = 1_795_000_000_123


@dataclass(frozen=True)
class GoBack:
    """Takes a run back to entries it once had, as a restore does: by events that point there."""

    to: int
    turn: int
    entries: Sequence[Entry]
    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: View) -> Sequence[Event]:
        """The mark, then one event for each key that holds something else now."""
        wanted = {entry.key: entry for entry in self.entries}
        events: list[Event] = [Restored(self.turn, self.to, by="the editor", reason="back to the plan")]
        events += [EntryDeleted(now.key) for now in view.entries() if now.key not in wanted]
        for key, then in wanted.items():
            now = view.entry(key)
            if now is None or now.content != then.content:
                event = EntryRestored(key, then.content, then.birth, then.created_at, then.expires_at_turn)
                events.append(event)
        return events

    def outcome(self, recorded: Sequence[Recorded]) -> None:
        """Nothing to answer."""


@dataclass(frozen=True)
class PutBack:
    """Puts an entry of a snapshot back, older than the event that brings it."""

    event: EntryWritten
    agent: str | None = None

    def check(self, limits: Limits) -> None:
        """Nothing to check."""

    def decide(self, view: View) -> Sequence[Event]:
        """A restore that names no revision, and the entry."""
        return [Restored(view.turn), self.event]

    def outcome(self, recorded: Sequence[Recorded]) -> None:
        """Nothing to answer."""


def make(path: Path) -> None:
    """Write the golden log to `path`; the same bytes of time, identity and chance every time."""
    clock, chance, uids = itertools.count(FIRST_MILLISECOND, 1000), itertools.count(), itertools.count(1)
    with EventLog(
        path,
        projections=(EntriesProjection(),),
        clock=clock.__next__,
        new_uid=lambda: sha256(b"uid %d" % next(uids)).hexdigest()[:32],
        random_bytes=lambda size: sha256(b"chance %d" % next(chance)).digest()[:size],
    ) as log:
        write(log)


def write(log: EventLog) -> None:
    """Every type of event, and every way to store something."""
    log.execute([Write("plan", "survey")], run="trip-42", agent="planner", activity="task 1")
    log.execute(
        [
            Write("researcher/findings", '{"claim":"X reduces Y"}', {"agent": "researcher", "n": [1, None]}),
            Write("note", "", {}, expires_at_turn=1),
            AdvanceTurn(),
        ],
        run="trip-42",
        activity="task 2",
    )
    log.execute(
        [
            CompareAndSet("plan", "survey", "survey, then report"),
            CompareAndSet("plan", "survey", "report"),
            CompareAndSet("absent", "x", "\ud83d"),
            CompareAndSet("plan", None, ""),
        ],
        run="trip-42",
        agent="editor",
    )
    try:
        log.execute([Write("plan", "too late"), Write("note", "x", expected_version=99)], run="trip-42")
    except Conflict:
        pass
    else:
        raise AssertionError("99 is nobody's version")
    log.execute(
        [
            Write("\ud83d half \0", "other half \ude00\0", {"\ude00": "\ud83d"}),
            Write("a/b", "007"),
            Write("é", "e\u0301"),
            Delete("note"),
            Write("note", "again", expires_at_turn=2**53 - 1),
        ],
        run="trip-42",
        agent="\udcff",
    )
    log.execute([SetTurn(5), Delete("a/b")], run="trip-42", agent="planner")
    past = log.lineage("trip-42")
    with log.reading() as db:
        early = entries_at(db, past, 4)
    log.execute([GoBack(4, 1, early, agent="editor")], run="trip-42")
    log.execute([Write("plan", "survey anew"), AdvanceTurn()], run="trip-42")
    old = EntryWritten("from a snapshot", "v", '{"k":"v"}', None, None, FIRST_MILLISECOND - 86_400_000)
    log.execute([PutBack(old)], run="trip-42")
    log.execute([Write("from a snapshot", "w")], run="trip-42")

    log.execute([Write("plan", "another trip")], run="trip-43", agent="planner")
    log.execute([Clear(), Clear()], run="trip-43")

    log.fork("trip-42", 10, run="what if", turn=1, agent="planner")
    log.execute([Write("plan", "no survey"), Delete("é"), AdvanceTurn()], run="what if", agent="editor")
    log.fork("what if", 13, run="what if not", turn=1)  # a fork of a fork
    log.execute([CompareAndSet("plan", "no survey", "but a report")], run="what if not")
    log.fork("what if", 4, run="earlier", turn=1)  # before the parent's own beginning
    with log.reading() as db:
        first = entries_at(db, log.lineage("earlier"), 1)
    log.execute([GoBack(1, 0, first)], run="earlier")
    log.fork("trip-42", 0, run="from nothing", turn=0)
    log.execute([Write("plan", "begin")], run="from nothing", agent="planner")

    write_2(log)


def write_2(log: EventLog) -> None:
    """What format 2 added: commands carried out once, and redaction."""
    once = [
        Once("mail 1", Write("mail", "sent")),
        Once("\ud83d", Delete("absent")),
        Once("mail 2", CompareAndSet("mail", "lost", "sent again")),
        Once("mail 3", Clear()),
        Once("mail 4", AdvanceTurn()),
    ]
    outcomes = log.execute(once, run="mails", agent="clerk")
    assert log.execute(once, run="mails", agent="clerk") == outcomes
    log.execute(
        [Write("secret", "alice, 4711", {"agent": "alice"}), Write("alice", "hers")],
        run="secrets",
        agent="alice",
    )
    log.execute([Write("secret", "alice, 4712"), CompareAndSet("secret", "x", "4713")], run="secrets")
    log.fork("secrets", 4, run="secrets again", turn=0)
    with log.reading() as db:
        (secrets,) = db.execute("select max(id) - 1 from runs").fetchone()
        (alice,) = db.execute(
            "select commitment from names where text = 'alice' and family = ?", (secrets,)
        ).fetchone()
    texts = {secrets: {"secret": [1, 3, 4]}}
    officer = Actor("officer")
    log.redact([Redact(run, texts, (), (), "asked to", officer) for run in ("secrets", "secrets again")])
    log.redact([Redact("secrets again", {}, (), ("alice",), "asked to", officer)])
    log.redact([Redact("secrets", {}, (alice,), ("alice",), "asked to", officer)])
    log.purge()


def describe(path: Path) -> dict[str, Any]:
    """Everything that the log at `path` must read back as, in JSON."""
    with EventLog(path, projections=(EntriesProjection(),)) as log, log.reading() as db:
        commitments = {
            position: content_commitment(salt, value, metadata).hex()
            for position, salt, value, metadata in db.execute(
                "select position, salt, value, metadata from events where salt is not null"
            ).fetchall()
        }
        return {
            "runs": [
                {
                    "run": info.run.name,
                    "uid": info.run.uid,
                    "parent": info.parent,
                    "fork_revision": info.run.fork_revision,
                    "created_at": info.run.created_at,
                    "genesis": genesis(db, info.run.id).hex(),
                    "head": dict(info.head._asdict(), hash=info.head.hash.hex()),
                    "lineage": [
                        [segment.after, segment.upto] for segment in log.lineage(info.run.name).segments
                    ],
                }
                for info in log.runs()
            ],
            "names": [
                {
                    "family": family,
                    "text": _portable(text),
                    "salt": None if salt is None else salt.hex(),
                    "commitment": commitment.hex(),
                }
                for family, text, salt, commitment in db.execute(
                    "select family, text, salt, commitment from names order by id"
                ).fetchall()
            ],
            "events": [_event(recorded, commitments.get(recorded.position)) for recorded in log.read()],
            "entries": {
                info.run.name: [
                    {name: _portable(value) for name, value in stored._asdict().items()}
                    for stored in read_entries(db, info.run, 0, -1)
                ]
                for info in log.runs()
            },
        }


def _event(recorded: Recorded, commitment: str | None) -> dict[str, Any]:
    facts = {
        "position": recorded.position,
        "run": recorded.run,
        "revision": recorded.revision,
        "batch": recorded.batch,
        "turn": recorded.turn,
        "type": type(recorded.event).__name__,
        "agent": _portable(recorded.agent),
        "activity": _portable(recorded.activity),
        "recorded_at": recorded.recorded_at_ms,
        "content_commitment": commitment,
        "hash": recorded.hash.hex(),
    }
    fields = asdict(recorded.event)
    if recorded.idempotency_key is not None:
        facts["idempotency_key"] = _portable(recorded.idempotency_key)
    fields |= {f"attempt_{name}": value for name, value in fields.pop("attempt", {}).items()}
    return facts | {"event": {name: _portable(value) for name, value in fields.items()}}


def _portable(value: Any) -> Any:
    """Text that is no UTF-8, and bytes, in a form that JSON keeps."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            value = value.encode("utf-8", "surrogatepass")
    if isinstance(value, tuple | list):
        return [_portable(item) for item in value]
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def main() -> None:
    """Make both files anew."""
    for suffix in ("", "-wal", "-shm"):
        LOG.with_name(LOG.name + suffix).unlink(missing_ok=True)
    make(LOG)
    LOG.chmod(0o644)
    EXPECTED.write_text(json.dumps(describe(LOG), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
