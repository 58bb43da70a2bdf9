"""The command line as a process: pipes, terminals, signals, and what it costs to start."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from turnlog.eventlog import AdvanceTurn, EventLog, Write
from turnlog.replay.cli_log import Wanted

Start = Callable[..., Any]
Open = Callable[[Path], EventLog]

SECONDS = 100
"""How long anything here may take before it counts as hanging, on the busiest machine."""


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    """Exit code, output and errors of a process that is about to end."""
    out, error = process.communicate(timeout=SECONDS)
    return process.returncode, out.decode(), error.decode()


def on_a_terminal(arguments: list[Any], columns: int, **env: str) -> tuple[str, int]:
    """What `turnlog` prints on a terminal that is so wide; and its exit code."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    surroundings = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    surroundings |= {"TERM": "xterm-256color", **env}
    command = [sys.executable, "-m", "turnlog", *map(str, arguments)]
    started = subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env=surroundings, start_new_session=True
    )
    os.close(inner)
    shown = b""
    while chunk := read(terminal):
        shown += chunk
    os.close(terminal)
    return shown.decode(), started.wait(SECONDS)


def read(terminal: int) -> bytes:
    """More of what was printed; nothing once the other side is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def plain(shown: str) -> list[str]:
    """The lines of a terminal without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r\n", "\n").splitlines()


@pytest.fixture
def long_log(tmp_path: Path, open_team: Open) -> Path:
    """A file with more events than a pipe holds, and with long values."""
    path = tmp_path / "long.db"
    with open_team(path) as log:
        log.execute(
            [Write(f"agent/key-{number}", "long value " * 30) for number in range(2000)],
            run="main",
            agent="a",
        )
    return path


@pytest.mark.parametrize(
    ("verb", "unbuffered"),
    [
        pytest.param(["log"], "", id="log"),
        pytest.param(["log"], "1", id="log, unbuffered"),
        pytest.param(["state", "--json"], "", id="state"),
        pytest.param(["export"], "", id="export"),
    ],
)
def test_a_reader_that_has_enough(process: Start, long_log: Path, verb: Any, unbuffered: str) -> None:
    """When the reader of a pipe goes, the verb ends at once, without a word, and without a failure."""
    writer = process(verb[0], long_log, *verb[1:], env={"PYTHONUNBUFFERED": unbuffered})
    assert writer.stdout.readline()
    writer.stdout.close()
    assert writer.stderr.read() == b""
    assert writer.wait(SECONDS) == 0


def test_a_check_that_failed_fails_unread(process: Start, team: Path, tmp_path: Path) -> None:
    """A check that found something exits with 1, whether or not anybody reads what it found."""
    team.write_bytes(team.read_bytes().replace(b"Second draft", b"Forged draft"))
    reader, writer = os.pipe()
    os.close(reader)
    checking = process("verify", team, stdout=writer, env={"PYTHONUNBUFFERED": "1"})
    os.close(writer)
    assert checking.wait(SECONDS) == 1
    assert checking.stderr.read() == b""


def test_a_full_disk_is_told(process: Start, team: Path) -> None:
    """Output that cannot be written is an error, not a success."""
    with Path("/dev/full").open("w") as full:
        started = [process(*words, stdout=full) for words in (["log", team], ["export", team])]
        for each in started:
            assert (each.wait(SECONDS), each.stderr.read().count(b"No space left")) == (2, 1)


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["people", "json"])
def test_a_change_is_told_though_the_output_cannot_be_written(
    process: Start, cli: Callable[..., Any], team: Path, more: list[str]
) -> None:
    """Whoever asks again would do it twice; so the failure says that it was done, and where."""
    who = ["--as", "dpo", "--reason", "request 17"]
    with Path("/dev/full").open("w") as full:
        for words, done in [
            (["restore", team, "--at", "1"], b"but it was done: @11\n"),
            (["fork", team, "--as", "x", "--run", "main"], b"but it was done: @"),
            (
                ["redact", team, "--key", "scratch/todo", *who],
                b"but it was done: 1 text and no names",
            ),
            (["sweep", team], b"but it was done: "),
            (["log", team], b"No space left on device\n"),
        ]:
            ended = process(*words, *more, stdout=full)
            assert ended.wait(SECONDS) == 2
            told = ended.stderr.read()
            assert told.count(b"\n") == 1
            assert done in told
    assert cli("verify", team).code == 0


