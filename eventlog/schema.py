"""The tables of a log, its identity, and how an older file climbs to the present format.

docs/format.md is the contract for other programs; the comments here are its short form. A change of anything
below needs a new version, a migration from the one before, a golden file and an ADR.
"""

from __future__ import annotations

from .driver import Connection

__all__ = [
    "APPLICATION_ID",
    "CHANGES",
    "MIGRATIONS",
    "REDACTIONS",
    "REFUSALS",
    "SCHEMA_VERSION",
    "TURN_MARKS",
    "shown_name",
]

APPLICATION_ID = 0x74_75_72_6E
"""PRAGMA application_id: the bytes `turn`."""

SCHEMA_VERSION = 2
"""PRAGMA user_version of the files this build writes."""

# The predicates of the partial indexes. SQLite uses such an index only for a query that repeats its predicate
# word for word, so every query takes it from here.
CHANGES = "type < 10"
TURN_MARKS = "type between 10 and 19"
REFUSALS = "type = 20"
REDACTIONS = "type = 22"

_TABLES_1 = (
    """
    create table runs (
        id             integer primary key,  -- local to this file
        uid            text    not null unique,  -- 32 hex digits, the same in every file the run is copied to
        name           integer not null references names (id),
        family         integer not null,     -- id of the root of its lineage, whose names it shares
        parent         integer references runs (id),  -- the run it was forked from
        fork_revision  integer not null,     -- the parent's last revision it has in common; 0 without parent
        created_at     integer not null      -- milliseconds since 1970 UTC
    ) strict
    """,
    """
    create table names (
        id             integer primary key,  -- local to this file
        family         integer not null,     -- the lineage the name belongs to
        text           any,                  -- TEXT, or BLOB of surrogatepass bytes
        salt           blob,                 -- 16 random bytes
        commitment     blob    not null      -- SHA-256 that stands for the name in the hash chain
    ) strict
    """,
    """
    create table events (
        position         integer primary key,  -- place in this file: rising, never reused
        run              integer not null references runs (id),
        revision         integer not null,     -- place in the run's lineage: 1, 2, 3 … without a gap
        batch            integer not null,     -- offset in its batch; 0 begins one
        turn             integer not null,     -- the run's turn; for a turn mark the turn it leads to
        type             integer not null,     -- < 10 changes an entry, 10 … 19 marks a turn, 20 refuses
        payload          integer not null,     -- version of the type's payload
        key              integer references names (id),
        agent            integer references names (id),  -- who acted, as claimed
        activity         integer references names (id),  -- the stretch of work it belongs to
        value            any,                  -- TEXT, or BLOB of surrogatepass bytes
        encoding         integer not null,     -- of value; 0 = as it is, others are reserved
        metadata         text,                 -- JSON object
        salt             blob,                 -- 16 random bytes of the content's commitment
        content          integer,              -- revision that holds the value of a restored entry
        expires_at_turn  integer,
        birth            integer,              -- revision that began the key's life; NULL: this one
        created_at       integer,              -- milliseconds; NULL: the birth's own time
        detail           text,                 -- JSON object: whatever else the type needs
        recorded_at      integer not null,     -- milliseconds since 1970 UTC, by the writer's clock
        idempotency_key  any,
        hash             blob    not null      -- SHA-256 over everything above but position and run
    ) strict
    """,
    """
    create table projections (
        name        text    primary key,
        version     integer not null,  -- of the code that filled its tables
        stale_from  integer            -- first position it lacks; NULL while it is in step with the log
    ) strict, without rowid
    """,
)

_INDEXES_1 = (
    "create unique index names_text on names (text, family)",
    "create unique index runs_name on runs (name)",
    "create unique index events_revision on events (run, revision)",
    f"create index events_changes on events (run, key, revision) where {CHANGES}",
    f"create index events_turns on events (run, turn, revision) where {TURN_MARKS}",
    f"create index events_visits on events (run, revision) where {TURN_MARKS}",
    f"create index events_refusals on events (run, key, revision) where {REFUSALS}",
    "create index events_expiries on events (run, expires_at_turn, key) where expires_at_turn is not null",
    """
    create unique index events_idempotency on events (run, idempotency_key, revision)
    where idempotency_key is not null
    """,
)

# `insert or replace` deletes the row in its way without firing a delete trigger, hence the insert guards.
_GUARDS_1 = (
    *(
        f"create trigger {table}_no_{verb} before {verb} on {table} begin"
        f" select raise(abort, 'turnlog: {table} is append-only; a past row cannot be changed'); end"
        for table in ("events", "runs", "names")
        for verb in ("update", "delete")
    ),
    """
    create trigger events_no_replace before insert on events
    when new.position <= (select max(position) from events)
        or exists (select 1 from events where run = new.run and revision = new.revision)
    begin select raise(abort, 'turnlog: events is append-only; that position or revision is taken'); end
    """,
    """
    create trigger runs_no_replace before insert on runs
    when exists (select 1 from runs where id = new.id or uid = new.uid or name = new.name)
    begin select raise(abort, 'turnlog: runs is append-only; that run exists'); end
    """,
    """
    create trigger names_no_replace before insert on names
    when exists (select 1 from names where id = new.id)
        or exists (select 1 from names where text = new.text and family = new.family)
    begin select raise(abort, 'turnlog: names is append-only; that name exists'); end
    """,
)

