"""Who may import whom, and what an import costs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACE = ROOT / "src" / "turnlog"
NO_LIBRARY = {"benchmarks", "build", "docs", "examples", "tests"}

LAYERS = ("eventlog", "projections", "memory", "replay", "teams", "testing")
"""The library's folders, lowest first: each may import itself and those before it."""


def library_modules() -> list[Path]:
    """Every module of the library's folders."""
    return [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]


def forbidden(layer: str, source: str) -> list[str]:
    """The imports in `source`, a module of `layer`, that point where they must not."""
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            tops = [alias.name.split(".")[0] for alias in node.names]
            found += [f"import {top}" for top in tops if top in ("turnlog", *LAYERS)]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            dots = "." * node.level
            if node.level == 0 and module.split(".")[0] in ("turnlog", *LAYERS):
                found.append(f"from {module}")
            if node.level == 2:
                names = [module] if module else [alias.name for alias in node.names]
                found += [f"from {dots}{name}" for name in names if name.split(".")[0] not in allowed]
            if node.level > 2:
                found.append(f"from {dots}{module}")
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("from ..memory import SharedMemory", ["from ..memory"], id="upward"),
        pytest.param(
            "from ..memory.entry import MemoryEntry", ["from ..memory.entry"], id="upward, a module"
        ),
        pytest.param("from .. import replay", ["from ..replay"], id="upward, by name"),
        pytest.param("from .. import open", ["from ..open"], id="the face"),
        pytest.param("def f():\n    from ..replay import Timeline", ["from ..replay"], id="in a function"),
        pytest.param("from ... import os", ["from ..."], id="three dots"),
        pytest.param("import turnlog.eventlog", ["import turnlog"], id="absolute import"),
        pytest.param("from turnlog.eventlog import EventLog", ["from turnlog.eventlog"], id="absolute from"),
        pytest.param("from eventlog import EventLog", ["from eventlog"], id="as a top-level package"),
        pytest.param("from ..eventlog import EventLog", [], id="downward"),
        pytest.param("from .fold import fold", [], id="sideways"),
        pytest.param("import os, json\nfrom pathlib import Path", [], id="standard library"),
    ],
)
def test_the_walk_sees_every_form_of_import(source: str, expected: list[str]) -> None:
    """Each form in which a module of `projections` could import is judged rightly."""
    assert forbidden("projections", source) == expected


def test_every_library_folder_has_its_place() -> None:
    """A new folder with library code cannot appear without a place in the order of layers."""
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - NO_LIBRARY
    assert folders == set(LAYERS)


@pytest.mark.parametrize("path", library_modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path: Path) -> None:
    """A library module imports relatively, and only its own layer and lower ones."""
    assert forbidden(path.relative_to(ROOT).parts[0], path.read_text("utf-8")) == []


def test_library_folders_are_flat() -> None:
    """No folder lies inside a library folder, so that two dots reach everything."""
    assert [path for path in library_modules() if len(path.relative_to(ROOT).parts) != 2] == []


def test_the_face_imports_absolutely() -> None:
    """The face is not beside the library's folders on disk, so relative imports could not be followed."""
    relative = [
        f"{path.name}:{node.lineno}"
        for path in FACE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


# Imports turnlog in a fresh interpreter, and tells what it loaded, how long it took and what it touched.
WATCHED_IMPORT = """
import json, os, sys, threading, time
touched = []
def watch(event, args):
    if event == "open":
        path, mode, flags = args
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            touched.append(f"{event} {path}")
    elif event.split(".")[0] in ("socket", "sqlite3", "subprocess", "shutil") or event in EVENTS:
        touched.append(event)
EVENTS = {"os.mkdir", "os.rename", "os.remove", "os.putenv", "os.fork", "os.system", "os.posix_spawn"}
sys.addaudithook(watch)
began = time.perf_counter()
import turnlog
seconds = time.perf_counter() - began
print(json.dumps({
    "seconds": seconds,
    "modules": sorted({name.split(".")[0] for name in sys.modules}),
    "touched": touched,
    "threads": threading.active_count(),
}))
"""


def watched_import(cwd: Path) -> dict[str, object]:
    """What `import turnlog` did in a process without HOME, in a folder that cannot be written."""
    env = {name: value for name, value in os.environ.items() if name != "HOME"}
    command = [sys.executable, "-B", "-W", "error", "-c", WATCHED_IMPORT]
    cwd.chmod(0o555)
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_importing_turnlog_loads_no_dependency(tmp_path: Path) -> None:
    """What costs time to import is imported where it is used."""
    heavy = {"click", "pydantic", "rich", "sqlite_utils", "pysqlite3"}
    modules = watched_import(tmp_path)["modules"]
    assert isinstance(modules, list)
    assert heavy & set(modules) == set()


def test_importing_teams_loads_no_dependency() -> None:
    """Whoever runs tasks without result types, and not at a terminal, loads neither pydantic nor rich."""
    code = "import sys, turnlog; turnlog.run_tasks; print(*sorted(m.split('.')[0] for m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert {"click", "pydantic", "rich", "sqlite_utils"} & set(done.stdout.split()) == set()


def test_importing_turnlog_has_no_side_effects(tmp_path: Path) -> None:
    """An import writes no file, opens no database or socket, and starts neither thread nor process."""
    seen = watched_import(tmp_path)
    assert (seen["touched"], seen["threads"]) == ([], 1)
    assert list(tmp_path.iterdir()) == []


def test_importing_turnlog_is_quick(tmp_path: Path) -> None:
    """The best of three imports takes less than half a second, even on a busy machine."""
    seconds = [watched_import(tmp_path)["seconds"] for _ in range(3)]
    assert min(float(str(each)) for each in seconds) < 0.5
