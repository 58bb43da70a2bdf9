"""Verify a log by what format.md says, without the library: `python verify_example.py FILE`.

Prints one line per run and `ok` (exit code 0), or the first problem and where it is (1). Exit code 2: the
file cannot be read, is no log, or is of another version. Titles in quotes are those of format.md. Events that
were cut off at the end may leave no trace: keep the printed heads somewhere else.
"""

import json
import re
import sqlite3
import sys
from contextlib import closing
from hashlib import sha256
from operator import itemgetter
from pathlib import Path

APPLICATION_ID, VERSIONS = 0x7475726E, (1, 2)  # "Identity", "Version 1"
WRITTEN, DELETED, PUT_BACK, FORKED, ADVANCED, TURN_SET, RESTORED = 1, 2, 3, 10, 11, 12, 13
REFUSED, UNCHANGED, REDACTED = 20, 21, 22
COLUMNS = {  # "Types": columns that an event of the type must have, and columns it may have
    WRITTEN: ({"key", "value", "salt"}, {"metadata", "expires_at_turn", "birth", "created_at"}),
    DELETED: ({"key"}, set()),
    PUT_BACK: ({"key", "content", "birth", "created_at"}, {"expires_at_turn"}),
    FORKED: ({"detail"}, set()),
    ADVANCED: (set(), set()),
    TURN_SET: (set(), set()),
    RESTORED: ({"detail"}, set()),
    REFUSED: ({"key", "salt", "detail"}, set()),
    UNCHANGED: ({"idempotency_key"}, set()),
    REDACTED: ({"detail"}, {"key"}),
}
ONCE = {"idempotency_key", "salt", "detail"}  # "Commands carried out once": what comes together
ERASED = {"value", "metadata", "salt"}  # "Redaction"
OPTIONAL = ONCE.union(*(must | may for must, may in COLUMNS.values()))
HASHED_FIRST = itemgetter("revision", "batch", "turn", "type", "payload")  # "Hashes"
PLAIN = ("encoding", "content", "expires_at_turn", "birth", "created_at", "detail", "recorded_at")
HASHED_LAST = itemgetter(*PLAIN, "idempotency_key")
TABLES = "('runs', 'names', 'events', 'projections', 'entries')"
NOTHING = {"family": None, "commitment": None}


class FoundError(Exception):
    """Something is not as it should be; the text says what and where."""


class Text(bytes):
    """What is stored as TEXT: its UTF-8. What is stored as a BLOB stays plain `bytes`."""


def check(right, what, position=None):
    if not right:
        raise FoundError(what if position is None else f"position {position}: {what}")


def is_text(value):
    """See "Text, numbers, times": TEXT of valid UTF-8, or a BLOB of what surrogates alone make invalid."""
    try:
        text = value.decode("utf-8", "surrogatepass")
    except (AttributeError, UnicodeDecodeError):
        return False
    return isinstance(value, Text) != any("\ud800" <= c <= "\udfff" for c in text)


def digest(tag, start, *fields):
    """See "Hashes": over a tag, then a salt or `previous` as it is, then fields."""
    data = tag + b"\n" + start
    for value in fields:
        if value is None:
            data += b"\x00"
        elif isinstance(value, int):
            data += b"\x01" + value.to_bytes(8, "big", signed=True)
        else:
            data += (b"\x02" if isinstance(value, Text) else b"\x03") + len(value).to_bytes(8, "big") + value
    return sha256(data).digest()


def is_digest(value):
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def event_hash(previous, event, names, erased):
    """See "Hashes": of an event whose columns have been checked; `erased` as `erasures` has it."""
    who = [names[event[column]]["commitment"] for column in ("key", "agent", "activity")]
    text = event["value"], event["metadata"]
    content = erased.get(event["revision"])
    if event["salt"] is not None:
        content = digest(b"turnlog.content.1", event["salt"], *text)
    return digest(b"turnlog.event.1", previous, *HASHED_FIRST(event), *who, content, *HASHED_LAST(event))


