"""A store of two layers, over a service that digests what it is told and cannot give it back by key.

    POST   {service}/observations                     {"id": text, "source": key, "text": text}
    GET    {service}/recall?question=...&limit=...    -> {"notes": [text, ...]}

`docs/custom-stores.md` says why it is as it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol, cast

from rest_store import BadAnswer, Refused, Service, to_wire

from turnlog import MemoryEntry, MemoryStore
from turnlog.memory import ComparesAndSets, SetsWithExpiry


class Exact(MemoryStore, ComparesAndSets, SetsWithExpiry, Protocol):
    """A store with the abilities that `DistillingStore` passes on."""


class DistillingStore:
    """Two layers: an exact store that answers by key, and a service that digests what was written.

    A write counts when the exact layer has it. The service is told by `tell`, for example after each task;
    what it could not be told stays `untold`, for as long as this object lives. What it has digested it keeps:
    `delete` and `clear` do not reach it.

    Args:
        exact: answers every read.
        service: is told, and asked by meaning.
    """

    def __init__(self, exact: Exact, service: Service) -> None:
        self._exact = exact
        self._service = service
        self._untold: dict[str, None] = {}

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`."""
        return self._exact.get(key)

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace value and metadata and clear the expiry."""
        self._exact.set(key, value, metadata)
        self._untold[key] = None

    def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """`set`, with the turn at which the entry counts as expired; the service is not told of it."""
        self._exact.set_with_expiry(key, value, expires_at_turn, metadata)

    def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """Set `key` if it holds exactly `expected` (None: if it is missing); whether it did."""
        won = self._exact.compare_and_set(key, expected, value, metadata)
        if won:
            self._untold[key] = None
        return won

    def list(self) -> list[MemoryEntry]:
        """Every entry, in birth order."""
        return self._exact.list()

    def delete(self, key: str) -> None:
        """Remove `key` from the exact layer."""
        self._exact.delete(key)

    def clear(self) -> None:
        """Remove every entry from the exact layer."""
        self._exact.clear()

    @property
    def untold(self) -> list[str]:
        """Keys that were written and of which the service does not know yet."""
        return list(self._untold)

    def tell(self) -> int:
        """Tell the service what was written since, in its present state; how many entries that were.

        Raises:
            ServiceError: what was not told stays `untold`; call it again.
        """
        told = 0
        for key in self.untold:
            # First, so that what is written while the service is told comes back into it.
            self._untold.pop(key, None)
            try:
                told += self._tell_of(key)
            except BaseException:
                self._untold[key] = None
                raise
        return told

    def recall(self, question: str, limit: int = 5) -> list[str]:
        """What the service has to say about a question. Not what was written, word by word: that is `get`."""
        _, answer = self._service.ask("GET", "recall", {"question": to_wire(question), "limit": str(limit)})
        notes = answer.get("notes")
        if not isinstance(notes, list) or not all(
            isinstance(each, str) for each in cast("list[object]", notes)
        ):
            raise BadAnswer(f"not a list of notes: {answer!r:.200}")
        return cast("list[str]", notes)

    def _tell_of(self, key: str) -> bool:
        entry = self._exact.get(key)
        if entry is None or entry.expires_at_turn is not None:
            return False
        told = {"source": to_wire(key), "text": to_wire(entry.value)}
        # The same id for the same text: what the service is told twice, it knows.
        identity = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        status, answer = self._service.ask("POST", "observations", {}, {"id": identity, **told})
        if status == 404:
            raise Refused(f"there is no such place to write to: {answer!r:.200}")
        return True
