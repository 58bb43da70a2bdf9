"""A condition on a write is accepted and not checked, or a lost race is retried for ever."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from turnlog import Conflict, EventSourcedStore, Write


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        pytest.param(3, Conflict, id="one too many"),
        pytest.param(1, Conflict, id="one too few"),
        pytest.param(0, Conflict, id="must not exist"),
        pytest.param(-1, Conflict, id="-1"),
        pytest.param(2**63, Conflict, id="2**63"),
        pytest.param(True, TypeError, id="True"),
        pytest.param("2", TypeError, id="text"),
        pytest.param(2.0, TypeError, id="a float"),
    ],
)
def test_anything_but_the_version_is_refused(
    store: EventSourcedStore, expected: Any, error: type[Exception]
) -> None:
    """A conflict says what was expected and found; what is no version is an error of the caller's."""
    assert [store.set("k", "1"), store.set("k", "2")] == [1, 2]
    with pytest.raises(error) as caught:
        store.execute([Write("other", "x"), Write("k", "3", expected_version=expected)])
    assert isinstance(caught.value, Conflict) == (error is Conflict)
    if isinstance(caught.value, Conflict):
        assert (caught.value.expected, caught.value.found, caught.value.key) == (expected, 2, "k")
    assert [(entry.key, entry.value) for entry in store.list()] == [("k", "2")]
    assert store.execute([Write("k", "3", expected_version=2)])[0] > 2


def test_fifty_contenders_decide_on_what_they_see(store: EventSourcedStore) -> None:
    """Each reads anew before every attempt; no decision is applied to a state it was not made on."""
    version = store.set("list", "")
    failed: list[BaseException] = []
    refused: list[tuple[int, int]] = []

    def contend(name: str) -> None:
        try:
            for _ in range(200):
                entry = store.get("list")
                assert entry is not None
                try:
                    store.execute([Write("list", f"{entry.value}{name} ", expected_version=entry.version)])
                    return
                except Conflict as conflict:
                    refused.append((conflict.expected, conflict.found))
            raise AssertionError(f"{name} never got through")
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    names = [f"c{number}" for number in range(50)]
    threads = [threading.Thread(target=contend, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    entry = store.get("list")
    assert entry is not None
    assert all(found > expected >= version for expected, found in refused)
    assert sorted(entry.value.split()) == sorted(names)
