"""Verify a turnlog log, knowing nothing but the page format.md: no library, only Python.

    python verify_example.py FILE

Prints one line per run and `ok` (exit code 0), or the first problem and where it is (1). Exit code 2: nothing to
judge, as the file cannot be read, is no log, or is of another version. Titles in quotes are those of format.md.
Events that were cut off at the end may leave no trace: keep the printed heads somewhere else.
"""

import json
import re
import sqlite3
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

APPLICATION_ID, VERSION = 0x7475726E, 1  # "Identity"
ENTRIES_VERSION = 1  # `projections.version` of the `entries` that the page describes
TABLES = {b"runs", b"names", b"events", b"projections", b"entries"}
MAX_TURN = 2**53 - 1
NOTHING = {"family": None}

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


class FoundError(Exception):
    """Something is not as it should be; the text says what and where."""


class Text(bytes):
    """What is stored as TEXT: its UTF-8. What is stored as a BLOB stays plain `bytes`."""


def check(right, what, position=None):
    if not right:
        raise FoundError(what if position is None else f"position {position}: {what}")


def is_stored_text(value):
    """ "Text, numbers, times": TEXT of valid UTF-8, or a BLOB of what would be valid without surrogates."""
    try:
        text = value.decode("utf-8", "surrogatepass")
    except (AttributeError, UnicodeDecodeError):
        return False
    return isinstance(value, Text) != any("\ud800" <= c <= "\udfff" for c in text)


def field(value):
    """ "Hashes": class, length and bytes."""
    if value is None:
        return b"\x00"
    if isinstance(value, int):
        return b"\x01" + value.to_bytes(8, "big", signed=True)
    return (b"\x02" if isinstance(value, Text) else b"\x03") + len(value).to_bytes(8, "big") + value


def digest(tag, start, *fields):
    """ "Hashes": over a tag, then a salt or `previous` as it is, then fields."""
    return sha256(tag + b"\n" + start + b"".join(map(field, fields))).digest()


def event_hash(previous, event, names):
    """ "Hashes": of an event whose columns have been checked."""
    first = [event[column] for column in ("revision", "batch", "turn", "type", "payload")]
    ids = [event[column] for column in ("key", "agent", "activity")]
    who = [None if i is None else names[i]["commitment"] for i in ids]
    salt, content = event["salt"], None
    if salt is not None:
        content = digest(b"turnlog.content.1", salt, event["value"], event["metadata"])
    last = ("encoding", "content", "expires_at_turn", "birth", "created_at", "detail", "recorded_at")
    rest = [event[column] for column in (*last, "idempotency_key")]
    return digest(b"turnlog.event.1", previous, *first, *who, content, *rest)


class Fold:
    """What a lineage holds after the events applied so far, by "Types" and "The entry of a key"."""

    def __init__(self):
        self.turn = 0
        self.alive = {}  # key -> (version, content, birth, created_at, expires_at_turn), as in `entries`
        self.written = {}  # revision of an EntryWritten -> (key, position, birth, created_at)

    def apply(self, event):
        kind, key, position, turn = (event[c] for c in ("type", "key", "position", "turn"))
        birth, created_at, expiry = (event[c] for c in ("birth", "created_at", "expires_at_turn"))
        check(0 <= turn <= MAX_TURN and 0 <= (expiry or 0) <= MAX_TURN, "no turn can be that", position)
        right = kind in (FORKED, TURN_SET, RESTORED) or turn == self.turn + (kind == ADVANCED)
        check(right, "not the run's turn", position)
        self.turn = turn
        if kind == WRITTEN:
            begun = event["recorded_at"] if created_at is None else created_at
            content, life, told = position, (event["revision"], begun), (None, created_at)
            if key in self.alive:
                life = self.alive[key][2:4]
                told = (life[0], None)
            check((birth, created_at) == told, "birth and created_at are not those of the life", position)
            self.written[event["revision"]] = (key, position, *life)
        elif kind == PUT_BACK:
            owner, content, *life = self.written.get(event["content"], [None] * 4)
            check(owner == key, "content is no earlier EntryWritten of the key", position)
            check(life == [birth, created_at], "birth and created_at are not those of the content", position)
        if kind in (WRITTEN, PUT_BACK):
            self.alive[key] = (position, content, *life, expiry)
        elif kind == DELETED:
            self.alive.pop(key, None)


