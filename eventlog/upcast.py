"""Payload versions: how an event recorded by an earlier release is read as this one means it.

What is stored never changes, and hashes are over what is stored. When a type gets another form, its number
here is counted up, and a pure function lifts the form before to the new one. Live reads, replay and the fold
all decode through `upcast`. A version that is unknown is an error, never skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["PAYLOAD_VERSIONS", "UPCASTERS", "Payload", "Upcaster", "check_steps", "upcast"]


class Payload(NamedTuple):
    """The columns of an event that its type and payload version give a meaning; as stored.

    `value` and `metadata` are None where a reader leaves text aside; an upcaster hands on what it is given.
    """

    value: str | bytes | None
    metadata: str | None
    content: int | None
    expires_at_turn: int | None
    birth: int | None
    created_at: int | None
    detail: str | None


Upcaster = Callable[[Payload], Payload]
"""Lifts a payload to the next version; pure."""

PAYLOAD_VERSIONS: Mapping[int, int] = {1: 1, 2: 1, 3: 1, 10: 1, 11: 1, 12: 1, 13: 1, 20: 1, 21: 1, 22: 1}
"""The version that this build records, for the number of each type it knows."""

UPCASTERS: Mapping[tuple[int, int], Upcaster] = {}
"""The step from each earlier version of a type to the next, by type and the version it starts from."""


def check_steps(versions: Mapping[int, int], upcasters: Mapping[tuple[int, int], Upcaster]) -> None:
    """That there is a step from every earlier version of every type to the next, and no other step.

    Raises:
        RuntimeError: one is missing or leads nowhere; names it.
    """
    needed = {(kind, version) for kind, newest in versions.items() for version in range(1, newest)}
    for kind, version in sorted(needed ^ set(upcasters)):
        what = "is missing" if (kind, version) in needed else "leads nowhere"
        raise RuntimeError(f"the step of event type {kind} from payload version {version} {what}")


def upcast(
    kind: int,
    version: int,
    payload: Payload,
    versions: Mapping[int, int] = PAYLOAD_VERSIONS,
    upcasters: Mapping[tuple[int, int], Upcaster] = UPCASTERS,
) -> Payload:
    """`payload`, recorded as `version` of type `kind`, in the form that this build knows.

    Raises:
        ValueError: the type or the version is unknown.
    """
    newest = versions.get(kind)
    if newest is None or not 1 <= version <= newest:
        raise ValueError(f"event type {kind} with payload version {version} is unknown")
    for step in range(version, newest):
        payload = upcasters[kind, step](payload)
    return payload


check_steps(PAYLOAD_VERSIONS, UPCASTERS)
