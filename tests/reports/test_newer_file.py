"""An old build opens a newer file, stamps its own version on it and writes what it does not understand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import turnlog
from turnlog import EventSourcedStore, NotOurs, TooNew
from turnlog.eventlog.driver import driver
from turnlog.eventlog.schema import SCHEMA_VERSION
from turnlog.replay.cli import turnlog as command_line


def sql(path: Path, *statements: str) -> None:
    """Another program's doing."""
    with closing(driver().connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def newer(path: Path) -> None:
    """A log as the next build would write it."""
    with turnlog.open(path) as log:
        EventSourcedStore(log).set("k", "v")
    sql(path, f"pragma user_version = {SCHEMA_VERSION + 1}")


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        pytest.param(newer, TooNew, f"version {SCHEMA_VERSION + 1}.*up to {SCHEMA_VERSION}", id="newer"),
        pytest.param(
            lambda path: sql(path, "pragma application_id = 77", "create table t (a)"),
            NotOurs,
            "application_id 77",
            id="another application's",
        ),
        pytest.param(
            lambda path: sql(path, "create table t (a)"), NotOurs, "user_version 0", id="nobody's, version 0"
        ),
        pytest.param(
            lambda path: (newer(path), sql(path, "pragma user_version = 0")),
            NotOurs,
            "version 0, which no release wrote",
            id="without a step",
        ),
    ],
)
def test_it_is_refused_and_left_as_it_was(
    tmp_path: Path, make: Callable[[Path], Any], error: type[Exception], said: str
) -> None:
    """To write, to read and on the command line: a typed error with both versions, and not a byte changed."""
    path = tmp_path / "other.db"
    make(path)
    before = path.read_bytes()
    for options in ({}, {"read_only": True}):
        with pytest.raises(error, match=said):
            turnlog.open(path, **options)
    for words in (["log"], ["verify"], ["restore", "--at", "0"]):
        done = CliRunner().invoke(command_line, [words[0], str(path), *words[1:]])
        assert done.exit_code == 2
        assert str(path) in done.stderr
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir() if file.stat().st_size and file != path] == []
