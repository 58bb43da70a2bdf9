"""What a reviewer decided about a request for approval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from ..memory.javascript import JAVASCRIPT_SPACES
from .approval_content import SCOPES
from .approval_error import altered, refusing
from .approval_request import HASH, ID, ApprovalRequest, Scope
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

__all__ = ["ApprovalDecision"]


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """What a reviewer decided; final.

    Attributes:
        request_id, run_id, scope, request_hash: the request that it binds.
        decision: `approved` or `rejected`.
        reviewer: who decided, as claimed.
        reviewer_name: how they are called; None if that was not said.
        decided_at: ISO 8601, as it is on the wire.
    """

    request_id: str
    run_id: str
    scope: Scope
    request_hash: str
    decision: Literal["approved", "rejected"]
    reviewer: str
    reviewer_name: str | None
    decided_at: str

    @classmethod
    def read(cls, document: object, request: ApprovalRequest | None = None) -> Self:
        """The decision that a document holds, once it has been checked; with `request`, that it binds it.

        Raises:
            DurableApprovalError: `APPROVAL_INTEGRITY_ERROR`: it is malformed, or is about something else.
        """
        with refusing("the decision is malformed", altered):
            decision = cls._checked(an_object(document, "$.decision"))
        if request is not None and not decision.binds(request):
            raise altered(
                f"the decision about {decision.request_id} does not bind request {request.id}: "
                "id, run, scope or hash differ"
            )
        return decision

    def binds(self, request: ApprovalRequest) -> bool:
        """Whether it is about exactly this request."""
        return (self.request_id, self.run_id, self.scope, self.request_hash) == (
            request.id,
            request.run_id,
            request.scope,
            request.request_hash,
        )

    def to_json(self) -> dict[str, Any]:
        """The decision as it goes into a record or a checkpoint."""
        name = {} if self.reviewer_name is None else {"displayName": self.reviewer_name}
        return {
            "version": 1,
            "requestId": self.request_id,
            "runId": self.run_id,
            "scope": self.scope,
            "requestHash": self.request_hash,
            "decision": self.decision,
            "reviewer": {"id": self.reviewer, **name},
            "decidedAt": self.decided_at,
        }

    @classmethod
    def _checked(cls, document: dict[str, object]) -> Self:
        path = "$.decision"
        if not is_number(document.get("version", ABSENT), 1):
            raise Malformed(f"{path}.version", "1", document.get("version", ABSENT))
        run_id = a_text(document.get("runId", ABSENT), f"{path}.runId")
        if not run_id.strip(JAVASCRIPT_SPACES):
            raise Malformed(f"{path}.runId", "a string that is not blank", run_id)
        reviewer = an_object(document.get("reviewer", ABSENT), f"{path}.reviewer")
        reviewer_id = a_text(reviewer.get("id", ABSENT), f"{path}.reviewer.id")
        if not reviewer_id.strip(JAVASCRIPT_SPACES):
            raise Malformed(f"{path}.reviewer.id", "a string that is not blank", reviewer_id)
        an_instant(document.get("decidedAt", ABSENT), f"{path}.decidedAt")
        decided = a_choice(document.get("decision", ABSENT), f"{path}.decision", ("approved", "rejected"))
        return cls(
            request_id=a_match(
                document.get("requestId", ABSENT), f"{path}.requestId", ID, "apr_ and 32 hex digits"
            ),
            run_id=run_id,
            scope=cast("Scope", a_choice(document.get("scope", ABSENT), f"{path}.scope", SCOPES)),
            request_hash=a_match(
                document.get("requestHash", ABSENT), f"{path}.requestHash", HASH, "64 hex digits"
            ),
            decision=cast("Any", decided),
            reviewer=reviewer_id,
            reviewer_name=optional_text(reviewer.get("displayName", ABSENT), f"{path}.reviewer.displayName"),
            decided_at=cast("str", document["decidedAt"]),
        )
