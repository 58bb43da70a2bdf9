"""What every store promises, as one suite: a test class takes it over and gives the fixtures.

`store` is a new, empty store; `clock` is the clock it reads, which stands still until a test moves it;
`small_store` is one with the limits `SMALL`. A test says with `needs` which abilities it is about, and is run
for the stores that have them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from turnlog.eventlog import (
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
from turnlog.memory import MemoryEntry, acting_as

SMALL = Limits(key=16, value=32, metadata=48)

Test = TypeVar("Test", bound=Callable[..., None])


def needs(*methods: str) -> Callable[[Test], Test]:
    """Run the test only for stores that have these methods."""

    def mark(test: Test) -> Test:
        test.needs = methods  # type: ignore[attr-defined]
        return test

    return mark


class Clock:
    """Milliseconds since 1970; stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_123

    def __call__(self) -> int:
        return self.now


TEXTS = [
    pytest.param("", id="empty"),
    pytest.param(" ", id="space"),
    pytest.param("/", id="slash"),
    pytest.param("a//b", id="double slash"),
    pytest.param("../etc", id="looks like a path"),
    pytest.param("\x00", id="NUL"),
    pytest.param("a\x00b", id="NUL inside"),
    pytest.param("\ud83d", id="half an emoji"),
    pytest.param("\udc88", id="other half"),
    pytest.param("\ud83d\ude00", id="both halves apart"),
    pytest.param("😀", id="astral"),
    pytest.param("é", id="NFC"),
    pytest.param("e\u0301", id="NFD"),
    pytest.param("%", id="percent"),
    pytest.param("a_b", id="underscore"),
    pytest.param("[a]*?", id="glob"),
    pytest.param('x" OR 1=1 --', id="SQL"),
    pytest.param("a'b", id="quote"),
    pytest.param("\\", id="backslash"),
    pytest.param("007", id="number with zeros"),
    pytest.param("1e3", id="number"),
    pytest.param("null", id="null"),
    pytest.param("__proto__", id="proto"),
    pytest.param("\ufeffx\r\n\u2028", id="BOM and line breaks"),
    pytest.param("x" * 4096, id="4 KiB"),
]

WRONG_TEXTS = [
    pytest.param(None, id="None"),
    pytest.param(1, id="int"),
    pytest.param(b"a", id="bytes"),
    pytest.param(["a"], id="list"),
]

WRONG_METADATA = [
    pytest.param("agent", id="str"),
    pytest.param([("a", 1)], id="pairs"),
    pytest.param({1: "a"}, id="int key"),
    pytest.param({"a": {1}}, id="set"),
    pytest.param({"a": b"x"}, id="bytes"),
    pytest.param({"a": datetime(2026, 1, 1)}, id="datetime"),
    pytest.param({"a": float("nan")}, id="NaN"),
    pytest.param({"a": [1.0, float("inf")]}, id="infinity inside"),
]


