"""Power cuts, replayed: what was acknowledged is in every image of the disk that a cut can leave.

A program that writes is traced with strace. Its writes and flushes are then replayed up to each point at
which the power could have failed. A write that no flush has covered by then may have reached the disk or not,
or in part, each on its own; so several images are made for each point. Every image must open and verify, and
hold all that had been acknowledged.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import turnlog
from turnlog.eventlog import EntryWritten
from turnlog.replay.verification import verify

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("strace") is None, reason="replays what strace records; install strace"),
]

# The WAL is moved into the file every few pages, so that it begins anew many times.
_SMALL_WAL = 'log.transact(lambda db: db.execute("pragma wal_autocheckpoint = 30"))'

_ONE_THREAD = f"""
import sys, turnlog
with turnlog.open(sys.argv[1]) as log:
    store = turnlog.EventSourcedStore(log, "run")
    {_SMALL_WAL}
    for number in range(60):
        store.set(f"key-{{number % 7}}", f"value {{number}} " + "x" * (number * 37 % 900))
        print(f"ack value {{number}}", flush=True)
"""
_THREADS = f"""
import sys, threading, turnlog
with turnlog.open(sys.argv[1]) as log:
    store = turnlog.EventSourcedStore(log, "run")
    {_SMALL_WAL}
    def work(name):
        for number in range(20):
            store.set(f"key-{{name}}", f"value {{name}}-{{number}} ")
            sys.stdout.write(f"ack value {{name}}-{{number}}\\n"); sys.stdout.flush()
    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""
_PROCESSES = """
import subprocess, sys
program = '''
import sys, turnlog
with turnlog.open(sys.argv[1]) as log:
    store = turnlog.EventSourcedStore(log, "run")
    log.transact(lambda db: db.execute("pragma wal_autocheckpoint = 30"))
    for number in range(20):
        store.set(f"key-{sys.argv[2]}", f"value {sys.argv[2]}-{number} ")
        print(f"ack value {sys.argv[2]}-{number}", flush=True)
'''
writers = [subprocess.Popen([sys.executable, "-c", program, sys.argv[1], name]) for name in "ab"]
assert [writer.wait() for writer in writers] == [0, 0]
"""
_TASKS = f"""
import asyncio, sys, turnlog
from turnlog import Write
async def main(log):
    async def work(name):
        for number in range(20):
            await log.aexecute([Write(f"key-{{name}}", f"value {{name}}-{{number}} ")], run="run")
            sys.stdout.write(f"ack value {{name}}-{{number}}\\n"); sys.stdout.flush()
    await asyncio.gather(*map(work, "abcd"))
with turnlog.open(sys.argv[1]) as log:
    {_SMALL_WAL}
    asyncio.run(main(log))
"""


@dataclass
class Disk:
    """One file as the disk knows it, and what was asked of it since the last flush."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(
        default_factory=list
    )  # offset and bytes; None: truncated to

    def flushed(self, upto: int) -> None:
        """A flush that covered the first `upto` pending requests has come to its end."""
        for request in self.pending[:upto]:
            apply(self.durable, request)
        del self.pending[:upto]

    def image(self, rng: random.Random, mode: str) -> bytes:
        """What the disk may hold after a cut."""
        content = bytearray(self.durable)
        for offset, data in self.pending:
            if mode == "nothing" or (mode != "everything" and rng.random() < 0.5):
                continue
            if mode == "torn" and data is not None and len(data) > 512:
                data = data[: 512 * rng.randrange(1, len(data) // 512 + 1)]
            apply(content, (offset, data))
        return bytes(content)


def apply(content: bytearray, request: tuple[int, bytes | None]) -> None:
    """Carry out one write or truncation."""
    offset, data = request
    if data is None:
        del content[offset:]
        content.extend(bytes(max(0, offset - len(content))))
        return
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


_CALL = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?:\((.*)| resumed>(.*))")
_FILE = re.compile(r"\d+<([^>]*)>")
_BYTES = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


def record(program: str, path: Path) -> list[str]:
    """Run `program` on `path` under strace; the lines of the trace."""
    trace = path.with_suffix(".trace")
    calls = "trace=pwrite64,write,fdatasync,fsync,ftruncate,unlink"
    command = ["strace", "-f", "-y", "-xx", "-s", "200000", "-e", calls, "-o", str(trace)]
    done = subprocess.run(
        [*command, sys.executable, "-c", program, str(path)], capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return trace.read_text("utf-8").splitlines()


def images(lines: list[str], path: Path, rng: random.Random) -> Iterator[tuple[dict[str, bytes], set[str]]]:
    """For every point after the first acknowledgement: contents of the files, and what was acknowledged."""
    disks: dict[str, Disk] = {str(path): Disk(), f"{path}-wal": Disk()}
    begun: dict[str, tuple[str, int]] = {}  # by thread: the file being flushed, and how far that reaches
    acknowledged: set[str] = set()
    for line in lines:
        call = _CALL.match(line)
        if call is None:
            continue
        thread, name, arguments = call[1], call[2], call[3]
        done = "<unfinished" not in line
        if arguments is not None:
            target = file_of(arguments)
            if name == "write":
                acknowledged.update(
                    re.findall(r"ack (value \S+)", text_of(arguments).decode("utf-8", "replace"))
                )
            elif target in disks:
                start(disks[target], name, arguments)
                if name in ("fsync", "fdatasync"):
                    begun[thread] = (target, len(disks[target].pending))
        if done and name in ("fsync", "fdatasync") and thread in begun:
            target, upto = begun.pop(thread)
            disks[target].flushed(upto)
            # What a later flush of the same file has still to cover begins earlier now.
            begun = {
                other: (file, reach - upto if file == target else reach)
                for other, (file, reach) in begun.items()
            }
        if acknowledged:
            for mode in ("nothing", "everything", "some", "torn"):
                yield {file: disk.image(rng, mode) for file, disk in disks.items()}, set(acknowledged)


def start(disk: Disk, name: str, arguments: str) -> None:
    """A call on one of the files begins."""
    if name == "pwrite64":
        numbers = re.search(r'", (\d+), (\d+)', arguments)
        assert numbers is not None, arguments[-80:]
        disk.pending.append((int(numbers[2]), text_of(arguments)))
    elif name == "ftruncate":
        size = re.search(r">, (\d+)", arguments)
        assert size is not None, arguments
        disk.pending.append((int(size[1]), None))


def file_of(arguments: str) -> str | None:
    """The path that strace shows for the descriptor."""
    found = _FILE.match(arguments)
    if found is None:
        return None
    raw = found[1]
    return bytes.fromhex(raw.replace("\\x", "")).decode() if raw.startswith("\\x") else raw


def text_of(arguments: str) -> bytes:
    """The bytes written."""
    found = _BYTES.search(arguments)
    return b"" if found is None else bytes.fromhex(found[1].replace("\\x", ""))


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(_ONE_THREAD, id="one thread"),
        pytest.param(_THREADS, id="threads that share commits"),
        pytest.param(_TASKS, id="tasks that share commits"),
        pytest.param(_PROCESSES, id="two processes"),
    ],
)
def test_what_was_acknowledged_survives_every_power_cut(tmp_path: Path, program: str) -> None:
    """At every point, whatever arrived of what was not flushed: it opens, verifies, and all is there."""
    path = tmp_path / "team.db"
    lines = record(program, path)
    rng = random.Random(20)
    seen: set[int] = set()
    checked = 0
    for files, acknowledged in images(lines, path, rng):
        # Most points differ from the one before in nothing that matters; each distinct image is checked once.
        fingerprint = hash((tuple(files.values()), len(acknowledged)))
        if fingerprint in seen:
            continue
        seen.add(fingerprint)
        if rng.random() > 0.25:
            continue
        cut = tmp_path / "cut"
        shutil.rmtree(cut, ignore_errors=True)
        cut.mkdir()
        for file, content in files.items():
            (cut / Path(file).name).write_bytes(content)
        with turnlog.open(cut / "team.db", durability="os") as log:
            written = {
                recorded.event.value.split(" x")[0].strip()
                for recorded in log.read(type=EntryWritten)
                if isinstance(recorded.event, EntryWritten)
            }
            assert acknowledged <= written
            report = verify(log)
            assert report.ok, report.problems
        checked += 1
    assert checked > 100
