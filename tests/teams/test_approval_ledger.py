"""The approval ledger: one record for each request, one decision, whoever decides and however many."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import ApprovalLedger, ApprovalRequest, AsyncApprovalLedger, DurableApprovalError, Timeline
from turnlog.memory import (
    AsyncEventSourcedStore,
    AsyncInMemoryStore,
    AsyncRedactingStore,
    EventSourcedStore,
    InMemoryStore,
    RedactingStore,
    SharedMemory,
)
from turnlog.teams import AsyncCheckpoint, Checkpoint
from turnlog.teams.approval_content import PLAN_BOUNDARY, call_boundary, round_boundary

Make = Callable[..., ApprovalRequest]


def key_of(request: ApprovalRequest) -> str:
    """Where the record of a request is kept."""
    return f"__oma_approval__/{request.id}"


def code_of(action: Callable[[], object]) -> str:
    """The code of the error that `action` ends with."""
    with pytest.raises(DurableApprovalError) as caught:
        action()
    return caught.value.code


def approve(ledger: Any, request: ApprovalRequest, **named: Any) -> Any:
    """Approve, unless something else is named."""
    given = {"request_hash": request.request_hash, "decision": "approve", "reviewer": "eve"} | named
    return ledger.decide(request.id, **given)


class Sealed:
    """A store that can neither compare and set nor execute, around one that can."""

    def __init__(self, inner: Any) -> None:
        self.get, self.set, self.list = inner.get, inner.set, inner.list
        self.delete, self.clear = inner.delete, inner.clear


def test_a_request_is_kept_once(desk: Any, make_request: Make) -> None:
    """J6: asking again gives the record there is, with its decision; nothing is written twice."""
    request = make_request(reason="risky")
    record = desk.ledger.ensure_request(request)
    assert (record.request, record.decision, record.state) == (request, None, "pending")
    assert desk.ledger.ensure_request(request) == record
    decision = approve(desk.ledger, request)
    again = desk.ledger.ensure_request(request)
    assert (again.decision, again.state) == (decision, "approved")
    entry = desk.store.get(key_of(request))
    assert json.loads(entry.value) == {
        "version": 1,
        "request": request.to_json(),
        "decision": decision.to_json(),
    }


def test_the_metadata_of_a_record(desk: Any, make_request: Make) -> None:
    """J6, J9: the names on the wire; a decision replaces the time of the request, and not the birth."""
    request = make_request()
    desk.ledger.ensure_request(request)
    before = desk.store.get(key_of(request))
    common = {
        "namespace": "approval",
        "version": 1,
        "runId": "trip-42",
        "scope": "tool_call",
        "requestHash": request.request_hash,
    }
    assert before.metadata == common | {"requestedAt": "2026-11-30T12:00:00.123Z"}
    approve(desk.ledger, request, reviewer="\ufeff eve ", display_name=" Eve ", decision="reject")
    after = desk.store.get(key_of(request))
    assert after.metadata == common | {
        "decision": "rejected",
        "reviewerId": "eve",
        "decidedAt": "2026-11-30T12:00:00.123Z",
    }
    assert after.created_at == before.created_at
    assert json.loads(after.value)["decision"]["reviewer"] == {"id": "eve", "displayName": " Eve "}


@pytest.mark.parametrize(
    "named", [{"reason": "other"}, {"requested_at": None}], ids=["another reason", "another time"]
)
def test_another_request_of_the_same_id_is_a_conflict(
    desk: Any, make_request: Make, named: dict[str, Any]
) -> None:
    """J6: reason and time are not in the id, but two requests that differ in them are not the same."""
    first, second = make_request(reason="one"), make_request(**({"reason": "one"} | named))
    assert first.id == second.id
    desk.ledger.ensure_request(first)
    assert code_of(lambda: desk.ledger.ensure_request(second)) == "APPROVAL_CONFLICT"
    assert desk.ledger.get(first.id).request == first


def test_what_is_missing_is_none(desk: Any) -> None:
    """J7: an unknown id gives nothing."""
    assert desk.ledger.get("apr_" + "0" * 32) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("not json", id="no JSON"),
        pytest.param("NaN", id="JSON of Python only"),
        pytest.param("[]", id="no object"),
        pytest.param('{"version":2}', id="version"),
        pytest.param('{"version":1}', id="no request"),
    ],
)
def test_a_damaged_record_is_refused(desk: Any, make_request: Make, text: str) -> None:
    """J7, J8: it can neither be read, nor asked for again, nor decided."""
    request = make_request()
    desk.store.set(key_of(request), text)
    for action in (
        lambda: desk.ledger.get(request.id),
        lambda: desk.ledger.ensure_request(request),
        lambda: approve(desk.ledger, request),
    ):
        assert code_of(action) == "APPROVAL_INTEGRITY_ERROR"
    assert desk.store.get(key_of(request)).value == text


def test_a_record_under_the_key_of_another_is_refused(desk: Any, make_request: Make) -> None:
    """J7: so that nobody's approval passes for another's."""
    one, other = make_request(), make_request(run_id="other")
    desk.ledger.ensure_request(one)
    desk.store.set(key_of(other), desk.store.get(key_of(one)).value)
    assert code_of(lambda: desk.ledger.get(other.id)) == "APPROVAL_INTEGRITY_ERROR"


def test_a_decision_that_is_null_is_damage(desk: Any, make_request: Make) -> None:
    """J7: absent is pending, null is not."""
    request = make_request()
    record = {"version": 1, "request": request.to_json(), "decision": None}
    desk.store.set(key_of(request), json.dumps(record))
    assert code_of(lambda: desk.ledger.get(request.id)) == "APPROVAL_INTEGRITY_ERROR"


def test_the_order_in_which_a_decision_is_checked(desk: Any, make_request: Make) -> None:
    """J8: each defect hides those behind it; what fails first has its own code."""
    request, ledger = make_request(), desk.ledger
    everything_wrong = {"reviewer": " ", "decision": "maybe", "request_hash": "0" * 64}
    assert code_of(lambda: approve(ledger, request, **everything_wrong)) == "APPROVAL_VALIDATION_ERROR"
    wrong = {"decision": "maybe", "request_hash": "0" * 64}
    assert code_of(lambda: approve(ledger, request, **wrong)) == "APPROVAL_VALIDATION_ERROR"
    assert code_of(lambda: approve(ledger, request, display_name=7)) == "APPROVAL_VALIDATION_ERROR"
    assert code_of(lambda: approve(ledger, request, request_hash="0" * 64)) == "APPROVAL_NOT_FOUND"
    desk.store.set(key_of(request), "damage")
    assert code_of(lambda: approve(ledger, request, request_hash="0" * 64)) == "APPROVAL_INTEGRITY_ERROR"
    desk.store.delete(key_of(request))
    ledger.ensure_request(request)
    assert code_of(lambda: approve(ledger, request, request_hash="0" * 64)) == "APPROVAL_STALE_DECISION"
    approve(ledger, request)
    assert code_of(lambda: approve(ledger, request, request_hash="0" * 64)) == "APPROVAL_STALE_DECISION"
    assert code_of(lambda: approve(ledger, request)) == "APPROVAL_CONFLICT"
    assert code_of(lambda: approve(ledger, request, decision="reject")) == "APPROVAL_CONFLICT"


@pytest.mark.parametrize("decided", [False, True], ids=["pending", "decided"])
def test_without_compare_and_set_it_fails_closed(make_request: Make, decided: bool) -> None:
    """A3, J8, J14: nothing can be asked for or decided, but records are read."""
    inner, request = InMemoryStore(), make_request()
    sealed = ApprovalLedger(Sealed(inner))  # type: ignore[arg-type]
    assert code_of(lambda: sealed.ensure_request(request)) == "APPROVAL_ATOMIC_STORE_REQUIRED"
    assert inner.list() == []
    ApprovalLedger(inner).ensure_request(request)
    if decided:
        approve(ApprovalLedger(inner), request)
    record = sealed.get(request.id)
    assert record is not None
    assert record.state == ("approved" if decided else "pending")
    expected = "APPROVAL_CONFLICT" if decided else "APPROVAL_ATOMIC_STORE_REQUIRED"
    assert code_of(lambda: approve(sealed, request)) == expected


def test_a_request_that_was_tampered_with_is_not_kept(desk: Any, make_request: Make) -> None:
    """J5, J6: a request is checked before it is kept."""
    document = make_request().document.replace("publish", "destroy")
    forged = object.__new__(ApprovalRequest)
    object.__setattr__(forged, "document", document)
    assert code_of(lambda: desk.ledger.ensure_request(forged)) == "APPROVAL_INTEGRITY_ERROR"
    assert desk.store.list() == []


def test_a_ledger_takes_stores_of_its_colour_only() -> None:
    """The other twin is named where the store is handed over."""
    with pytest.raises(TypeError, match="use AsyncApprovalLedger"):
        ApprovalLedger(AsyncInMemoryStore())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="use ApprovalLedger"):
        AsyncApprovalLedger(InMemoryStore())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an ApprovalRequest"):
        ApprovalLedger(InMemoryStore()).ensure_request({})  # type: ignore[arg-type]


def test_rows_of_the_original_are_decided_here(golden: Callable[[str], Any]) -> None:
    """J6, J9: a pending row written by the original is decided, and a decided one is final."""
    store = InMemoryStore()
    ledger = ApprovalLedger(store)
    rows = golden("approvals")
    for row in rows.values():
        store.set(row["key"], row["value"], row["metadata"])
    pending = ledger.get(rows["pending"]["key"].partition("/")[2])
    assert pending is not None
    approve(ledger, pending.request)
    again = ledger.get(pending.request.id)
    assert again is not None
    assert (again.state, again.request) == ("approved", pending.request)
    decided = ledger.get(rows["decided"]["key"].partition("/")[2])
    assert decided is not None
    assert code_of(lambda: approve(ledger, decided.request)) == "APPROVAL_CONFLICT"


def test_records_are_nobodys_memory(log: turnlog.EventLog, make_request: Make) -> None:
    """E20: a record is hidden from agents and survives a restore of the memory."""
    store = EventSourcedStore(log, "trip-42")
    memory = SharedMemory(store)
    memory.write("ann", "a", "1")
    ApprovalLedger(store).ensure_request(make_request())
    assert [entry.key for entry in memory.list_all()] == ["ann/a"]
    Timeline(log, "trip-42").restore(position=1)
    assert ApprovalLedger(store).get(make_request().id) is not None


def test_the_history_names_who_decided(log: turnlog.EventLog, make_request: Make) -> None:
    """On a log a decision is the reviewer's event, and a lost one is a refusal that says whose it was."""
    store, request = EventSourcedStore(log, "trip-42"), make_request()
    ledger = ApprovalLedger(store)
    with turnlog.acting_as("bob"):
        ledger.ensure_request(request)
        approve(ledger, request, reviewer=" eve ")
    events = list(Timeline(log, "trip-42").history(key_of(request)))
    assert [recorded.agent for recorded in events] == ["bob", "eve"]


