"""Requests for approval and decisions: made, checked, and read from what the original wrote."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog import ApprovalRequest, DurableApprovalError, TurnlogError
from turnlog.teams import ApprovalDecision, ApprovalRecord
from turnlog.teams.canonical import canonical_json

Make = Callable[..., ApprovalRequest]
Golden = Callable[[str], Any]

INTEGRITY = "APPROVAL_INTEGRITY_ERROR"
WRONG: tuple[Any, ...] = (None, True, 7, "", "x", [], {})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every member and element inside `value`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield (*path, name)
        yield from places(inner, (*path, name))


def changed(document: Any, path: tuple[Any, ...], *replacement: Any) -> Any:
    """A copy with the member at `path` replaced, or without one taken out."""
    whole = copy.deepcopy(document)
    inner = whole
    for name in path[:-1]:
        inner = inner[name]
    if replacement:
        inner[path[-1]] = replacement[0]
    else:
        del inner[path[-1]]
    return whole


def code_of(action: Callable[[], object]) -> str:
    """The code of the error that `action` ends with."""
    with pytest.raises(DurableApprovalError) as caught:
        action()
    assert isinstance(caught.value, TurnlogError)
    assert caught.value.code in str(caught.value)
    return caught.value.code


def test_a_request_says_what_it_binds(make_request: Make) -> None:
    """J1, J4: run and boundary are trimmed, the time is UTC in milliseconds, the content is a copy."""
    content = {"kind": "task_dispatch", "task": {"id": "a"}}
    request = ApprovalRequest.create(
        run_id="\ufeff trip ",
        scope="task_dispatch",
        boundary=" a\n",
        content=content,
        reason="risky",
        requested_at=datetime(2026, 11, 30, 12, 0, 0, 123_999, tzinfo=UTC),
    )
    content["task"]["id"] = "b"  # type: ignore[index]
    assert (request.run_id, request.boundary, request.reason) == ("trip", "a", "risky")
    assert request.content == {"kind": "task_dispatch", "task": {"id": "a"}}
    assert request.requested_at == datetime(2026, 11, 30, 12, 0, 0, 123_000, tzinfo=UTC)
    assert request.to_json() == {
        "version": 1,
        "id": request.id,
        "runId": "trip",
        "scope": "task_dispatch",
        "boundary": "a",
        "requestHash": request.request_hash,
        "requestedAt": "2026-11-30T12:00:00.123Z",
        "reason": "risky",
        "content": {"kind": "task_dispatch", "task": {"id": "a"}},
    }


def test_what_the_hash_covers(make_request: Make) -> None:
    """J3, J4: scope, boundary and content are in the hash, the run is in the id; reason and time in none."""
    request = make_request()
    other_run = make_request(run_id="other")
    assert request.request_hash == other_run.request_hash
    assert request.id != other_run.id
    later = make_request(reason="because", requested_at=datetime.now(UTC))
    assert (later.request_hash, later.id) == (request.request_hash, request.id)
    assert make_request(boundary="elsewhere").request_hash != request.request_hash
    content = request.content | {"consequential": False}
    assert make_request(content=content).request_hash != request.request_hash


@pytest.mark.parametrize(
    ("named", "said"),
    [
        pytest.param({"run_id": " \u00a0"}, "runId and boundary must be non-empty", id="blank run"),
        pytest.param({"boundary": ""}, "runId and boundary must be non-empty", id="no boundary"),
        pytest.param({"run_id": 7}, "runId and boundary", id="a run that is a number"),
        pytest.param({"scope": "plan"}, "does not match content kind", id="another kind"),
        pytest.param({"scope": "all"}, "scope must be one of", id="no scope"),
        pytest.param({"reason": 7}, "reason must be a string", id="reason"),
        pytest.param({"content": []}, "content must be a dict", id="content"),
        pytest.param({"content": {"kind": "tool_call", "x": b""}}, r"\$.content.x", id="not JSON"),
        pytest.param({"requested_at": datetime(2026, 1, 1)}, "time zone", id="naive time"),
    ],
)
def test_what_cannot_be_requested(make_request: Make, named: dict[str, Any], said: str) -> None:
    """J4: an argument that cannot be is a validation error that says which."""
    with pytest.raises(DurableApprovalError, match=said) as caught:
        make_request(**named)
    assert caught.value.code == "APPROVAL_VALIDATION_ERROR"


@pytest.mark.parametrize("name", ["pending", "decided"])
def test_records_of_the_original_verify(golden: Golden, name: str) -> None:
    """J1, J5, J9: what the original's ledger wrote is read, and keeps every member when written again."""
    row = golden("approvals")[name]
    record = ApprovalRecord.read(row["value"], row["key"].partition("/")[2])
    assert json.loads(record.document) == json.loads(row["value"])
    assert record.document == canonical_json(json.loads(row["value"]))
    assert record.state == {"pending": "pending", "decided": "approved"}[name]
    if record.decision is not None:
        assert (record.decision.reviewer, record.decision.reviewer_name) == ("eve", "Eve E.")
        assert record.decision.to_json() == json.loads(row["value"])["decision"]


# Members that need not be there, and those of which another text is no damage that anybody could see.
OPTIONAL = {("request", "reason"), ("decision", "reviewer", "displayName"), ("decision",)}
FREE = OPTIONAL | {("decision", "reviewer", "id")}


