"""Any text, exactly."""

from __future__ import annotations

import random
from typing import Any, ClassVar

import pytest

from .rules import rules

# Indexes have limits that text which can be packed stays below.
_CHANCE = random.Random(7)  # noqa: S311 - the same text each time
_NOISE = "".join(chr(_CHANCE.randrange(33, 127)) for _ in range(4096))

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
    pytest.param(_NOISE, id="4 KiB of noise"),
]

__all__ = ["TextRules"]


@rules
class TextRules:
    """Keys, values and metadata are text that nobody interprets."""

    refuses: ClassVar[tuple[str, ...]] = ()

    @pytest.mark.parametrize("text", TEXTS)
    def test_any_text_is_kept_exactly(self, store: Any, text: str) -> None:
        """Key, value and metadata come back code point by code point; what cannot be kept so is refused."""
        if text in self.refuses:
            for key, value in ((text, "v"), ("k", text)):
                with pytest.raises(ValueError):
                    store.set(key, value)
            assert store.list() == []
            return
        metadata = {} if text == "\ud83d\ude00" else {"note": text}  # which has no JSON form
        store.set(text, text, metadata)
        entry = store.get(text)
        assert (entry.key, entry.value, entry.metadata) == (text, text, metadata)
        assert [(listed.key, listed.value) for listed in store.list()] == [(text, text)]

    def test_texts_that_look_alike_are_different_keys(self, store: Any) -> None:
        """Keys are compared exactly: no folding, trimming, normalising or wildcards."""
        texts = [text.values[0] for text in TEXTS if text.values[0] not in self.refuses]
        keys = [*texts, "A_B", "aXb", " a_b", "a_b ", "É", "0007", "7"]
        for number, key in enumerate(keys):
            store.set(key, str(number))
        assert [entry.key for entry in store.list()] == keys
        assert [store.get(key).value for key in keys] == [str(number) for number in range(len(keys))]

    def test_a_large_value_is_kept(self, store: Any) -> None:
        """A megabyte goes in and comes out."""
        text = "0123456789abcdé\n" * 65_536
        store.set("a", text)
        assert store.get("a").value == text