def test_a_fork_does_not_inherit_approvals_through_a_redacting_store(
    log: turnlog.EventLog, make_request: Make
) -> None:
    """The run is that of the store within, however many are around it."""
    parent = EventSourcedStore(log, "trip-42")
    request = make_request()
    for store in (RedactingStore(parent), RedactingStore(RedactingStore(parent))):
        ApprovalLedger(parent).ensure_request(request)
        assert ApprovalLedger(store).get(request.id) is not None
    approve(ApprovalLedger(parent), request)
    Timeline(log, "trip-42").fork(run="what-if")
    fork = RedactingStore(EventSourcedStore(log, "what-if"))
    assert ApprovalLedger(fork).get(request.id) is None
    assert ApprovalLedger(RedactingStore(fork)).get(request.id) is None


def test_a_checkpoint_through_a_redacting_store_is_that_of_the_run(log: turnlog.EventLog) -> None:
    """It is kept under the run's name, as without; around a store that is on no log it has none."""
    assert Checkpoint(RedactingStore(EventSourcedStore(log, "trip-42"))).run_id == "trip-42"
    assert AsyncCheckpoint(AsyncRedactingStore(AsyncEventSourcedStore(log, "trip-42"))).run_id == "trip-42"
    assert Checkpoint(RedactingStore(InMemoryStore())).run_id is None


