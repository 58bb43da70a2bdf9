"""Where the command line prints to: tables on a terminal, plain aligned text in a pipe, or JSON lines.

Everything that is printed passes through `Screen`, which escapes what could act on a terminal and writes what
the encoding of the output lacks as an escape. Rich is imported only where a terminal is written to.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TextIO

from .cli_text import cut, escaped, iso_time, json_line, short_time, width_of

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Cell", "Column", "Row", "Screen", "Sheet"]

PAGE = 200
"""Rows of a table that are laid out together; a longer one grows its columns as it goes."""

_GAP = 2
_PIPED_WIDTH = 60  # a cell wider than this pushes its own row out of line, not every row
_CUT_WIDTH = 8  # no column is cut below this


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: what it says, unescaped.
        style: colours for a terminal, as rich names them.
        focus: index of the character to keep in sight where the cell must be cut.
    """

    text: str
    style: str = ""
    focus: int = 0


Row = Sequence[str | Cell | None]
"""A cell for each column; None where there is nothing, which is shown as `-`."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its heading.
        right: aligned to the right.
        cut: may be cut, visibly, where a terminal is too narrow.
        spare: left out where a terminal is so narrow that cutting is not enough.
        style: colours for a terminal.
    """

    name: str
    right: bool = False
    cut: bool = False
    spare: bool = False
    style: str = ""


