"""Verify a turnlog log, knowing nothing but format.md: no library, only Python.

    python verify_example.py FILE

Prints one line per run and `ok` (exit code 0), or the first problem and where it is (1). Exit code 2 means that
there was nothing to judge: the file cannot be read, is no log, or is of another version. Titles in quotes are
sections of format.md. What a check cannot show is under "Hashes": keep the printed heads somewhere else.
"""

import json
import re
import sqlite3
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

APPLICATION_ID, VERSION = 0x7475726E, 1  # "Identity"
ENTRIES_VERSION = 1  # of `projections`: the code whose `entries` the page describes
TABLES = {"runs", "names", "events", "projections", "entries"}
MAX_TURN = 2**53 - 1

WRITTEN, DELETED, RESTORED_ENTRY, FORKED, ADVANCED, TURN_SET, RESTORED, REFUSED = 1, 2, 3, 10, 11, 12, 13, 20
COLUMNS = {  # "Types": the columns each type must have, and those it may have. `turn` and `batch` are never NULL
    WRITTEN: ({"key", "value", "salt"}, {"metadata", "expires_at_turn", "birth", "created_at"}),
    DELETED: ({"key"}, set()),
    RESTORED_ENTRY: ({"key", "content", "birth", "created_at"}, {"expires_at_turn"}),
    FORKED: ({"detail"}, set()),
    ADVANCED: (set(), set()),
    TURN_SET: (set(), set()),
    RESTORED: ({"detail"}, set()),
    REFUSED: ({"key", "salt", "detail"}, set()),
}
OPTIONAL = set().union(*(must | may for must, may in COLUMNS.values())) | {"idempotency_key"}


class Unreadable(Exception):
    """There is nothing to judge."""


class Problem(Exception):
    """The log is not what it should be; the text says what and where."""


class Text(bytes):
    """What was stored as TEXT: its UTF-8. What was stored as a BLOB is plain `bytes`, and never equal to it."""


def require(condition, what, position=None):
    if not condition:
        raise Problem(what if position is None else f"position {position}: {what}")


# "Text, numbers, times"


def stored_as_told(value):
    """Whether text is TEXT if it is valid UTF-8, and otherwise a BLOB in which surrogates are three bytes."""
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        try:
            value.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return False
        return not isinstance(value, Text)
    return isinstance(value, Text)


def json_object(value, what, position):
    """The object that a `metadata` or `detail` holds. Numbers stay text: they may be longer than Python reads."""
    try:
        members = json.loads(value.decode("utf-8"), parse_int=str)
    except ValueError:
        members = None
    require(isinstance(members, dict), f"{what} is not a JSON object", position)
    return members


def shown(name):
    """A name on one line, whatever is in it."""
    text = name.decode("utf-8", "surrogatepass")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# "Hashes"


def field(value):
    if value is None:
        return b"\x00"
    if isinstance(value, int):
        return b"\x01" + value.to_bytes(8, "big", signed=True)
    return (b"\x02" if isinstance(value, Text) else b"\x03") + len(value).to_bytes(8, "big") + value


def digest(tag, start, *values):
    """SHA-256 over the tag, a salt or `previous` without class and length, and fields."""
    return sha256(tag + b"\n" + start + b"".join(map(field, values))).digest()


def commitment_of_content(event):
    if event["salt"] is None:
        return None
    require(len(event["salt"]) == 16, "the salt is not of 16 bytes", event["position"])
    return digest(b"turnlog.content.1", event["salt"], event["value"], event["metadata"])


def hash_of_event(previous, event, names):
    first = [event[name] for name in ("revision", "batch", "turn", "type", "payload")]
    who = [event[name] and names[event[name]]["commitment"] for name in ("key", "agent", "activity")]
    plain = ("encoding", "content", "expires_at_turn", "birth", "created_at", "detail", "recorded_at")
    rest = [event[name] for name in (*plain, "idempotency_key")]
    return digest(b"turnlog.event.1", previous, *first, *who, commitment_of_content(event), *rest)


# "Identity", "Tables"


