"""The store in one JSON file: small, readable by anybody, and shared with open-multi-agent."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from ..eventlog import CompareAndSet, Delete, Limits, Write
from ..eventlog.commands import exact_str
from ..eventlog.events import moment
from .entry import MemoryEntry, read_metadata
from .held_file import HeldFile
from .json_file import document_bytes, entry_json, read_document
from .snapshot import SavedEntry
from .verbs import expiring

__all__ = ["FileStore"]


class FileStore:
    """A `MemoryStore` in one JSON file, read once and written whole at each change.

    The file is that of open-multi-agent's `FileStore` (version 1), and either program goes on from what the
    other left; but one at a time. Keeps no turn, no versions and no history: see `EventSourcedStore`.

    What a write promises: it has returned only when the file is flushed; a crash leaves the file as it was
    before or as it is after. A write that raises has changed neither file nor memory, except after
    `OutcomeUnknown`. Each costs as much as there is in the store.

    Several threads may share one object. A second object on the file, in this process or another, is `Busy`:
    the first holds a lock on `<path>.lock`, beside the file, until it is closed, collected, or its process
    ends, by whatever signal. It does not go with a `fork`: in the child it raises `Closed`, and the child's
    death or life does not touch the lock. Programs that know nothing of the lock (the original) are noticed
    at the next write, which raises `FileChanged`.

    Args:
        path: the file, relative to the working directory of now; symbolic links are followed. If there is
            none, the store is empty, and the first write makes it (mode 0600) and its folders.
        limits: sizes above which an entry is refused; see `Limits`.
        clock: milliseconds since 1970 UTC; to be replaced in tests only.

    Raises:
        Busy: it is open in another store.
        Corrupt: it is not JSON, or an entry in it is malformed. It is left as it is.
        TooNew, NotOurs: it is of a later version; it is some other JSON, or `<path>.lock` some other file.
        StorageError: the system refuses, or one of the two is no ordinary file.
        TypeError, ValueError: a path that is no str or path object, or an empty one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        name = exact_str("path", os.fspath(path))
        if not name:
            raise ValueError("path must not be empty")
        self._limits = limits or Limits()
        self._clock = clock
        self._writing = threading.Lock()
        self._file = HeldFile(Path(os.path.realpath(name)))
        try:
            content = self._file.read()
            saved = {} if content is None else read_document(content, str(self._file.path))
        except BaseException:
            self._file.close()
            raise
        # Never changed, only replaced: who reads needs no lock, and waits for no flush.
        self._cells = {key: _Cell(entry, entry_json(entry)) for key, entry in saved.items()}

    @property
    def path(self) -> Path:
        """The file: absolute, without symbolic links."""
        return self._file.path

    @property
    def limits(self) -> Limits:
        """Sizes above which an entry is refused."""
        return self._limits

    def close(self) -> None:
        """Let go of the file, after a write that is under way; again has no effect."""
        if self._file.is_usable():
            with self._writing:
                self._file.close()

    def is_usable(self) -> bool:
        """Whether the file is held by this object: not closed, and not the copy in a child of `fork`."""
        return self._file.is_usable()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def get(self, key: str) -> MemoryEntry | None:
        """The entry of `key`, expired or not; None if there is none. Read from memory."""
        key = exact_str("key", key)
        self._file.check()
        cell = self._cells.get(key)
        return None if cell is None else _memory_entry(cell.entry)

    def list(self) -> list[MemoryEntry]:
        """Every entry, expired ones included, in birth order, as of one moment. Read from memory."""
        self._file.check()
        return [_memory_entry(cell.entry) for cell in self._cells.values()]

    def set(self, key: str, value: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Replace value and metadata and clear the expiry. The last writer wins: see `compare_and_set`.

        Raises:
            TypeError, ValueError: bad input, or text that JSON cannot hold: an emoji spelled as its two
                halves, which JSON takes for the emoji.
            FileChanged: another program has changed the file.
            StorageError: the system refuses, for example because the disk is full.
            Closed: the store is closed, or belongs to the process that was forked.
            OutcomeUnknown: written, but perhaps not beyond a power cut.
        """
        self._write(Write(key, value, metadata))

    def set_with_expiry(
        self, key: str, value: str, expires_at_turn: int, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """`set`, with the turn (0 … 2**53 - 1) from which on the entry counts as expired."""
        self._write(expiring(key, value, expires_at_turn, metadata))

    def compare_and_set(
        self, key: str, expected: str | None, value: str, metadata: Mapping[str, Any] | None = None
    ) -> bool:
        """`set`, if `key` holds exactly `expected` (None: if it is missing); whether it did.

        Atomic among the threads that share this store, and there can be no other writer.
        """
        command = CompareAndSet(key, expected, value, metadata)
        command.check(self._limits)
        with self._alone():
            cell = self._cells.get(command.key)
            if (None if cell is None else cell.entry.value) != command.expected:
                return False
            self._put(command, None)
        return True

    def delete(self, key: str) -> None:
        """Remove `key`; silent, and without a flush, if it is missing. Raises what `set` raises."""
        command = Delete(key)
        with self._alone():
            if command.key in self._cells:
                self._flush({held: cell for held, cell in self._cells.items() if held != command.key})

    def clear(self) -> None:
        """Remove every entry, those under reserved prefixes included. Raises what `set` raises."""
        with self._alone():
            self._flush({})

    @contextmanager
    def _alone(self) -> Generator[None]:
        """The only writer; looked at before too, since a child of `fork` would wait for a thread it lacks."""
        self._file.check()
        with self._writing:
            self._file.check()
            yield

    def _write(self, command: Write) -> None:
        command.check(self._limits)
        with self._alone():
            self._put(command, command.expires_at_turn)

    def _put(self, command: Write | CompareAndSet, expires_at_turn: int | None) -> None:
        old = self._cells.get(command.key)
        born = self._clock() if old is None else old.entry.created_at
        entry = SavedEntry(command.key, command.value, command.metadata_json, born, expires_at_turn)
        self._flush(self._cells | {command.key: _Cell(entry, entry_json(entry))})

    def _flush(self, cells: dict[str, _Cell]) -> None:
        """Let file and memory hold `cells`, or, if the file could not be replaced, neither."""
        content = document_bytes(cell.text for cell in cells.values())
        self._file.replace(content, lambda: self._take(cells))

    def _take(self, cells: dict[str, _Cell]) -> None:
        self._cells = cells


class _Cell(NamedTuple):
    """An entry, and how the file spells it."""

    entry: SavedEntry
    text: str


def _memory_entry(entry: SavedEntry) -> MemoryEntry:
    return MemoryEntry(
        key=entry.key,
        value=entry.value,
        metadata=read_metadata(entry.metadata),
        created_at=moment(entry.created_at),
        expires_at_turn=entry.expires_at_turn,
    )