class StoreContract:
    """The tests; see the module."""

    # -- the five verbs

    def test_an_empty_store_holds_nothing(self, store: Any) -> None:
        """A missing key is None, not an error, and an empty store lists nothing."""
        assert store.get("a") is None
        assert store.list() == []

    def test_what_was_set_is_got(self, store: Any, clock: Clock) -> None:
        """An entry carries key, value, metadata and creation time, and no expiry."""
        store.set("a", "1", {"agent": "writer", "n": [1, {"x": None}]})
        entry = store.get("a")
        assert type(entry) is MemoryEntry
        assert (entry.key, entry.value, entry.expires_at_turn) == ("a", "1", None)
        assert entry.metadata == {"agent": "writer", "n": [1, {"x": None}]}
        assert entry.created_at == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=clock.now)

    def test_list_gives_what_get_gives(self, store: Any) -> None:
        """Both ways to an entry agree in every attribute."""
        store.set("a", "1", {"x": 1})
        store.set("b", "2")
        assert store.list() == [store.get("a"), store.get("b")]

    def test_created_at_is_aware_utc_in_whole_milliseconds(self, store: Any) -> None:
        """Creation times can be compared with any other aware time."""
        store.set("a", "1")
        created_at = store.get("a").created_at
        assert created_at.utcoffset() == timedelta(0)
        assert created_at.microsecond == 123_000

    def test_set_replaces_value_and_metadata(self, store: Any) -> None:
        """Metadata is never merged; leaving it out drops it."""
        store.set("a", "1", {"x": 1, "y": 2})
        store.set("a", "2", {"x": 3})
        assert (store.get("a").value, store.get("a").metadata) == ("2", {"x": 3})
        store.set("a", "3")
        assert (store.get("a").value, store.get("a").metadata) == ("3", None)

    def test_absent_and_empty_metadata_differ(self, store: Any) -> None:
        """Absent metadata is None, an empty dict stays one."""
        store.set("none", "1")
        store.set("empty", "1", {})
        assert store.get("none").metadata is None
        assert store.get("empty").metadata == {}

    def test_overwriting_keeps_created_at_and_place(self, store: Any, clock: Clock) -> None:
        """The time of first writing and the order of listing survive a new value."""
        store.set("a", "1")
        store.set("b", "1")
        before = store.get("a").created_at
        clock.now += 5
        store.set("a", "2")
        assert store.get("a").created_at == before
        assert [entry.key for entry in store.list()] == ["a", "b"]

    def test_deleting_and_setting_begins_a_new_life_at_the_end(self, store: Any, clock: Clock) -> None:
        """A key that was deleted comes back as a new one."""
        store.set("a", "1")
        store.set("b", "1")
        before = store.get("a").created_at
        store.delete("a")
        clock.now += 5
        store.set("a", "2")
        assert store.get("a").created_at == before + timedelta(milliseconds=5)
        assert [entry.key for entry in store.list()] == ["b", "a"]

    def test_order_does_not_come_from_the_clock(self, store: Any, clock: Clock) -> None:
        """Entries of one instant, or of a clock set back, are listed in the order they were born."""
        for number in range(20):
            clock.now -= number % 3
            store.set(f"k{19 - number}", "v")
        assert [entry.key for entry in store.list()] == [f"k{19 - number}" for number in range(20)]

    def test_delete_removes_one_key(self, store: Any) -> None:
        """The other keys stay."""
        store.set("a", "1")
        store.set("ab", "2")
        store.delete("a")
        assert store.get("a") is None
        assert [entry.key for entry in store.list()] == ["ab"]

    def test_deleting_a_missing_key_is_silent(self, store: Any) -> None:
        """Nothing is raised and nothing changes, twice over."""
        store.set("a", "1")
        store.delete("missing")
        store.delete("missing")
        assert [entry.key for entry in store.list()] == ["a"]

    def test_clear_removes_everything(self, store: Any) -> None:
        """Reserved keys go too; the store stays usable, and clearing an empty one is silent."""
        store.set("a", "1")
        store.set("__oma_checkpoint__/latest", "2")
        store.clear()
        store.clear()
        assert store.list() == []
        store.set("a", "3")
        assert store.get("a").value == "3"

    # -- any text, exactly

    @pytest.mark.parametrize("text", TEXTS)
    def test_any_text_is_kept_exactly(self, store: Any, text: str) -> None:
        """Key, value and metadata come back code point by code point."""
        metadata = {} if text == "\ud83d\ude00" else {"note": text}
        store.set(text, text, metadata)
        entry = store.get(text)
        assert (entry.key, entry.value, entry.metadata) == (text, text, metadata)
        assert [(listed.key, listed.value) for listed in store.list()] == [(text, text)]

    def test_texts_that_look_alike_are_different_keys(self, store: Any) -> None:
        """Keys are compared exactly: no folding, trimming, normalising or wildcards."""
        keys = [text.values[0] for text in TEXTS] + ["A_B", "aXb", " a_b", "a_b ", "É", "0007", "7"]
        for number, key in enumerate(keys):
            store.set(key, str(number))
        assert [entry.key for entry in store.list()] == keys
        assert [store.get(key).value for key in keys] == [str(number) for number in range(len(keys))]

    def test_a_large_value_is_kept(self, store: Any) -> None:
        """A megabyte goes in and comes out."""
        text = "0123456789abcdé\n" * 65_536
        store.set("a", text)
        assert store.get("a").value == text

    # -- refused at the door

    @pytest.mark.parametrize("wrong", WRONG_TEXTS)
    def test_keys_and_values_must_be_text(self, store: Any, wrong: Any) -> None:
        """Anything but a str is a TypeError, and nothing is written."""
        for attempt in (
            lambda: store.get(wrong),
            lambda: store.set(wrong, "v"),
            lambda: store.set("k", wrong),
            lambda: store.delete(wrong),
        ):
            with pytest.raises(TypeError):
                attempt()
        assert store.list() == []

    @pytest.mark.parametrize("wrong", WRONG_METADATA)
    def test_metadata_must_be_a_dict_of_json(self, store: Any, wrong: Any) -> None:
        """Metadata that would not come back equal is a TypeError, and the old entry stays."""
        store.set("k", "old", {"x": 1})
        with pytest.raises(TypeError):
            store.set("k", "new", wrong)
        assert (store.get("k").value, store.get("k").metadata) == ("old", {"x": 1})

    def test_circular_metadata_is_refused(self, store: Any) -> None:
        """A dict that contains itself has no JSON form."""
        loop: dict[str, Any] = {}
        loop["self"] = loop
        with pytest.raises(TypeError, match="circular"):
            store.set("k", "v", loop)
        assert store.get("k") is None

    @pytest.mark.parametrize(
        ("key", "value", "metadata"),
        [
            pytest.param("é" * 9, "", None, id="key"),
            pytest.param("k", "é" * 17, None, id="value"),
            pytest.param("k", "v", {"note": "x" * 40}, id="metadata"),
        ],
    )
    def test_limits_are_bytes_of_utf8(
        self, small_store: Any, key: str, value: str, metadata: dict[str, Any] | None
    ) -> None:
        """What is larger than a limit is a ValueError that names size and limit; nothing is written."""
        small_store.set("é" * 8, "é" * 16, {"note": "x" * 35})
        with pytest.raises(ValueError, match="limit is"):
            small_store.set(key, value, metadata)
        assert len(small_store.list()) == 1

    def test_a_key_may_have_4_kib(self, store: Any) -> None:
        """4,096 bytes of UTF-8 are a key, 4,097 are not."""
        key = "é" * 2048
        store.set(key, "v")
        assert store.get(key).value == "v"
        with pytest.raises(ValueError, match=r"4,097.*4,096"):
            store.set(key + "x", "v")

    # -- nothing is shared with the caller

    def test_entries_are_frozen(self, store: Any) -> None:
        """An entry cannot be changed, so nobody can think that this would change the store."""
        store.set("a", "1")
        entry = store.get("a")
        for name in ("key", "value", "metadata", "created_at", "expires_at_turn", "version"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(entry, name, None)

    def test_metadata_is_copied_on_the_way_in(self, store: Any) -> None:
        """Changing the dict that was passed, at any depth, does not change the entry."""
        metadata: dict[str, Any] = {"list": [1], "dict": {"x": 1}}
        store.set("a", "1", metadata)
        metadata["list"].append(2)
        metadata["dict"]["x"] = 2
        metadata["new"] = True
        assert store.get("a").metadata == {"list": [1], "dict": {"x": 1}}

    def test_metadata_is_fresh_on_the_way_out(self, store: Any) -> None:
        """Changing what was got or listed does not change the store."""
        store.set("a", "1", {"list": [1]})
        store.get("a").metadata["list"].append(2)
        store.list()[0].metadata["list"].append(3)
        store.list().clear()
        assert store.get("a").metadata == {"list": [1]}

    def test_an_entry_keeps_what_it_held(self, store: Any) -> None:
        """What was got before a write still shows the old value."""
        store.set("a", "1", {"x": 1})
        before = store.get("a")
        store.set("a", "2", {"x": 2})
        assert (before.value, before.metadata) == ("1", {"x": 1})

    # -- compare and set

    @needs("compare_and_set")
    @pytest.mark.parametrize(
        ("held", "expected", "won"),
        [
            pytest.param("1", "1", True, id="equal"),
            pytest.param("1", "2", False, id="another"),
            pytest.param("1", "1 ", False, id="only begins so"),
            pytest.param("1", None, False, id="exists"),
            pytest.param("", "", True, id="empty"),
            pytest.param("", None, False, id="empty is not missing"),
            pytest.param(None, "", False, id="missing is not empty"),
            pytest.param(None, None, True, id="missing"),
            pytest.param("é", "e\u0301", False, id="NFC is not NFD"),
            pytest.param("1", "1.0", False, id="no numbers"),
            pytest.param("a", "A", False, id="case"),
            pytest.param("\ud83d", "\ud83d", True, id="half an emoji"),
            pytest.param("a\x00b", "a\x00c", False, id="behind a NUL"),
        ],
    )
    def test_compare_and_set_compares_the_whole_text(
        self, store: Any, held: str | None, expected: str | None, won: bool
    ) -> None:
        """It writes when the key holds exactly what was expected, and else changes nothing."""
        if held is not None:
            store.set("k", held, {"x": 1})
        before = store.get("k")
        assert store.compare_and_set("k", expected, "new", {"x": 2}) is won
        if won:
            assert (store.get("k").value, store.get("k").metadata) == ("new", {"x": 2})
        else:
            assert store.get("k") == before

    @needs("compare_and_set")
    def test_compare_and_set_to_the_same_value_succeeds(self, store: Any) -> None:
        """Equal is equal, even where nothing would change; the metadata is replaced."""
        store.set("k", "1", {"x": 1})
        assert store.compare_and_set("k", "1", "1") is True
        assert store.get("k").metadata is None

    @needs("compare_and_set")
    def test_compare_and_set_keeps_life_and_place(self, store: Any, clock: Clock) -> None:
        """It overwrites like `set` does."""
        store.set("a", "1")
        store.set("b", "1")
        before = store.get("a").created_at
        clock.now += 5
        assert store.compare_and_set("a", "1", "2")
        assert store.get("a").created_at == before
        assert [entry.key for entry in store.list()] == ["a", "b"]

    @needs("compare_and_set")
    def test_compare_and_set_after_delete(self, store: Any) -> None:
        """A deleted key is a missing key, for a value as for None."""
        store.set("k", "1")
        store.delete("k")
        assert store.compare_and_set("k", "1", "2") is False
        assert store.compare_and_set("k", None, "2") is True
        assert store.compare_and_set("k", None, "3") is False
        assert store.get("k").value == "2"

    @needs("compare_and_set")
    @pytest.mark.parametrize("wrong", WRONG_TEXTS[1:])
    def test_compare_and_set_takes_text_only(self, store: Any, wrong: Any) -> None:
        """A wrong type is a TypeError, not a refused write."""
        store.set("k", "1")
        for arguments in ((wrong, "1", "2"), ("k", wrong, "2"), ("k", "1", wrong)):
            with pytest.raises(TypeError):
                store.compare_and_set(*arguments)
        with pytest.raises(TypeError):
            store.compare_and_set("k", "1", "2", {"x": {1}})
        assert store.get("k").value == "1"

    @needs("compare_and_set")
    def test_compare_and_set_is_atomic_between_threads(self, store: Any) -> None:
        """Of many increments by several threads with retry, none is lost."""
        store.set("n", "0")

        def count() -> None:
            for _ in range(25):
                while True:
                    held = store.get("n").value
                    if store.compare_and_set("n", held, str(int(held) + 1)):
                        break

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.get("n").value == "100"

    # -- expiry

    @needs("set_with_expiry")
    @pytest.mark.parametrize("turn", [0, 1, 2**53 - 1])
    def test_an_expiry_is_kept_and_never_judged(self, store: Any, turn: int) -> None:
        """The store hands the number back and shows the entry whatever the turn is."""
        store.set_with_expiry("k", "v", turn, {"x": 1})
        entry = store.get("k")
        assert (entry.value, entry.expires_at_turn, entry.metadata) == ("v", turn, {"x": 1})
        assert store.list() == [entry]

    @needs("set_with_expiry")
    def test_set_clears_the_expiry(self, store: Any, clock: Clock) -> None:
        """A plain write makes an entry permanent, and keeps its life; the reverse holds too."""
        store.set_with_expiry("k", "1", 3)
        created_at = store.get("k").created_at
        clock.now += 5
        store.set("k", "2")
        assert store.get("k").expires_at_turn is None
        store.set_with_expiry("k", "3", 4)
        assert (store.get("k").expires_at_turn, store.get("k").created_at) == (4, created_at)

    @needs("set_with_expiry")
    def test_set_with_expiry_drops_metadata_that_is_left_out(self, store: Any) -> None:
        """It replaces the whole entry."""
        store.set("k", "1", {"x": 1})
        store.set_with_expiry("k", "2", 3)
        assert store.get("k").metadata is None

    @needs("set_with_expiry", "compare_and_set")
    def test_expiry_neither_hides_nor_blocks_a_compare_and_set(self, store: Any) -> None:
        """It sees an expired value, and success clears the expiry."""
        store.set_with_expiry("k", "1", 0)
        assert store.compare_and_set("k", None, "2") is False
        assert store.get("k").expires_at_turn == 0
        assert store.compare_and_set("k", "1", "2") is True
        assert store.get("k").expires_at_turn is None

    @needs("set_with_expiry")
    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            pytest.param(-1, ValueError, id="negative"),
            pytest.param(2**53, ValueError, id="too high"),
            pytest.param(True, TypeError, id="bool"),
            pytest.param(1.0, TypeError, id="float"),
            pytest.param("1", TypeError, id="str"),
            pytest.param(None, TypeError, id="None"),
        ],
    )
    def test_an_expiry_is_an_integer_within_bounds(
        self, store: Any, wrong: Any, error: type[Exception]
    ) -> None:
        """Anything but an int from 0 to 2**53 - 1 is refused, and nothing is written."""
        with pytest.raises(error):
            store.set_with_expiry("k", "v", wrong)
        assert store.get("k") is None

    # -- scanning

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

    # -- several commands as one

    @needs("execute")
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

    @needs("execute")
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
        torn: list[Any] = []

        def write(name: str) -> None:
            for number in range(20):
                store.execute([Write("a", f"{name}{number}"), Write("b", f"{name}{number}")])

        def look() -> None:
            for _ in range(50):
                values = {entry.value for entry in store.list()}
                if len(values) != 1:
                    torn.append(values)

        threads = [threading.Thread(target=write, args=(name,)) for name in "xy"]
        threads.append(threading.Thread(target=look))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert torn == []

    # -- versions

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

    @needs("execute")
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

    # -- turns

    @needs("get_turn", "advance_turn", "set_turn")
    def test_the_turn_counts_up_and_can_be_set(self, store: Any) -> None:
        """It begins at 0 and goes both ways."""
        assert store.get_turn() == 0
        assert store.advance_turn() == 1
        assert store.advance_turn() == 2
        store.set_turn(9)
        assert store.get_turn() == 9
        store.set_turn(0)
        assert store.get_turn() == 0
        assert store.list() == []

    @needs("get_turn", "advance_turn", "set_turn")
    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            pytest.param(-1, ValueError, id="negative"),
            pytest.param(2**53, ValueError, id="too high"),
            pytest.param(True, TypeError, id="bool"),
            pytest.param(1.0, TypeError, id="float"),
        ],
    )
    def test_a_turn_is_an_integer_within_bounds(self, store: Any, wrong: Any, error: type[Exception]) -> None:
        """A turn that cannot be is refused, and so is counting beyond the last one."""
        with pytest.raises(error):
            store.set_turn(wrong)
        store.set_turn(2**53 - 1)
        with pytest.raises(ValueError, match="2\\*\\*53"):
            store.advance_turn()
        assert store.get_turn() == 2**53 - 1


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

    def outcome(self, recorded: Any) -> None:
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