def test_follow_prints_each_event_once_and_in_order(process: Start, team: Path, open_team: Open) -> None:
    """What is committed while a log is followed appears as it comes: all of it, once, in order, filtered."""
    all_events = process("log", team, "--follow", "--json")
    of_writer = process(
        "log", team, "--follow", "--json", "--agent", "writer", "--since", "@10", "--run", "main"
    )
    seen = [json.loads(all_events.stdout.readline())["position"] for _ in range(10)]
    with open_team(team) as log:
        for number in range(30):
            run = "main" if number % 2 else "other"
            log.execute(
                [Write(f"a/{number}", "x"), AdvanceTurn()],
                run=run,
                agent="writer" if number % 3 else "editor",
            )
        expected = [each.position for each in log.read(agent="writer", run="main", after=10)]
    seen += [json.loads(all_events.stdout.readline())["position"] for _ in range(60)]
    assert seen == list(range(1, 71))
    found = [json.loads(of_writer.stdout.readline())["position"] for _ in expected]
    assert found == expected
    time.sleep(0.6)  # long enough for anything to appear a second time
    for each in (all_events, of_writer):
        each.send_signal(signal.SIGINT)
        assert ended(each) == (130, "", "")


def test_following_beside_a_busy_writer(tmp_path: Path, open_team: Open) -> None:
    """However reading and committing fall together, no event is given twice or passed over."""
    path, many = tmp_path / "busy.db", 3000
    with open_team(path) as writing, open_team(path) as reading:

        def write() -> None:
            for number in range(many):
                writing.execute([Write("key", str(number))], run="main")

        writer = threading.Thread(target=write)
        writer.start()
        seen: list[int] = []
        for page in Wanted(run=None, agent=None, key=None, type=None).follow(reading, 0):
            seen += [each.position for each in page]
            if len(seen) >= many and not writer.is_alive():
                break
        writer.join()
    assert seen == list(range(1, many + 1))


def test_follow_ends_when_nobody_reads(process: Start, team: Path) -> None:
    """A follower whose reader goes ends by itself, though no event comes any more."""
    follower = process("log", team, "--follow")
    assert follower.stdout.readline()
    follower.stdout.close()
    assert (follower.wait(SECONDS), follower.stderr.read()) == (0, b"")


def test_following_costs_little(process: Start, long_log: Path) -> None:
    """Waiting for events takes next to no time of the processor, however long the log is."""
    follower = process("log", long_log, "--follow", "--last", "1", "--run", "main")
    follower.stdout.readline(), follower.stdout.readline()
    before = processor_seconds(follower.pid)
    time.sleep(1)
    assert processor_seconds(follower.pid) - before < 0.3


