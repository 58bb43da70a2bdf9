"""A `MemoryStore` on Redis or Valkey, for agents on several machines: five verbs, compare-and-set and expiry.

Needs `pip install redis`. `docs/custom-stores.md` says why it is as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from turnlog import CompareAndSet, Limits, MemoryEntry, Write

_redis: Any = redis.Redis  # the package's own annotations are not complete

# One step for everybody who writes, because the server runs nothing else meanwhile. The birth of a key (its
# time and its place in the order) is set once. ARGV: key, value, all else as JSON, and what the key must
# hold: "any", "none", or "this" with the value.
_WRITE = """
local values, rest, born, order, births = unpack(KEYS)
local key, value, facts, condition, expected = unpack(ARGV)
local held = redis.call('HGET', values, key)
if condition == 'none' and held then return 0 end
if condition == 'this' and held ~= expected then return 0 end
if not held then
  local now = redis.call('TIME')
  redis.call('HSET', born, key, string.format('%d%03d', now[1], math.floor(now[2] / 1000)))
  redis.call('ZADD', order, redis.call('INCR', births), key)
end
redis.call('HSET', values, key, value)
redis.call('HSET', rest, key, facts)
return 1
"""


class RedisStore(AbstractContextManager["RedisStore"]):
    """A store that any number of processes share; several stores lie beside each other by name.

    Errors of the client are passed on as they are. After a lost connection or a timeout during a write nobody
    can tell whether it happened: look before you repeat it.

    Args:
        url: of the server, for example `redis://localhost:6379/0` or `unix:///run/redis.sock`.
        name: of the store.
        timeout_s: how long to wait for the server.
    """

    def __init__(self, url: str, name: str = "turnlog", timeout_s: float = 5) -> None:
        # By default, redis-py's clients repeat a command whose answer got lost, unless they were made from a
        # URL. A compare-and-set that had won would then be told that it lost.
        self._client = _redis.from_url(url, socket_timeout=timeout_s, retry=Retry(NoBackoff(), 0))
        # The braces put all of a store on one node of a cluster.
        self._keys = [f"{{{name}}}:{part}" for part in ("values", "rest", "born", "order", "births")]
        self._write = self._client.register_script(_WRITE)

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, as of one moment."""
        field = _bytes(key)
        with self._client.pipeline(transaction=True) as together:
            for part in self._keys[:3]:
                together.hget(part, field)
            value, rest, born = together.execute()
        return None if value is None else _entry(field, value, rest, born)

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace value and metadata and clear the expiry."""
        self._send(Write(key, value, metadata), None, "any")

    def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """`set`, with the turn at which the entry counts as expired."""
        _check_int(expires_at_turn)
        self._send(Write(key, value, metadata, expires_at_turn), expires_at_turn, "any")

    def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set `key` if it holds exactly `expected` (None: if it is missing); whether it did."""
        command = CompareAndSet(key, expected, value, metadata)
        return self._send(command, None, "none" if expected is None else "this", expected or "")

    def list(self) -> list[MemoryEntry]:
        """Every entry, in birth order, as of one moment."""
        with self._client.pipeline(transaction=True) as together:
            for part in self._keys[:3]:
                together.hgetall(part)
            together.zrange(self._keys[3], 0, -1)
            values, rest, born, order = together.execute()
        return [_entry(field, values[field], rest[field], born[field]) for field in order]

    def delete(self, key: str) -> None:
        """Remove `key`; silent if it is missing."""
        field = _bytes(key)
        with self._client.pipeline(transaction=True) as together:
            for part in self._keys[:3]:
                together.hdel(part, field)
            together.zrem(self._keys[3], field)
            together.execute()

    def clear(self) -> None:
        """Remove every entry."""
        self._client.delete(*self._keys)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _send(
        self, command: Write | CompareAndSet, turn: int | None, condition: str, expected: str = ""
    ) -> bool:
        command.check(Limits())  # and the types were checked when it was made
        facts = json.dumps([command.metadata_json, turn])
        given = [_bytes(command.key), _bytes(command.value), facts, condition, _bytes(expected)]
        return bool(self._write(keys=self._keys, args=given))


def _bytes(text: str) -> bytes:
    """Text as the server keeps it. Half an emoji is no UTF-8, but has bytes all the same."""
    if type(text) is not str:
        raise TypeError(f"a key must be a str, not {type(text).__name__}")
    return text.encode("utf-8", "surrogatepass")


def _check_int(turn: object) -> None:
    if turn is None:  # which to a `Write` means: no expiry
        raise TypeError("expires_at_turn must be an int, not None")


def _entry(field: bytes, value: bytes, rest: bytes, born: bytes) -> MemoryEntry:
    metadata, expires_at_turn = json.loads(rest)
    return MemoryEntry(
        key=field.decode("utf-8", "surrogatepass"),
        value=value.decode("utf-8", "surrogatepass"),
        metadata=None if metadata is None else json.loads(metadata),
        created_at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(born)),
        expires_at_turn=expires_at_turn,
    )