def erasures(db, run):
    """See "Redaction": the commitments of a run's erased contents, by revision, and of the erased names."""
    contents, names = {}, set()
    query = "select revision, detail, position from events where run = ? and type = ? order by revision"
    for revision, detail, position in db.execute(query, (run["id"], REDACTED)):
        try:
            stated = json.loads(detail or "null")
            places = {int(place): commitment for place, commitment in stated["contents"].items()}
            right = [str(place) for place in places] == list(stated["contents"])
            right &= all(run["fork_revision"] < place < revision for place in places)
            right &= all(map(is_digest, (*places.values(), *stated["names"])))
            right &= run["parent"] is None or not stated["names"]
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            right = False
        check(right, "detail does not say what it should", position)
        contents |= {place: bytes.fromhex(commitment) for place, commitment in places.items()}
        names |= {(run["family"], bytes.fromhex(commitment)) for commitment in stated["names"]}
    return contents, names


class Fold:
    """What a lineage holds after the events applied so far: see "Types" and "The entry of a key"."""

    def __init__(self):
        self.turn = 0
        self.alive = {}  # key -> (version, content, birth, created_at, expires_at_turn), as in `entries`
        self.written = {}  # revision of an EntryWritten -> (key, position, birth, created_at)

    def apply(self, event):
        kind, key, position, turn, revision = itemgetter("type", "key", "position", "turn", "revision")(event)
        birth, created_at, expiry = itemgetter("birth", "created_at", "expires_at_turn")(event)
        check(0 <= turn < 2**53 and 0 <= (expiry or 0) < 2**53, "no turn can be that", position)
        right = kind in (FORKED, TURN_SET, RESTORED) or turn == self.turn + (kind == ADVANCED)
        check(right, "not the run's turn", position)
        self.turn = turn
        if kind == WRITTEN:
            life = (revision, event["recorded_at"] if created_at is None else created_at)
            if birth is not None:
                life = self.alive[key][2:4] if key in self.alive else None
                check(life and (birth, created_at) == (life[0], None), "birth is not the life's", position)
            self.written[revision] = (key, position, *life)
            self.alive[key] = (position, position, *life, expiry)
        elif kind == PUT_BACK:
            owner, content, *life = self.written.get(event["content"], [None] * 4)
            right = [owner, *life] == [key, birth, created_at]
            check(right, "content is no earlier EntryWritten of that key and life", position)
            self.alive[key] = (position, content, *life, expiry)
        elif kind == DELETED:
            check(self.alive.pop(key, None), "deletes a key that is not alive", position)


def check_columns(event, run, names, runs, erased):
    """See "events" and "Types": what can be said of an event without its past."""
    kind, position, first = event["type"], event["position"], event["revision"] == run["fork_revision"] + 1
    check(kind in COLUMNS, f"there is no type {kind}", position)
    must, may = COLUMNS[kind]
    given = {column for column in OPTIONAL if event[column] is not None}
    once = ONCE if "idempotency_key" in given else set()
    must = must | once
    if event["revision"] in erased:
        must, may = must - ERASED, may - ERASED
    wrong = ", ".join(sorted(must - given | given - must - may))
    check(not wrong, f"missing, or not to be there, in type {kind}: {wrong}", position)
    check((event["payload"], event["encoding"]) == (1, 0), "payload or encoding is unknown", position)
    for column in given & {"value", "idempotency_key"}:
        check(is_text(event[column]), f"{column} is not stored as text", position)
    check(len(event["salt"] or bytes(16)) == 16, "the salt has not 16 bytes", position)
    for column in ("key", "agent", "activity"):
        known = event[column] is None or names.get(event[column], NOTHING)["family"] == run["family"]
        check(known, f"{column} is no name of the run's family", position)
    try:
        objects = {column: json.loads(event[column]) for column in given & {"metadata", "detail"}}
    except (ValueError, RecursionError):
        objects = {"": None}
    check(all(isinstance(o, dict) for o in objects.values()), "detail or metadata: no JSON object", position)
    detail = objects.get("detail", {})
    right = first if kind == FORKED else not first or run["parent"] is None
    check(right, "a fork begins with a RunForked, and nothing else is one", position)
    if kind == FORKED:  # at revision 0 there is no parent: the uid may be that of a run in another file
        uid = detail.get("parent") if run["parent"] is None else runs[run["parent"]]["uid"].decode()
        right = (detail.get("parent"), detail.get("revision")) == (uid, run["fork_revision"])
    elif kind == RESTORED and "to" in detail:
        right = isinstance(detail["to"], int) and 0 <= detail["to"] < event["revision"]
    elif kind == REFUSED:
        right = {"reason", "found", "length", "digest"} <= detail.keys()
    if once:
        count = detail.get("events")
        right = right and is_digest(detail.get("command")) and type(count) is int and count > 0
    check(right, "detail does not say what it should", position)


