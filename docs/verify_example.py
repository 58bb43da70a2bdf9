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

APPLICATION_ID, VERSION = 0x7475726E, 1  # "Identity"
WRITTEN, DELETED, PUT_BACK, FORKED, ADVANCED, TURN_SET, RESTORED, REFUSED = 1, 2, 3, 10, 11, 12, 13, 20
COLUMNS = {  # "Types": columns that an event of the type must have, and columns it may have
    WRITTEN: ({"key", "value", "salt"}, {"metadata", "expires_at_turn", "birth", "created_at"}),
    DELETED: ({"key"}, set()),
    PUT_BACK: ({"key", "content", "birth", "created_at"}, {"expires_at_turn"}),
    FORKED: ({"detail"}, set()),
    ADVANCED: (set(), set()),
    TURN_SET: (set(), set()),
    RESTORED: ({"detail"}, set()),
    REFUSED: ({"key", "salt", "detail"}, set()),
}
OPTIONAL = {"idempotency_key"}.union(*(must | may for must, may in COLUMNS.values()))
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


def event_hash(previous, event, names):
    """See "Hashes": of an event whose columns have been checked."""
    who = [names[event[column]]["commitment"] for column in ("key", "agent", "activity")]
    text = event["value"], event["metadata"]
    content = None if event["salt"] is None else digest(b"turnlog.content.1", event["salt"], *text)
    return digest(b"turnlog.event.1", previous, *HASHED_FIRST(event), *who, content, *HASHED_LAST(event))


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


def check_columns(event, run, names, runs):
    """See "events" and "Types": what can be said of an event without its past."""
    kind, position, first = event["type"], event["position"], event["revision"] == run["fork_revision"] + 1
    check(kind in COLUMNS, f"there is no type {kind}", position)
    must, may = COLUMNS[kind]
    given = {column for column in OPTIONAL if event[column] is not None}
    wrong = ", ".join(sorted(must - given | given - must - may))
    check(not wrong, f"missing, or not to be there, in type {kind}: {wrong}", position)
    check((event["payload"], event["encoding"]) == (1, 0), "payload or encoding is unknown", position)
    check(kind != WRITTEN or is_text(event["value"]), "value is not stored as text", position)
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
    check(right, "detail does not say what it should", position)


def open_log(path):
    """See "Identity" and "Tables": a connection that cannot write and sees one moment of the file."""
    db = sqlite3.connect(path.resolve().as_uri() + "?mode=ro", uri=True, isolation_level=None)
    db.text_factory, db.row_factory = Text, sqlite3.Row
    db.execute("begin")
    pragmas = ("application_id", "user_version", "encoding", "integrity_check(1)")
    *identity, encoding, damage = (db.execute(f"pragma {name}").fetchone()[0] for name in pragmas)
    if identity != [APPLICATION_ID, VERSION]:
        raise OSError(f"application_id and user_version are {identity}: not a log of version {VERSION}")
    check(encoding == b"UTF-8", "the text encoding is not UTF-8")
    check(damage == b"ok", f"SQLite's own check: {damage.decode(errors='replace')}")
    query = "select count(*) from pragma_table_list where schema = 'main' and strict and name in " + TABLES
    check(db.execute(query).fetchone()[0] == 5, f"one of the tables {TABLES} is missing or not STRICT")
    return db


def check_names(db):
    """See "names": every text, salt and commitment. The rows by id."""
    names = {None: NOTHING}
    for row in db.execute("select id, family, text, salt, commitment from names order by id"):
        *_, text, salt, stated = row
        if not is_text(text) or len(salt or b"") != 16 or digest(b"turnlog.name.1", salt, text) != stated:
            users = "events, runs where run = runs.id and ? in (key, agent, activity, name)"
            position = db.execute(f"select min(position) from {users}", (row["id"],)).fetchone()[0]
            check(None, f"name {row['id']} is not what its commitment says", position)
        names[row["id"]] = row
    return names


def genesis_and_segments(db, run, names, runs, segments):
    """See "runs", "Lineages": the genesis, the position forked after, the segments, oldest first."""
    parent, fork_revision, name = run["parent"], run["fork_revision"], names.get(run["name"], NOTHING)
    place = db.execute("select min(position) from events where run = ?", (run["id"],)).fetchone()[0]
    check(place is not None, f"run {run['id']} has no event")
    check(re.fullmatch(rb"[0-9a-f]{32}", run["uid"]), "the run's uid is not 32 lower-case hex digits", place)
    check(name["family"] == run["family"], "the run's name is none of its family", place)
    texts = {names[other["name"]]["text"] for other in runs.values()}
    check(name["text"] not in texts, "an earlier run has the run's name", place)
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


def check_run(db, run, names, runs, segments):
    """See "To verify a file": one run, after those before it. What its keys hold, as in `entries`."""
    previous, position, segments[run["id"]] = genesis_and_segments(db, run, names, runs, segments)
    runs[run["id"]] = run
    forks = db.execute("select fork_revision from runs where parent = ?", (run["id"],))
    forked_after = {fork_revision for (fork_revision,) in forks}
    revision, batch, fold = run["fork_revision"], -1, Fold()
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
                check_columns(event, run, names, runs)
                check(event_hash(previous, event, names) == event["hash"], "not what its hash says", place)
                position, batch, previous = place, event["batch"], event["hash"]
            fold.apply(event)
    name = repr(names[run["name"]]["text"].decode("utf-8", "surrogatepass"))[1:-1]
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
    query = "select 1 from projections where name = 'entries' and version = 1 and stale_from is null"
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
            names, runs, segments, alive = check_names(db), {}, {}, {}
            for run in db.execute("select * from runs order by id"):
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