@pytest.mark.parametrize("name", ["pending", "decided"])
def test_every_member_is_checked(golden: Golden, name: str) -> None:
    """J5, J7: a record in which any member is missing, or of another type, is an integrity error."""
    row = golden("approvals")[name]
    document, ident = json.loads(row["value"]), row["key"].partition("/")[2]
    damaged = [
        (path, changed(document, path, *wrong))
        for path in places(document)
        for wrong in [(), *((each,) for each in WRONG)]
        if not (path in OPTIONAL and not wrong)
        and not (path in FREE and wrong and isinstance(wrong[0], str) and wrong[0])
        and not (path == ("decision", "reviewer", "displayName") and wrong == ("",))
        and not (path == ("request", "reason") and wrong == ("",))
        and not (path == ("request", "runId") and wrong == ("",))  # see the next test
        and not (wrong and wrong[0] == value_at(document, path))
    ]
    assert len(damaged) > 100
    for path, each in damaged:
        text = json.dumps(each)
        assert code_of(lambda text=text: ApprovalRecord.read(text, ident)) == INTEGRITY, path


def value_at(document: Any, path: tuple[Any, ...]) -> Any:
    """The member at `path`."""
    for name in path:
        document = document[name]
    return document


GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "approvals.json"
DECIDED = json.loads(GOLDEN.read_text("utf-8"))["decided"]
WHOLE = json.loads(DECIDED["value"])


@given(st.sampled_from(list(places(WHOLE))), st.text(max_size=3) | st.integers())
def test_any_damage_is_read_as_it_is_or_told(path: tuple[Any, ...], value: Any) -> None:
    """J5, J7: whatever one member is replaced by, the record says the same as before, or is refused."""
    document = changed(WHOLE, path, value)
    try:
        record = ApprovalRecord.read(json.dumps(document), DECIDED["key"].partition("/")[2])
    except DurableApprovalError as error:
        assert error.code in (INTEGRITY, "APPROVAL_VALIDATION_ERROR")  # noqa: PT017 - some examples are read
    else:
        assert json.loads(record.document) == document
        assert path in FREE or value == value_at(WHOLE, path)


def test_an_empty_run_of_a_stored_request_is_a_validation_error(make_request: Make) -> None:
    """J5: the one defect of a stored request that is not an integrity error."""
    document = make_request().to_json() | {"runId": ""}
    assert code_of(lambda: ApprovalRequest.read(document)) == "APPROVAL_VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        pytest.param(("version",), True, r"\$.request.version must be 1, found true", id="version"),
        pytest.param(("id",), "apr_00", r"\$.request.id must be apr_", id="short id"),
        pytest.param(("id",), "apr_" + "0" * 32, "does not follow from run", id="another id"),
        pytest.param(("requestHash",), "0" * 64, "does not match its content", id="another hash"),
        pytest.param(("requestedAt",), "yesterday", r"\$.request.requestedAt must be a time", id="time"),
        pytest.param(("content", "input"), {"to": "one"}, "does not match its content", id="content"),
        pytest.param(("content", "more"), 1, "does not match its content", id="more content"),
        pytest.param(("content", "toolName"), 7, r"content.toolName must be a string, found the", id="tool"),
        pytest.param(("content", "kind"), "other", r"content.kind must be one of", id="kind"),
        pytest.param(("scope",), "plan", r"content.kind must be the scope, plan", id="scope"),
    ],
)
def test_a_damaged_request_is_told_precisely(
    make_request: Make, path: tuple[str, ...], value: Any, said: str
) -> None:
    """J5: the message says where, what belongs there, and what was found."""
    document = changed(make_request().to_json(), path, value)
    with pytest.raises(DurableApprovalError, match=said) as caught:
        ApprovalRequest.read(document)
    assert caught.value.code == "APPROVAL_INTEGRITY_ERROR"


def test_members_of_others_are_kept(make_request: Make) -> None:
    """J5, J6: more members at the top change neither hash nor id, are kept, and tell two requests apart."""
    request = make_request()
    more = ApprovalRequest.read(request.to_json() | {"tenant": "a"})
    assert (more.id, more.request_hash) == (request.id, request.request_hash)
    assert more.to_json()["tenant"] == "a"
    assert more != request


TASK = dict.fromkeys(("id", "title", "description", "status", "createdAt", "updatedAt"), "x")


@pytest.mark.parametrize(
    ("scope", "content"),
    [
        pytest.param("plan", {"continuation": "plan_only", "tasks": [TASK]}, id="plan"),
        pytest.param("task_round", {"completedTasks": [TASK], "nextTasks": [TASK]}, id="round"),
        pytest.param("task_dispatch", {"task": TASK}, id="dispatch"),
    ],
)
def test_the_contents_of_every_scope(make_request: Make, scope: Any, content: dict[str, Any]) -> None:
    """J1, J5: each scope has its members, all of them needed; tasks have six."""
    whole = {"kind": scope, **content}
    request = make_request(scope=scope, content=whole)
    assert ApprovalRequest.read(request.to_json()) == request
    for path in places(whole):
        if path == ("kind",) or isinstance(path[-1], int):
            continue
        damaged = make_request(scope=scope, content=changed(whole, path))
        with pytest.raises(DurableApprovalError, match=str(path[-1])):
            ApprovalRequest.read(damaged.to_json())


def test_a_decision_binds_its_request(golden: Golden, make_request: Make) -> None:
    """J1: a decision about one request says nothing about another."""
    decision = ApprovalDecision.read(json.loads(golden("approvals")["decided"]["value"])["decision"])
    assert not decision.binds(make_request())
    assert code_of(lambda: ApprovalDecision.read(decision.to_json(), make_request())) == (
        "APPROVAL_INTEGRITY_ERROR"
    )
