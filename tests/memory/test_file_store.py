"""The store in one JSON file: the format it shares, what it refuses to read, and what a failure leaves."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from turnlog import (
    AsyncFileStore,
    AsyncSharedMemory,
    Busy,
    Closed,
    Corrupt,
    FileChanged,
    FileStore,
    InMemoryStore,
    NotOurs,
    SharedMemory,
    StorageError,
    TooNew,
    TurnlogError,
)

ORIGINALS_FILE = (
    '{"version":1,"entries":['
    '{"key":"researcher/findings","value":"{\\"claim\\":\\"X\\",\\"confidence\\":0.8}",'
    '"metadata":{"sharedMemoryValueEncoding":"json","agent":"researcher"},"createdAt":"2026-08-22T09:30:00.120Z"},'
    '{"key":"writer/scratch","value":"half \\ud83d","metadata":{"agent":"writer"},'
    '"createdAt":"2026-08-22T09:30:01.000Z","expiresAtTurn":3},'
    '{"key":"__oma_checkpoint__/latest","value":"{}","createdAt":"2026-08-22T09:30:02.999Z"}]}'
)
"""A file as the TypeScript framework writes it, spelled out."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is; there is no file yet."""
    return tmp_path / "memory.json"


class Clock:
    """Milliseconds since 1970; stands still until it is moved."""

    now = 1_787_391_000_120  # 2026-08-22T09:30:00.120Z

    def __call__(self) -> int:
        return self.now


# -- the format


def test_the_file_is_the_one_the_original_writes(path: Path) -> None:
    """C1: the same writes give the same bytes: order, spelling, absent members left out."""
    clock = Clock()
    with FileStore(path, clock=clock) as store:
        memory = SharedMemory(store)
        memory.write("researcher", "findings", {"claim": "X", "confidence": 0.8})
        clock.now += 880
        memory.write_expiring("writer", "scratch", "half \ud83d", 3)
        clock.now += 1_999
        store.set("__oma_checkpoint__/latest", "{}")
    assert path.read_text("utf-8") == ORIGINALS_FILE


def test_a_file_of_the_original_is_read(path: Path) -> None:
    """Values, metadata, expiry, times and order are what the other process left."""
    path.write_text(ORIGINALS_FILE, "utf-8")
    with FileStore(path) as store:
        memory = SharedMemory(store)
        entry = memory.read("researcher/findings")
        assert entry is not None
        assert entry.value == {"claim": "X", "confidence": 0.8}
        assert entry.created_at.isoformat() == "2026-08-22T09:30:00.120000+00:00"
        assert [each.key for each in memory.list_all()] == ["researcher/findings", "writer/scratch"]
        assert [each.expires_at_turn for each in store.list()] == [None, 3, None]
        memory.set_turn(3)
        assert [each.key for each in memory.list_all()] == ["researcher/findings"]
        before = store.list()
        store.set("a", "1")
        store.delete("a")
        assert store.list() == before
    assert path.read_text("utf-8") == ORIGINALS_FILE


def test_reading_writes_nothing(path: Path) -> None:
    """C5: get, list, a delete of a missing key and a refused compare-and-set leave the file alone."""
    path.write_text(ORIGINALS_FILE, "utf-8")
    before = path.stat()
    with FileStore(path) as store:
        store.get("researcher/findings")
        store.list()
        store.delete("missing")
        assert store.compare_and_set("writer/scratch", "other", "new") is False
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_store_that_was_only_opened_makes_no_file(path: Path) -> None:
    """C2: a missing file is an empty store; C5: clear writes even so."""
    with FileStore(path) as store:
        assert store.list() == []
        assert not path.exists()
        store.clear()
    assert path.read_text("utf-8") == '{"version":1,"entries":[]}'


