"""What was erased is nowhere in the files, and everything that can be asked is still answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog.eventlog import (
    AdvanceTurn,
    CompareAndSet,
    Delete,
    EntryWritten,
    NotFound,
    Redacted,
    StorageError,
    Write,
    WriteRefused,
)
from turnlog.eventlog.integrity import count_erased
from turnlog.memory import EventSourcedStore, SharedMemory
from turnlog.replay import Timeline, redact

from .erased import SECRET, WHY, check_whole, files, files_elsewhere, judged, open_log, spellings

# -- what is erased, and what is left of it


def test_a_value_is_erased_everywhere_and_the_record_stays(tmp_path: Path) -> None:
    """Value, metadata and salt go; who, when and the key stay; a present value is written over."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        store = EventSourcedStore(log)
        store.set("ops/token", SECRET, {"agent": "ops", "note": SECRET})
        store.set("ops/other", "kept", {"agent": "ops"})
        receipt = redact(log, matching=r"sk-\w+", **WHY)
        assert (receipt.events, receipt.rewritten, receipt.names, receipt.deleted) == (1, 1, 0, 0)
        assert (receipt.runs, receipt.wal_emptied, receipt.names_left) == (("main",), True, ())
        assert SECRET.encode() not in files_elsewhere(path)
        first, _, redacted, cover = log.read()
        assert first.event == EntryWritten("ops/token", "[redacted]", '{"redacted":true}')
        assert first.agent == "ops"
        assert isinstance(redacted.event, Redacted)
        assert (redacted.event.reason, redacted.agent, redacted.event.key) == (
            "leaked token",
            "dpo",
            "ops/token",
        )
        assert isinstance(cover.event, EntryWritten)
        entry = store.get("ops/token")
        assert entry is not None
        assert entry.value == "[redacted]"
        assert entry.metadata == {"redacted": True, "reason": "leaked token", "agent": "dpo"}
        assert entry.created_at == store.list()[0].created_at
        assert store.compare_and_set("ops/token", "[redacted]", "a new one")
        other = store.get("ops/other")
        assert other is not None
        assert other.value == "kept"
        check_whole(log, [SECRET])
        with log.reading() as db:
            assert count_erased(db) == 1
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_the_history_of_the_key_says_who_and_why(tmp_path: Path) -> None:
    """The redaction stands between what was erased and what was written over it."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", SECRET), Write("l", "v")], run="main")
        log.execute([Write("k", "harmless")], run="main")
        redact(log, position=1, **WHY)
        told = list(Timeline(log).history("k"))
        assert [type(each.event) for each in told] == [EntryWritten, EntryWritten, Redacted]
        assert (told[-1].agent, told[-1].event.reason) == ("dpo", "leaked token")  # type: ignore[union-attr]
        assert [type(each.event) for each in Timeline(log).history("l")] == [EntryWritten]
        newest = list(Timeline(log).history("k", reverse=True, limit=2))
        assert newest == told[:0:-1]
        assert Timeline(log).state(position=1)["k"].metadata == {"redacted": True}
        assert Timeline(log).state(position=1)["k"].value == "[redacted]"


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"key": "k"}, {2, 6}),
        ({"run": "main"}, {5, 6}),
        ({"matching": "one"}, {3, 4, 6}),
        ({"key": "k", "matching": "one"}, {2, 3, 4, 6}),
        ({"key": "k", "run": "side"}, {1, 2, 3, 4, 6}),
        ({"position": 4}, {1, 2, 3, 5, 6}),
        ({"run": "side", "key": "l"}, {1, 2, 3, 4, 5}),
    ],
    ids=str,
)
def test_what_was_chosen_is_erased_and_nothing_else(
    tmp_path: Path, chosen: dict[str, Any], left: set[int]
) -> None:
    """Key, run and pattern narrow each other down; a refused attempt loses its salt as well."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "one"), Write("l", "one"), Write("k", "two")], run="main")
        log.execute([CompareAndSet("k", "no", "three")], run="main")
        log.execute([Write("k", "one"), Write("l", "two")], run="side")
        redact(log, **chosen, **WHY)
        with log.reading() as db:
            query = "select position from events where position < 7 and salt is not null"
            kept = db.execute(query).fetchall()
        assert {position for (position,) in kept} == left
        check_whole(log)


