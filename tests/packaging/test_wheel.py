"""The wheel: what an installation of turnlog puts on a machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_INSTALLED = {"benchmarks", "build", "docs", "examples", "tests"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Prints `name path` for every module that can be imported.
IMPORT_ALL = """
import importlib, pkgutil, turnlog
names = ["turnlog", *(found.name for found in pkgutil.walk_packages(turnlog.__path__, "turnlog."))]
for name in names:
    print(name, importlib.import_module(name).__file__, sep="\\t")
"""


def library_folders() -> dict[str, Path]:
    """Each folder that holds library code, by the name its package must be installed under."""
    folders = {
        f"turnlog/{path.parent.name}": path.parent
        for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in NOT_INSTALLED
    }
    return folders | {"turnlog": ROOT / "src" / "turnlog"}


def modules_on_disk() -> set[str]:
    """Every library module, as the path it must have in the wheel."""
    return {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in library_folders().items()
        for path in folder.rglob("*.py")
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources in which an earlier build left a module that is gone."""
    sources = tmp_path_factory.mktemp("sources")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, sources)
    for folder in library_folders().values():
        shutil.copytree(
            folder, sources / folder.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__")
        )
    stale = sources / "build" / "lib" / "turnlog" / "eventlog" / "gone.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    built = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(sources), cwd=built)
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it; it borrows the dependencies, not the editable turnlog."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(environment, symlinks=True)
    python = str(environment / "bin" / "python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", str(wheel))
    # A path in a .pth file comes after the environment's own packages, and the .pth files in it (the
    # editable install is one) are not read.
    borrowed = sysconfig.get_paths()["purelib"]
    (site_packages,) = environment.glob("lib/python*/site-packages")
    (site_packages / "borrowed.pth").write_text(borrowed + "\n")
    return environment


def test_the_wheel_holds_exactly_the_modules_on_disk(wheel: Path) -> None:
    """No module is forgotten in the wheel, and none that is gone comes back."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if name.endswith(".py")} == modules_on_disk()


def test_the_wheel_says_that_it_is_typed(wheel: Path) -> None:
    """Type checkers of users see our annotations."""
    assert "turnlog/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_the_wheel_installs_no_other_top_level_name(wheel: Path) -> None:
    """A user's own folder called `memory` or `replay` is never in our way, nor we in its."""
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"turnlog", f"turnlog-{PROJECT['version']}.dist-info"}


def test_every_module_imports_from_the_installed_wheel(installed: Path) -> None:
    """Each module of the package can be imported where only the wheel is installed, without a warning."""
    printed = run(str(installed / "bin" / "python"), "-W", "error", "-c", IMPORT_ALL, cwd=installed)
    found = dict(line.split("\t") for line in printed.splitlines())
    (package,) = installed.glob("lib/python*/site-packages/turnlog")
    names = {Path(path).relative_to(package.parent).as_posix() for path in found.values()}
    assert names == modules_on_disk()


def test_the_installed_command_answers(installed: Path) -> None:
    """`turnlog --help` works where only the wheel is installed."""
    assert "Usage: turnlog" in run(str(installed / "bin" / "turnlog"), "--help", cwd=installed)


def run(*command: str, cwd: Path | None = None) -> str:
    """What `command` prints; when it fails the test does, with all it said."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