def processor_seconds(pid: int) -> float:
    """How long a process has kept a processor busy."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_tables_on_a_terminal(team: Path) -> None:
    """A terminal gets a table that fits: coloured, what was cut marked, a rule below the headings."""
    shown, code = on_a_terminal(["log", team], 80)
    lines = plain(shown)
    assert code == 0
    assert "\x1b[" in shown
    assert lines[0].split()[:3] == ["at", "time", "(UTC)"]
    assert set(lines[1]) == {"─"}
    assert len(lines) == 12
    assert max(map(len, lines)) <= 80
    assert any(line.rstrip().endswith("…") for line in lines)


def test_a_wider_terminal_shows_all_and_a_narrow_one_something(team: Path) -> None:
    """Values are cut only as far as needed; the time gives way where there is no room for it."""
    wide, narrow = plain(on_a_terminal(["log", team], 200)[0]), plain(on_a_terminal(["log", team], 60)[0])
    assert '{"claim":"X reduces Y","confidence":0.8}' in wide[2]
    assert "time" in wide[0]
    assert "time" not in narrow[0]
    assert max(map(len, narrow)) <= 60


def test_a_terminal_is_told_what_it_sees(team: Path) -> None:
    """Above a table stands what it shows, and of nothing it is said that it is nothing."""
    assert plain(on_a_terminal(["state", team, "--at", "1"], 100)[0])[0] == "main at turn 1 (@7): 4 entries"
    assert plain(on_a_terminal(["diff", team, "1", "1"], 100)[0]) == [
        "main from turn 1 (@7) to turn 1 (@7): no differences"
    ]


@pytest.mark.parametrize(
    ("env", "mark"),
    [
        pytest.param({"PYTHONIOENCODING": "ascii"}, "...", id="ascii"),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, "...", id="latin-1"),
        pytest.param({"TERM": "dumb"}, "…", id="dumb"),
        pytest.param({"NO_COLOR": "1"}, "…", id="no colours"),
    ],
)
def test_poor_terminals(tmp_path: Path, open_team: Open, env: dict[str, str], mark: str) -> None:
    """A terminal without Unicode or colours gets a table all the same, and markup in values means nothing."""
    path = tmp_path / "team.db"
    with open_team(path) as log:
        log.execute(
            [Write("[red]key[/red]", "中文 \ud83d \x1b[31m [bold]x[/bold] :smile: " + "long " * 50)],
            run="main",
        )
    shown, code = on_a_terminal(["state", path], 80, **env)
    assert code == 0
    assert "[red]key[/red]" in shown
    assert mark in shown
    assert r"\ud83d \x1b[31m [bold]" in shown


def test_help_is_quick_and_loads_little(process: Start, team: Path) -> None:
    """Help comes without what is slow to import, even of our own; a pipe is served without rich."""
    command = [sys.executable, "-X", "importtime", "-m", "turnlog"]
    loaded = [
        subprocess.run([*command, *words], capture_output=True, check=True, text=True).stderr
        for words in (["--help"], ["log", str(team)])
    ]
    slow = [
        {name for name in ("rich", "pydantic", "sqlite_utils", "turnlog.eventlog") if f" {name}\n" in each}
        for each in loaded
    ]
    assert slow[0] == set()
    assert slow[1] & {"rich", "pydantic"} == set()


def test_help_answers_within_a_moment(process: Start) -> None:
    """Help takes 0.15 s of the processor; on a slow one, more in proportion to the start of Python."""
    python, help_ = (
        min(processor_s(*each) for _ in range(5)) for each in (["-c", "pass"], ["-m", "turnlog", "--help"])
    )
    assert help_ < max(0.15, python * 5)


def processor_s(*arguments: str) -> float:
    """How long Python works at something, whatever else the machine is doing."""
    away = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    command = [sys.executable, *arguments]
    pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=away)
    _, status, used = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return used.ru_utime + used.ru_stime


WITHOUT_PRIVILEGE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # drop CAP_DAC_OVERRIDE, by which root writes where it must not
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def unprivileged(*words: object) -> subprocess.CompletedProcess[bytes]:
    """Runs Python such that the permissions of files hold for it, even where root runs the tests."""
    command = [sys.executable, "-c", WITHOUT_PRIVILEGE, *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)


@pytest.mark.parametrize("verb", [["log", "--json"], ["verify"], ["doctor"]], ids=" ".join)
def test_a_log_in_a_folder_that_cannot_be_written(tmp_path: Path, open_team: Open, verb: Any) -> None:
    """A log is read where not a byte can be written beside it; once it is said that no lock is had."""
    folder = tmp_path / "archive"
    folder.mkdir()
    with open_team(folder / "team.db") as log:
        log.execute([Write("key", "value")], run="main")
    (folder / "team.db").chmod(0o400)
    folder.chmod(0o500)
    assert unprivileged("-c", f"open({str(folder / 'new')!r}, 'w')").returncode == 1
    done = unprivileged("-m", "turnlog", verb[0], folder / "team.db", *verb[1:])
    folder.chmod(0o700)
    said = b"turnlog: the log is read as it lies, without locks; what is written meanwhile is not seen\n"
    assert (done.returncode, done.stderr) == (0, said)
    assert done.stdout
    assert [path.name for path in folder.iterdir()] == ["team.db"]


def test_output_that_is_closed(team: Path) -> None:
    """Without a standard output there is an error and no traceback."""
    command = f"exec '{sys.executable}' -m turnlog log '{team}' >&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "turnlog: standard output is closed; there is nowhere to print to\n",
    )