def open_log(path):
    """See "Identity" and "Tables": a connection that cannot write and sees one moment of the file."""
    db = sqlite3.connect(path.resolve().as_uri() + "?mode=ro", uri=True, isolation_level=None)
    db.text_factory, db.row_factory = Text, sqlite3.Row
    db.execute("begin")
    pragmas = ("application_id", "user_version", "encoding", "integrity_check(1)")
    *identity, encoding, damage = (db.execute(f"pragma {name}").fetchone()[0] for name in pragmas)
    if identity[0] != APPLICATION_ID or identity[1] not in VERSIONS:
        raise OSError(f"application_id and user_version are {identity}: not a log of version 1 or 2")
    check(encoding == b"UTF-8", "the text encoding is not UTF-8")
    check(damage == b"ok", f"SQLite's own check: {damage.decode(errors='replace')}")
    query = "select count(*) from pragma_table_list where schema = 'main' and strict and name in " + TABLES
    check(db.execute(query).fetchone()[0] == 5, f"one of the tables {TABLES} is missing or not STRICT")
    return db


def check_names(db, erased):
    """See "names": every text, salt and commitment, or that it was erased. The rows by id."""
    names = {None: NOTHING}
    for row in db.execute("select id, family, text, salt, commitment from names order by id"):
        _, family, text, salt, stated = row
        names[row["id"]] = row
        if (family, stated) in erased and text is salt is None:
            continue
        if (
            (family, stated) in erased
            or not is_text(text)
            or len(salt or b"") != 16
            or digest(b"turnlog.name.1", salt, text) != stated
        ):
            users = "events, runs where run = runs.id and ? in (key, agent, activity, name)"
            position = db.execute(f"select min(position) from {users}", (row["id"],)).fetchone()[0]
            check(None, f"name {row['id']} is not what its commitment says", position)
    return names


def genesis_and_segments(db, run, names, runs, segments):
    """See "runs", "Lineages": the genesis, the position forked after, the segments, oldest first."""
    parent, fork_revision, name = run["parent"], run["fork_revision"], names.get(run["name"], NOTHING)
    place = db.execute("select min(position) from events where run = ?", (run["id"],)).fetchone()[0]
    check(place is not None, f"run {run['id']} has no event")
    check(re.fullmatch(rb"[0-9a-f]{32}", run["uid"]), "the run's uid is not 32 lower-case hex digits", place)
    check(name["family"] == run["family"], "the run's name is none of its family", place)
    texts = {names[other["name"]]["text"] for other in runs.values()}
    check(name["text"] is None or name["text"] not in texts, "an earlier run has the run's name", place)
    point, past = (bytes(32), 0), []
    if parent is None:
        check((run["family"], fork_revision) == (run["id"], 0), "the run is no root of a family", place)
    else:
        check(runs.get(parent, NOTHING)["family"] == run["family"], "the parent is not of the family", place)
        query = "select hash, position from events where run = ? and revision = ?"
        point = db.execute(query, (parent, fork_revision)).fetchone()
        check(point is not None, f"the run's parent has no revision {fork_revision}", place)
        past = [(segment, min(end, fork_revision)) for segment, end in segments[parent]]
    fields = run["uid"], name["commitment"], run["created_at"], point[0]
    return digest(b"turnlog.genesis.1", b"", *fields), point[1], [*past, (run["id"], 2**63 - 1)]


