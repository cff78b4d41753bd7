"""One table, rendered as markdown, as HTML and as plain text that fits a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from unicodedata import combining, east_asian_width

# Shown where there is no value.
ABSENT = "–"
# A column of words is not squeezed below this many letters, one of sentences not below that many.
WORDS, SENTENCES = 14, 24
# What a column takes beside its text, and the table beside its columns.
PADDING, EDGE = 3, 1

# A piece of a line with its role in the table: title, heading, cell, alarm, note, or nothing for rules and space.
Span = tuple[str, str]


@dataclass(frozen=True)
class Column:
    """A column; `group` is a heading shared with its neighbours, `left` is for words and `wide` for sentences."""

    title: str
    group: str = ""
    left: bool = False
    wide: bool = False

    @property
    def full(self) -> str:
        """Title and group on one line."""
        return f"{self.title} ({self.group})" if self.group else self.title

    @property
    def stacked(self) -> str:
        """The group above the title."""
        return f"{self.group}\n{self.title}" if self.group else self.title


@dataclass(frozen=True)
class Table:
    """Rows of finished text under named columns, with notes that say how to read them.

    >>> table = Table("sizes", "Sizes", (Column("Module", left=True), Column("Slots")), (("a", "12"), ("b", "6")))
    >>> print(table.to_text(40), end="")
    Sizes
    <BLANKLINE>
      Module   Slots
     ────────────────
      a           12
      b            6

    Args:
        name: what the table is called in links and files.
        title: printed above.
        columns: one per cell of a row.
        rows: cells as finished text.
        notes: printed below.
        alarms: the (row, column) places of cells that report a failure; they stand out in colour.
        headline: its result in one sentence, for the head of a page.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    alarms: frozenset[tuple[int, int]] = frozenset()
    headline: str = ""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"{self.name}: a row of another length"

    def to_text(self, width: int = 110) -> str:
        """What a terminal of that width shows, without colour."""
        lines = ("".join(text for text, _ in line).rstrip() for line in FittedText(self).lines(width))
        return "\n".join(lines).strip("\n") + "\n"

    def to_markdown(self) -> str:
        """A GitHub table, columns padded so that the source is readable too; notes follow as a paragraph."""
        head = [column.full for column in self.columns]
        body = [[cell.replace("|", "\\|") for cell in row] for row in self.rows]
        widths = [max(3, *(len(row[i]) for row in [head, *body])) for i in range(len(head))]

        def line(cells: list[str]) -> str:
            padded = [
                cell.ljust(width) if column.left else cell.rjust(width)
                for cell, width, column in zip(cells, widths, self.columns, strict=True)
            ]
            return "| " + " | ".join(padded) + " |"

        rule = [
            ":" + "-" * (width - 1) if column.left else "-" * (width - 1) + ":"
            for width, column in zip(widths, self.columns, strict=True)
        ]
        text = "\n".join([line(head), line(rule), *map(line, body)])
        return text + ("\n\n" + " ".join(self.notes) if self.notes else "") + "\n"

    def to_html(self) -> str:
        """A table that scrolls sideways inside its own box, notes as paragraphs below it."""
        lines = [f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.title)}"><table>']
        lines.append(f"<caption>{escape(self.title)}</caption><thead>")
        if any(column.group for column in self.columns):
            cells = []
            for heading, members in groupby(self.columns, key=lambda column: column.group):
                span = len(list(members))
                cells.append(f'<th colspan="{span}"{" class=group" if heading else ""}>{escape(heading)}</th>')
            lines.append("<tr>" + "".join(cells) + "</tr>")
        lines.append("<tr>" + "".join(_html("th", column.title, column, ' scope="col"') for column in self.columns))
        lines.append("</tr></thead><tbody>")
        for place, row in enumerate(self.rows):
            cells = [
                _html("td" if i else "th", cell, column, "" if i else ' scope="row"', (place, i) in self.alarms)
                for i, (cell, column) in enumerate(zip(row, self.columns, strict=True))
            ]
            lines.append("<tr>" + "".join(cells) + "</tr>")
        lines.append("</tbody></table></div>")
        lines += [f'<p class="note">{escape(note)}</p>' for note in self.notes]
        return "\n".join(lines)