_VIEWS_1 = (
    """
    create view event_log as
    select
        e.position,
        run_name.text as run,
        e.revision,
        e.turn,
        case e.type
            when 1 then 'EntryWritten' when 2 then 'EntryDeleted' when 3 then 'EntryRestored'
            when 10 then 'RunForked' when 11 then 'TurnAdvanced' when 12 then 'TurnSet'
            when 13 then 'Restored'
            when 20 then 'WriteRefused' else 'type ' || e.type
        end as type,
        key_name.text as key,
        agent_name.text as agent,
        activity_name.text as activity,
        e.value,
        e.metadata,
        e.expires_at_turn,
        e.content as restored_from_revision,
        e.detail,
        strftime('%Y-%m-%dT%H:%M:%fZ', e.recorded_at / 1000.0, 'unixepoch') as recorded_at,
        lower(hex(e.hash)) as hash
    from events e
    left join runs on runs.id = e.run
    left join names run_name on run_name.id = runs.name
    left join names key_name on key_name.id = e.key
    left join names agent_name on agent_name.id = e.agent
    left join names activity_name on activity_name.id = e.activity
    """,
)


# -- version 2

# The one change a past row may suffer: what the newest event, a Redacted of its run, names loses its text and
# salt, by that event's own trigger.
_ERASED_COLUMNS = ("value", "metadata", "salt")
_KEPT_COLUMNS = (
    "position",
    "run",
    "revision",
    "batch",
    "turn",
    "type",
    "payload",
    "key",
    "agent",
    "activity",
    "encoding",
    "content",
    "expires_at_turn",
    "birth",
    "created_at",
    "detail",
    "recorded_at",
    "idempotency_key",
    "hash",
)
_REDACTION = "r.position = (select max(position) from events) and r.type = 22"


def _same(columns: tuple[str, ...]) -> str:
    """That an update leaves `columns` as they are."""
    new, old = (", ".join(f"{row}.{each}" for each in columns) for row in ("new", "old"))
    return f"({new}) is ({old})"


_EVENTS_NO_UPDATE = f"""
    create trigger events_no_update before update on events
    when not (
        {" and ".join(f"new.{column} is null" for column in _ERASED_COLUMNS)}
        and {_same(_KEPT_COLUMNS)}
        and exists (
            select 1 from events r, json_each(r.detail, '$.contents') erased
            where {_REDACTION} and r.run = old.run and cast(erased.key as integer) = old.revision
        )
    )
    begin select raise(abort, 'turnlog: events is append-only; a past row cannot be changed'); end
    """  # noqa: S608 - constants only
_NAMES_NO_UPDATE = f"""
    create trigger names_no_update before update on names
    when not (
        new.text is null and new.salt is null and {_same(("id", "family", "commitment"))}
        and exists (
            select 1 from events r, json_each(r.detail, '$.names') erased
            where {_REDACTION} and erased.value = lower(hex(old.commitment))
        )
    )
    begin select raise(abort, 'turnlog: names is append-only; a past row cannot be changed'); end
    """  # noqa: S608 - constants only
_REDACT = """
    create trigger events_redact after insert on events when new.type = 22
    begin
        update events set value = null, metadata = null, salt = null
        where run = new.run and revision in
            (select cast(key as integer) from json_each(new.detail, '$.contents'));
        update names set text = null, salt = null
        where family = (select family from runs where id = new.run)
            and lower(hex(commitment)) in (select value from json_each(new.detail, '$.names'));
    end
    """


def shown_name(table: str) -> str:
    """The SQL that shows a name of the joined `table`: NULL where there is none, a stand-in once erased."""
    stand_in = f"'[redacted ' || lower(hex(substr({table}.commitment, 1, 4))) || ']'"
    return f"case when {table}.text is not null or {table}.id is null then {table}.text else {stand_in} end"


_EVENT_LOG = f"""
    create view event_log as
    select
        e.position,
        {shown_name("run_name")} as run,
        e.revision,
        e.turn,
        case e.type
            when 1 then 'EntryWritten' when 2 then 'EntryDeleted' when 3 then 'EntryRestored'
            when 10 then 'RunForked' when 11 then 'TurnAdvanced' when 12 then 'TurnSet'
            when 13 then 'Restored'
            when 20 then 'WriteRefused' when 21 then 'NothingChanged' when 22 then 'Redacted'
            else 'type ' || e.type
        end as type,
        {shown_name("key_name")} as key,
        {shown_name("agent_name")} as agent,
        {shown_name("activity_name")} as activity,
        e.value,
        e.metadata,
        e.expires_at_turn,
        e.content as restored_from_revision,
        e.detail,
        strftime('%Y-%m-%dT%H:%M:%fZ', e.recorded_at / 1000.0, 'unixepoch') as recorded_at,
        lower(hex(e.hash)) as hash
    from events e
    left join runs on runs.id = e.run
    left join names run_name on run_name.id = runs.name
    left join names key_name on key_name.id = e.key
    left join names agent_name on agent_name.id = e.agent
    left join names activity_name on activity_name.id = e.activity
    """  # noqa: S608 - constants only


def _to_version_1(db: Connection) -> None:
    for statement in (*_TABLES_1, *_INDEXES_1, *_GUARDS_1, *_VIEWS_1):
        db.execute(statement)


def _to_version_2(db: Connection) -> None:
    """Redaction, and commands that are carried out once."""
    for statement in (
        f"create index events_redactions on events (run, key, revision) where {REDACTIONS}",
        "drop trigger events_no_update",
        "drop trigger names_no_update",
        _EVENTS_NO_UPDATE,
        _NAMES_NO_UPDATE,
        _REDACT,
        "drop view event_log",
        _EVENT_LOG,
    ):
        db.execute(statement)


MIGRATIONS = {0: _to_version_1, 1: _to_version_2}
"""What lifts a file to the next version, by the version it starts from. 0 is an empty file.

Earlier steps never change, not by a comment: `verify` holds what a file declares against them by the letter.
"""