def test_the_path_is_that_of_the_moment_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C1: relative to the working directory at construction; C4: missing folders are made."""
    monkeypatch.chdir(tmp_path)
    with FileStore("made/for/memory.json") as store:
        monkeypatch.chdir("/")
        store.set("a", "1")
        assert store.path == tmp_path / "made" / "for" / "memory.json"
    assert store.path.is_file()


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    """What it leads to is written and held, under whatever name it is opened."""
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    with FileStore(tmp_path / "link.json") as store:
        store.set("a", "1")
        with pytest.raises(Busy):
            FileStore(tmp_path / "real.json")
    assert (tmp_path / "link.json").is_symlink()
    assert "a" in (tmp_path / "real.json").read_text("utf-8")


def test_a_new_file_is_private_and_an_old_one_keeps_its_mode(path: Path) -> None:
    """C4, tightened: 0600 for what we make, and the mode of what is there; nothing else is left behind."""
    with FileStore(path) as store:
        store.set("a", "1")
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o640)
        store.set("a", "2")
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in path.parent.iterdir()) == ["memory.json", "memory.json.lock"]


def test_what_a_killed_writer_left_beside_the_file_is_no_obstacle(path: Path) -> None:
    """An unfinished draft of the file is thrown away by the next write."""
    path.with_name("memory.json.turnlog-tmp").write_text("unfinished")
    with FileStore(path) as store:
        store.set("a", "1")
    assert sorted(each.name for each in path.parent.iterdir()) == ["memory.json", "memory.json.lock"]


def test_a_file_that_the_original_wrote_is_written_again_alike(path: Path) -> None:
    """C1: every control character and half emoji, byte for byte; but for numbers as Python spells them."""
    theirs = (Path(__file__).parent / "original_store.json").read_bytes()
    path.write_bytes(theirs)
    with FileStore(path) as store:
        assert len(store.list()) == 5
        store.set("new", "1")
        store.delete("new")
    assert path.read_bytes() == theirs.replace(b"1e-7", b"1e-07")


# -- what cannot be read

HEAD = '{"version":1,"entries":['
ENTRY = '{"key":"a","value":"1","createdAt":"2026-08-22T09:30:00.120Z"%s}'


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        pytest.param("", Corrupt, "not valid JSON", id="empty"),
        pytest.param(ORIGINALS_FILE[:-40], Corrupt, "not valid JSON", id="cut off"),
        pytest.param("\ufeff" + ORIGINALS_FILE, Corrupt, "not valid JSON", id="BOM"),
        pytest.param(HEAD + "NaN]}", Corrupt, "not valid JSON", id="NaN"),
        pytest.param("[" * 100_000, Corrupt, "nests too deeply|not valid JSON", id="very deep"),
        pytest.param("[]", NotOurs, "not a store object", id="array"),
        pytest.param("null", NotOurs, "not a store object", id="null"),
        pytest.param(
            '{"version":2,"entries":[]}', TooNew, "unsupported state file version 2", id="version 2"
        ),
        pytest.param(
            '{"version":"1","entries":[]}', NotOurs, "unsupported state file version '1'", id="version text"
        ),
        pytest.param('{"version":true,"entries":[]}', NotOurs, "unsupported state file", id="version true"),
        pytest.param('{"entries":[]}', NotOurs, "unsupported state file version None", id="no version"),
        pytest.param('{"version":1}', Corrupt, "malformed entry", id="no entries"),
        pytest.param('{"version":1,"entries":{}}', Corrupt, "malformed entry", id="entries no list"),
        pytest.param(HEAD + "1]}", Corrupt, r"entries\[0\].*malformed entry", id="entry no object"),
        pytest.param(
            HEAD + '{"key":1,"value":"","createdAt":"x"}]}', Corrupt, "malformed entry: key", id="key number"
        ),
        pytest.param(
            HEAD + '{"key":"a","createdAt":"x"}]}', Corrupt, "malformed entry: value", id="no value"
        ),
        pytest.param(
            HEAD + '{"key":"a","value":"1","createdAt":"yesterday"}]}',
            Corrupt,
            "malformed entry: createdAt",
            id="no time",
        ),
        pytest.param(
            HEAD + ENTRY % ',"metadata":null' + "]}", Corrupt, "non-object metadata", id="metadata null"
        ),
        pytest.param(
            HEAD + ENTRY % ',"metadata":[]' + "]}", Corrupt, "non-object metadata", id="metadata list"
        ),
        pytest.param(
            HEAD + ENTRY % ',"metadata":{"x":1e999}' + "]}", Corrupt, "cannot be kept", id="infinity"
        ),
    ],
)
def test_a_file_that_cannot_be_right_is_an_error(
    path: Path, text: str, error: type[TurnlogError], message: str
) -> None:
    """C3: it is named, left as it is, and never taken for an empty store; C2: repaired, it can be opened."""
    path.write_text(text, "utf-8")
    with pytest.raises(error, match=message) as caught:
        FileStore(path)
    assert str(path) in str(caught.value)
    assert path.read_text("utf-8") == text
    path.write_text(ORIGINALS_FILE, "utf-8")
    with FileStore(path) as store:
        assert len(store.list()) == 3


def test_bytes_that_are_no_text_are_an_error(path: Path) -> None:
    """C3: what is not UTF-8 is not JSON."""
    path.write_bytes(b'{"version":1,"entries":["\xff"]}')
    with pytest.raises(Corrupt, match="not valid JSON"):
        FileStore(path)


@pytest.mark.parametrize(
    ("given_expiry", "kept"),
    [
        pytest.param('"3"', None, id="text"),
        pytest.param("null", None, id="null"),
        pytest.param("true", None, id="bool"),
        pytest.param("3", 3, id="integer"),
        pytest.param("3.0", 3, id="whole float"),
        pytest.param("2.5", 3, id="between two turns"),
        pytest.param("-1", 0, id="negative"),
        pytest.param("1e999", 2**53 - 1, id="infinite"),
    ],
)
def test_an_odd_expiry_hides_at_the_same_turns(path: Path, given_expiry: str, kept: int | None) -> None:
    """C3: no number is no expiry; a number becomes the turn from which on the original would hide it."""
    path.write_text(HEAD + ENTRY % f',"expiresAtTurn":{given_expiry},"unknown":1' + "]}", "utf-8")
    with FileStore(path) as store:
        entry = store.get("a")
    assert entry is not None
    assert entry.expires_at_turn == kept


def test_of_a_key_that_occurs_twice_the_last_counts(path: Path) -> None:
    """C3: its value, at the place of the first."""
    other = ENTRY.replace('"a"', '"b"') % ""
    path.write_text(f"{HEAD}{ENTRY % ''},{other},{(ENTRY % '').replace('1', '9', 1)}]}}", "utf-8")
    with FileStore(path) as store:
        assert [(entry.key, entry.value) for entry in store.list()] == [("a", "9"), ("b", "1")]


@pytest.mark.parametrize("wrong", [pytest.param("", id="empty"), pytest.param(b"x", id="bytes"), None, 5])
def test_a_path_is_text(wrong: Any) -> None:
    """Anything else is refused, and nothing is made."""
    with pytest.raises((TypeError, ValueError)):
        FileStore(wrong)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Neither is a pipe, which would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe"):
        with pytest.raises(StorageError, match="not an ordinary file"):
            FileStore(tmp_path / name)


# -- failures


@pytest.fixture
def failing(path: Path) -> Iterator[FileStore]:
    """A store of one entry, in whose folder no new file can be made."""
    with FileStore(path) as store:
        store.set_with_expiry("a", "1", 3, {"x": 1})
        path.with_name("memory.json.turnlog-tmp").mkdir()
        yield store


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("set", ("a", "2"), id="set"),
        pytest.param("set", ("b", "2"), id="set anew"),
        pytest.param("set_with_expiry", ("a", "2", 9), id="set_with_expiry"),
        pytest.param("compare_and_set", ("a", "1", "2"), id="compare_and_set"),
        pytest.param("delete", ("a",), id="delete"),
        pytest.param("clear", (), id="clear"),
    ],
)
def test_a_failed_write_leaves_memory_as_it_was(failing: FileStore, name: str, arguments: Any) -> None:
    """C6, mended: neither reads nor the next write know of it."""
    before, text = failing.list(), failing.path.read_text("utf-8")
    with pytest.raises(StorageError, match=r"memory\.json could not be written"):
        getattr(failing, name)(*arguments)
    assert failing.list() == before
    assert failing.path.read_text("utf-8") == text
    failing.path.with_name("memory.json.turnlog-tmp").rmdir()
    failing.set("c", "3")
    failing.close()
    with FileStore(failing.path) as again:
        assert again.list()[:-1] == before


def test_bad_metadata_is_refused_and_blocks_nobody(path: Path) -> None:
    """C7, mended: what JSON cannot hold never gets in, so later writes go on."""
    with FileStore(path) as store:
        with pytest.raises(TypeError, match=r"\$\.big"):
            store.set("a", "1", {"big": {1, 2}})
        store.set("b", "1", {"big": 2**70})
    with FileStore(path) as store:
        assert [(entry.key, entry.metadata) for entry in store.list()] == [("b", {"big": 2**70})]


# -- one user at a time


def test_a_second_store_on_the_file_is_refused(path: Path) -> None:
    """C9, mended: a second object is Busy and says whose the file is, until the first lets go."""
    first = FileStore(path)
    with pytest.raises(Busy, match=rf"memory\.json is open in another store \(process {os.getpid()}\)"):
        FileStore(path)
    first.set("a", "1")
    first.close()
    first.close()
    with FileStore(path) as second:
        assert len(second.list()) == 1
        for attempt in (first.list, first.clear, lambda: first.get("a"), lambda: first.set("a", "2")):
            with pytest.raises(Closed, match="open it again"):
                attempt()


def test_a_store_that_nobody_refers_to_lets_go(path: Path) -> None:
    """Whoever forgets to close it, as the original has no close, holds nobody up for ever."""
    store = FileStore(path)
    store.set("a", "1")
    del store
    gc.collect()
    with FileStore(path) as store:
        assert len(store.list()) == 1


def test_a_file_that_cannot_be_opened_is_let_go(path: Path) -> None:
    """A failed opening holds no lock."""
    path.write_text("{")
    with pytest.raises(Corrupt) as caught:
        FileStore(path)
    path.unlink()
    with FileStore(path):
        assert caught.value  # whose traceback still refers to the store that never was


@pytest.mark.parametrize("how", ["replaced", "in place", "removed", "made"])
def test_what_another_program_wrote_is_not_overwritten(path: Path, how: str) -> None:
    """Whoever ignores the lock (the original does) is noticed at the next write, which changes nothing."""
    if how != "made":
        path.write_text(ORIGINALS_FILE, "utf-8")
    theirs = '{"version":1,"entries":[]}'
    with FileStore(path) as store:
        before = store.list()
        if how == "removed":
            path.unlink()
        elif how == "replaced":
            path.with_name("other").write_text(theirs, "utf-8")
            path.with_name("other").replace(path)
        else:
            path.write_text(theirs, "utf-8")
        for _ in range(2):
            with pytest.raises(FileChanged, match="changed by another program since it was read here"):
                store.set("a", "1")
        assert store.list() == before
    assert path.exists() == (how != "removed")
    if how != "removed":
        assert path.read_text("utf-8") == theirs
    with FileStore(path) as store:
        store.set("a", "1")


def test_a_file_that_was_touched_or_copied_back_is_the_same_file(path: Path) -> None:
    """What counts is what it holds."""
    with FileStore(path) as store:
        store.set("a", "1")
        os.utime(path, (1, 1))
        store.set("a", "2")
        copy = path.read_bytes()
        path.unlink()
        path.write_bytes(copy)
        store.set("a", "3")
    assert '"3"' in path.read_text("utf-8")


# -- the lock beside it


@pytest.mark.parametrize(
    "content", [b'[[package]]\nname = "x"\n', b"12 monkeys\n", b"1" * 40, b"\xff"], ids=range(4)
)
def test_a_lock_file_that_is_somebody_elses_is_left_alone(tmp_path: Path, content: bytes) -> None:
    """A store beside which a file of that name holds something else is refused by a message naming that."""
    taken = tmp_path / "Cargo.lock"
    taken.write_bytes(content)
    with pytest.raises(NotOurs, match=r"Cargo\.lock holds something else"):
        FileStore(tmp_path / "Cargo")
    assert taken.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["Cargo.lock"]


def test_a_lock_file_that_is_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    """Neither to a file, which would be emptied, nor to where none is; nor is anything but a file opened."""
    lock, precious = path.with_name("memory.json.lock"), tmp_path / "precious"
    lock.symlink_to(precious)
    with pytest.raises(StorageError, match=r"memory\.json\.lock is not an ordinary file"):
        FileStore(path)
    assert not precious.exists()
    precious.write_text("4711\n")
    with pytest.raises(StorageError, match=r"memory\.json\.lock is not an ordinary file"):
        FileStore(path)
    assert precious.read_text() == "4711\n"
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(StorageError, match=r"memory\.json\.lock is not an ordinary file"):
        FileStore(path)


@pytest.mark.parametrize("content", [b"", b"4711\n", bytes(5)], ids=["nothing", "a number", "power cut"])
def test_a_lock_file_that_a_store_left_is_used_again(path: Path, content: bytes) -> None:
    """It names the process that holds it now, and is private where it is made."""
    lock = path.with_name("memory.json.lock")
    lock.write_bytes(content)
    with FileStore(path):
        assert lock.read_text() == f"{os.getpid()}\n"
    lock.unlink()
    with FileStore(path):
        assert lock.stat().st_mode & 0o777 == 0o600


# -- over it


def test_shared_memory_over_a_file(path: Path) -> None:
    """Structured values, namespaces and compare-and-set work; versions and a kept turn are not there."""
    with FileStore(path) as store:
        memory = SharedMemory(store)
        assert memory.write("w", "plan", {"steps": [1, 2]}) is None
        assert memory.compare_and_set("w", "plan", {"steps": [1, 2]}, {"steps": []}) is True
        assert memory.compare_and_set("w", "plan", {"steps": [1, 2]}, {"steps": [9]}) is False
        with pytest.raises(TypeError, match="expected_version cannot be checked"):
            memory.write("w", "plan", "x", expected_version=1)
        snapshot = memory.snapshot()
        memory.write("w", "plan", "other")
        memory.restore(snapshot)
    with FileStore(path) as store:
        (entry,) = SharedMemory(store).list_all()
        assert entry.value == {"steps": []}


def test_writes_of_tasks_are_applied_in_their_order(path: Path) -> None:
    """C8, mended: a set awaited after a compare-and-set comes after it; closing writes the line."""

    async def work() -> list[Any]:
        with AsyncFileStore(path) as store:
            await store.set("k", "0")
            outcomes = await asyncio.gather(
                store.compare_and_set("k", "0", "1"),
                store.set("k", "2"),
                store.compare_and_set("k", "2", "3"),
                *(store.set(f"n{number}", "x") for number in range(20)),
            )
            memory = AsyncSharedMemory(store)
            assert [entry.key for entry in await memory.list_all()][:2] == ["k", "n0"]
            return outcomes[:3]

    assert asyncio.run(work()) == [True, None, True]
    with FileStore(path) as store:
        assert [entry.value for entry in store.list()] == ["3"] + ["x"] * 20


def test_a_cancelled_write_is_whole_or_absent(path: Path) -> None:
    """The file holds what the store says it holds, and the store goes on."""

    async def work() -> list[str]:
        with AsyncFileStore(path) as store:
            tasks = [asyncio.ensure_future(store.set(f"n{number}", "x")) for number in range(20)]
            await tasks[0]
            for task in tasks[1::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.set("last", "x")
            return [entry.key for entry in await store.list()]

    listed = asyncio.run(work())
    assert {f"n{number}" for number in range(0, 20, 2)} <= set(listed)
    assert [entry["key"] for entry in json.loads(path.read_text("utf-8"))["entries"]] == listed


# -- against the store in memory

KEYS = st.sampled_from(["a", "b", "w/c", "\ud83d", ""])
VALUES = st.sampled_from(["", "1", "\ud83d", "\x00\u2028"])
METADATA = st.sampled_from([None, {}, {"agent": "w", "x": [1.5, "\udc88"]}])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, VALUES, METADATA),
    st.tuples(st.just("set_with_expiry"), KEYS, VALUES, st.sampled_from([0, 1, 2**53 - 1]), METADATA),
    st.tuples(st.just("compare_and_set"), KEYS, st.one_of(st.none(), VALUES), VALUES, METADATA),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("clear")),
    st.tuples(st.just("reopen")),
)


def shown(store: FileStore | InMemoryStore) -> list[tuple[object, ...]]:
    """The entries, versions aside."""
    return [
        (each.key, each.value, each.metadata, each.created_at, each.expires_at_turn) for each in store.list()
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=15))
def test_it_answers_as_the_store_in_memory_does(steps: list[tuple[Any, ...]]) -> None:
    """Whatever is asked, and however often it is closed and opened again in between."""
    clock = Clock()
    twin = InMemoryStore(clock=clock)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.json"
        store = FileStore(path, clock=clock)
        for name, *arguments in steps:
            clock.now += 1
            if name == "reopen":
                store.close()
                store = FileStore(path, clock=clock)
            else:
                answers = [getattr(each, name)(*arguments) for each in (store, twin)]
                assert name != "compare_and_set" or answers[0] == answers[1]
            assert shown(store) == shown(twin)
        store.close()
