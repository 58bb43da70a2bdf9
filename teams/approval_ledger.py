"""Approvals on a store: asked for once, decided once, whoever and however many decide."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from ..memory.contract import AsyncMemoryStore, MemoryStore
from ..memory.steps import acarry_out, carry_out
from .approval_decision import ApprovalDecision
from .approval_record import ApprovalRecord
from .approval_request import ApprovalRequest
from .approval_steps import ApprovalSteps
from .arguments import check_function, check_given_store
from .checkpoint_snapshot import CheckpointSnapshot, check_loaded

__all__ = ["ApprovalLedger", "AsyncApprovalLedger"]


def _now() -> datetime:
    return datetime.now(UTC)


class ApprovalLedger:
    """The approvals kept in a store, one record for each request. As safe to share as the store is.

    What makes a decision final is the store's `compare_and_set`: of reviewers in any number of threads and
    processes one decides, the others are told. Without it nothing can be asked for or decided, only read.
    On a log every record stays in the history, and a fork does not inherit its parent's.

    Args:
        store: where checkpoints are kept too.
        clock: gives the time of a decision, aware; to be replaced in tests only.

    Raises:
        TypeError: not a synchronous `MemoryStore`; names the missing methods.
    """

    def __init__(self, store: MemoryStore, *, clock: Callable[[], datetime] = _now) -> None:
        check_given_store("store", store, asynchronous=False, twin="AsyncApprovalLedger")
        check_function("clock", clock)
        self._steps = ApprovalSteps(store, clock)

    def ensure_request(self, request: ApprovalRequest) -> ApprovalRecord:
        """Keep `request`, unless it is kept already; the record, with its decision if there is one.

        Raises:
            DurableApprovalError: `APPROVAL_INTEGRITY_ERROR`: the request, or the record there is, cannot be
                right; `APPROVAL_ATOMIC_STORE_REQUIRED`: the store has no `compare_and_set`;
                `APPROVAL_CONFLICT`: it is kept with another time, reason or member.
            Busy, StorageError: nothing was written.
        """
        return carry_out(self._steps.ensure_request(request))

    def get(self, request_id: str) -> ApprovalRecord | None:
        """The record of a request; None if there is none. Works on any store.

        Raises:
            DurableApprovalError: `APPROVAL_INTEGRITY_ERROR`: it is not JSON, malformed, altered, or that of
                another request; `APPROVAL_VALIDATION_ERROR`: its run or boundary is empty.
        """
        return carry_out(self._steps.get(request_id))

    def decide(
        self,
        request_id: str,
        *,
        request_hash: str,
        decision: Literal["approve", "reject"],
        reviewer: str,
        display_name: str | None = None,
    ) -> ApprovalDecision:
        """Approve or reject a request, once and for all; deciding the same again is a conflict too.

        Args:
            request_id: which.
            request_hash: the hash of what the reviewer has seen.
            decision: `approve` or `reject`.
            reviewer: who decides, a claim; white space around it is dropped.
            display_name: how they are called.

        Raises:
            DurableApprovalError: the first of these that applies: `APPROVAL_VALIDATION_ERROR` (reviewer, then
                decision), `APPROVAL_NOT_FOUND`, `APPROVAL_INTEGRITY_ERROR`, `APPROVAL_STALE_DECISION`,
                `APPROVAL_CONFLICT` (decided already), `APPROVAL_ATOMIC_STORE_REQUIRED`, `APPROVAL_CONFLICT`
                (somebody decided at the same time). Nothing was written.
            Busy, StorageError: nothing was written.
        """
        return carry_out(self._steps.decide(request_id, request_hash, decision, reviewer, display_name))

    def reconcile(self, snapshot: CheckpointSnapshot) -> list[ApprovalRecord]:
        """Bring a checkpoint that is to be resumed and the ledger together; the records of what it waits for.

        Every decision in the checkpoint must be the one kept here. A pending request that is missing here,
        because the process died between saving the checkpoint and asking, is kept now.

        Args:
            snapshot: a loaded checkpoint.

        Raises:
            TypeError, BadCheckpoint: not a loaded checkpoint.
            DurableApprovalError: `APPROVAL_INTEGRITY_ERROR`: a decision differs, or a record cannot be right;
                `APPROVAL_CONFLICT`: a request differs. Nothing was written.
        """
        check_loaded(snapshot)
        return carry_out(self._steps.reconcile(snapshot))


class AsyncApprovalLedger:
    """The twin of `ApprovalLedger` for an `AsyncMemoryStore`: the same methods, to be awaited."""

    def __init__(self, store: AsyncMemoryStore, *, clock: Callable[[], datetime] = _now) -> None:
        check_given_store("store", store, asynchronous=True, twin="ApprovalLedger")
        check_function("clock", clock)
        self._steps = ApprovalSteps(store, clock)

    async def ensure_request(self, request: ApprovalRequest) -> ApprovalRecord:
        """Keep `request`, unless it is kept already; see `ApprovalLedger.ensure_request`."""
        return await acarry_out(self._steps.ensure_request(request))

    async def get(self, request_id: str) -> ApprovalRecord | None:
        """The record of a request; None if there is none; see `ApprovalLedger.get`."""
        return await acarry_out(self._steps.get(request_id))

    async def decide(
        self,
        request_id: str,
        *,
        request_hash: str,
        decision: Literal["approve", "reject"],
        reviewer: str,
        display_name: str | None = None,
    ) -> ApprovalDecision:
        """Approve or reject a request, once and for all; see `ApprovalLedger.decide`."""
        return await acarry_out(
            self._steps.decide(request_id, request_hash, decision, reviewer, display_name)
        )

    async def reconcile(self, snapshot: CheckpointSnapshot) -> list[ApprovalRecord]:
        """Bring a checkpoint and the ledger together; see `ApprovalLedger.reconcile`."""
        check_loaded(snapshot)
        return await acarry_out(self._steps.reconcile(snapshot))
