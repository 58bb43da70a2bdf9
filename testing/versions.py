"""A store with `execute` has versions, and conditions on them."""

from __future__ import annotations

from typing import Any

import pytest

from ..eventlog import CompareAndSet, Conflict, Delete, Write
from .rules import needs, rules

__all__ = ["VersionRules"]


@rules
class VersionRules:
    """A version tells every state of a key from every other."""

    @needs("execute")
    def test_versions_rise_with_every_change(self, store: Any) -> None:
        """A new version is higher than every one before; other keys keep theirs."""
        first = store.execute([Write("a", "1")])[0]
        second = store.execute([Write("b", "1")])[0]
        third = store.execute([Write("a", "1")])[0]
        assert 0 < first < second < third
        assert (store.get("a").version, store.get("b").version) == (third, second)
        store.delete("a")
        fourth = store.execute([Write("a", "1")])[0]
        assert fourth > third + 1

    @needs("execute")
    def test_an_expected_version_that_holds(self, store: Any) -> None:
        """The version read, or 0 for a missing key, lets the write through."""
        version = store.execute([Write("a", "1", expected_version=0)])[0]
        version = store.execute([Write("a", "2", expected_version=version)])[0]
        assert (store.get("a").value, store.get("a").version) == ("2", version)

    @needs("execute")
    def test_an_expected_version_that_does_not_hold(self, store: Any) -> None:
        """A Conflict carries both versions, and the entry stays."""
        old = store.execute([Write("a", "1")])[0]
        found = store.execute([Write("a", "2")])[0]
        for expected in (old, found + 1, 0, -1, 2**63):
            with pytest.raises(Conflict) as caught:
                store.execute([Write("a", "3", expected_version=expected)])
            assert (caught.value.key, caught.value.expected, caught.value.found) == ("a", expected, found)
        with pytest.raises(Conflict) as caught:
            store.execute([Write("missing", "1", expected_version=old)])
        assert (caught.value.expected, caught.value.found) == (old, 0)
        assert (store.get("a").value, store.get("a").version) == ("2", found)

    @needs("execute")
    def test_a_deleted_key_has_no_version(self, store: Any) -> None:
        """After a delete only 0 can be expected."""
        version = store.execute([Write("a", "1")])[0]
        store.delete("a")
        with pytest.raises(Conflict):
            store.execute([Write("a", "2", expected_version=version)])
        store.execute([Write("a", "2", expected_version=0)])
        assert store.get("a").value == "2"

    @needs("execute", "compare_and_set")
    def test_a_refused_version_takes_a_place_in_the_order(self, store: Any) -> None:
        """A refusal is a fact of its own, so versions after it are higher by one more."""
        before = store.execute([Write("a", "1")])[0]
        with pytest.raises(Conflict):
            store.execute([Write("b", "1"), Write("a", "2", expected_version=before + 1)])
        assert store.execute([Write("c", "1")]) == [before + 2]
        assert store.execute([CompareAndSet("a", "x", "2"), Write("d", "1")]) == [False, before + 4]

    @needs("execute")
    @pytest.mark.parametrize(
        "change", [pytest.param(Write("a", "2"), id="write"), pytest.param(Delete("a"), id="delete")]
    )
    def test_a_version_condition_on_a_key_the_list_changes(self, store: Any, change: Any) -> None:
        """It can never hold, so it is a ValueError that is no Conflict, and nothing is written."""
        version = store.execute([Write("a", "1")])[0]
        with pytest.raises(ValueError, match="earlier in the same list") as caught:
            store.execute([change, Write("a", "3", expected_version=version)])
        assert not isinstance(caught.value, Conflict)
        assert store.get("a").value == "1"
        assert store.execute([Write("a", "4")]) == [version + 1]

    @needs("execute")
    @pytest.mark.parametrize("wrong", [True, "1", 1.0])
    def test_an_expected_version_is_an_integer(self, wrong: Any, store: Any) -> None:
        """A bool is not one."""
        with pytest.raises(TypeError):
            store.execute([Write("a", "1", expected_version=wrong)])
        assert store.list() == []
