"""Every rule of the original is either held by a test that names it or in docs/differences.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "differences.md").read_text("utf-8")

RULES = {"A": 6, "B": 11, "C": 9, "D": 11, "E": 22, "F": 3, "G": 21, "H": 11, "I": 13, "J": 16, "K": 3}
"""How many rules each section has; a section that is documented here has a heading in the page."""

_ID = r"[A-L]\d{1,2}"
_NAMED = re.compile(rf"\b({_ID}(?:-{_ID})?(?:, {_ID})*)(?:,? (?:mended|tightened))?:")


def expanded(named: str) -> Iterator[str]:
    """The rules that `A1, B2` or `D4-D7` names."""
    for part in named.split(", "):
        first, _, last = part.partition("-")
        for number in range(int(first[1:]), int((last or first)[1:]) + 1):
            yield f"{first[0]}{number}"


def named_by_tests() -> set[str]:
    """The rules that a docstring of a test names, as in `B4: …`."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for named in _NAMED.findall(ast.get_docstring(node) or ""):
                    found.update(expanded(named))
    return found


def named_by_the_page() -> list[str]:
    """The rules that have a row in a table of the page."""
    return re.findall(rf"^\| ({_ID}) \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    ("docstring", "rules"),
    [
        ("B4: order stays.", ["B4"]),
        ("D4-D6, mended: x.", ["D4", "D5", "D6"]),
        ("A1, B2: x; C3 mended: y", ["A1", "B2", "C3"]),
        ("See B4 and C1.", []),
    ],
)
def test_rules_are_found_in_docstrings(docstring: str, rules: list[str]) -> None:
    """A rule is named by its id and a colon."""
    assert [rule for named in _NAMED.findall(docstring) for rule in expanded(named)] == rules


def test_no_rule_is_forgotten() -> None:
    """Each is followed, and a test says so, or is not, and the page says why."""
    every = {f"{section}{number}" for section, count in RULES.items() for number in range(1, count + 1)}
    assert sorted(every - named_by_tests() - set(named_by_the_page())) == []


def test_the_page_is_in_order() -> None:
    """Each section has its heading, and its rules are rows under it, in order and once."""
    sections = re.split(r"^## ([A-L])\. .*$", PAGE, flags=re.MULTILINE)
    assert sections[1::2] == sorted(RULES)
    for section, text in zip(sections[1::2], sections[2::2], strict=True):
        rows = re.findall(rf"^\| ({_ID}) \|", text, re.MULTILINE)
        numbers = [int(row[1:]) for row in rows if row[0] == section]
        assert len(numbers) == len(rows)
        assert numbers == sorted(set(numbers))
        assert all(number <= RULES[section] for number in numbers)
