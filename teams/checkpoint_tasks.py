"""What a checkpoint holds of tasks that were under way: where the model stood, which tools were running."""

from __future__ import annotations

from .approval_decision import ApprovalDecision
from .approval_error import DurableApprovalError
from .approval_request import ApprovalRequest
from .shape import (
    ABSENT,
    Malformed,
    Members,
    a_bool,
    a_choice,
    a_text,
    an_amount,
    an_array,
    an_integer,
    an_object,
    optional_text,
)

__all__ = ["check_task_under_way", "read_decision", "read_request"]

_PHASES = ("awaiting_model", "executing_tools", "completed")


def check_task_under_way(value: object, path: str) -> str:
    """The id of a task that was under way, whose state must be whole.

    Raises:
        Malformed: it is not.
    """
    state = an_object(value, path)
    task_id = a_text(state.get("taskId", ABSENT), f"{path}.taskId", empty=False)
    a_text(state.get("assignee", ABSENT), f"{path}.assignee", empty=False)
    phase = a_choice(state.get("phase", ABSENT), f"{path}.phase", _PHASES)
    for name in ("conversationMessages", "messages", "toolCalls"):
        an_array(state.get(name, ABSENT), f"{path}.{name}")
    an_integer(state.get("turns", ABSENT), f"{path}.turns", minimum=0)
    _check_usage(state.get("tokenUsage", ABSENT), f"{path}.tokenUsage")
    for name in ("loopWarned", "loopDetected", "budgetExceeded"):
        if name in state:
            a_bool(state[name], f"{path}.{name}")
    _check_phase(state, phase, path)
    return task_id


def read_request(value: object, path: str) -> ApprovalRequest:
    """The request for approval at `path`.

    Raises:
        Malformed: it is not one that verifies.
    """
    try:
        return ApprovalRequest.read(value)
    except DurableApprovalError as error:
        raise Malformed(path, f"a request for approval that verifies ({error})", value) from error


def read_decision(value: object, path: str, request: ApprovalRequest | None = None) -> ApprovalDecision:
    """The decision at `path`; with `request`, one that binds it.

    Raises:
        Malformed: it is not one.
    """
    try:
        return ApprovalDecision.read(value, request)
    except DurableApprovalError as error:
        raise Malformed(path, f"a decision that verifies ({error})", value) from error


def _check_phase(state: Members, phase: str, path: str) -> None:
    """Which members there are depends on the phase."""
    if phase == "executing_tools":
        calls = an_array(state.get("pendingToolCalls", ABSENT), f"{path}.pendingToolCalls")
        if not calls:
            raise Malformed(f"{path}.pendingToolCalls", "an array that is not empty", calls)
        for index, call in enumerate(calls):
            _check_call(call, f"{path}.pendingToolCalls[{index}]")
        optional_text(state.get("pendingToolResultText", ABSENT), f"{path}.pendingToolResultText")
    else:
        for name in ("pendingToolCalls", "pendingToolResultText"):
            _check_absent(state, name, path, "the phase is executing_tools")
    if phase == "completed":
        a_text(state.get("finalOutput", ABSENT), f"{path}.finalOutput")
    else:
        _check_absent(state, "finalOutput", path, "the phase is completed")


def _check_call(value: object, path: str) -> None:
    pending = an_object(value, path)
    call = an_object(pending.get("call", ABSENT), f"{path}.call")
    a_choice(call.get("type", ABSENT), f"{path}.call.type", ("tool_use",))
    call_id = a_text(call.get("id", ABSENT), f"{path}.call.id", empty=False)
    tool = a_text(call.get("name", ABSENT), f"{path}.call.name", empty=False)
    an_object(call.get("input", ABSENT), f"{path}.call.input")
    if "approvalRequest" in pending:
        _check_approval(pending, call_id, tool, path)
    else:
        _check_absent(pending, "approvalDecision", path, "there is an approvalRequest")
    if "commit" in pending:
        for name in ("approvalRequest", "approvalDecision"):
            _check_absent(pending, name, path, "there is no commit")
        _check_commit(pending["commit"], call_id, tool, f"{path}.commit")


def _check_approval(pending: Members, call_id: str, tool: str, path: str) -> None:
    request = read_request(pending["approvalRequest"], f"{path}.approvalRequest")
    a_choice(request.scope, f"{path}.approvalRequest.scope", ("tool_call",))
    content = request.content
    a_choice(content["toolCallId"], f"{path}.approvalRequest.content.toolCallId", (call_id,))
    a_choice(content["toolName"], f"{path}.approvalRequest.content.toolName", (tool,))
    if "approvalDecision" in pending:
        read_decision(pending["approvalDecision"], f"{path}.approvalDecision", request)


def _check_commit(value: object, call_id: str, tool: str, path: str) -> None:
    """What a tool returned, kept so that it does not run again."""
    commit = an_object(value, path)
    result = an_object(commit.get("result", ABSENT), f"{path}.result")
    a_choice(result.get("type", ABSENT), f"{path}.result.type", ("tool_result",))
    a_choice(result.get("tool_use_id", ABSENT), f"{path}.result.tool_use_id", (call_id,))
    a_text(result.get("content", ABSENT), f"{path}.result.content")
    if "is_error" in result:
        a_bool(result["is_error"], f"{path}.result.is_error")
    record = an_object(commit.get("record", ABSENT), f"{path}.record")
    a_choice(record.get("toolName", ABSENT), f"{path}.record.toolName", (tool,))
    an_object(record.get("input", ABSENT), f"{path}.record.input")
    a_text(record.get("output", ABSENT), f"{path}.record.output")
    an_amount(record.get("duration", ABSENT), f"{path}.record.duration")
    if "delegationUsage" in commit:
        _check_usage(commit["delegationUsage"], f"{path}.delegationUsage")


def _check_usage(value: object, path: str) -> None:
    usage = an_object(value, path)
    for name in ("input_tokens", "output_tokens"):
        an_amount(usage.get(name, ABSENT), f"{path}.{name}")


def _check_absent(members: Members, name: str, path: str, when: str) -> None:
    if name in members:
        raise Malformed(f"{path}.{name}", f"absent unless {when}", members[name])
