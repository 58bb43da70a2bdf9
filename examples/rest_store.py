"""A `MemoryStore` over a memory service that is reached by HTTP; nothing but the standard library is needed.

The service keeps facts by key, and what one agent commits is seen by all:

    PUT    {service}/fact?key=...                     {"content": text, "attributes": object or null}
    GET    {service}/fact?key=...                     -> the fact, or 404 with {"error": "no such fact"}
    DELETE {service}/fact?key=...                     -> 204, or that 404
    GET    {service}/facts?page_size=...&page=...     -> {"facts": [...], "next_page": text or null}

A fact is {"key", "content", "attributes", "committed_at"}: the time of its first commit, and facts are listed
in that order.

`docs/custom-stores.md` says why it is as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from turnlog import Limits, MemoryEntry, OutcomeUnknown, TurnlogError, Write


class ServiceError(TurnlogError):
    """The service did not do what it was asked. Unless it says otherwise, nothing was written."""


class Unreachable(ServiceError):  # noqa: N818 - reads as the library's own errors do
    """There was no connection, or none of use: a timeout, an answer cut short, a status of 429 or 5xx."""


class Refused(ServiceError):  # noqa: N818
    """The service says no: a status of 4xx."""


class BadAnswer(ServiceError):  # noqa: N818
    """What the service says is not what was agreed on."""


class WriteUnknown(ServiceError, OutcomeUnknown):  # noqa: N818
    """A write was sent and not confirmed: it may have happened. Look before you repeat it."""


class Service:
    """One place where a service is reached.

    Args:
        url: for example `https://memory.example/v1/workspaces/trip-42`.
        token: sent with each request, if there is one.
        timeout_s: how long to wait for each step of an answer.
    """

    def __init__(self, url: str, token: str | None = None, timeout_s: float = 10) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"not the address of a service: {url!r}")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s

    def ask(
        self, method: str, what: str, query: Mapping[str, str], body: object = None
    ) -> tuple[int, dict[str, Any]]:
        """Status and answer: 200 or 404, and a JSON object (an empty one of an answer without content).

        Raises:
            ServiceError: anything else.
        """
        target = f"{self._path}/{what}"
        if query:
            target += f"?{urlencode(query)}"
        about = f"{method} {self._host}{target:.200}"
        connection = self._kind(self._host, self._port, timeout=self._timeout_s)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise Unreachable(f"{about}: no connection: {error}") from error
            try:
                sent = None if body is None else json.dumps(body).encode()
                connection.request(method, target, sent, self._headers | {"Content-Type": "application/json"})
                response = connection.getresponse()
                status, answer = response.status, response.read()
            except (OSError, HTTPException) as error:
                raise _unconfirmed(method, f"{about}: {type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if status == 429 or status >= 500:
            raise _unconfirmed(method, f"{about}: status {status}")
        if status not in (200, 201, 202, 204, 404):
            raise Refused(f"{about}: status {status}: {answer[:200]!r}")
        return (404 if status == 404 else 200), _read_object(
            method, about, answer if status != 204 else b"{}"
        )


class RestStore:
    """A `MemoryStore` of facts that a service keeps.

    It has no `compare_and_set`, because the service cannot compare and set in one step, and no expiry. `list`
    asks for page after page: what others write meanwhile may be in it or not.

    Args:
        service: where the facts are.
        page_size: how many to ask for at once.
    """

    def __init__(self, service: Service, page_size: int = 100) -> None:
        self._service = service
        self._page_size = page_size

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`; None only if the service says that there is none."""
        status, answer = self._service.ask("GET", "fact", {"key": to_wire(key)})
        if status == 404:
            _check_that_a_fact_is_missing(answer)
            return None
        return _entry(answer)

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace value and metadata."""
        write = Write(key, value, metadata)
        write.check(Limits())
        # As one text: what passes through a service's own numbers and maps may come back changed.
        attributes = None if write.metadata_json is None else {"metadata": write.metadata_json}
        fact = {"content": to_wire(value), "attributes": attributes}
        status, answer = self._service.ask("PUT", "fact", {"key": to_wire(key)}, fact)
        if status == 404:
            raise Refused(f"there is no such place to write to: {answer}")

    def list(self) -> list[MemoryEntry]:
        """Every entry, in birth order."""
        entries: list[MemoryEntry] = []
        pages: list[str] = []
        while True:
            query = {"page_size": str(self._page_size)} | ({"page": pages[-1]} if pages else {})
            status, answer = self._service.ask("GET", "facts", query)
            facts = answer.get("facts")
            if status == 404 or not isinstance(facts, list):
                raise BadAnswer(f"not a page of facts: {answer!r:.200}")
            entries += map(_entry, cast("list[object]", facts))
            page = answer.get("next_page")
            if page is None:
                return entries
            if not isinstance(page, str) or page in pages:
                raise BadAnswer(f"page {page!r:.200} leads nowhere, or round in a circle")
            pages.append(page)

    def delete(self, key: str) -> None:
        """Remove `key`; silent if it is missing."""
        status, answer = self._service.ask("DELETE", "fact", {"key": to_wire(key)})
        if status == 404:
            _check_that_a_fact_is_missing(answer)

    def clear(self) -> None:
        """Remove every entry, one by one: a failure leaves the rest."""
        for entry in self.list():
            self.delete(entry.key)


def to_wire(text: str) -> str:
    """Text that every service can keep: half an emoji is spelled `\\udXXX`, and so a backslash is doubled."""
    if type(text) is not str:
        raise TypeError(f"this must be a str, not {type(text).__name__}")
    return text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode()


def from_wire(text: str) -> str:
    """What `to_wire` was given."""
    return re.sub(
        r"\\(\\|u[0-9a-f]{4})",
        lambda escape: escape[1] if escape[1] == "\\" else chr(int(escape[1][1:], 16)),
        text,
    )


def _unconfirmed(method: str, said: str) -> ServiceError:
    return Unreachable(said) if method == "GET" else WriteUnknown(f"{said}; it may have been written")


def _read_object(method: str, about: str, answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError as error:
        said = f"{about}: not JSON: {answer[:200]!r}"
        raise (BadAnswer if method == "GET" else WriteUnknown)(said) from error
    if not isinstance(found, dict):
        said = f"{about}: not a JSON object: {answer[:200]!r}"
        raise (BadAnswer if method == "GET" else WriteUnknown)(said)
    return cast("dict[str, Any]", found)


def _check_that_a_fact_is_missing(answer: Mapping[str, Any]) -> None:
    """A 404 may as well mean a wrong address, or come from something in between."""
    if answer.get("error") != "no such fact":
        raise Refused(f"status 404, and not because of the key: {answer!r:.200}")


def _entry(fact: object) -> MemoryEntry:
    match fact:
        case {"key": str(key), "content": str(content), "committed_at": str(committed)}:
            attributes = cast("dict[str, object]", fact).get("attributes")
            return MemoryEntry(from_wire(key), from_wire(content), _metadata(attributes), _moment(committed))
        case _:
            raise BadAnswer(f"not a fact: {fact!r:.200}")


def _metadata(attributes: object) -> dict[str, Any] | None:
    match attributes:
        case None:
            return None
        case {"metadata": str(text)}:
            return json.loads(text)
        case _:
            raise BadAnswer(f"not the attributes of a fact of ours: {attributes!r:.200}")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadAnswer(f"not a time: {text!r:.200}") from error
    if moment.tzinfo is None:
        raise BadAnswer(f"a time without a zone: {text!r:.200}")
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)
