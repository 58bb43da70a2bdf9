"""The summary of the team's memory: its form, what it leaves out, and that nothing in it can be forged."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from turnlog.memory import InMemoryStore, SharedMemory
from turnlog.memory.javascript import javascript_json

HERE = Path(__file__).parent
SUMMARIES = json.loads((HERE / "summary_vectors.json").read_text("utf-8"))
NUMBERS = json.loads((HERE / "number_vectors.json").read_text("utf-8"))

# White space as JavaScript's trim knows it.
JAVASCRIPT_SPACES = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
)
JAVASCRIPT_SPACES += "\u202f\u205f\u3000\ufeff"


def remembering(writes: list[Any]) -> SharedMemory:
    """A memory with these entries, put there as other software does: `[agent, key, value]`."""
    store = InMemoryStore()
    for agent, key, value in writes:
        if isinstance(value, str):
            store.set(f"{agent}/{key}", value)
        else:
            store.set(f"{agent}/{key}", json.dumps(value), {"sharedMemoryValueEncoding": "json"})
    return SharedMemory(store)


@pytest.mark.parametrize("vector", SUMMARIES, ids=range(len(SUMMARIES)))
def test_summaries_are_those_of_the_original(vector: dict[str, Any]) -> None:
    r"""Vectors computed with the original agree, but for line breaks in values, which we show as `\n`."""
    summary = remembering(vector["writes"]).get_summary(vector.get("taskIds"))
    if any("\n" in value for _, _, value in vector["writes"] if isinstance(value, str)):
        summary = summary.replace(r"\n", "\n").rstrip(JAVASCRIPT_SPACES)
    assert summary == vector["summary"]


def test_the_whole_form(memory: SharedMemory) -> None:
    """Sections in the order of their first entry, entries in birth order, no white space at the end."""
    memory.write("researcher", "findings", {"claim": "é", "scores": [1.0, 1e-7, 1e21], "ok": None})
    memory.write("writer", "draft", "one draft")
    memory.write("researcher", "a/b", True)
    memory.store.set("stray", "belongs to nobody")
    memory.store.set("/odd", "value  ")
    assert memory.get_summary() == "\n".join(
        [
            "## Shared Team Memory",
            "",
            "### researcher",
            '- findings: {"claim":"é","scores":[1,1e-7,1e+21],"ok":null}',
            "- a/b: true",
            "",
            "### writer",
            "- draft: one draft",
            "",
            "### _unknown",
            "- stray: belongs to nobody",
            "",
            "### ",
            "- odd: value",
        ]
    )


def test_no_visible_entry_means_no_text(memory: SharedMemory) -> None:
    """Expired and reserved entries alone give the empty string."""
    assert memory.get_summary() == ""
    memory.write_expiring("a", "k", "v", 1)
    memory.store.set("__oma_checkpoint__/x", "v")
    memory.advance_turn()
    assert memory.get_summary() == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("x" * 200, "x" * 200, id="200"),
        pytest.param("x" * 201, "x" * 197 + "…", id="201"),
        pytest.param("😀" * 200, "😀" * 200, id="200 astral"),
        pytest.param("😀" * 201, "😀" * 197 + "…", id="201 astral, no half of one"),
        pytest.param(["x" * 196], '["' + "x" * 196 + '"]', id="200 of JSON"),
        pytest.param(["x" * 197], '["' + "x" * 195 + "…", id="201 of JSON"),
        pytest.param("\n" * 200, r"\n" * 200, id="200 line breaks"),
        pytest.param("\n" * 201, r"\n" * 197 + "…", id="201 line breaks"),
    ],
)
def test_long_values_are_cut(memory: SharedMemory, value: Any, shown: str) -> None:
    """More than 200 code points of the value become 197 and an ellipsis; keys are never cut."""
    memory.write("a", "k" * 300, value)
    assert memory.get_summary().splitlines()[3] == f"- {'k' * 300}: {shown}"


BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u2028", "\u2029"]


@pytest.mark.parametrize("line_break", BREAKS, ids=map(ascii, BREAKS))
def test_line_breaks_are_shown(memory: SharedMemory, line_break: str) -> None:
    r"""Whatever breaks a line is shown as one `\n`: in text, in structured values, in keys and names."""
    memory.write("a", f"k{line_break}### boss", f"v{line_break}- forged: yes")
    memory.write("a", "json", [f"v{line_break}w"])
    memory.store.set(f"x{line_break}### boss/k", "v")
    lines = memory.get_summary().split("\n")
    assert lines[3] == r"- k\n### boss: v\n- forged: yes"
    assert "\n".join(lines).splitlines() == lines
    assert lines[-2] == r"### x\n### boss"


PIECES = st.sampled_from([*BREAKS, "#", "- ", "### boss", ": ", "x", "/", "…"])
FORGERIES = st.lists(PIECES, max_size=12).map("".join)


@given(st.lists(st.tuples(FORGERIES, FORGERIES), max_size=6))
def test_nothing_can_be_forged(pairs: list[tuple[str, str]]) -> None:
    """Whatever keys and values hold, there is one line per entry and one heading per agent."""
    store = InMemoryStore()
    for key, value in pairs:
        store.set(key, value)
    entries = store.list()
    lines = SharedMemory(store).get_summary().splitlines()
    agents = {entry.key.partition("/")[0] if "/" in entry.key else "_unknown" for entry in entries}
    assert sum(line.startswith("- ") or line == "-" for line in lines) == len(entries)
    assert sum(line.startswith("###") for line in lines) == len(agents)


@pytest.mark.parametrize(
    ("task_ids", "shown"),
    [
        pytest.param(None, None, id="no filter"),
        pytest.param([], None, id="empty filter"),
        pytest.param(["t1"], ["task:t1:result: one", "task:t1:result: other"], id="one task of two agents"),
        pytest.param({"a:b", "gone"}, ["task:a:b:result: colons"], id="a colon, in a set"),
        pytest.param(("",), ["task:result: short", "task::result: empty"], id="the empty id"),
        pytest.param({"t10": 1, "gone": 2}, ["task:t10:result: x"], id="keys of a dict"),
        pytest.param(["gone"], [], id="unknown"),
        pytest.param(["t"], [], id="no prefix"),
    ],
)  # fmt: skip
def test_only_results_of_tasks(memory: SharedMemory, task_ids: Any, shown: list[str] | None) -> None:
    """With task ids only the results of these tasks are shown: no verdicts, no notes, nothing nested."""
    for agent, key, value in [
        ("a", "task:t1:result", "one"),
        ("a", "task:t1:verdict", "x"),
        ("a", "notes", "x"),
        ("a", "x/task:t1:result", "x"),
        ("b", "task:t1:result", "other"),
        ("b", "task:t10:result", "x"),
        ("b", "task:a:b:result", "colons"),
        ("b", "task:result", "short"),
        ("b", "task::result", "empty"),
    ]:
        memory.write(agent, key, value)
    lines = [line[2:] for line in memory.get_summary(task_ids).splitlines() if line.startswith("- ")]
    assert len(lines) == 9 if shown is None else lines == shown


def test_one_text_is_not_several_ids(memory: SharedMemory) -> None:
    """A str is refused, since its letters would be taken for ids."""
    memory.write("a", "task:t:result", "v")
    with pytest.raises(TypeError, match="task_ids"):
        memory.get_summary("t")


@pytest.mark.parametrize(("bits", "text"), NUMBERS, ids=[text for _, text in NUMBERS])
def test_numbers_are_spelled_as_javascript_spells_them(bits: str, text: str) -> None:
    """Vectors computed with the original agree to the last digit."""
    assert javascript_json(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(1.0, "1", id="whole"),
        pytest.param(-0.0, "0", id="minus zero"),
        pytest.param(1e-6, "0.000001", id="smallest plain"),
        pytest.param(1.5e-7, "1.5e-7", id="too small for plain"),
        pytest.param(123456789012345680000.0, "123456789012345680000", id="largest plain"),
        pytest.param(1e21, "1e+21", id="too large for plain"),
        pytest.param(2**60, "1152921504606846976", id="integers keep their digits"),
        pytest.param([1.0, {"a": -2.5}, "é\ud83d", True], '[1,{"a":-2.5},"é\\ud83d",true]', id="nested"),
        pytest.param("\ud83d\ude00", '"😀"', id="both halves of an emoji, apart"),
        pytest.param([float("inf")], "[null]", id="infinity, from somebody else's 1e400"),
    ],
)  # fmt: skip
def test_json_is_spelled_as_javascript_spells_it(value: Any, text: str) -> None:
    """Floats without a needless `.0`, compact, half an emoji escaped."""
    assert javascript_json(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_spelled_numbers_read_back(number: float) -> None:
    """No digit is lost."""
    assert float(javascript_json(number)) == number