def open_log(path):
    """A connection that cannot write, and sees one moment of the file."""
    if not path.is_file() or path.stat().st_size == 0:
        raise Unreadable("not a file, or of no bytes")
    db = sqlite3.connect(path.resolve().as_uri() + "?mode=ro", uri=True, isolation_level=None)
    db.text_factory = Text
    db.row_factory = sqlite3.Row
    db.execute("begin")
    application, version = (db.execute(f"pragma {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if application != APPLICATION_ID:
        raise Unreadable(f"not a turnlog log: application_id is {application}")
    if version != VERSION:
        raise Unreadable(f"of format version {version}; this program knows {VERSION}")
    return db


def check_tables(db):
    require(db.execute("pragma encoding").fetchone()[0] == b"UTF-8", "the text encoding is not UTF-8")
    strict = db.execute("select name from pragma_table_list where schema = 'main' and type = 'table' and strict")
    missing = TABLES - {row["name"].decode() for row in strict}
    require(not missing, f"not a STRICT table: {', '.join(sorted(missing))}")
    damage = db.execute("pragma integrity_check(1)").fetchone()[0]
    require(damage == b"ok", f"SQLite's own check: {damage.decode(errors='replace')}")


def check_names(db):
    """Each name's text, salt and commitment; the names by id."""
    names, taken = {}, set()
    for row in db.execute("select id, family, text, salt, commitment from names order by id"):
        used = "select min(position) from events where ? in (key, agent, activity)"
        position = db.execute(used, (row["id"],)).fetchone()[0]
        what, text, salt = f"name {row['id']}", row["text"], row["salt"]
        require(isinstance(text, bytes) and stored_as_told(text), f"{what}: the text is not stored as text", position)
        require(salt is not None and len(salt) == 16, f"{what}: the salt is not of 16 bytes", position)
        right = digest(b"turnlog.name.1", salt, text) == row["commitment"]
        require(right, f"{what}: the commitment is not that of its text and salt", position)
        key = (row["family"], type(text), text)
        require(key not in taken, f"{what}: its family has that name twice", position)
        taken.add(key)
        names[row["id"]] = row
    return names


# "Types", "The entry of a key"


class Fold:
    """What a lineage holds after the events applied so far."""

    def __init__(self):
        self.turn = 0
        self.alive = {}  # key -> (version, content, birth, created_at, expires_at_turn), as in `entries`
        self.written = {}  # revision of an EntryWritten -> (key, position, birth, created_at)

    def apply(self, event):
        kind, key, position = event["type"], event["key"], event["position"]
        turn = event["turn"]
        require(0 <= turn <= MAX_TURN, "no turn can be that", position)
        if kind == ADVANCED:
            require(turn == self.turn + 1, "TurnAdvanced does not lead to the next turn", position)
        require(10 <= kind <= 19 or turn == self.turn, "not the run's turn", position)
        self.turn = turn
        if kind == DELETED:
            self.alive.pop(key, None)
        elif kind in (WRITTEN, RESTORED_ENTRY):
            expiry = event["expires_at_turn"]
            require(expiry is None or 0 <= expiry <= MAX_TURN, "no expiry can be that", position)
            content, birth, created_at = (self.write if kind == WRITTEN else self.put_back)(event)
            self.alive[key] = (position, content, birth, created_at, expiry)

    def write(self, event):
        key, position, birth = event["key"], event["position"], event["birth"]
        life = self.alive[key][2:4] if key in self.alive else None
        if birth is None:
            require(life is None, "begins a life of a key that is alive", position)
            created_at = event["recorded_at"] if event["created_at"] is None else event["created_at"]
            life = (event["revision"], created_at)
        else:
            require(life is not None and birth == life[0], "birth is not that of the key's life", position)
            require(event["created_at"] is None, "states when a life began that it does not begin", position)
        self.written[event["revision"]] = (key, position, *life)
        return position, *life

    def put_back(self, event):
        original = self.written.get(event["content"], (None,))
        require(original[0] == event["key"], "content is no past EntryWritten of the key", event["position"])
        life = (event["birth"], event["created_at"])
        require(original[2:] == life, "birth or created_at is not that of the content's life", event["position"])
        return original[1], *life


def check_shape(event, run, names, runs):
    """What an event says by itself, and of its run."""
    kind, position = event["type"], event["position"]
    must, may = COLUMNS.get(kind, (None, None))
    require(must is not None, f"no event has type {kind}", position)
    given = {name for name in OPTIONAL if event[name] is not None}
    require(must <= given, f"type {kind} lacks {', '.join(sorted(must - given))}", position)
    require(given <= must | may, f"type {kind} has {', '.join(sorted(given - must - may))}", position)
    require(event["payload"] == 1 and event["encoding"] == 0, "payload or encoding is of no known version", position)
    if kind == WRITTEN:
        value = event["value"]
        require(isinstance(value, bytes) and stored_as_told(value), "the value is not stored as text", position)
    if event["metadata"] is not None:
        json_object(event["metadata"], "metadata", position)
    for column in ("key", "agent", "activity"):
        name = names.get(event[column])
        known = event[column] is None or (name is not None and name["family"] == run["family"])
        require(known, f"{column} is no name of the run's family", position)
    detail = {} if event["detail"] is None else json_object(event["detail"], "detail", position)
    first = event["revision"] == run["fork_revision"] + 1
    require(kind != FORKED or first, "RunForked is not the first event of its run", position)
    require(kind == FORKED or not first or run["parent"] is None, "a fork's first event is no RunForked", position)
    if kind == FORKED:
        told = detail.get("revision") == str(run["fork_revision"])
        if run["parent"] is not None:  # at revision 0 the uid may be of a run that is in no file any more
            told = told and detail.get("parent") == runs[run["parent"]]["uid"].decode()
        require(told, "RunForked names another fork point than its run", position)
    elif kind == RESTORED and "to" in detail:
        to = str(detail["to"])
        require(to.isdigit() and int(to) < event["revision"], "Restored goes back to no past revision", position)
    elif kind == REFUSED:
        require({"reason", "found", "length", "digest"} <= set(detail), "detail of WriteRefused lacks members", position)


# "runs", "Lineages", "To verify a file"


def check_run(db, run, runs, names, lineages):
    """One run from its genesis on; prints its line. Earlier runs have been checked."""
    what = f"run {run['id']}"
    require(re.fullmatch(rb"[0-9a-f]{32}", run["uid"]), f"{what}: the uid is not 32 lower-case hex digits")
    name, parent = names.get(run["name"]), runs.get(run["parent"])
    require(name is not None and name["family"] == run["family"], f"{what}: its name is no name of its family")
    others = [names[other["name"]]["text"] for other in runs.values()]
    require((type(name["text"]), name["text"]) not in [(type(o), o) for o in others], f"{what}: its name is taken")
    what = f"run {shown(name['text'])}"
    fork_hash, position = bytes(32), 0
    if run["parent"] is None:
        require(run["family"] == run["id"] and run["fork_revision"] == 0, f"{what}: no root of a lineage")
        past = []
    else:
        require(parent is not None and run["family"] == parent["family"], f"{what}: no fork of its parent")
        point = "select hash, position from events where run = ? and revision = ?"
        row = db.execute(point, (run["parent"], run["fork_revision"])).fetchone()
        require(row is not None, f"{what}: its parent has no revision {run['fork_revision']}")
        fork_hash, position = row
        past = [(i, min(end, run["fork_revision"])) for i, end in lineages[run["parent"]]]
    lineages[run["id"]] = [*past, (run["id"], 2**63 - 1)]  # segments, oldest first, each with its last revision
    runs[run["id"]] = run

    previous = digest(b"turnlog.genesis.1", b"", run["uid"], name["commitment"], run["created_at"], fork_hash)
    revision, batch, fold = run["fork_revision"], -1, Fold()
    for segment, end in lineages[run["id"]]:
        rows = "select * from events where run = ? and revision <= ? order by revision"
        for event in db.execute(rows, (segment, end)):
            if segment == run["id"]:
                place = event["position"]
                require(event["revision"] == revision + 1, f"{what}: revision {revision + 1} is missing", place)
                require(place > position, "stands before an event that was before it", place)
                require(event["batch"] in (0, batch + 1), "not the next of its batch, nor the first of one", place)
                check_shape(event, run, names, runs)
                right = hash_of_event(previous, event, names) == event["hash"]
                require(right, f"the hash of revision {revision + 1} of {what} is not that of what is there", place)
                previous, revision, batch, position = event["hash"], event["revision"], event["batch"], place
            fold.apply(event)
    require(revision > run["fork_revision"], f"{what}: has no event")
    check_entries(db, run, what, names, fold)
    print(f"{what}: {revision - run['fork_revision']} events, head {previous.hex()}")


# "projections, entries"


def check_entries(db, run, what, names, fold):
    """Compare the live table with the fold, where the table says that it is in step."""
    ready = "select 1 from projections where name = 'entries' and version = ? and stale_from is null"
    if db.execute(ready, (ENTRIES_VERSION,)).fetchone() is None:
        return
    columns = "key, version, content, birth, created_at, expires_at_turn"
    rows = db.execute(f"select {columns} from entries where run = ?", (run["id"],))
    table = {key: tuple(rest) for key, *rest in rows}
    for key in sorted(table.keys() | fold.alive.keys()):
        right, there = fold.alive.get(key), table.get(key)
        label = shown(names[key]["text"]) if key in names else f"of id {key}"
        says = f"`entries` has {there} for key {label} of {what}, the log says {right}"
        require(right == there, says, (right or there)[0])


def check_positions(db, runs):
    """Every event belongs to a run, every entry too, and positions are 1, 2, 3 … without a gap."""
    expected = 1
    for position, run in db.execute("select position, run from events order by position"):
        require(position == expected, f"the event at position {expected} is missing", position)
        require(run in runs, f"there is no run {run}", position)
        expected += 1
    for (run,) in db.execute("select distinct run from entries"):
        require(run in runs, f"`entries` has rows of run {run}, which there is not")


def verify(db):
    check_tables(db)
    names, runs, lineages = check_names(db), {}, {}
    for run in db.execute("select * from runs order by id"):
        check_run(db, run, runs, names, lineages)
    check_positions(db, runs)


def main(arguments):
    if len(arguments) != 1:
        print("usage: python verify_example.py FILE", file=sys.stderr)
        return 2
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with closing(open_log(Path(arguments[0]))) as db:
            verify(db)
    except Problem as problem:
        print(problem)
        return 1
    except (Unreadable, sqlite3.Error, OSError) as reason:
        print(f"{arguments[0]}: {reason}", file=sys.stderr)
        return 2
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
