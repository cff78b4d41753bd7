"""Tables on a rich console: the plain text of :class:`mooring.table.Table`, coloured."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from mooring.table import Layout, Table

STYLES = {"title": "table.title", "heading": "table.header", "alarm": "bold red", "note": "table.caption"}


class FittedTable:
    """A table that fits the console it is printed on; brackets in its cells and headings are no markup.

    Args:
        table: what to print.
    """

    def __init__(self, table: Table) -> None:
        self.layout = Layout(table)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.layout.lines(options.max_width):
            spans = [(text, STYLES.get(part, "")) for text, part in line]
            yield Text.assemble(*spans, no_wrap=True, overflow="ignore", end="\n")