def test_an_attempt_that_was_refused_keeps_no_trace(tmp_path: Path) -> None:
    """The digest of what was not written cannot be guessed at any more."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "v"), CompareAndSet("k", "x", SECRET)], run="main")
        assert redact(log, position=2, **WHY).events == 1
        refused = next(iter(log.read(type=WriteRefused))).event
        assert isinstance(refused, WriteRefused)
        assert refused.attempt.salt is None
        check_whole(log)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({}, ValueError),
        ({"position": 1, "key": "k"}, ValueError),
        ({"name": "k", "run": "main"}, ValueError),
        ({"position": True}, TypeError),
        ({"position": "1"}, TypeError),
        ({"position": 0}, NotFound),
        ({"position": 2**70}, NotFound),
        ({"position": 3}, ValueError),
        ({"run": "nowhere"}, NotFound),
        ({"name": "nobody"}, NotFound),
        ({"name": "main"}, ValueError),
        ({"matching": "("}, ValueError),
        ({"matching": 7}, TypeError),
        ({"key": 7}, TypeError),
        ({"key": "k", "reason": ""}, ValueError),
        ({"key": "k", "by": ""}, ValueError),
        ({"matching": "leak.*n"}, ValueError),
        ({"name": "dpo"}, ValueError),
        ({"name": "token"}, ValueError),
        ({"matching": "^dpo$"}, ValueError),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, wrong: dict[str, Any], error: type[Exception]
) -> None:
    """Nothing is written; also where reason or name would keep what is to go."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "v"), Write("token", "v"), AdvanceTurn()], run="main", agent="dpo")
        with pytest.raises(error):
            redact(log, **(WHY | wrong))
        assert len(list(log.read())) == 3


def test_a_log_that_is_read_only_is_not_redacted(tmp_path: Path) -> None:
    """The error says so before anything is looked for."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "v")], run="main")
    with (
        turnlog.open(tmp_path / "team.db", read_only=True) as log,
        pytest.raises(StorageError, match="read only"),
    ):
        redact(log, key="k", **WHY)


@pytest.mark.parametrize(
    "secret",
    [
        "s3cr3t-päßwörd-✓",
        'tab\there "quoted" back\\slash\nline',
        "half \ud800 an emoji secret",
        "\udfff\udfff\udfff lone",
        "x" * 3 + "Zq7" * 400_000,
    ],
    ids=["unicode", "escapes", "surrogate", "only halves", "overflow pages"],
)
@pytest.mark.parametrize("structured", [False, True], ids=["text", "JSON"])
def test_any_text_is_found_and_erased(tmp_path: Path, secret: str, structured: bool) -> None:
    """However it is spelled in the file, also where JSON has escapes in the middle of it."""
    import re

    path = tmp_path / "team.db"
    needle = secret[:40]
    with open_log(path) as log:
        memory = SharedMemory(EventSourcedStore(log))
        value: Any = {"deep": [{"token": secret}], secret[:30]: 1} if structured else f"before {secret} after"
        memory.write("ops", "token", value)
        memory.write("ops", "other", "kept")
        log.execute([Write("raw", "v", {"note": secret[:300]})], run="main")
        assert redact(log, matching=re.escape(needle), **WHY).events == 2
        check_whole(log, [needle])
    data = files(path)
    for text in (secret[3:23], secret[-20:]):
        for spelled in spellings(text):
            assert spelled not in data
    assert judged(path).returncode == 0


def test_a_forged_mark_protects_nothing(tmp_path: Path) -> None:
    """What only looks like an earlier redaction is searched like anything else."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write("k", "[redacted]", {"redacted": True, "note": SECRET})], run="main")
        assert redact(log, matching=SECRET, **WHY).events == 1
        log.execute([Write("k", "[redacted]", {"redacted": True, "note": SECRET})], run="main")
        position = log.head("main").position  # type: ignore[union-attr]
        assert redact(log, position=position, **WHY).events == 1
    assert SECRET.encode() not in files(path)


