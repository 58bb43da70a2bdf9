"""A store with `scan`."""

from __future__ import annotations

from typing import Any

import pytest

from ..eventlog import Write
from .rules import needs, rules

__all__ = ["ScanRules"]


@rules
class ScanRules:
    """Entries can be read in part, by prefix and in pages."""

    @needs("scan")
    def test_scan_without_arguments_is_list(self, store: Any) -> None:
        """The empty prefix means every key."""
        for key in ("b", "", "a/x", "a"):
            store.set(key, key)
        assert list(store.scan()) == store.list()

    @needs("scan")
    @pytest.mark.parametrize(
        ("prefix", "found"),
        [
            pytest.param("john/", ["john/a", "john/b"], id="one agent"),
            pytest.param("john", ["john/a", "john_doe/a", "johnny/a", "john/b"], id="literally"),
            pytest.param("john_", ["john_doe/a"], id="underscore is no wildcard"),
            pytest.param("JOHN", ["JOHN/a"], id="case"),
            pytest.param("%", ["%/a"], id="percent is no wildcard"),
            pytest.param("*", [], id="star is no wildcard"),
            pytest.param("\ud83d", ["\ud83d/a"], id="half an emoji"),
            pytest.param("john/a", ["john/a"], id="whole key"),
            pytest.param("john/a/", [], id="longer"),
        ],
    )
    def test_scan_by_prefix(self, store: Any, prefix: str, found: list[str]) -> None:
        """A prefix matches exactly what it spells."""
        keys = ("john/a", "john_doe/a", "JOHN/a", "johnny/a", "%/a", "\ud83d/a", "x/john", "john/b")
        for key in keys:
            store.set(key, "v")
        assert [entry.key for entry in store.scan(prefix)] == found

    @needs("scan")
    def test_scan_in_pages(self, store: Any) -> None:
        """Pages behind the last key seen give every entry once, in order."""
        for number in range(23):
            store.set(f"{'ab'[number % 2]}/{number}", "v")
        for prefix, step in (("", 7), ("a/", 4), ("b/", 1)):
            seen: list[str] = []
            while page := [
                entry.key for entry in store.scan(prefix, after=seen[-1] if seen else None, limit=step)
            ]:
                assert len(page) <= step
                seen += page
            assert seen == [entry.key for entry in store.list() if entry.key.startswith(prefix)]

    @needs("scan")
    def test_scan_pages_stay_in_step_with_writes(self, store: Any) -> None:
        """What exists throughout is neither skipped nor repeated while others come, change and go."""
        for number in range(40):
            store.set(f"k{number}", "v")
        seen = [entry.key for entry in store.scan(limit=10)]
        store.delete("k3")
        store.delete("k30")
        store.set("k5", "changed")
        store.set("k20", "changed")
        store.set("k3", "again")
        while page := [entry.key for entry in store.scan(after=seen[-1], limit=10)]:
            seen += page
        assert seen == [f"k{number}" for number in range(40) if number != 30] + ["k3"]

    @needs("scan", "execute")
    def test_scan_of_many_entries(self, store: Any) -> None:
        """However many there are, each is given once, in order."""
        keys = [f"{'ab'[number % 2]}/{number}" for number in range(1100)]
        store.execute([Write(key, "v") for key in keys])
        assert [entry.key for entry in store.scan()] == keys
        assert [entry.key for entry in store.scan("b/")] == keys[1::2]
        assert [entry.key for entry in store.scan(after=keys[700])] == keys[701:]

    @needs("scan")
    def test_scan_limits(self, store: Any) -> None:
        """A limit of 0 gives nothing, one beyond the end gives all there is."""
        store.set("a", "1")
        store.set("b", "2")
        assert list(store.scan(limit=0)) == []
        assert [entry.key for entry in store.scan(limit=1)] == ["a"]
        assert [entry.key for entry in store.scan(limit=99)] == ["a", "b"]
        assert [entry.key for entry in store.scan("b", after="a", limit=1)] == ["b"]
        assert list(store.scan(after="b")) == []

    @needs("scan")
    @pytest.mark.parametrize("wrong", [{"prefix": 1}, {"after": 1}, {"limit": True}, {"limit": "1"}])
    def test_scan_refuses_wrong_types(self, store: Any, wrong: dict[str, Any]) -> None:
        """A wrong type is a TypeError at the call, also on an empty store."""
        with pytest.raises(TypeError):
            store.scan(**wrong)

    @needs("scan")
    def test_scan_refuses_what_cannot_be(self, store: Any) -> None:
        """A negative limit, and a key to begin behind that is not there, are errors."""
        store.set("a", "1")
        with pytest.raises(ValueError, match="negative"):
            store.scan(limit=-1)
        with pytest.raises(LookupError, match="gone"):
            store.scan(after="gone")
