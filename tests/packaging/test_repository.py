"""The repository: whole, portable, and free of what belongs to one machine only."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
MAX_FILE_SIZE = 1 << 20  # bytes
NOT_OURS = {".git", ".venv", "build", "dist", ".hypothesis", ".pytest_cache", ".ruff_cache", "__pycache__"}

REGISTRY = re.compile(
    rb"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|--(?:extra-)?index-url|--find-link[s]|file:/{3}",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(rb"(?<![\w.~/<-])/(?:work|home|root|Users|opt|tmp)(?![\w-])")


def repository_files() -> list[Path]:
    """What belongs to the repository: what git tracks or would; without git, all but what is generated."""
    listing = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    if (ROOT / ".git").exists():
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
        paths = [ROOT / name for name in done.stdout.split("\0") if name]
    else:
        paths = [
            path
            for path in ROOT.rglob("*")
            if NOT_OURS.isdisjoint(path.relative_to(ROOT).parts) and ".egg-info" not in str(path)
        ]
    return [path for path in paths if path.is_file()]


def found_in_files(pattern: re.Pattern[bytes]) -> list[str]:
    """Where `pattern` occurs in the repository, as `file: text`."""
    return [
        f"{path.relative_to(ROOT)}: {match[0].decode(errors='replace')}"
        for path in repository_files()
        for match in pattern.finditer(path.read_bytes())
    ]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        pytest.param(REGISTRY, "see https://" + "pypi" + ".org/simple", True, id="registry"),
        pytest.param(REGISTRY, "pip install --index" + "-url x", True, id="index option"),
        pytest.param(REGISTRY, "pip install turnlog", False, id="install by name"),
        pytest.param(MACHINE_PATH, "open('" + "/ho" + "me/me/team.db')", True, id="home folder"),
        pytest.param(MACHINE_PATH, "cd " + "/wo" + "rk", True, id="work folder"),
        pytest.param(
            MACHINE_PATH, "read/work, ./home/x, ~/opt, </root>, /workshop", False, id="other slashes"
        ),
    ],
)
def test_the_patterns_find_what_they_are_for(
    pattern: re.Pattern[bytes],
    text: str,
    expected: bool,
) -> None:
    """The two searches below find what must not be there and nothing else."""
    assert bool(pattern.search(text.encode())) == expected


def test_no_file_names_a_registry() -> None:
    """Where packages come from is the business of whoever installs them."""
    assert found_in_files(REGISTRY) == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    """Nothing here works on one machine only."""
    assert found_in_files(MACHINE_PATH) == []


def test_every_file_is_small() -> None:
    """No file is larger than 1 MiB, so that a clone stays quick."""
    large = [path for path in repository_files() if path.stat().st_size > MAX_FILE_SIZE]
    assert large == []


def decisions() -> list[Path]:
    """Every file of docs/adr but its index."""
    return sorted(path for path in (ROOT / "docs" / "adr").iterdir() if path.name != "README.md")


def test_decisions_are_numbered_without_a_gap() -> None:
    """A decision is never removed, only superseded, and no two share a number."""
    numbers = [path.name[:4] for path in decisions()]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


@pytest.mark.parametrize("path", decisions(), ids=lambda path: path.stem)
def test_a_decision_is_named_titled_and_indexed(path: Path) -> None:
    """A decision's file name, its title line and its line in the index agree."""
    title = path.read_text("utf-8").splitlines()[0]
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
    assert re.fullmatch(rf"# {path.name[:4]}\. \S.*[^.]", title)
    index = (ROOT / "docs" / "adr" / "README.md").read_text("utf-8").splitlines()
    assert f"- [{title.removeprefix('# ')}]({path.name})" in index


def test_the_index_of_decisions_names_no_other_file() -> None:
    """Every link in the index leads somewhere."""
    links = re.findall(
        r"^- \[.*\]\((.+)\)$", (ROOT / "docs" / "adr" / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert links == [path.name for path in decisions()]


def test_the_changelog_knows_the_version() -> None:
    """The version in pyproject.toml has an entry with at least one line in CHANGELOG.md."""
    version = re.escape(PYPROJECT["project"]["version"])
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## {version}(?: \([^)\n]+\))?\n\n- \S", changelog, re.MULTILINE)


def pins() -> dict[str, Requirement]:
    """The lines of constraints.txt by the package they pin."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(each.name): each for each in found}


def test_every_constraint_is_one_exact_version() -> None:
    """A constraint is `name==version`, with nothing but an environment marker behind it."""
    inexact = [
        str(pin)
        for pin in pins().values()
        if pin.url or pin.extras or [each.operator for each in pin.specifier] != ["=="]
    ]
    assert inexact == []


def test_every_requirement_is_pinned_within_its_bounds() -> None:
    """What pyproject.toml asks for has a pinned version, and that version is one it accepts."""
    groups = PYPROJECT["dependency-groups"].values()
    wanted = [text for group in groups for text in group if isinstance(text, str)]
    pinned = pins()
    for requirement in map(Requirement, [*PYPROJECT["project"]["dependencies"], *wanted]):
        (exact,) = pinned[canonicalize_name(requirement.name)].specifier
        assert requirement.specifier.contains(exact.version, prereleases=True), str(requirement)


def test_plain_make_lists_the_targets() -> None:
    """`make` alone explains itself, whatever the folder it is called from."""
    done = subprocess.run(
        ["make", "--no-print-directory", "-C", str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    listed = [line.split()[1] for line in done.stdout.splitlines()]
    assert listed == ["help", "demo", "test", "test-long", "test-servers", "check", "bench", "clean"]


def test_the_tests_run_on_a_supported_python() -> None:
    """The lowest Python that pyproject.toml allows, lints for and checks types for is one and the same."""
    lowest = PYPROJECT["project"]["requires-python"].removeprefix(">=")
    tools = PYPROJECT["tool"]
    assert tools["basedpyright"]["pythonVersion"] == lowest
    assert tools["ruff"]["target-version"] == "py" + lowest.replace(".", "")
    assert sys.version_info >= tuple(map(int, lowest.split(".")))


def test_the_tests_end_where_ctrl_c_is_ignored() -> None:
    """As in `make test &` in a script: those that send it to themselves would else wait for ever."""
    test = "tests/memory/test_async_trouble.py::test_ctrl_c_ends_a_loop_with_writes_under_way"
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", test]
    done = subprocess.run(
        [sys.executable, "-c", ignoring, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout
