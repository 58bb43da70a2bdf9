"""`turnlog approvals`: what waits is listed and shown exactly, and decided once."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import ApprovalLedger, ApprovalRequest, Timeline
from turnlog.memory import EventSourcedStore

Cli = Callable[..., Any]
Make = Callable[..., ApprovalRequest]


@pytest.fixture
def request_(path: Path, make_request: Make) -> ApprovalRequest:
    """A request that waits in the run `trip-42` of a closed file."""
    request = make_request(reason="goes to \x1b[31meverybody")
    with turnlog.open(path, durability="os") as log:
        ApprovalLedger(EventSourcedStore(log, "trip-42")).ensure_request(request)
    return request


def decide(cli: Cli, path: Path, request: ApprovalRequest, *more: str) -> Any:
    """Approve as eve, with the hash, unless something else is said."""
    words = more or ("--approve", "--as", "eve", "--hash", request.request_hash)
    return cli("approvals", path, "decide", request.id, *words)


def test_what_waits_is_listed(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """One line for each request, in its state; with --json everything but the content."""
    done = cli("approvals", path, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.records == [
        {
            "id": request_.id,
            "run": "trip-42",
            "position": 1,
            "state": "pending",
            "run_id": "trip-42",
            "scope": "tool_call",
            "boundary": "draft:call-1",
            "hash": request_.request_hash,
            "requested_at": "2026-11-30T12:00:00.123Z",
            "reason": "goes to \x1b[31meverybody",
            "reviewer": None,
            "reviewer_name": None,
            "decided_at": None,
        }
    ]
    table = cli("approvals", path).out.splitlines()
    assert [line.split()[0] for line in table] == ["id", request_.id]
    assert "tool_call draft:call-1" in table[1]


def test_only_what_is_pending(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """--pending leaves out what was decided."""
    assert len(cli("approvals", path, "--pending", "--json").records) == 1
    decide(cli, path, request_)
    assert cli("approvals", path, "--pending", "--json").records == []
    assert cli("approvals", path, "--json").records[0]["state"] == "approved"


def test_the_content_is_shown_exactly_and_harmlessly(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """Every member of the content, with the hash that binds it; nothing a terminal would act on."""
    done = cli("approvals", path, "show", request_.id)
    assert done.code == 0
    assert request_.request_hash in done.out
    assert '    "to": "all"' in done.out
    assert "\x1b" not in done.out
    assert "\\x1b[31meverybody" in done.out
    record = cli("approvals", path, "show", request_.id, "--json").records[0]
    assert record["content"] == request_.content


@pytest.mark.parametrize(("flag", "state"), [("--approve", "approved"), ("--reject", "rejected")])
def test_a_request_is_decided_once(
    cli: Cli, path: Path, request_: ApprovalRequest, flag: str, state: str
) -> None:
    """The first decision stands and is the reviewer's event; the next is refused with exit code 1."""
    words = (flag, "--as", "eve", "--name", "Eve", "--hash", request_.request_hash)
    done = decide(cli, path, request_, *words)
    assert (done.code, done.err) == (0, "")
    assert f"is {state}, by eve" in done.out
    again = decide(cli, path, request_)
    assert (again.code, again.out, again.err.count("\n")) == (1, "", 1)
    assert "APPROVAL_CONFLICT" in again.err
    with turnlog.open(path) as log:
        record = ApprovalLedger(EventSourcedStore(log, "trip-42")).get(request_.id)
        newest = next(log.read(reverse=True, limit=1))
    assert record is not None
    assert record.decision is not None
    assert (record.state, record.decision.reviewer_name, newest.agent) == (state, "Eve", "eve")