class FittedText:
    """A table fitted to a width: no digit and no name is cut.

    Where the columns do not fit side by side, words wrap; where they still do not, the columns are printed in bands,
    one below the other, each beginning with the columns that tell the rows apart; where not even one column fits beside
    those, each row is a block of lines. Numbers are never wrapped.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.headings = [column.stacked for column in table.columns]
        columns = range(len(self.headings))
        self.natural = [max(map(_longest_line, self._column(i)), default=0) for i in columns]
        self.least = [self._least(i) for i in columns]

    def lines(self, width: int) -> Iterator[list[Span]]:
        """The lines of the table, each in spans that a terminal may colour by their role."""
        yield from ([(text, "title")] for text in wrap(self.table.title, width))
        bands = self.bands(width)
        if bands is None:
            yield from self._blocks(width)
        for band in bands or ():
            yield from self._band(band, width)
        for note in self.table.notes:
            yield from ([(text, "note")] for text in wrap(note, width))

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

    def _band(self, columns: Sequence[int], width: int) -> Iterator[list[Span]]:
        widths = self.widths(columns, width)
        yield []
        head = [wrap(self.headings[column], space) for column, space in zip(columns, widths, strict=True)]
        height = max(map(len, head), default=0)
        # Headings stand at the bottom of their row, cells at its top.
        head = [[*[""] * (height - len(lines)), *lines] for lines in head]
        yield from self._side_by_side(head, columns, widths, ["heading"] * len(columns))
        yield [(" " + "─" * (_total(widths) - EDGE - 1), "")]
        for place, row in enumerate(self.table.rows):
            cells = [wrap(row[column], space) for column, space in zip(columns, widths, strict=True)]
            yield from self._side_by_side(cells, columns, widths, [self._role(place, column) for column in columns])
        yield []

    def _side_by_side(
        self, cells: Sequence[list[str]], columns: Sequence[int], widths: Sequence[int], roles: Sequence[str]
    ) -> Iterator[list[Span]]:
        for number in range(max(map(len, cells), default=0)):
            line: list[Span] = []
            for lines, column, width, role in zip(cells, columns, widths, roles, strict=True):
                text = lines[number] if number < len(lines) else ""
                space = " " * (width - cell_width(text))
                left = self.table.columns[column].left
                line += [("  ", ""), (text + space if left else space + text, role), (" ", "")]
            yield line

    def _blocks(self, width: int) -> Iterator[list[Span]]:
        """Each row under its first cell, one line or more per further cell."""
        names = [heading.replace("\n", " ") for heading in self.headings]
        space = min(max(map(cell_width, names[1:]), default=0), width // 3)
        for place, row in enumerate(self.table.rows):
            yield []
            for text in wrap(f"{names[0]}: {row[0]}", width):
                yield [(text, self._role(place, 0))]
            for column in range(1, len(names)):
                name, cell = wrap(names[column], space), wrap(row[column], width - space - 2)
                for number in range(max(len(name), len(cell))):
                    left, right = (lines[number] if number < len(lines) else "" for lines in (name, cell))
                    yield [(left + " " * (space - cell_width(left) + 2), ""), (right, self._role(place, column))]
        yield []

    def _role(self, row: int, column: int) -> str:
        return "alarm" if (row, column) in self.table.alarms else "cell"

    def _column(self, column: int) -> list[str]:
        return [self.headings[column], *(row[column] for row in self.table.rows)]

    def _least(self, column: int) -> int:
        kind = self.table.columns[column]
        if not kind.left:
            cells = [_longest_line(row[column]) for row in self.table.rows]
            return max([_longest_word(self.headings[column]), *cells])
        words = max(map(_longest_word, self._column(column)))
        return max(words, min(self.natural[column], SENTENCES if kind.wide else WORDS))

    def _fits(self, columns: Sequence[int], width: int) -> bool:
        return _total([self.least[column] for column in columns]) <= width

    def _num_keys(self) -> int:
        """How many of the first columns tell all rows apart; 1 where no number of them does."""
        for count in range(1, len(self.headings)):
            if len({row[:count] for row in self.table.rows}) == len(self.table.rows):
                return count
        return 1


def wrap(text: str, width: int) -> list[str]:
    """Lines no wider than asked, broken between words, or inside a word that is wider than a whole line.

    >>> wrap("two words\\nand more", 5)
    ['two', 'words', 'and', 'more']
    >>> wrap("abcdefgh", 3)
    ['abc', 'def', 'gh']
    """
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if cell_width(longer) <= width:
                line = longer
                continue
            if line:
                lines.append(line)
            line = ""
            for letter in word:
                if line and cell_width(line + letter) > width:
                    lines.append(line)
                    line = ""
                line += letter
        lines.append(line)
    return lines


def cell_width(text: str) -> int:
    """How many places of a terminal a text takes: letters of East Asia take two, combining marks none.

    >>> cell_width("é"), cell_width("e\\u0301"), cell_width("字")
    (1, 1, 2)
    """
    if text.isascii():
        return len(text)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + PADDING * len(widths) + EDGE


def _longest_line(text: str) -> int:
    return max(map(cell_width, text.split("\n")))


def _longest_word(text: str) -> int:
    return max(map(cell_width, text.split()), default=0)


def _html(tag: str, text: str, column: Column, extra: str, alarm: bool = False) -> str:
    classes = [name for name, wanted in (("left", column.left), ("wide", column.wide), ("alarm", alarm)) if wanted]
    named = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{tag}{extra}{named}>{escape(text)}</{tag}>"
