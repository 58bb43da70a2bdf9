"""A redaction that could not throw away the old pages is asked for again, and completed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import turnlog
from turnlog import EventSourcedStore, NotFound, redact
from turnlog.eventlog.driver import driver

SECRET = "sk-1234567890abcdef"


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param({"key": SECRET}, id="a key"),
        pytest.param({"matching": "sk-[0-9a-f]+"}, id="a pattern"),
        pytest.param({"position": 2}, id="a position"),
        pytest.param({"name": SECRET}, id="a name"),
    ],
)
def test_old_pages_go_with_the_second_try(tmp_path: Path, chosen: dict[str, Any]) -> None:
    """While somebody reads, the WAL stays and the receipt says so; asked again, it is empty, all erased."""
    path = tmp_path / "team.db"
    with turnlog.open(path, busy_timeout_s=0.1) as log:
        store = EventSourcedStore(log)
        store.set("beside", "v")
        store.set("k" if "position" in chosen or "matching" in chosen else SECRET, SECRET)
        with closing(driver().connect(path, isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from events").fetchone()
            assert not redact(log, by="dpo", reason="asked for", **chosen).wal_emptied
            assert SECRET.encode() in wal(path)
        receipt = redact(log, by="dpo", reason="asked for", **chosen)
        assert (receipt.events, receipt.names, receipt.wal_emptied) == (0, 0, True)
        assert wal(path) == b""


def wal(path: Path) -> bytes:
    """What is beside the log."""
    return path.with_name(f"{path.name}-wal").read_bytes()


def test_of_a_name_that_never_was_nothing_is_erased(tmp_path: Path) -> None:
    """A slip of the pen is told as such, and changes nothing."""
    with turnlog.open(tmp_path / "team.db") as log:
        EventSourcedStore(log).set("k", "v")
        with pytest.raises(NotFound, match="has no name 'kk'"):
            redact(log, by="dpo", reason="asked for", name="kk")
        assert [each.position for each in log.read()] == [1]
