"""One table, three renderings: a rich table for the terminal, markdown for README and docs, HTML for the page."""

from __future__ import annotations

import io
from dataclasses import dataclass
from html import escape
from itertools import groupby

from rich.console import Console

from mooring.suite.report.stats import Estimate
from mooring.suite.terminal import FittedTable, Heading

ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """A column; `group` is a heading shared with its neighbours, `left` is for words and `wide` for sentences."""

    title: str
    group: str = ""
    left: bool = False
    wide: bool = False

    @property
    def full(self) -> str:
        return f"{self.title} ({self.group})" if self.group else self.title


@dataclass(frozen=True)
class Table:
    """Rows of finished text under named columns, with notes that say how to read them.

    `alarms` are the (row, column) places of cells that report a failure; they stand out in colour.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    alarms: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"{self.name}: a row of another length"

    def to_rich(self) -> FittedTable:
        """What a rich console prints, fitted to its width."""
        headings = [
            Heading(f"{column.group}\n{column.title}" if column.group else column.title, column.left, column.wide)
            for column in self.columns
        ]
        return FittedTable(self.title, headings, self.rows, self.notes, self.alarms)

    def to_text(self, width: int = 110) -> str:
        """What the terminal shows, without colour."""
        console = Console(width=width, record=True, file=io.StringIO(), color_system=None)
        console.print(self.to_rich())
        lines = (line.rstrip() for line in console.export_text().splitlines())
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
        lines = ['<div class="scroll"><table>']
        lines.append(f"<caption>{escape(self.title)}</caption><thead>")
        if any(column.group for column in self.columns):
            cells = []
            for heading, members in groupby(self.columns, key=lambda column: column.group):
                span = len(list(members))
                cells.append(f'<th colspan="{span}"{" class=group" if heading else ""}>{escape(heading)}</th>')
            lines.append("<tr>" + "".join(cells) + "</tr>")
        lines.append("<tr>" + "".join(_cell("th", column.title, column, ' scope="col"') for column in self.columns))
        lines.append("</tr></thead><tbody>")
        for place, row in enumerate(self.rows):
            cells = [
                _cell(
                    "th" if i == 0 else "td", cell, column, ' scope="row"' if i == 0 else "", (place, i) in self.alarms
                )
                for i, (cell, column) in enumerate(zip(row, self.columns, strict=True))
            ]
            lines.append("<tr>" + "".join(cells) + "</tr>")
        lines.append("</tbody></table></div>")
        lines += [f'<p class="note">{escape(note)}</p>' for note in self.notes]
        return "\n".join(lines)


def show(value: Estimate | None, scale: float = 1.0, digits: int = 3, sign: bool = False) -> str:
    """An estimate as text; no interval is shown for one seed.

    >>> show(Estimate(0.98765, 0.0123, 5), scale=100, digits=1)
    '98.8 ± 1.2'
    >>> show(Estimate(0.283, None, 1), scale=100, digits=1)
    '28.3'
    """
    if value is None:
        return ABSENT
    text = f"{scale * value.mean:{'+' if sign else ''}.{digits}f}"
    return text if value.half_width is None else f"{text} ± {scale * value.half_width:.{digits}f}"


def percent(value: Estimate | None) -> str:
    """A fraction as per cent with one decimal."""
    return show(value, scale=100, digits=1)


def plain(value: float | None, digits: int = 3) -> str:
    """A published number, or a dash where there is none."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def _cell(tag: str, text: str, column: Column, extra: str, alarm: bool = False) -> str:
    classes = [name for name, wanted in (("left", column.left), ("wide", column.wide), ("alarm", alarm)) if wanted]
    named = f' class="{" ".join(classes)}"' if classes else ""
    return f"<{tag}{extra}{named}>{escape(text)}</{tag}>"
