"""Commands that may be repeated: the same one with the same idempotency key is carried out once.

A caller that lost the answer cannot know whether its write stands. With a key of its own making it may just
ask again: the first outcome comes back, and nothing is written. A key counts while its event is part of what
the run's present state came from; after a restore to a point before it, it is free again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

from .chain import command_digest
from .codec import CODES, SELECT_RECORDED, decode
from .commands import Command, exact_str
from .driver import Connection
from .errors import Corrupt, KeyReused
from .events import Event, NothingChanged, Recorded, Restored
from .jsonvalue import encode_json
from .limits import Limits
from .runs import Lineage
from .schema import TURN_MARKS
from .text import read_json, stored_text

__all__ = ["Earlier", "Once", "check_keys", "earlier", "fingerprint", "in_part"]

T = TypeVar("T")

_FOUND = """
select revision, detail, salt from events
where run = ? and idempotency_key = ? and revision <= ? order by revision desc
"""
_EVENTS = f"{SELECT_RECORDED} where e.run = ? and e.revision between ? and ? order by e.revision"
_RESTORES = f"""
select revision, detail from events
where run = ? and revision > ? and revision <= ? and {TURN_MARKS} and +type = {CODES[Restored]}
order by revision desc
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class Once(Generic[T]):
    """`command`, unless the run has carried it out already under `idempotency_key`: then its first outcome.

    Another command under a key that is taken is a `Conflict`, and so is a list of which some commands were
    carried out before and others would write now. A command that changes nothing is recorded too. A refused
    `CompareAndSet` has an outcome, which is kept; one that raised is forgotten, and may be repeated.

    Attributes:
        idempotency_key: any text that is not empty; at most as long as a key. It is stored as it is and stays
            in the log, so put no secret into it.
        command: what to carry out.

    Raises:
        TypeError, ValueError: a key that cannot be, or no command, or one that is a `Once` itself.
    """

    idempotency_key: str
    command: Command[T]

    def __post_init__(self) -> None:
        """Check the key and the command."""
        if not exact_str("idempotency_key", self.idempotency_key):
            raise ValueError("idempotency_key must not be empty")
        if not hasattr(self.command, "decide") or isinstance(self.command, Once):
            raise TypeError(f"command must be one like Write(key, value), not {self.command!r:.80}")

    @property
    def agent(self) -> str | None:
        """See `Command.agent`."""
        return self.command.agent

    def check(self, limits: Limits) -> None:
        """See `Command.check`."""
        limits.check_name("the idempotency key", self.idempotency_key)
        self.command.check(limits)

    def decide(self, view: Any) -> Sequence[Event]:
        """What `command` decides, where it has not been carried out before."""
        return self.command.decide(view) or (NothingChanged(),)

    def outcome(self, recorded: Sequence[Recorded]) -> T:
        """The outcome of `command`."""
        return self.command.outcome([each for each in recorded if type(each.event) is not NothingChanged])


class Earlier(NamedTuple):
    """What a command with an idempotency key left in the log.

    Attributes:
        recorded: its events.
        digest: of the command, salted.
        salt: None once it has been erased.
    """

    recorded: list[Recorded]
    digest: bytes
    salt: bytes | None

    def came_from(self, command: Command[Any]) -> bool:
        """Whether it was that command, as far as can still be told: what was erased counts as equal."""
        return self.salt is None or command_digest(self.salt, fingerprint(command)) == self.digest


def check_keys(commands: Sequence[Command[Any]]) -> None:
    """Refuse a list in which two commands have the same idempotency key.

    Raises:
        ValueError: two have.
    """
    keys: set[str] = set()
    for command in commands:
        if type(command) is Once:
            if command.idempotency_key in keys:
                raise ValueError(f"idempotency key {command.idempotency_key!r} is in the list twice")
            keys.add(command.idempotency_key)


def in_part(key: str) -> KeyReused:
    """The error of a list of which only some commands were carried out before."""
    return KeyReused(
        f"the command with idempotency key {key!r} was carried out before, but others of the same list would "
        "write now; nothing was written",
        key,
    )


def fingerprint(command: Command[Any]) -> str:
    """A text that tells a command from every other: its class and all its attributes, as JSON.

    Raises:
        TypeError: it is no dataclass of JSON values.
    """
    return encode_json(_portrayed(command))


def earlier(db: Connection, past: Lineage, key: str, upto: int) -> Earlier | None:
    """What was recorded under `key` in the lineage that the state at revision `upto` came from.

    Raises:
        Corrupt: the event does not say which command it came from.
    """
    stored = stored_text(key)
    for run, after, last in past.upto(upto):
        for revision, detail, salt in db.execute(_FOUND, (run, stored, last)).fetchall():
            if revision > after and _counts(db, past, revision, upto):
                try:
                    mark = cast("dict[str, Any]", read_json(detail))
                    digest, count = bytes.fromhex(mark["command"]), int(mark["events"])
                except (KeyError, TypeError, ValueError) as error:
                    raise Corrupt(
                        f"revision {revision} of run {past.run.name!r} does not say of which command it is"
                    ) from error
                rows = db.execute(_EVENTS, (run, revision, revision + count - 1)).fetchall()
                return Earlier([decode(row) for row in rows], digest, salt)
    return None


def _counts(db: Connection, past: Lineage, revision: int, upto: int) -> bool:
    """Whether the state at `upto` came from `revision`: no restore since went back before it."""
    present = upto
    for run, after, last in past.upto(upto):
        for at, detail in db.execute(_RESTORES, (run, max(after, revision), last)).fetchall():
            if at > present:
                continue  # taken back itself
            to = cast("dict[str, Any]", read_json(detail)).get("to")
            if to is not None:
                present = to
            if present < revision:
                return False
    return True


def _portrayed(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        attributes = {
            each.name: _portrayed(getattr(value, each.name)) for each in fields(value) if each.compare
        }
        return {"class": type(value).__name__, **attributes}
    if isinstance(value, tuple | list):
        return [_portrayed(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, Mapping):
        return {name: _portrayed(item) for name, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, str):
        stored = stored_text(value)  # half an emoji may have no form as JSON
        return {"bytes": stored.hex()} if isinstance(stored, bytes) else stored
    return value