def json_object(event, column):
    try:
        members = {} if event[column] is None else json.loads(event[column])
    except (ValueError, RecursionError):
        members = None
    check(isinstance(members, dict), f"{column} is not a JSON object", event["position"])
    return members


def check_columns(event, run, names, runs):
    """ "events", "Types": what can be said of an event without its past."""
    kind, position, first = event["type"], event["position"], event["revision"] == run["fork_revision"] + 1
    check(kind in COLUMNS, f"there is no type {kind}", position)
    must, may = COLUMNS[kind]
    given = {column for column in OPTIONAL if event[column] is not None}
    wrong = ", ".join(sorted(must - given | given - must - may))
    check(not wrong, f"missing, or not to be there, in type {kind}: {wrong}", position)
    check((event["payload"], event["encoding"]) == (1, 0), "payload or encoding is unknown", position)
    check(kind != WRITTEN or is_stored_text(event["value"]), "value is not stored as text", position)
    check(len(event["salt"] or bytes(16)) == 16, "the salt has not 16 bytes", position)
    for column in ("key", "agent", "activity"):
        known = event[column] is None or names.get(event[column], NOTHING)["family"] == run["family"]
        check(known, f"{column} is no name of the run's family", position)
    json_object(event, "metadata")
    detail = json_object(event, "detail")
    right = first if kind == FORKED else not first or run["parent"] is None
    check(right, "a RunForked is the first event of a fork, and only that", position)
    if kind == FORKED:  # made at revision 0, it has no parent here: the uid may be that of a run in another file
        uid = detail.get("parent") if run["parent"] is None else runs[run["parent"]]["uid"].decode()
        right = (detail.get("parent"), detail.get("revision")) == (uid, run["fork_revision"])
    elif kind == RESTORED and "to" in detail:
        right = isinstance(detail["to"], int) and 0 <= detail["to"] < event["revision"]
    elif kind == REFUSED:
        right = {"reason", "found", "length", "digest"} <= detail.keys()
    check(right, "detail does not say what it should", position)


def open_log(path):
    """ "Identity": a connection that cannot write and sees one moment of the file."""
    db = sqlite3.connect(path.resolve().as_uri() + "?mode=ro", uri=True, isolation_level=None)
    db.text_factory, db.row_factory = Text, sqlite3.Row
    db.execute("begin")
    identity = [db.execute(f"pragma {name}").fetchone()[0] for name in ("application_id", "user_version")]
    if identity != [APPLICATION_ID, VERSION]:
        raise OSError(f"not a turnlog log of version {VERSION}: application_id, user_version are {identity}")
    return db


def check_tables(db):
    """ "Tables": what SQLite itself can tell."""
    check(db.execute("pragma encoding").fetchone()[0] == b"UTF-8", "the text encoding is not UTF-8")
    strict = db.execute("select name from pragma_table_list where schema = 'main' and strict")
    check({row["name"] for row in strict} >= TABLES, "a table is missing or not STRICT")
    damage = db.execute("pragma integrity_check(1)").fetchone()[0]
    check(damage == b"ok", f"SQLite's own check: {damage.decode()}")


def check_names(db):
    """ "names": every text, salt and commitment. The rows by id."""
    names = {}
    for row in db.execute("select id, family, text, salt, commitment from names order by id"):
        text, salt = row["text"], row["salt"]
        right = is_stored_text(text) and salt is not None and len(salt) == 16
        if not right or digest(b"turnlog.name.1", salt, text) != row["commitment"]:
            query = "select min(position) from events, runs where run = runs.id and ? in (key, agent, activity, name)"
            position = db.execute(query, (row["id"],)).fetchone()[0]
            check(False, f"text, salt and commitment of name {row['id']} do not agree", position)
        names[row["id"]] = row
    return names


