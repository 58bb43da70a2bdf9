"""A store with `execute`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ..eventlog import (
    AdvanceTurn,
    Clear,
    CompareAndSet,
    Conflict,
    Delete,
    EntryRestored,
    EntryWritten,
    KeyReused,
    Limits,
    Once,
    SetTurn,
    Write,
)
from ..memory import acting_as
from .rules import needs, rules

__all__ = ["ExecuteRules"]


@rules
class ExecuteRules:
    """Several commands are carried out as one, or none of them."""

    @needs("execute", "compare_and_set")
    def test_execute_gives_one_outcome_per_command(self, store: Any) -> None:
        """Each command sees what those before it did."""
        outcomes = store.execute(
            [
                Write("a", "1"),
                CompareAndSet("a", "1", "2"),
                CompareAndSet("a", "1", "3"),
                Delete("a"),
                Delete("a"),
                Write("b", "1"),
                Write("c", "1"),
                AdvanceTurn(),
                SetTurn(7),
                Clear(),
            ]
        )
        assert outcomes[1:5] == [True, False, True, False]
        assert outcomes[7:] == [1, 7, 2]
        assert 0 < outcomes[0] < outcomes[5] < outcomes[6]
        assert store.list() == []
        assert store.execute([]) == []

    @needs("execute")
    @pytest.mark.parametrize(
        "failing",
        [
            pytest.param(lambda: Write("b", "2", expected_version=5), id="conflict"),
            pytest.param(lambda: Write("b" * 5000, "2"), id="too large"),
            pytest.param(lambda: _Deciding(ValueError("no")), id="an error while deciding"),
        ],
    )
    def test_execute_is_all_or_nothing(self, store: Any, failing: Callable[[], Any]) -> None:
        """One command that fails leaves entries and turn as they were."""
        store.set("a", "1", {"x": 1})
        store.set("b", "1")
        before = store.list()
        with pytest.raises(ValueError, match=r"no|limit|expected"):
            store.execute(
                [Write("a", "2"), Write("new", "1"), Delete("b"), AdvanceTurn(), failing(), Write("z", "1")]
            )
        assert store.list() == before
        assert store.get("new") is None
        assert store.execute([AdvanceTurn()]) == [1]

    @needs("execute")
    def test_a_command_with_a_key_is_carried_out_once(self, store: Any) -> None:
        """The same again is the first outcome; another under its key, or a part of a list, is a conflict."""
        asked = [Once("first", Write("a", "1")), Once("second", Delete("absent"))]
        outcomes = store.execute(asked)
        assert outcomes == [1, False]
        version = store.set("a", "2")
        assert store.execute(asked) == outcomes
        assert store.execute([Once("second", Delete("absent"))]) == [False]
        for other in (
            [Once("first", Write("a", "2"))],
            [Once("first", Write("a", "1", {}))],
            [asked[0], Write("b", "1")],
            [AdvanceTurn(), asked[1]],
        ):
            with pytest.raises(KeyReused):
                store.execute(other)
        with pytest.raises(ValueError, match="twice"):
            store.execute([asked[0], asked[0]])
        assert [(entry.key, entry.value, entry.version) for entry in store.list()] == [("a", "2", version)]

    @needs("execute")
    def test_a_key_of_a_command_that_raised_is_free(self, store: Any) -> None:
        """It left nothing to be found again."""
        with pytest.raises(Conflict):
            store.execute([Once("key", Write("a", "1", expected_version=7))])
        store.execute([Once("key", Write("a", "2"))])
        assert store.get("a").value == "2"

    @needs("execute", "compare_and_set")
    def test_a_refused_compare_and_set_lets_the_others_stand(self, store: Any) -> None:
        """It is an outcome, not a failure."""
        assert store.execute([Write("a", "1"), CompareAndSet("b", "x", "1"), Write("c", "1")])[1] is False
        assert [entry.key for entry in store.list()] == ["a", "c"]

    @needs("execute")
    def test_commands_of_ones_own_can_be_executed(self, store: Any) -> None:
        """A command sees turn, entries and contents, and what it returns is what happens."""
        store.set("a", "1", {"x": 1})
        store.set("b", "2")
        store.execute([SetTurn(4)])
        command = _Deciding()
        store.execute([Write("c", "3"), command])
        assert command.seen == [(4, "a", "1", '{"x":1}'), (4, "b", "2", None), (4, "c", "3", None)]
        assert command.missing is None
        assert [entry.key for entry in store.list()] == ["b", "c", "a"]
        assert store.get("a").value == "anew"

    @needs("execute")
    def test_commands_see_entries_in_birth_order(self, store: Any) -> None:
        """A new life puts a key at the end, for the next batch and for the next command of the same one."""
        store.execute([Write("a", "1"), Write("b", "1")])
        same_batch, next_batch = _Deciding(), _Deciding()
        store.execute([_Deciding(), same_batch])
        store.execute([next_batch])
        for command in (same_batch, next_batch):
            assert [key for _, key, _, _ in command.seen] == ["b", "a"]

    @needs("execute")
    def test_an_entry_can_be_pointed_to_again(self, store: Any) -> None:
        """A command may put a living entry back with another expiry, without its text."""
        store.set("a", "1", {"x": 1})
        before = store.get("a")
        store.execute([_Expire("a", 9)])
        after = store.get("a")
        assert (after.value, after.metadata, after.created_at) == ("1", {"x": 1}, before.created_at)
        assert after.expires_at_turn == 9
        assert after.version > before.version

    @needs("execute")
    def test_agents_and_activities_are_names(self, store: Any) -> None:
        """A wrong name is refused before anything is written."""
        with pytest.raises(TypeError):
            store.execute([Write("a", "1")], agent=1)
        with pytest.raises(TypeError):
            store.execute([Write("a", "1")], activity=b"x")
        for nobody in ({"agent": ""}, {"activity": ""}):
            with pytest.raises(ValueError, match="must not be empty"):
                store.execute([Write("a", "1")], **nobody)
        with pytest.raises(ValueError, match="limit"), acting_as("x" * 5000):
            store.set("a", "1")
        assert store.list() == []

    @needs("execute")
    def test_batches_of_several_threads_do_not_mix(self, store: Any) -> None:
        """Two keys that are always written together are never seen apart."""
        store.execute([Write("a", "0"), Write("b", "0")])

        def write(name: str) -> None:
            for number in range(20):
                store.execute([Write("a", f"{name}{number}"), Write("b", f"{name}{number}")])

        def look() -> None:
            for _ in range(50):
                assert len({entry.value for entry in store.list()}) == 1

        with ThreadPoolExecutor(3) as threads:
            for done in [threads.submit(write, "x"), threads.submit(write, "y"), threads.submit(look)]:
                done.result()


class _Deciding:
    """A command that notes what it sees, then gives key `a` a new life; or raises."""

    agent = None

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.seen: list[Any] = []
        self.missing: Any = "not asked"

    def check(self, limits: Limits) -> None:
        pass

    def decide(self, view: Any) -> list[Any]:
        if self.error is not None:
            raise self.error
        for entry in view.entries():
            content = view.content(entry)
            self.seen.append((view.turn, entry.key, content.value, content.metadata))
        self.missing = view.entry("missing")
        return [EntryWritten("a", "anew", birth=None)]

    def outcome(self, _: Any) -> None:
        return None


class _Expire(_Deciding):
    """A command that points to the living entry of a key again, with an expiry."""

    def __init__(self, key: str, turn: int) -> None:
        super().__init__()
        self.key = key
        self.turn = turn

    def decide(self, view: Any) -> list[Any]:
        entry = view.entry(self.key)
        return [EntryRestored(entry.key, entry.content, entry.birth, entry.created_at, self.turn)]
