"""New files that get their names once they are whole."""

from __future__ import annotations

from pathlib import Path

from turnlog.eventlog.files import draft_for

from ..interruption import Interruption


def test_an_interrupt_at_any_line_leaves_no_draft(tmp_path: Path) -> None:
    """Wherever Ctrl-C comes between making a draft and removing it, the folder is empty afterwards."""
    target = tmp_path / "copy.db"

    def draft() -> None:
        with draft_for(target) as made:
            made.write_bytes(b"x")
            made.with_name(f"{made.name}-journal").touch()

    at, interrupted = 1, 0
    while True:
        interruption = Interruption(at)
        try:
            interruption.during(draft)
        except KeyboardInterrupt:
            interrupted += 1
        assert list(tmp_path.iterdir()) == [], f"interrupted at line {at}"
        if interruption.lines < at:
            break
        at += 1
    assert interrupted > 20