def genesis_and_segments(db, run, names, runs, segments):
    """ "runs", "Lineages", "Hashes": the genesis, the position forked after, the segments, oldest first."""
    parent, fork_revision, name = run["parent"], run["fork_revision"], names.get(run["name"], NOTHING)
    what = f"run {run['id']}"
    place = db.execute("select min(position) from events where run = ?", (run["id"],)).fetchone()[0]
    check(re.fullmatch(rb"[0-9a-f]{32}", run["uid"]), f"{what}: uid is not 32 lower-case hex digits", place)
    check(name["family"] == run["family"], f"{what}: its name is none of its family", place)
    texts = {names[other["name"]]["text"] for other in runs.values()}
    check(name["text"] not in texts, f"{what}: an earlier run has its name", place)
    point, past = (bytes(32), 0), []
    if parent is None:
        check((run["family"], fork_revision) == (run["id"], 0), f"{what}: not the root of its family", place)
    else:
        known = runs.get(parent, NOTHING)["family"] == run["family"]
        check(known, f"{what}: its parent is no earlier run of its family", place)
        query = "select hash, position from events where run = ? and revision = ?"
        point = db.execute(query, (parent, fork_revision)).fetchone()
        check(point is not None, f"{what}: its parent has no revision {fork_revision}", place)
        past = [(segment, min(end, fork_revision)) for segment, end in segments[parent]]
    fields = run["uid"], name["commitment"], run["created_at"], point[0]
    return digest(b"turnlog.genesis.1", b"", *fields), point[1], [*past, (run["id"], 2**63 - 1)]


def check_run(db, run, names, runs, segments):
    """ "Hashes", "To verify a file": one run; those before it have been checked and are in `runs`."""
    previous, position, segments[run["id"]] = genesis_and_segments(db, run, names, runs, segments)
    runs[run["id"]] = run
    what = repr(names[run["name"]]["text"].decode("utf-8", "surrogatepass"))[1:-1]
    revision, batch, fold = run["fork_revision"], -1, Fold()
    for segment, end in segments[run["id"]]:
        query = "select * from events where run = ? and revision <= ? order by revision"
        for event in db.execute(query, (segment, end)):
            if segment == run["id"]:
                place, revision = event["position"], revision + 1
                check(event["revision"] == revision, f"run {what} lacks revision {revision} before", place)
                check(place > position, "stands before what was there before it", place)
                check(event["batch"] in (0, batch + 1), "neither begins a batch nor goes on with one", place)
                check_columns(event, run, names, runs)
                right = event_hash(previous, event, names) == event["hash"]
                check(right, f"hash is not that of revision {revision} of run {what}", place)
                position, batch, previous = place, event["batch"], event["hash"]
            fold.apply(event)
    check(revision > run["fork_revision"], f"run {what} has no event")
    check_entries(db, run, fold)
    print(f"run {what}: {revision - run['fork_revision']} events, head {previous.hex()}")


def check_entries(db, run, fold):
    """ "projections, entries": the live table is the fold, if it claims to be in step."""
    claim = "select 1 from projections where name = 'entries' and version = ? and stale_from is null"
    if db.execute(claim, (ENTRIES_VERSION,)).fetchone() is None:
        return
    columns = "key, version, content, birth, created_at, expires_at_turn"
    rows = db.execute(f"select {columns} from entries where run = ?", (run["id"],))
    table = {key: tuple(row) for key, *row in rows}
    for key in sorted(table.keys() | fold.alive.keys()):
        there, right = table.get(key), fold.alive.get(key)
        says = f"entries has {there} of run {run['id']}, key {key}; the log says {right}"
        check(there == right, says, (right or there)[0])


def check_positions(db, runs):
    """ "events": every event and entry is of some run, and the positions of the file have no gap."""
    for expected, event in enumerate(db.execute("select position, run from events order by position"), 1):
        check(event["position"] == expected, f"no event at position {expected}, before", event["position"])
        check(event["run"] in runs, "of a run that is missing", expected)
    lost = db.execute("select version from entries where run not in (select id from runs)").fetchone()
    check(lost is None, "entries: of a run that is missing", lost and lost[0])


def main(path):
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with closing(open_log(Path(path))) as db:
            check_tables(db)
            names, runs, segments = check_names(db), {}, {}
            for run in db.execute("select * from runs order by id"):
                check_run(db, run, names, runs, segments)
            check_positions(db, runs)
    except FoundError as found:
        print(found)
        return 1
    except (sqlite3.Error, OSError) as reason:
        print(f"{path}: {reason}", file=sys.stderr)
        return 2
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