def shown(name):
    if name["text"] is None:
        return f"[redacted {name['commitment'].hex()[:8]}]"
    return repr(name["text"].decode("utf-8", "surrogatepass"))[1:-1]


def check_run(db, run, names, runs, segments):
    """See "To verify a file": one run, after those before it. What its keys hold, as in `entries`."""
    previous, position, segments[run["id"]] = genesis_and_segments(db, run, names, runs, segments)
    runs[run["id"]] = run
    forks = db.execute("select fork_revision from runs where parent = ?", (run["id"],))
    forked_after = {fork_revision for (fork_revision,) in forks}
    revision, batch, fold, erased = run["fork_revision"], -1, Fold(), erasures(db, run)[0]
    for segment, end in segments[run["id"]]:
        query = "select * from events where run = ? and revision <= ? order by revision"
        for event in db.execute(query, (segment, end)):
            if segment == run["id"]:
                place, revision = event["position"], revision + 1
                check(event["revision"] == revision, f"the run's revision {revision} is missing", place)
                check(place > position, "stands before what was there before it", place)
                check(event["batch"] in (0, batch + 1), "neither begins a batch nor goes on with one", place)
                right = event["batch"] == 0 or place == position + 1 or revision - 1 in forked_after
                check(right, "does not stand right behind the one before it in its batch", place)
                check_columns(event, run, names, runs, erased)
                check(
                    event_hash(previous, event, names, erased) == event["hash"],
                    "not what its hash says",
                    place,
                )
                position, batch, previous = place, event["batch"], event["hash"]
            fold.apply(event)
    name = shown(names[run["name"]])
    print(f"run {name}: {revision - run['fork_revision']} events, head {previous.hex()}")
    return {(run["id"], key): entry for key, entry in fold.alive.items()}


def check_file(db, runs, alive):
    """See "events", "projections, entries": positions without a gap, and the live table if it is in step."""
    begun = set()
    for expected, event in enumerate(db.execute("select position, run from events order by position"), 1):
        check(event["position"] == expected, f"no event is at {expected}, before it", event["position"])
        check(event["run"] in runs, "of a run that is missing", expected)
        if event["run"] not in begun:
            check(event["run"] > max(begun, default=0), "begins a run before one of a lower id", expected)
            begun.add(event["run"])
    query = "select 1 from projections where name = 'entries' and version in (1, 2) and stale_from is null"
    if db.execute(query).fetchone() is not None:
        entries = "select run, key, version, content, birth, created_at, expires_at_turn from entries"
        table = {(run, key): tuple(entry) for run, key, *entry in db.execute(entries)}
        for place in sorted(table.keys() | alive.keys()):
            there, right = table.get(place), alive.get(place)
            check(there == right, f"entries: {there} of {place}, the log says {right}", (right or there)[0])


def main(path):
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with closing(open_log(path)) as db:
            every = db.execute("select * from runs order by id").fetchall()
            names = check_names(db, set().union(*(erasures(db, run)[1] for run in every)))
            runs, segments, alive = {}, {}, {}
            for run in every:
                alive |= check_run(db, run, names, runs, segments)
            check_file(db, runs, alive)
    except FoundError as found:
        print(found)
        return 1
    except (sqlite3.Error, OSError) as reason:
        print(f"{path}: {reason}", file=sys.stderr)
        return 2
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:])))
