"""What an approval ledger decides: every operation, for `ApprovalLedger` and `AsyncApprovalLedger` alike.

Whatever is said to callers about an operation is said at the class that offers it; this is how.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from datetime import datetime
from typing import Any

from ..eventlog import CompareAndSet
from ..eventlog.commands import exact_str
from ..memory.contract import AsyncMemoryStore, MemoryStore, compares_and_sets, executes
from ..memory.entry import MemoryEntry
from ..memory.javascript import JAVASCRIPT_SPACES
from ..memory.reserved import APPROVAL_PREFIX
from ..memory.steps import Steps
from ..replay.cli_text import iso_time
from .approval_decision import ApprovalDecision
from .approval_error import DurableApprovalError, altered, invalid
from .approval_record import ApprovalRecord
from .approval_request import ApprovalRequest
from .checkpoint_snapshot import CheckpointSnapshot
from .store_run import store_run

__all__ = ["ApprovalSteps", "approval_key"]

_DECIDED = {"approve": "approved", "reject": "rejected"}


def approval_key(request_id: str) -> str:
    """Where the record of a request is kept."""
    return f"{APPROVAL_PREFIX}{request_id}"


class ApprovalSteps:
    """The operations on one store of either kind; see `turnlog.memory.steps` for how they are carried out.

    Args:
        store: a store that has passed `check_store`.
        clock: gives the time of a decision, aware.
    """

    def __init__(self, store: MemoryStore | AsyncMemoryStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._run = store_run(store)
        self._clock = clock

    def through(self, store: MemoryStore | AsyncMemoryStore) -> ApprovalSteps:
        """The same operations, asked of `store`, which is the same store in the other colour."""
        twin = copy(self)
        twin._store = store  # noqa: SLF001 - a copy of this very object
        return twin

    def require_atomic(self) -> None:
        """Refuse a store in which nothing could be decided.

        Raises:
            DurableApprovalError: `APPROVAL_ATOMIC_STORE_REQUIRED`.
        """
        if not compares_and_sets(self._store):
            raise DurableApprovalError(
                "APPROVAL_ATOMIC_STORE_REQUIRED",
                f"{type(self._store).__name__} has no compare_and_set(), so two reviewers could both decide; "
                "nothing was written",
            )

    def ensure_request(self, request: ApprovalRequest) -> Steps[ApprovalRecord]:
        """See `ApprovalLedger.ensure_request`."""
        if not isinstance(request, ApprovalRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"request must be an ApprovalRequest, not {type(request).__name__}")
        request = ApprovalRequest.read(request.to_json())
        key = approval_key(request.id)
        record = ApprovalRecord.of(request)
        metadata = _metadata(request) | {"requestedAt": request.to_json()["requestedAt"]}
        before = yield from self._parents(key)
        if (yield from self._compare_and_set(key, before, record.document, metadata, None)):
            return record
        existing = yield from self.get(request.id)
        if existing is not None and existing.request == request:
            return existing
        raise _differs(request)

    def get(self, request_id: str) -> Steps[ApprovalRecord | None]:
        """See `ApprovalLedger.get`."""
        request_id = exact_str("request_id", request_id)
        text = yield from self._read(approval_key(request_id))
        return None if text is None else ApprovalRecord.read(text, request_id)

    def decide(
        self, request_id: str, request_hash: str, decision: str, reviewer: str, display_name: str | None
    ) -> Steps[ApprovalDecision]:
        """See `ApprovalLedger.decide`."""
        _check_reviewer(reviewer, display_name)
        if type(decision) is not str or decision not in _DECIDED:
            raise invalid(f"decision must be 'approve' or 'reject', not {decision!r:.80}")
        exact_str("request_hash", request_hash)
        key = approval_key(exact_str("request_id", request_id))
        text = yield from self._read(key)
        if text is None:
            raise DurableApprovalError("APPROVAL_NOT_FOUND", f"there is no request {request_id!r:.80}")
        record = ApprovalRecord.read(text, request_id)
        _check_open(record, request_hash)
        decided = ApprovalDecision(
            request_id=record.request.id,
            run_id=record.request.run_id,
            scope=record.request.scope,
            request_hash=record.request.request_hash,
            decision="approved" if decision == "approve" else "rejected",
            reviewer=reviewer.strip(JAVASCRIPT_SPACES),
            reviewer_name=display_name,
            decided_at=iso_time(self._clock()),
        )
        metadata = _metadata(record.request) | {
            "decision": decided.decision,
            "reviewerId": decided.reviewer,
            "decidedAt": decided.decided_at,
        }
        after = record.decided(decided).document
        if not (yield from self._compare_and_set(key, text, after, metadata, decided.reviewer)):
            raise DurableApprovalError(
                "APPROVAL_CONFLICT", f"request {request_id} was decided by somebody else at the same time"
            )
        return decided

    def reconcile(self, snapshot: CheckpointSnapshot) -> Steps[list[ApprovalRecord]]:
        """See `ApprovalLedger.reconcile`."""
        for document in snapshot["approvalDecisions"]:
            decision = ApprovalDecision.read(document)
            record = yield from self.get(decision.request_id)
            if record is None or record.decision != decision:
                raise altered(
                    f"the checkpoint says that request {decision.request_id} was {decision.decision} by "
                    f"{decision.reviewer!r:.80}; that is not what is kept of it"
                )
        requests = [ApprovalRequest.read(document) for document in snapshot["pendingApprovals"]]
        kept: list[ApprovalRecord | None] = []
        for request in requests:  # all of them before any is kept
            record = yield from self.get(request.id)
            if record is not None and record.request != request:
                raise _differs(request)
            kept.append(record)
        records: list[ApprovalRecord] = []
        for request, record in zip(requests, kept, strict=True):
            # What is there is not asked for again: that would be a refusal in the history at each look.
            records.append(record or (yield from self.ensure_request(request)))
        return records

    # -- inside

    def _read(self, key: str) -> Steps[str | None]:
        """What is kept under `key` by this run itself: a fork does not inherit approvals."""
        entry: MemoryEntry | None = yield self._store.get(key)
        return None if entry is None or self._is_inherited(entry) else entry.value

    def _parents(self, key: str) -> Steps[str | None]:
        """What a fork sees of its parent under `key`, which it may replace as if there were nothing."""
        if self._run is None:
            return None
        entry: MemoryEntry | None = yield self._store.get(key)
        return entry.value if entry is not None and self._is_inherited(entry) else None

    def _is_inherited(self, entry: MemoryEntry) -> bool:
        return self._run is not None and self._run.is_inherited(entry.version)

    def _compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: dict[str, Any], agent: str | None
    ) -> Steps[bool]:
        self.require_atomic()
        store: Any = self._store
        if executes(store):  # then the history can name who decided
            command = CompareAndSet(key, expected, value, metadata)
            return (yield store.execute([command], agent=agent))[0]
        return (yield store.compare_and_set(key, expected, value, metadata))


def _differs(request: ApprovalRequest) -> DurableApprovalError:
    return DurableApprovalError(
        "APPROVAL_CONFLICT",
        f"request {request.id} exists already with another reason, time or member; nothing was written",
    )


def _metadata(request: ApprovalRequest) -> dict[str, Any]:
    return {
        "namespace": "approval",
        "version": 1,
        "runId": request.run_id,
        "scope": request.scope,
        "requestHash": request.request_hash,
    }


def _check_reviewer(reviewer: object, display_name: object) -> None:
    if type(reviewer) is not str or not reviewer.strip(JAVASCRIPT_SPACES):
        raise invalid("reviewer.id must be a string that is not blank")
    if display_name is not None and type(display_name) is not str:
        raise invalid(f"reviewer.displayName must be a string, not {type(display_name).__name__}")


def _check_open(record: ApprovalRecord, request_hash: str) -> None:
    """Refuse a decision about something else than is stored, and one that comes too late."""
    request = record.request
    if request.request_hash != request_hash:
        raise DurableApprovalError(
            "APPROVAL_STALE_DECISION",
            f"request {request.id} is not what was reviewed: its hash is {request.request_hash}; look again",
        )
    if record.decision is not None:
        raise DurableApprovalError(
            "APPROVAL_CONFLICT",
            f"request {request.id} was {record.decision.decision} already, "
            f"by {record.decision.reviewer!r:.80}",
        )
