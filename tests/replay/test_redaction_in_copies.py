"""Exports and imports of logs of which something was erased."""

from __future__ import annotations

from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import (
    BadImport,
    Busy,
    Write,
)
from turnlog.eventlog.export import export_lines
from turnlog.eventlog.intake import import_lines
from turnlog.memory import EventSourcedStore
from turnlog.replay import Timeline, redact
from turnlog.replay.verification import verify

from .erased import SECRET, WHY, check_whole, files, files_elsewhere, judged, open_log, taken_in


def test_an_export_holds_nothing_that_was_erased(tmp_path: Path) -> None:
    """It is taken in elsewhere to the same hashes, whole."""
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        Timeline(log).fork(run="fork")
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        lines = list(export_lines(log))
        assert SECRET not in "".join(lines)
        heads = [info.head.hash for info in log.runs()]
    with taken_in(tmp_path / "b.db", lines) as log:
        assert [info.head.hash for info in log.runs()] == heads
        assert list(export_lines(log)) == lines
        check_whole(log, [SECRET])
    assert judged(tmp_path / "b.db").returncode == 0


@pytest.mark.parametrize("run", ["fork", "fork of it"])
def test_a_fork_is_exported_with_the_erasures_of_its_past(tmp_path: Path, run: str) -> None:
    """What its ancestor lost after the fork is lost in it, and the copy can be verified."""
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        Timeline(log).fork(run="fork")
        log.execute([Write("own", SECRET)], run="fork")
        Timeline(log, "fork").fork(run="fork of it")
        log.execute([Write("k", "later"), Write("n", f"{SECRET} after the fork")], run="main")
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        log.execute([Write("later still", "v")], run="main")
        lines = list(export_lines(log, run))
        state = Timeline(log, run).state(all=True)
    assert SECRET not in "".join(lines)
    assert "later still" not in "".join(lines)
    with taken_in(tmp_path / "b.db", lines) as log:
        copied = Timeline(log, run).state(all=True)
        assert {key: entry.value for key, entry in copied.items()} == {
            key: entry.value for key, entry in state.items()
        }
        check_whole(log, [SECRET])
    assert judged(tmp_path / "b.db").returncode == 0


def test_an_import_erases_what_is_here_still(tmp_path: Path) -> None:
    """A copy that has the older part loses the text too, in forks of its own as well."""
    path = tmp_path / "b.db"
    with open_log(tmp_path / "a.db") as log:
        log.execute(
            [Write("k", SECRET, {"m": SECRET}), Write(SECRET, "under it"), Write("l", "v")], run="main"
        )
        older = list(export_lines(log))
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        newer = list(export_lines(log))
    with taken_in(path, older) as log:
        assert EventSourcedStore(log).get("k").value == SECRET  # type: ignore[union-attr]
        Timeline(log).fork(run="own fork")
        import_lines(log, newer, "main")
        assert SECRET.encode() not in files_elsewhere(path)
        assert EventSourcedStore(log, "own fork").get("k").value == "[redacted]"  # type: ignore[union-attr]
        check_whole(log, [SECRET])
        with log.reading() as db:
            shown = db.execute(
                "select key, value, metadata from current_entries where run = 'own fork'"
            ).fetchall()
        assert shown[0] == ("k", "[redacted]", '{"redacted":true}')
        assert shown[1][0].startswith("[redacted ")
        EventSourcedStore(log, "own fork").delete(shown[1][0])
        assert [entry.key for entry in EventSourcedStore(log, "own fork").list()] == ["k", "l"]
        import_lines(log, newer, "main")
        check_whole(log, [SECRET])
    assert judged(path).returncode == 0


def test_an_import_that_cannot_clear_the_file_warns(tmp_path: Path) -> None:
    """A reader that stays keeps old copies in the file; the next redaction or import clears them."""
    path = tmp_path / "b.db"
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", SECRET)], run="main")
        older = list(export_lines(log))
        redact(log, matching=SECRET, **WHY)
        newer = list(export_lines(log))
    taken_in(path, older).close()
    with turnlog.open(path, durability="os", busy_timeout_s=0.2) as log, open_log(path) as reader:
        with reader.reading() as db:
            db.execute("begin")
            db.execute("select count(*) from events").fetchone()
            with pytest.warns(UserWarning, match="old copies stay"):
                import_lines(log, newer, "main")
            db.execute("rollback")
        assert redact(log, matching=SECRET, **WHY).wal_emptied
    assert SECRET.encode() not in files(path)


def test_an_export_under_way_does_not_end_with_a_gap(tmp_path: Path) -> None:
    """What was erased after it began is in it as a gap that nothing vouches for, so it says to begin anew."""
    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", f"{SECRET} {number}") for number in range(1200)], run="main")
        under_way = export_lines(log)
        begun = [next(under_way) for _ in range(20)]
        redact(log, key="k", **WHY)
        with pytest.raises(Busy, match="export again"):
            list(under_way)
        assert begun
        lines = list(export_lines(log))
    with taken_in(tmp_path / "b.db", lines) as log:
        assert verify(log).ok


def test_an_export_from_before_does_not_bring_it_back(tmp_path: Path) -> None:
    """It is the same history as far as it goes, so nothing of it is taken in."""
    path = tmp_path / "a.db"
    with open_log(path) as log:
        log.execute([Write("k", SECRET), Write(SECRET, "v")], run="main")
        older = list(export_lines(log))
        redact(log, matching=SECRET, **WHY)
        redact(log, name=SECRET, **WHY)
        import_lines(log, older, "main")
        check_whole(log, [SECRET])
    assert SECRET.encode() not in files(path)


def test_an_erasure_that_nothing_vouches_for_is_not_taken_in(tmp_path: Path) -> None:
    """An export whose texts or names were cut out by hand."""
    import json

    with open_log(tmp_path / "a.db") as log:
        log.execute([Write("k", "v")], run="main")
        redact(log, name="k", **WHY)
        lines = list(export_lines(log))
    redacted = next(number for number, line in enumerate(lines) if '"type":22' in line)
    facts = json.loads(lines[redacted])
    end = json.loads(lines[-1])
    cut = [
        *lines[:redacted],
        json.dumps(
            end
            | {"events": end["events"] - 1, "heads": {facts["run"]: json.loads(lines[redacted - 1])["hash"]}}
        ),
    ]
    with open_log(tmp_path / "b.db") as log, pytest.raises(BadImport, match="has no text"):
        import_lines(log, cut)
