"""What a store keeps of an approval: the request, and the decision once there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, cast

from .approval_decision import ApprovalDecision
from .approval_error import altered, refusing
from .approval_request import ApprovalRequest
from .canonical import canonical_json, parse_json
from .shape import ABSENT, Malformed, an_object, is_number

__all__ = ["ApprovalRecord"]


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """A request as it is kept: pending, then with a decision, which is final.

    Attributes:
        request: the request.
        decision: None while it is pending.
        document: the whole record as canonical JSON, members of other implementations included.
    """

    request: ApprovalRequest
    decision: ApprovalDecision | None
    document: str

    @classmethod
    def of(cls, request: ApprovalRequest) -> Self:
        """The record of a request nobody has decided."""
        return cls(request, None, f'{{"request":{request.document},"version":1}}')

    @classmethod
    def read(cls, text: str, request_id: str) -> Self:
        """The record that a store holds for `request_id`, once it has been checked.

        Raises:
            DurableApprovalError: as `ApprovalRequest.read`; or it is not JSON, or that of another request.
        """
        with refusing(f"the record kept for {request_id} is not valid JSON", altered):
            parsed = parse_json(text)
        with refusing(f"the record kept for {request_id} is malformed", altered):
            document = an_object(parsed, "$")
            if not is_number(document.get("version", ABSENT), 1):
                raise Malformed("$.version", "1", document.get("version", ABSENT))
            request = ApprovalRequest.read(document.get("request", ABSENT))
            decision = None
            if "decision" in document:
                decision = ApprovalDecision.read(document["decision"], request)
            if request.id != request_id:
                raise altered(f"the record kept for {request_id} is that of request {request.id}")
            return cls(request, decision, canonical_json(document))

    @property
    def state(self) -> Literal["pending", "approved", "rejected"]:
        """Whether it waits, and else what was decided."""
        return "pending" if self.decision is None else self.decision.decision

    def decided(self, decision: ApprovalDecision) -> ApprovalRecord:
        """The record with that decision."""
        document = cast("dict[str, object]", parse_json(self.document))
        return ApprovalRecord(
            self.request, decision, canonical_json(document | {"decision": decision.to_json()})
        )