@pytest.mark.parametrize("decided", [False, True], ids=["pending", "decided"])
def test_a_fork_does_not_inherit_approvals(log: turnlog.EventLog, make_request: Make, decided: bool) -> None:
    """What was asked for or decided in a run says nothing in a fork of it, which may ask anew."""
    parent = ApprovalLedger(EventSourcedStore(log, "trip-42"))
    request = make_request()
    parent.ensure_request(request)
    if decided:
        approve(parent, request)
    Timeline(log, "trip-42").fork(run="what-if")
    fork = ApprovalLedger(EventSourcedStore(log, "what-if"))
    assert fork.get(request.id) is None
    assert code_of(lambda: approve(fork, request)) == "APPROVAL_NOT_FOUND"
    assert fork.ensure_request(request).state == "pending"
    approve(fork, request, decision="reject", reviewer="zoe")
    here, there = fork.get(request.id), parent.get(request.id)
    assert here is not None
    assert there is not None
    assert (here.state, there.state) == ("rejected", "approved" if decided else "pending")
    deeper = Timeline(log, "what-if").fork(run="deeper")
    assert ApprovalLedger(EventSourcedStore(log, deeper.run)).get(request.id) is None


def test_a_checkpoint_and_the_ledger_are_reconciled(
    desk: Any, golden: Callable[[str], Any], snapshot: Any
) -> None:
    """J12, J15: decisions must be those kept here; a request that got lost is kept again, as pending."""
    assert code_of(lambda: desk.ledger.reconcile(snapshot)) == "APPROVAL_INTEGRITY_ERROR"
    assert desk.store.list() == []
    row = golden("approvals")["decided"]
    desk.store.set(row["key"], row["value"], row["metadata"])
    (record,) = desk.ledger.reconcile(snapshot)
    assert record.state == "pending"
    assert record.request.to_json() == snapshot["pendingApprovals"][0]
    approve(desk.ledger, record.request)
    assert [each.state for each in desk.ledger.reconcile(snapshot)] == ["approved"]
    snapshot["approvalDecisions"][0]["decision"] = "rejected"
    assert code_of(lambda: desk.ledger.reconcile(snapshot)) == "APPROVAL_INTEGRITY_ERROR"


