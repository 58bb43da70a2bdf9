"""The published contract notices stores that break it, and says which rule was broken."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TypeAlias

import pytest

BROKEN = Path(__file__).with_name("broken_stores.py")

# The suite of a store that breaks a rule, the test that must notice, and what must be said about it.
CAUGHT = [
    ("Merging", "set_replaces_value_and_metadata", "metadata is never merged"),
    ("LikePrefix", "scan_by_prefix", "A prefix matches exactly what it spells"),
    ("ByLastChange", "overwriting_keeps_created_at_and_place", "an overwritten key keeps its place"),
    ("Reborn", "overwriting_keeps_created_at_and_place", "created_at is the time of the first write"),
    ("AsyncReborn", "overwriting_keeps_created_at_and_place", "created_at is the time of the first write"),
    ("Normalising", "compare_and_set_compares_the_whole_text", "exactly what was expected"),
    ("EmptyIsMissing", "compare_and_set_compares_the_whole_text", "was expected"),
    (
        "TwoSteps",
        "compare_and_set_is_atomic_between_threads",
        "increments were lost between comparing and setting",
    ),
    ("Folding", "texts_that_look_alike_are_different_keys", "no folding"),
    ("Replacing", "any_text_is_kept_exactly", "code point by code point"),
    ("Live", "metadata_is_fresh_on_the_way_out", "does not change the store"),
    ("Keeping", "metadata_is_copied_on_the_way_in", "does not change the entry"),
    ("NoneIsEmpty", "absent_and_empty_metadata_differ", "Absent metadata is None"),
    ("KeepsExpiry", "set_clears_the_expiry", "A plain write makes"),
    ("Judging", "an_expiry_is_kept_and_never_judged", "whatever the turn is"),
    ("Lenient", "metadata_must_be_a_dict_of_json", "would not come back equal"),
    ("NotThere", "an_empty_store_holds_nothing", "A missing key is None, not an error"),
    ("HalfATurn", "the_turn_is_kept_with_all_three_methods", "it has only get_turn"),
    ("Forgetting", "entries_outlive_the_object", "gives the same entries"),
    ("WrongColour", "an_empty_store_holds_nothing", "use AsyncStoreContract with it"),
    ("NothingGiven", "an_empty_store_holds_nothing", "TestNothingGiven must define a fixture `open_store`"),
]

Results: TypeAlias = dict[tuple[str, str], list[str | None]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a run of pytest by itself says of each test: its failure, or None; by suite and test."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "pytest.ini").write_text("[pytest]\n")  # of its own, not ours
    tests = [f"{BROKEN}::Test{suite}::test_{test}" for suite, test, _ in CAUGHT]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini"),
            *("-p", "no:cacheprovider", "-p", "no:xdist", "--junit-xml", "results.xml"),
            *(f"{BROKEN}::TestDictStore", *tests),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: Results = {}
    for case in ET.parse(folder / "results.xml").iter("testcase"):
        said = [failure.text for kind in ("failure", "error") for failure in case.iter(kind)]
        name = case.attrib["name"].split("[")[0]
        found.setdefault((case.attrib["classname"].split(".")[-1], name), []).extend(said or [None])
    return found


@pytest.mark.parametrize(("suite", "test", "said"), CAUGHT, ids=[case[0] for case in CAUGHT])
def test_a_store_that_breaks_a_rule_is_told_which(results: Results, suite: str, test: str, said: str) -> None:
    """The test of that rule fails, and its message names the rule and how it was broken."""
    failures = [failure for failure in results[f"Test{suite}", f"test_{test}"] if failure is not None]
    assert failures
    assert all(said in failure for failure in failures)


def test_a_rule_that_is_broken_is_shown_with_what_was_found(results: Results) -> None:
    """A failure has the rule, the test's name and both values in it, not an assertion without words."""
    (said,) = results["TestMerging", "test_set_replaces_value_and_metadata"]
    assert said is not None
    assert "The store breaks this rule of the contract: A write replaces the whole entry" in said
    assert "{'x': 3, 'y': 2}" in said
    assert "(test_set_replaces_value_and_metadata)" in said


def test_a_store_of_a_dict_keeps_every_rule(results: Results) -> None:
    """The same store without the breach passes every test, so that a failure is due to the breach."""
    passed = [
        said for (suite, _), all_said in results.items() if suite == "TestDictStore" for said in all_said
    ]
    assert len(passed) > 100
    assert set(passed) == {None}


def test_without_pytest_the_import_says_what_to_install(tmp_path: Path) -> None:
    """Who has turnlog without pytest is told where to get it; `turnlog` itself never asks for it."""
    program = """
import sys
sys.modules["pytest"] = None
import turnlog
turnlog.InMemoryStore().set("a", "1")
import turnlog.testing
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "pip install pytest, or '.[testing]' in a clone" in done.stderr.splitlines()[-1]