def test_asking_again_changes_nothing(tmp_path: Path) -> None:
    """Neither by pattern, key, position nor name."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        asked: list[dict[str, Any]] = [{"matching": "sk-"}, {"key": "k"}, {"position": 1}, {"name": SECRET}]
        for each in asked:
            redact(log, **each, **WHY)
        before = len(list(log.read()))
        for each in asked:
            receipt = redact(log, **each, **WHY)
            assert (receipt.events, receipt.names, receipt.wal_emptied) == (0, 0, True)
        assert len(list(log.read())) == before


# -- restores and forks


def test_a_restore_to_before_shows_the_mark(tmp_path: Path) -> None:
    """Going back does not bring back; entries restored earlier point to what is gone, too."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write("k", SECRET), Write("l", "v")], run="main")  # 1, 2
        log.execute([Delete("k")], run="main")  # 3
        timeline = Timeline(log)
        timeline.restore(position=2)  # 4, 5: k points to 1
        redact(log, matching=SECRET, **WHY)
        store = EventSourcedStore(log)
        assert store.get("k").value == "[redacted]"  # type: ignore[union-attr]
        for position in (2, 5):
            timeline.restore(position=position)
            assert store.get("k").value == "[redacted]"  # type: ignore[union-attr]
            assert timeline.state(position=position)["k"].value == "[redacted]"
        check_whole(log, [SECRET])
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_forks_lose_it_too(tmp_path: Path) -> None:
    """Made before or after, of a fork or of the run, whether it is their present or their past."""
    path = tmp_path / "team.db"
    with open_log(path) as log:
        log.execute([Write("k", SECRET), Write("l", "v")], run="main")
        for source, run in (("main", "a"), ("a", "b"), ("b", "c"), ("main", "d")):
            Timeline(log, source).fork(run=run)
        log.execute([Write("k", "another")], run="d")
        log.execute([Write("k", "another"), Write("m", f"{SECRET} in main only")], run="main")
        log.execute([Write("n", f"{SECRET} in b only")], run="b")
        receipt = redact(log, matching=SECRET, **WHY)
        assert (receipt.events, receipt.rewritten) == (3, 5)
        assert set(receipt.runs) == {"main", "a", "b", "c"}
        for run, value in (("main", "another"), ("a", "[redacted]"), ("c", "[redacted]"), ("d", "another")):
            assert EventSourcedStore(log, run).get("k").value == value  # type: ignore[union-attr]
        Timeline(log, "main").fork(run="late", position=2)
        Timeline(log, "c").fork(run="later", position=2)
        for run in ("late", "later"):
            assert EventSourcedStore(log, run).get("k").value == "[redacted]"  # type: ignore[union-attr]
        check_whole(log, [SECRET])
    assert SECRET.encode() not in files(path)
    assert judged(path).returncode == 0


def test_one_run_may_be_meant_alone(tmp_path: Path) -> None:
    """Of a fork, only what it recorded itself."""
    with open_log(tmp_path / "team.db") as log:
        log.execute([Write("k", "shared")], run="main")
        Timeline(log).fork(run="fork")
        log.execute([Write("l", "own")], run="fork")
        assert redact(log, run="fork", **WHY).events == 1
        assert EventSourcedStore(log, "fork").get("k").value == "shared"  # type: ignore[union-attr]
        assert redact(log, run="main", **WHY).rewritten == 2
        check_whole(log)