def test_a_pending_request_that_differs_from_the_ledgers(desk: Any, snapshot: Any) -> None:
    """J6, J15: it is a conflict, found before any other is kept."""
    content = {"kind": "plan", "continuation": "execute", "tasks": []}
    other = ApprovalRequest.create(run_id="trip-42", scope="plan", boundary="p", content=content)
    (pending,) = snapshot["pendingApprovals"]
    desk.ledger.ensure_request(ApprovalRequest.read(pending | {"reason": "other"}))
    snapshot |= {"approvalDecisions": [], "pendingApprovals": [other.to_json(), pending]}
    assert code_of(lambda: desk.ledger.reconcile(snapshot)) == "APPROVAL_CONFLICT"
    assert desk.ledger.get(other.id) is None


def test_the_names_of_boundaries() -> None:
    """J11: how plans, rounds and calls are named."""
    assert PLAN_BOUNDARY == "coordinator-plan"
    assert round_boundary(["a", "b"], ["c"]) == "a,b->c"
    assert call_boundary("draft", "call-1") == "draft:call-1"


def test_of_many_threads_one_decides(desk: Any, make_request: Make) -> None:
    """J8: the first decision wins, and every other reviewer is told so."""
    request = make_request()
    desk.ledger.ensure_request(request)
    barrier, outcomes = threading.Barrier(8), []

    def decide(number: int) -> None:
        barrier.wait(30)
        try:
            outcomes.append(approve(desk.ledger, request, reviewer=f"r{number}").reviewer)
        except DurableApprovalError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes)[:7] == ["APPROVAL_CONFLICT"] * 7
    assert desk.ledger.get(request.id).decision.reviewer == sorted(outcomes)[7]


# Reads the record, says so, and decides once it is told to: the other process has read it by then too.
REVIEWER = """
import sys, turnlog
path, ident, hashed, who, verb = sys.argv[1:]

class Waiting(turnlog.EventSourcedStore):
    def execute(self, *given, **named):
        print("read", flush=True)
        sys.stdin.readline()
        return super().execute(*given, **named)

with turnlog.open(path) as log:
    ledger = turnlog.ApprovalLedger(Waiting(log, "trip-42"))
    try:
        print(ledger.decide(ident, request_hash=hashed, decision=verb, reviewer=who).decision, flush=True)
    except turnlog.DurableApprovalError as error:
        print(error.code, flush=True)
"""


def test_of_two_processes_one_decides(path: Path, make_request: Make) -> None:
    """J8: two reviewers who have both read the pending record decide at once; one wins, one is told."""
    request = make_request()
    with turnlog.open(path) as log:
        ApprovalLedger(EventSourcedStore(log, "trip-42")).ensure_request(request)
    reviewers = [
        subprocess.Popen(
            [sys.executable, "-c", REVIEWER, path, request.id, request.request_hash, who, verb],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who, verb in (("eve", "approve"), ("zoe", "reject"))
    ]
    try:
        for reviewer in reviewers:
            assert reviewer.stdout is not None
            assert reviewer.stdout.readline() == "read\n"
        for reviewer in reviewers:
            assert reviewer.stdin is not None
            reviewer.stdin.write("\n")
            reviewer.stdin.flush()
        said = [reviewer.communicate(timeout=60)[0].strip() for reviewer in reviewers]
    finally:
        for reviewer in reviewers:
            reviewer.kill()
            reviewer.wait(30)
    with turnlog.open(path) as log:
        record = ApprovalLedger(EventSourcedStore(log, "trip-42")).get(request.id)
        refusals = list(log.read(type=turnlog.eventlog.WriteRefused))
    assert record is not None
    assert sorted(said) == sorted(["APPROVAL_CONFLICT", record.state])
    assert len(refusals) == 1
