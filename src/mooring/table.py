"""One table, rendered as markdown, as HTML and as plain text that fits a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, zip_longest
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
        """Return the table as a terminal of that width shows it, without colour."""
        lines = ("".join(text for text, _ in line).rstrip() for line in FittedText(self).lines(width))
        return "\n".join(lines).strip("\n") + "\n"

    def to_markdown(self) -> str:
        """Return a GitHub table, columns padded so that the source is readable too; notes follow as a paragraph."""
        lines = [[column.full for column in self.columns]]
        lines += [[cell.replace("|", "\\|") for cell in row] for row in self.rows]
        widths = [max(3, *map(len, cells)) for cells in zip(*lines, strict=True)]
        columns = list(zip(self.columns, widths, strict=True))
        rule = [":" + "-" * (width - 1) if column.left else "-" * (width - 1) + ":" for column, width in columns]
        padded = [
            [
                cell.ljust(width) if column.left else cell.rjust(width)
                for cell, (column, width) in zip(cells, columns, strict=True)
            ]
            for cells in (lines[0], rule, *lines[1:])
        ]
        text = "".join(f"| {' | '.join(cells)} |\n" for cells in padded)
        return text + ("\n" + " ".join(self.notes) + "\n" if self.notes else "")

    def to_html(self) -> str:
        """Return a table that scrolls sideways inside its own box, and its notes as paragraphs below it."""
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

    If the columns do not fit side by side, words wrap; if they still do not, the columns are printed in bands, each of
    which begins with the columns that tell the rows apart; if not even one column fits beside those, each row is a
    block of lines. Numbers are never wrapped.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.headings = [f"{column.group}\n{column.title}".lstrip("\n") for column in table.columns]
        self.natural, self.least = [], []
        for column, texts in zip(table.columns, zip(self.headings, *table.rows, strict=True), strict=True):
            self.natural.append(max(cell_width(line) for text in texts for line in text.split("\n")))
            # A column of numbers wraps in its heading only.
            words = [word for text in (texts if column.left else texts[:1]) for word in text.split()]
            if not column.left:
                words += [line for text in texts[1:] for line in text.split("\n")]
            longest = max(map(cell_width, words), default=0)
            short = min(self.natural[-1], SENTENCES if column.wide else WORDS) if column.left else 0
            self.least.append(max(longest, short))

    def lines(self, width: int) -> Iterator[list[Span]]:
        """Yield the lines of the table, each in spans that a terminal may colour by their role."""
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
        everything, rows = list(range(len(self.headings))), self.table.rows
        if self._fits(everything, width):
            return [everything]
        # The first columns that tell all rows apart, or one if none do.
        counts = (count for count in everything[1:] if len({row[:count] for row in rows}) == len(rows))
        keys = everything[: next(counts, 1)]
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

        def row(texts: Sequence[str], roles: Sequence[str], *, bottom: bool = False) -> Iterator[list[Span]]:
            cells = [wrap(texts[column], space) for column, space in zip(columns, widths, strict=True)]
            height = max(map(len, cells), default=0)
            cells = [[*[""] * (height - len(lines) if bottom else 0), *lines] for lines in cells]
            for pieces in zip_longest(*cells, fillvalue=""):
                line: list[Span] = []
                for text, column, space in zip(pieces, columns, widths, strict=True):
                    gap = " " * (space - cell_width(text))
                    padded = text + gap if self.table.columns[column].left else gap + text
                    line += [("  ", ""), (padded, roles[column]), (" ", "")]
                yield line

        yield []
        yield from row(self.headings, ["heading"] * len(self.headings), bottom=True)
        yield [(" " + "─" * (_total(widths) - EDGE - 1), "")]
        for place, texts in enumerate(self.table.rows):
            yield from row(texts, self._roles(place))
        yield []

    def _blocks(self, width: int) -> Iterator[list[Span]]:
        """Yield each row under its first cell, one line or more per further cell."""
        names = [heading.replace("\n", " ") for heading in self.headings]
        space = min(max(map(cell_width, names[1:]), default=0), width // 3)
        for place, row in enumerate(self.table.rows):
            roles = self._roles(place)
            yield []
            yield from ([(text, roles[0])] for text in wrap(f"{names[0]}: {row[0]}", width))
            for name, cell, role in zip(names[1:], row[1:], roles[1:], strict=True):
                lines = zip_longest(wrap(name, space), wrap(cell, width - space - 2), fillvalue="")
                for left, right in lines:
                    yield [(left + " " * (space - cell_width(left) + 2), ""), (right, role)]
        yield []

    def _roles(self, row: int) -> list[str]:
        return ["alarm" if (row, column) in self.table.alarms else "cell" for column in range(len(self.headings))]

    def _fits(self, columns: Sequence[int], width: int) -> bool:
        return _total([self.least[column] for column in columns]) <= width


def wrap(text: str, width: int) -> list[str]:
    """Return lines no wider than `width`, broken between words, or inside a word that is wider than a whole line.

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
    """Return the places of a terminal that a text takes: letters of East Asia take two, combining marks none.

    >>> cell_width("é"), cell_width("e\\u0301"), cell_width("字")
    (1, 1, 2)
    """
    if text.isascii():
        return len(text)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + PADDING * len(widths) + EDGE


def _html(tag: str, text: str, column: Column, extra: str, alarm: bool = False) -> str:
    classes = [name for name, wanted in (("left", column.left), ("wide", column.wide), ("alarm", alarm)) if wanted]
    named = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{tag}{extra}{named}>{escape(text)}</{tag}>"
