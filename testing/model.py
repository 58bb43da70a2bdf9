"""Any sequence of verbs, held to a plain model."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from .rules import rules

__all__ = ["ModelRules"]

_KEYS = ("a", "A", "b", "a/b", "\ud83d", "")
_VALUES = ("", "1", "2", "\ud83d", "\x00", "é", "e\u0301")
_METADATA: tuple[dict[str, Any] | None, ...] = (None, {}, {"agent": "w"}, {"x": [1, {"y": None}]})


class _Held(NamedTuple):
    """What a key must hold."""

    value: str
    metadata: Mapping[str, Any] | None
    expires_at_turn: int | None


@rules
class ModelRules:
    """The rules together, in orders that nobody thought of."""

    def test_any_sequence_of_verbs_ends_as_the_rules_say(self, store: Any) -> None:
        """After every step, entries, their order and their births are what the steps so far imply."""
        chance = random.Random(0)  # noqa: S311 - the same sequences each time
        for length in [size for size in range(1, 13) for _ in range(5)]:
            store.clear()
            _walk(store, chance, length)


def _walk(store: Any, chance: random.Random, length: int) -> None:
    held: dict[str, _Held] = {}
    births: dict[str, Any] = {}
    said: list[str] = []
    for _ in range(length):
        said.append(_step(store, held, chance))
        found = store.list()
        shown = {each.key: _Held(each.value, each.metadata, each.expires_at_turn) for each in found}
        told = "after " + "; ".join(said)
        assert shown == held, told
        assert [each.key for each in found] == list(held), told
        assert [store.get(key) for key in held] == found, told
        births = {each.key: births.get(each.key, each.created_at) for each in found}
        assert {each.key: each.created_at for each in found} == births, f"created_at changed {told}"


def _step(store: Any, held: dict[str, _Held], chance: random.Random) -> str:
    """Take one step on both; how it reads in a program."""
    key, value, metadata = chance.choice(_KEYS), chance.choice(_VALUES), chance.choice(_METADATA)
    verbs = ["set", "set", "delete"]
    verbs += [verb for verb in ("compare_and_set", "set_with_expiry") if hasattr(store, verb)]
    match chance.choice(verbs):
        case "delete":
            store.delete(key)
            held.pop(key, None)
            return f"delete({key!r})"
        case "compare_and_set":
            holds = held[key].value if key in held else None
            expected = chance.choice([holds, chance.choice([None, *_VALUES])])
            won = store.compare_and_set(key, expected, value, metadata)
            said = f"compare_and_set({key!r}, {expected!r}, {value!r}, {metadata!r})"
            assert won is (expected == holds), f"{said} answered {won!r}; the key held {holds!r}"
            if won:
                held[key] = _Held(value, metadata, None)
            return said
        case "set_with_expiry":
            turn = chance.randrange(3)
            store.set_with_expiry(key, value, turn, metadata)
            held[key] = _Held(value, metadata, turn)
            return f"set_with_expiry({key!r}, {value!r}, {turn}, {metadata!r})"
        case _:
            store.set(key, value, metadata)
            held[key] = _Held(value, metadata, None)
            return f"set({key!r}, {value!r}, {metadata!r})"
