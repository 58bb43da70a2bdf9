"""Requests for approval: bound to what the reviewer is to see by a hash.

The names and shapes on the wire, the hash and the id are those of open-multi-agent, so that a record written
by either side verifies on the other. What Python code reads has Python's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Self, cast

from ..memory.javascript import JAVASCRIPT_SPACES
from ..replay.cli_text import iso_time
from .approval_content import SCOPES, check_content
from .approval_error import altered, invalid, refusing
from .arguments import kind_of
from .canonical import canonical_json, parse_json, sha256_hex
from .shape import (
    ABSENT,
    Malformed,
    a_choice,
    a_match,
    a_text,
    an_instant,
    an_object,
    is_number,
    optional_text,
)

__all__ = ["HASH", "ID", "ApprovalRequest", "Scope", "request_hash"]

Scope = Literal["plan", "task_round", "task_dispatch", "tool_call"]

ID = re.compile(r"apr_[0-9a-f]{32}")
"""The id of a request."""

HASH = re.compile(r"[0-9a-f]{64}")
"""The hash of a request."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One exact thing that is put before a reviewer. Made by `create`, read back by `read`.

    Attributes:
        document: the whole request as canonical JSON; two requests are the same if this is.
        id: `apr_` and 32 hex digits, which follow from run, scope, boundary and hash.
        run_id: the run that waits.
        scope: `plan`, `task_round`, `task_dispatch` or `tool_call`.
        boundary: which plan, round, task or call of the run.
        request_hash: SHA-256 of scope, boundary and content; what a reviewer confirms.
        requested_at: aware UTC, whole milliseconds.
        reason: why it is asked; None if nothing was said.
    """

    document: str
    id: str = field(compare=False)
    run_id: str = field(compare=False)
    scope: Scope = field(compare=False)
    boundary: str = field(compare=False)
    request_hash: str = field(compare=False)
    requested_at: datetime = field(compare=False)
    reason: str | None = field(compare=False)

    @classmethod
    def create(
        cls,
        *,
        run_id: str,
        scope: Scope,
        boundary: str,
        content: Mapping[str, object],
        reason: str | None = None,
        requested_at: datetime | None = None,
    ) -> Self:
        """The request for one exact reviewed boundary; nothing is stored.

        Args:
            run_id: the run; white space around it is dropped.
            scope: where in the run; `content["kind"]` says the same.
            boundary: a stable name of the place, as a task's id; white space around it is dropped.
            content: what the reviewer is to see: a dict of JSON values; its members are checked later.
            reason: why it is asked; not part of the hash.
            requested_at: aware; None for now.

        Raises:
            DurableApprovalError: `APPROVAL_VALIDATION_ERROR`; says which argument cannot be, and where in it.
        """
        _check_arguments(run_id, scope, boundary, content, reason)
        run_id, boundary = run_id.strip(JAVASCRIPT_SPACES), boundary.strip(JAVASCRIPT_SPACES)
        if not run_id or not boundary:
            raise invalid("runId and boundary must be non-empty strings")
        if content.get("kind") != scope:
            raise invalid(f"scope {scope!r} does not match content kind {content.get('kind')!r:.80}")
        with refusing("the content cannot be hashed", invalid):
            hashed = request_hash(scope, boundary, content)
        document: dict[str, object] = {
            "version": 1,
            "id": _identity(run_id, scope, boundary, hashed),
            "runId": run_id,
            "scope": scope,
            "boundary": boundary,
            "requestHash": hashed,
            "requestedAt": iso_time(_instant(requested_at)),
            "content": content,
        }
        if reason is not None:
            document["reason"] = reason
        with refusing("the request cannot be stored", invalid):
            return cls._of(document)

    @classmethod
    def read(cls, document: object) -> Self:
        """The request that a document from a store or a checkpoint holds, once it has been checked.

        Raises:
            DurableApprovalError: `APPROVAL_INTEGRITY_ERROR`: it is malformed, or its hash or id do not follow
                from what it says; `APPROVAL_VALIDATION_ERROR`: its run or boundary is empty.
        """
        with refusing("the request is malformed", altered):
            return cls._checked(an_object(document, "$.request"))

    @property
    def content(self) -> dict[str, Any]:
        """What the reviewer is to see, as a fresh dict."""
        return self.to_json()["content"]

    def to_json(self) -> dict[str, Any]:
        """The request as it goes into a record or a checkpoint."""
        return cast("dict[str, Any]", parse_json(self.document))

    @classmethod
    def _checked(cls, document: dict[str, object]) -> Self:
        path = "$.request"
        if not is_number(document.get("version", ABSENT), 1):
            raise Malformed(f"{path}.version", "1", document.get("version", ABSENT))
        known = a_match(document.get("id", ABSENT), f"{path}.id", ID, "apr_ and 32 hex digits")
        run_id = a_text(document.get("runId", ABSENT), f"{path}.runId")
        scope = a_choice(document.get("scope", ABSENT), f"{path}.scope", SCOPES)
        boundary = a_text(document.get("boundary", ABSENT), f"{path}.boundary")
        hashed = a_match(document.get("requestHash", ABSENT), f"{path}.requestHash", HASH, "64 hex digits")
        optional_text(document.get("reason", ABSENT), f"{path}.reason")
        an_instant(document.get("requestedAt", ABSENT), f"{path}.requestedAt")
        kind = check_content(document.get("content", ABSENT), f"{path}.content")
        if kind != scope:
            raise Malformed(f"{path}.content.kind", f"the scope, {scope}", kind)
        content = cast("dict[str, object]", document["content"])
        found = request_hash(scope, boundary, content)
        if found != hashed:
            raise altered(
                f"request {known} does not match its content: $.request.requestHash is {hashed}, "
                f"but scope, boundary and content hash to {found}"
            )
        _check_identity(known, run_id, scope, boundary, content)
        return cls._of(document)

    @classmethod
    def _of(cls, document: Mapping[str, object]) -> Self:
        return cls(
            document=canonical_json(document),
            id=cast("str", document["id"]),
            run_id=cast("str", document["runId"]),
            scope=cast("Scope", document["scope"]),
            boundary=cast("str", document["boundary"]),
            request_hash=cast("str", document["requestHash"]),
            requested_at=an_instant(document["requestedAt"], "$.request.requestedAt"),
            reason=cast("str | None", document.get("reason")),
        )


def request_hash(scope: str, boundary: str, content: Mapping[str, object]) -> str:
    """SHA-256, in lower-case hex, of the canonical JSON of scope, boundary and content.

    Raises:
        TypeError, ValueError: see `canonical_json`.
    """
    return sha256_hex(canonical_json({"scope": scope, "boundary": boundary, "content": content}))


def _identity(run_id: str, scope: str, boundary: str, hashed: str) -> str:
    text = "\n".join((run_id, scope, boundary, hashed))
    return f"apr_{sha256_hex(text)[:32]}"


def _check_identity(
    known: str, run_id: str, scope: str, boundary: str, content: Mapping[str, object]
) -> None:
    """Refuse an id that does not follow from the rest."""
    run_id, trimmed = run_id.strip(JAVASCRIPT_SPACES), boundary.strip(JAVASCRIPT_SPACES)
    if not run_id or not trimmed:
        raise invalid(f"request {known}: runId and boundary must be non-empty strings")
    # A boundary with white space around it names no place that `create` could have named.
    expected = _identity(run_id, scope, trimmed, request_hash(scope, trimmed, content))
    if expected != known:
        raise altered(
            f"the id {known} does not follow from run, scope, boundary and content; that would be {expected}"
        )


def _check_arguments(
    run_id: object, scope: object, boundary: object, content: object, reason: object
) -> None:
    for name, given in (("runId", run_id), ("boundary", boundary)):
        if type(given) is not str:
            raise invalid(f"runId and boundary must be non-empty strings, but {name} is {kind_of(given)}")
    if type(content) is not dict:
        raise invalid(f"content must be a dict, not {type(content).__name__}")
    if type(scope) is not str or scope not in SCOPES:
        raise invalid(f"scope must be one of {', '.join(SCOPES)}, not {scope!r:.80}")
    if reason is not None and type(reason) is not str:
        raise invalid(f"reason must be a string, not {type(reason).__name__}")


def _instant(when: datetime | None) -> datetime:
    if when is None:
        return datetime.now(UTC)
    if not isinstance(when, datetime) or when.utcoffset() is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid("requested_at must be a datetime with a time zone")
    return when
