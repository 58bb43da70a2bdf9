"""turnlog as the public suite `agent-memory-integrity` sees a memory store.

    PYTHONPATH=tests/integrity agmi-check --adapter agmi_adapter:TurnlogAdapter

Each edit is made with plain SQL behind turnlog's back, by somebody who first takes the guards away, puts
them back after, and says that the live table is stale, so that it gives nothing away: what is found then is
found by the chain or the anchor. A forger who also computes the right hash has appended an event like any
other writer; no store without a secret can tell him from one, and nothing here tries to (see SECURITY.md).
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agmi.adapters.base import MemoryAdapter, Record

import turnlog
from turnlog import EventSourcedStore, SharedMemory
from turnlog.replay.anchoring import anchor
from turnlog.replay.verification import verify

_COLUMNS = ("key", "agent", "value", "metadata", "salt", "birth", "recorded_at", "hash")
_ROWS = f"select position, revision, {', '.join(_COLUMNS)} from events where run = ? order by revision"
_GIVEN = ", ".join(f":{name}" for name in _COLUMNS)
_PLACED = f"update events set ({', '.join(_COLUMNS)}) = ({_GIVEN}) where run = 1 and revision = :at"
_ADDED = f"""
insert into events (position, run, revision, batch, turn, type, payload, encoding, {", ".join(_COLUMNS)})
values ((select max(position) + 1 from events), 1, :at, 0, 0, 1, 1, 0, {_GIVEN})
"""


class TurnlogAdapter(MemoryAdapter):
    """A log with two runs, and its anchor in another folder, where the attacker cannot write."""

    name = "turnlog"
    detection_point = "audit"
    supports_replay = supports_metadata = supports_snapshot = True
    anchored = True

    def setup(self) -> None:
        """A folder for the log, and another for what is kept elsewhere."""
        self._store, self._elsewhere = tempfile.TemporaryDirectory(), tempfile.TemporaryDirectory()
        self._path = Path(self._store.name) / "team.db"
        self._kept = Path(self._elsewhere.name) / "team.anchor"

    def teardown(self) -> None:
        """Remove both."""
        self._store.cleanup()
        self._elsewhere.cleanup()

    def seed(self, n: int) -> None:
        """Entries of one run."""
        self._write("main", [f"note {number}" for number in range(n)])

    def seed_other(self, n: int) -> None:
        """Entries of another run in the same file."""
        self._write("other", [f"other note {number}" for number in range(n)])

    def append_genuine(self) -> None:
        """One entry more."""
        self._write("main", ["a late note"])

    def read_all_raw(self) -> list[Record]:
        """The events of the first run, a row each."""
        return self._read(1)

    def read_other_raw(self) -> list[Record]:
        """Those of the second."""
        return self._read(2)

    def write_raw(self, record: Record) -> None:
        """Put a row in its place, or behind the last."""
        values = {name: record.fields[name] for name in _COLUMNS} | {"at": record.seq + 1}
        with self._unguarded() as db:
            if db.execute(_PLACED, values).rowcount == 0:
                db.execute(_ADDED, values)

    def delete_raw(self, seq: int) -> None:
        """Take a row out."""
        with self._unguarded() as db:
            db.execute("delete from events where run = 1 and revision = ?", (seq + 1,))

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Put what another event holds, salt and hash included, into a row."""
        fields = {name: donor.fields[name] for name in ("value", "metadata", "salt", "hash")}
        changes = ", ".join(f"{name} = :{name}" for name in fields)
        with self._unguarded() as db:
            db.execute(
                f"update events set {changes} where run = 1 and revision = :at",
                fields | {"at": victim_seq + 1},
            )

    def read_meta(self, seq: int) -> dict[str, Any]:
        """An entry's metadata."""
        return json.loads(self.read_all_raw()[seq].fields["metadata"])

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Other metadata for an entry."""
        with self._unguarded() as db:
            query = "update events set metadata = ? where run = 1 and revision = ?"
            db.execute(query, (json.dumps(meta), seq + 1))

    def snapshot_store(self) -> object:
        """A copy of the log; nobody has it open, so it is one file. The anchor is not part of it."""
        return self._copy_store(self._path)

    def restore_store(self, token: object) -> None:
        """The copy in place of the log."""
        self._restore_store(str(token), self._path)

    def mutate_payload(self, record: Record) -> Record:
        """Let it say something else."""
        record.fields["value"] += ", forged"
        return record

    def identity_of(self, record: Record) -> str:
        """Its place in its run."""
        return f"{record.fields['run']}:{record.fields['revision']}"

    def payload_of(self, record: Record) -> str:
        """What it says."""
        return record.fields["value"]

    def owner_of(self, record: Record) -> str:
        """Its run."""
        return str(record.fields["run"])

    def reload(self) -> None:
        """Open the log to write, as after a restart."""
        with turnlog.open(self._path):
            pass

    def verify(self) -> bool:
        """What `turnlog verify --anchor` says."""
        with turnlog.open(self._path, read_only=True) as log:
            found = verify(log, anchor=self._kept if self.anchored else None)
        self.verify_detail = None if found.ok else str(found.problems[0])
        return found.ok

    def _write(self, run: str, notes: list[str]) -> None:
        with turnlog.open(self._path, durability="os") as log:
            memory = SharedMemory(EventSourcedStore(log, run))
            for note in notes:
                memory.write("writer", note.replace(" ", "-"), note, {"source": "user"})
            anchor(log, self._kept)

    def _read(self, run: int) -> list[Record]:
        with closing(sqlite3.connect(self._path)) as db:
            db.row_factory = sqlite3.Row
            rows = [dict(row) | {"run": run} for row in db.execute(_ROWS, (run,))]
        return [Record(seq=row["revision"] - 1, fields=row) for row in rows]

    @contextmanager
    def _unguarded(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as db:
            guards = db.execute("select name, sql from sqlite_schema where type = 'trigger'").fetchall()
            for name, _ in guards:
                db.execute(f"drop trigger {name}")
            yield db
            db.execute("update projections set stale_from = 1")
            for _, sql in guards:
                db.execute(sql)


class WithoutAnchor(TurnlogAdapter):
    """The same, of which nobody keeps the heads elsewhere."""

    name = "turnlog without an anchor"
    anchored = False