def test_a_decision_as_json(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """The same object as in the list."""
    words = ("--approve", "--as", "eve", "--hash", request_.request_hash, "--json")
    record = decide(cli, path, request_, *words).records[0]
    assert (record["state"], record["reviewer"], record["position"]) == ("approved", "eve", 2)
    assert record == cli("approvals", path, "--json").records[0]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(["--approve", "--as", "eve"], 2, "--hash", id="no hash"),
        pytest.param(["--approve", "--as", "eve", "--hash", "0" * 64], 1, "STALE_DECISION", id="stale"),
        pytest.param(
            ["--as", "eve", "--hash", "0"], 2, "say one of --approve and --reject", id="no decision"
        ),
        pytest.param(
            ["--approve", "--reject", "--as", "eve", "--hash", "H"],
            2,
            "say one of --approve and --reject",
            id="both decisions",
        ),
        pytest.param(["--approve", "--hash", "0"], 2, "--as", id="nobody"),
        pytest.param(["--approve", "--as", " ", "--hash", "0"], 2, "VALIDATION_ERROR", id="blank"),
        pytest.param(["--approve", "--as", "x" * 5000, "--hash", "H"], 2, "5,000 bytes", id="long name"),
    ],
)
def test_what_is_not_decided(
    cli: Cli, path: Path, request_: ApprovalRequest, words: list[str], code: int, said: str
) -> None:
    """Usage is exit code 2, what was looked into and found wrong is 1; one line, and nothing is written."""
    words = [request_.request_hash if word == "H" else word for word in words]
    done = decide(cli, path, request_, *words)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert said in done.err
    assert len(cli("log", path, "--json").records) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["show"], "say which", id="no id"),
        pytest.param(["show", "x", "--approve"], "belong to decide", id="an option of decide"),
        pytest.param(["--as", "eve"], "belong to decide", id="in the list"),
        pytest.param(["show", "x", "--pending"], "belongs to the list", id="an option of the list"),
        pytest.param(["sho", "x"], "show", id="no verb"),
    ],
)
def test_options_that_do_not_belong_together(
    cli: Cli, path: Path, request_: ApprovalRequest, words: list[str], said: str
) -> None:
    """They are refused in one line."""
    done = cli("approvals", path, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


@pytest.mark.parametrize("words", [["show"], ["decide", "--approve", "--as", "eve", "--hash", "0"]])
def test_an_unknown_request(cli: Cli, path: Path, request_: ApprovalRequest, words: list[str]) -> None:
    """It is refused with where to look."""
    verb, *options = words
    done = cli("approvals", path, verb, "apr_0", *options)
    assert (done.code, "`turnlog approvals` lists" in done.err) == (2, True)


def test_a_damaged_record_is_marked(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """The list goes on behind it and exits with 1; to show or decide it is refused with 1."""
    with turnlog.open(path) as log:
        store = EventSourcedStore(log, "trip-42")
        key = f"__oma_approval__/{request_.id}"
        store.set(key, store.list()[0].value.replace("publish", "destroy"))
    done = cli("approvals", path, "--json")
    assert done.code == 1
    assert (done.records[0]["state"], done.records[0]["code"]) == ("wrong", "APPROVAL_INTEGRITY_ERROR")
    assert cli("approvals", path).code == 1
    for failed in (cli("approvals", path, "show", request_.id), decide(cli, path, request_)):
        assert (failed.code, "does not match its content" in failed.err) == (1, True)


def test_runs_and_forks(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """A fork lists none of its parent's; an id that two runs have asks for the run."""
    with turnlog.open(path) as log:
        Timeline(log, "trip-42").fork(run="what-if")
    assert cli("approvals", path, "--run", "what-if", "--json").records == []
    assert len(cli("approvals", path, "--json").records) == 1
    with turnlog.open(path) as log:
        ApprovalLedger(EventSourcedStore(log, "what-if")).ensure_request(request_)
    done = cli("approvals", path, "show", request_.id)
    assert (done.code, "choose one with --run" in done.err) == (2, True)
    assert cli("approvals", path, "--run", "what-if", "show", request_.id, "--json").records[0]["run"] == (
        "what-if"
    )
    assert cli("approvals", path, "--run", "none").code == 2


def test_looking_changes_nothing(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """List and show open the file to read only; a missing one is not made."""
    before = path.read_bytes()
    cli("approvals", path)
    cli("approvals", path, "show", request_.id)
    assert path.read_bytes() == before
    missing = path.with_name("missing.db")
    for words in ([], ["decide", "x", "--approve", "--as", "eve", "--hash", "0"]):
        assert cli("approvals", missing, *words).code == 2
    assert not missing.exists()


def test_what_is_decided_is_not_asked_about(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """Without --hash the decision there is is told at once, before anything is to be confirmed."""
    decide(cli, path, request_)
    done = decide(cli, path, request_, "--reject", "--as", "bob")
    assert (done.code, done.out) == (1, "")
    assert f"{request_.id} of run trip-42 was approved already, by eve" in done.err


@pytest.mark.parametrize(("answer", "state"), [("y", "approved"), ("n", "pending")])
def test_on_a_terminal_the_content_is_confirmed(
    cli: Cli, path: Path, request_: ApprovalRequest, answer: str, state: str
) -> None:
    """Without --hash the very content is shown and a yes is needed."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    command = [sys.executable, "-m", "turnlog", "approvals", str(path), "decide", request_.id]
    started = subprocess.Popen(
        [*command, "--approve", "--as", "eve"], stdin=inner, stdout=inner, stderr=inner, close_fds=True
    )
    os.close(inner)
    try:
        shown = b""
        while b"exactly this?" not in shown:
            shown += os.read(terminal, 4096)
        assert b'"to": "all"' in shown
        assert request_.request_hash.encode() in shown
        os.write(terminal, answer.encode() + b"\n")
        while _more(terminal):
            pass
        assert started.wait(30) == (0 if answer == "y" else 2)
    finally:
        started.kill()
        started.wait(30)
        os.close(terminal)
    assert cli("approvals", path, "--json").records[0]["state"] == state


def _more(terminal: int) -> bytes:
    """More of what is printed; nothing once the other side is closed."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_an_id_is_given_whole(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """Its beginning is not enough, and the error says which was meant."""
    for words in (["show"], ["decide", "--approve", "--as", "eve", "--hash", request_.request_hash]):
        done = cli("approvals", path, words[0], request_.id[:8], *words[1:])
        assert (done.code, done.out) == (2, "")
        assert done.err == f"turnlog: give the id whole: '{request_.id}'\n"


def test_another_word_than_show_and_decide(cli: Cli, path: Path, request_: ApprovalRequest) -> None:
    """It is told as it was typed."""
    done = cli("approvals", path, "frob", request_.id)
    assert (done.code, done.out) == (2, "")
    assert done.err == "turnlog: 'frob' is neither show nor decide. Try `turnlog approvals --help`.\n"
