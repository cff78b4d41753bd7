"""Tables for a terminal of any width: no digit and no name is cut; what does not fit side by side goes below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

# A column of words is not squeezed below this many letters, one of sentences not below that many.
WORDS, SENTENCES = 14, 24
# What a column takes beside its text, and the table beside its columns.
PADDING, EDGE = 3, 1
ALARM = "bold red"


@dataclass(frozen=True)
class Heading:
    """A column's heading, whose lines stay apart; `left` is for words, which wrap, and `wide` for sentences."""

    text: str
    left: bool = False
    wide: bool = False


class FittedTable:
    """A table that fits the console it is printed on.

    Where the columns do not fit side by side, words wrap; where they still do not, the columns are printed in bands,
    one below the other, each beginning with the columns that tell the rows apart; where not even one column fits beside
    those, each row is a block of lines. Numbers are never wrapped or cut.

    Args:
        title: Printed above.
        headings: One per column.
        rows: Cells as finished text.
        notes: Printed below.
        alarms: The (row, column) places of cells that stand out in red.
    """

    def __init__(
        self,
        title: str,
        headings: Sequence[Heading],
        rows: Sequence[Sequence[str]],
        notes: Sequence[str] = (),
        alarms: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.title = title
        self.headings = list(headings)
        self.rows = [list(row) for row in rows]
        self.notes = list(notes)
        self.alarms = alarms
        self.natural = [max(map(_longest_line, self._column(i)), default=0) for i in range(len(self.headings))]
        self.least = [self._least(i) for i in range(len(self.headings))]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        yield Text(self.title, style="table.title")
        bands = self.bands(width)
        if bands is None:
            yield from self._blocks(width)
        else:
            for band in bands:
                yield self._table(band, width)
        for note in self.notes:
            yield Text(note, style="table.caption")

    def bands(self, width: int) -> list[list[int]] | None:
        """Return the columns of each band, or None if some column does not fit beside those that name the rows."""
        everything = list(range(len(self.headings)))
        if self._fits(everything, width):
            return [everything]
        keys = everything[: self._num_keys()]
        bands: list[list[int]] = []
        for column in everything[len(keys) :]:
            if not self._fits([*keys, column], width):
                return None
            if not bands or not self._fits([*bands[-1], column], width):
                bands.append(list(keys))
            bands[-1].append(column)
        return bands or None

    def widths(self, columns: Sequence[int], width: int) -> list[int]:
        """Return the width of each column: the least it needs, and a share of what is left over."""
        widths = [self.least[column] for column in columns]
        spare = width - _total(widths)
        while spare > 0:
            wanting = [place for place, column in enumerate(columns) if widths[place] < self.natural[column]]
            if not wanting:
                break
            for place in wanting[:spare]:
                widths[place] += 1
            spare -= len(wanting[:spare])
        return widths

    def _table(self, columns: Sequence[int], width: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD)
        for column, space in zip(columns, self.widths(columns, width), strict=True):
            heading = self.headings[column]
            justify = "left" if heading.left else "right"
            table.add_column(Text(heading.text), justify=justify, width=space, overflow="fold")  # type: ignore[arg-type]
        for place in range(len(self.rows)):
            table.add_row(*(self._cell(place, column) for column in columns))
        return table

    def _blocks(self, width: int) -> RenderResult:
        """Each row under its first cell, one line or more per further cell."""
        names = [heading.text.replace("\n", " ") for heading in self.headings]
        space = min(max(map(cell_len, names[1:]), default=0), width // 3)
        for place in range(len(self.rows)):
            yield Text()
            yield Text(f"{names[0]}: ").append_text(self._cell(place, 0))
            block = Table.grid(padding=(0, 2, 0, 0))
            block.add_column(width=space, overflow="fold")
            block.add_column(width=width - space - 2, overflow="fold")
            for column in range(1, len(names)):
                block.add_row(Text(names[column]), self._cell(place, column))
            yield block
        yield Text()

    def _cell(self, row: int, column: int) -> Text:
        return Text(self.rows[row][column], style=ALARM if (row, column) in self.alarms else "")

    def _column(self, column: int) -> list[str]:
        return [self.headings[column].text, *(row[column] for row in self.rows)]

    def _least(self, column: int) -> int:
        heading = self.headings[column]
        if not heading.left:
            cells = [_longest_line(row[column]) for row in self.rows]
            return max([_longest_word(heading.text), *cells])
        words = max(map(_longest_word, self._column(column)))
        return max(words, min(self.natural[column], SENTENCES if heading.wide else WORDS))

    def _fits(self, columns: Sequence[int], width: int) -> bool:
        return _total([self.least[column] for column in columns]) <= width

    def _num_keys(self) -> int:
        """How many of the first columns tell all rows apart; 1 where no number of them does."""
        for count in range(1, len(self.headings)):
            if len({tuple(row[:count]) for row in self.rows}) == len(self.rows):
                return count
        return 1


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + PADDING * len(widths) + EDGE


def _longest_line(text: str) -> int:
    return max(map(cell_len, text.split("\n")))


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)