class Screen:
    """Standard output, for people or, with `as_json`, for programs."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._stream: TextIO = sys.stdout
        self._encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        self._unicode = self._encoding.lower().replace("-", "").startswith("utf8")
        self.terminal = not as_json and self._stream.isatty()
        self.mark = self._encodable("…", "...")
        self._today = datetime.now(UTC)
        self._console: Console | None = None

    def record(self, fields: Mapping[str, object]) -> None:
        """Print one JSON object as a line."""
        self._stream.write(json_line(fields, ascii_only=not self._unicode) + "\n")

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence for people; line breaks in it are escaped."""
        self.write(self.shown(text), style)

    def title(self, text: str) -> None:
        """Print a line that only a terminal needs: what is shown, or why nothing is."""
        if self.terminal:
            self.say(text, "dim")

    def note(self, text: str) -> None:
        """Print a line beside the result, to standard error."""
        sys.stderr.write(f"turnlog: {escaped(text)}\n")

    def table(self, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        """Print rows, a page at a time. Without any, nothing is printed."""
        sheet = Sheet(self, columns)
        rest = iter(rows)
        while page := list(islice(rest, PAGE)):
            sheet.add(page)

    def time(self, when: datetime | None) -> str | None:
        """A time, always UTC: short on a terminal, else exact to the millisecond and fit for `--at`."""
        if when is None:
            return None
        return short_time(when, self._today) if self.terminal else iso_time(when)

    def shown(self, text: str, *, prose: bool = False) -> str:
        """`text` escaped, and spelled with what the output's encoding has."""
        text = escaped(text, prose=prose)
        if self._unicode or text.isascii():
            return text
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def write(self, text: str, style: str = "") -> None:
        """Print text that went through `shown`, and a line end."""
        if self.terminal and style:
            from rich.text import Text

            self.console.print(Text(text, style), soft_wrap=True)
        else:
            self._stream.write(text + "\n")

    def write_bytes(self, data: bytes) -> None:
        """Print bytes as they are, without a line end."""
        self._stream.flush()
        self._stream.buffer.write(data)

    def flush(self) -> None:
        """Hand everything printed to whoever reads it."""
        self._stream.flush()

    def check_reader(self) -> None:
        """Notice that whoever read a pipe is gone, though nothing is being written.

        Raises:
            BrokenPipeError: so it is.
        """
        poller = select.poll()
        poller.register(self._stream.fileno(), 0)
        if any(event & select.POLLERR for _, event in poller.poll(0)):
            raise BrokenPipeError

    @property
    def console(self) -> Console:
        """The terminal."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        return self._console

    def _encodable(self, text: str, otherwise: str) -> str:
        try:
            text.encode(self._encoding)
        except UnicodeEncodeError:
            return otherwise
        return text


class Sheet:
    """A table that may arrive in parts, as a log does that is being followed."""

    def __init__(self, screen: Screen, columns: Sequence[Column]) -> None:
        self._screen = screen
        self._columns = columns
        self._natural = [len(column.name) for column in columns]
        self._left_out: frozenset[int] = frozenset()
        self.rows = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Print more rows, at least one; the first time below the headings."""
        cells = [
            [self._shown(column, cell) for column, cell in zip(self._columns, row, strict=True)]
            for row in rows
        ]
        limit = sys.maxsize if self._screen.terminal else _PIPED_WIDTH
        for place, column in enumerate(zip(*cells, strict=True)):
            widths = [width for cell in column if (width := width_of(cell.text)) <= limit]
            self._natural[place] = max(self._natural[place], *widths, 0)
        (self._print_rich if self._screen.terminal else self._print_plain)(cells)
        self.rows += len(rows)

    def _shown(self, column: Column, cell: str | Cell | None) -> Cell:
        text, style, focus = cell if isinstance(cell, Cell) else (cell or "", column.style, 0)
        if cell is None:
            return Cell("-")
        if self._screen.terminal and column.cut:
            # No terminal shows more of it, and escaping a long value whole would take its time.
            text = text[: focus + 2000]
        shown = self._screen.shown(text)
        return Cell(shown, style, len(self._screen.shown(text[:focus])) if focus else 0)

    def _print_plain(self, cells: list[list[Cell]]) -> None:
        rows = [[cell.text for cell in row] for row in cells]
        if not self.rows:
            rows.insert(0, [column.name for column in self._columns])
        last = len(self._columns) - 1
        for row in rows:
            padded = [
                text if place == last and not column.right else _padded(text, self._natural[place], column)
                for place, (text, column) in enumerate(zip(row, self._columns, strict=True))
            ]
            self._screen.write((" " * _GAP).join(padded))

    def _print_rich(self, cells: list[list[Cell]]) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        console = self._screen.console
        if not self.rows:
            self._leave_out(console.width)
        shown = [place for place in range(len(self._columns)) if place not in self._left_out]
        gaps = _GAP * (len(shown) - 1)
        widths = self._fitted(shown, console.width - gaps)
        # Wider than the terminal if it must be: the terminal's own line breaks lose nothing.
        table = Table(
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            show_edge=False,
            show_header=not self.rows,
            width=sum(widths) + gaps,
        )
        for place, width in zip(shown, widths, strict=True):
            column = self._columns[place]
            table.add_column(Text(column.name), width=width, justify="right" if column.right else "left")
        for row in cells:
            fitted = [
                (
                    cut(row[place].text, width, focus=row[place].focus, mark=self._screen.mark),
                    row[place].style,
                )
                for place, width in zip(shown, widths, strict=True)
            ]
            table.add_row(*(Text(text, style, no_wrap=True, overflow="crop") for text, style in fitted))
        console.print(table, crop=False)

    def _leave_out(self, width: int) -> None:
        """Decide which columns a terminal `width` wide has no room for, however much is cut."""
        shown = list(range(len(self._columns)))
        for place in [place for place in shown if self._columns[place].spare]:
            if sum(self._capped(shown, _CUT_WIDTH)) + _GAP * (len(shown) - 1) > width:
                shown.remove(place)
                self._left_out |= {place}

    def _fitted(self, shown: list[int], room: int) -> list[int]:
        """The widths of the columns in `room`; the widest of those that may be cut give way first."""
        level = max(self._natural)
        while level > _CUT_WIDTH and sum(self._capped(shown, level)) > room:
            level -= 1
        return self._capped(shown, level)

    def _capped(self, shown: list[int], level: int) -> list[int]:
        return [
            min(self._natural[place], level) if self._columns[place].cut else self._natural[place]
            for place in shown
        ]


def _padded(text: str, width: int, column: Column) -> str:
    blank = " " * max(0, width - width_of(text))
    return blank + text if column.right else text + blank
