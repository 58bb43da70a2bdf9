"""Payload versions: what an earlier release recorded is read as this one means it; nothing is skipped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from turnlog.eventlog import Corrupt, EventLog, Write
from turnlog.eventlog.codec import CODES
from turnlog.eventlog.integrity import check_log
from turnlog.eventlog.upcast import PAYLOAD_VERSIONS, UPCASTERS, Payload, check_steps, upcast
from turnlog.projections import fold_runs

PAYLOAD = Payload("v", None, None, None, None, None, '{"to":1}')


def reworded(payload: Payload) -> Payload:
    """A step as a later release may have it: a member of detail changed its name."""
    detail = payload.detail
    return payload._replace(detail=None if detail is None else detail.replace('"to"', '"target"'))


def doubled(payload: Payload) -> Payload:
    """Another step, of a number."""
    return payload._replace(expires_at_turn=(payload.expires_at_turn or 1) * 2)


def test_every_type_has_a_version_and_every_step_is_there() -> None:
    """As this build has them."""
    assert set(PAYLOAD_VERSIONS) == set(CODES.values())
    check_steps(PAYLOAD_VERSIONS, UPCASTERS)


def test_steps_are_taken_in_order_up_to_the_newest() -> None:
    """From whichever version, each step once; the payload that was given is left alone."""
    versions, steps = {13: 3}, {(13, 1): reworded, (13, 2): doubled}
    assert upcast(13, 1, PAYLOAD, versions, steps) == PAYLOAD._replace(
        detail='{"target":1}', expires_at_turn=2
    )
    assert upcast(13, 2, PAYLOAD, versions, steps) == PAYLOAD._replace(expires_at_turn=2)
    assert upcast(13, 3, PAYLOAD, versions, steps) is PAYLOAD
    assert PAYLOAD.detail == '{"to":1}'


@pytest.mark.parametrize("kind", [0, 4, 13, 99])
@pytest.mark.parametrize("version", [0, -1, 4])
def test_an_unknown_type_or_version_is_named(kind: int, version: int) -> None:
    """The error says which."""
    with pytest.raises(ValueError, match=f"type {kind} with payload version {version} is unknown"):
        upcast(kind, version, PAYLOAD, {13: 3}, {(13, 1): reworded, (13, 2): doubled})


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ({}, "type 13 from payload version 1 is missing"),
        ({(13, 2): doubled}, "type 13 from payload version 1 is missing"),
        ({(13, 1): doubled}, "type 13 from payload version 2 is missing"),
        (
            {(13, 1): doubled, (13, 2): doubled, (13, 3): doubled},
            "type 13 from payload version 3 leads nowhere",
        ),
        (
            {(13, 1): doubled, (13, 2): doubled, (7, 1): doubled},
            "type 7 from payload version 1 leads nowhere",
        ),
    ],
)
def test_a_gap_is_found(steps: Any, what: str) -> None:
    """A missing step, and one that nothing needs."""
    with pytest.raises(RuntimeError, match=what):
        check_steps({13: 3}, steps)


def test_a_gap_is_found_at_import() -> None:
    """A release with a gap does not start: the check is made by the module itself."""
    source = (
        "import turnlog.eventlog.upcast as module, pathlib\n"
        "text = pathlib.Path(module.__file__).read_text('utf-8').replace('1: 1, 2: 1', '1: 2, 2: 1')\n"
        "assert '1: 2, 2: 1' in text\n"
        "exec(compile(text, 'upcast.py', 'exec'), {'__name__': 'turnlog.eventlog.upcast2'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=60
    )
    assert "event type 1 from payload version 1 is missing" in done.stderr


@pytest.fixture
def foreign(log: EventLog, connect: Callable[..., Any]) -> Callable[..., Any]:
    """Appends an event of a type and version by SQL, as a newer release would; gives the log's position."""
    log.execute([Write("k", "v")], run="main")

    def append(kind: int, payload: int, encoding: int = 0) -> int:
        db = connect()
        db.execute(
            "insert into events (position, run, revision, batch, turn, type, payload, key, value, encoding,"
            " salt, recorded_at, hash) select 2, run, 2, 0, turn, ?, ?, key, value, ?, salt, recorded_at,"
            " hash from events where position = 1",
            (kind, payload, encoding),
        )
        return 2

    return append


@pytest.mark.parametrize(
    ("kind", "payload", "encoding"), [(4, 1, 0), (1, 2, 0), (1, 0, 0), (23, 1, 0), (1, 1, 1)]
)
def test_an_event_of_the_future_is_an_error_at_its_position(
    log: EventLog, foreign: Callable[..., int], kind: int, payload: int, encoding: int
) -> None:
    """Reading, folding and verifying name its position; none of them goes on as if it were not there."""
    foreign(kind, payload, encoding)
    with pytest.raises(Corrupt, match="position 2"):
        list(log.read())
    with log.reading() as db:
        if kind < 10:
            with pytest.raises(Corrupt, match="position 2"):
                list(fold_runs(db))
        (problem,) = check_log(db)
        assert problem.position == 2
        assert "unknown" in problem.what
