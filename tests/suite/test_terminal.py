"""Tables on a console: what the plain text says, in colour, whatever brackets the records hold."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mooring.suite import cli
from mooring.suite.chapters import CHAPTERS
from mooring.suite.report import load
from mooring.suite.terminal import FittedTable
from mooring.table import Column, Table, cell_width

ROOT = Path(__file__).parents[2]
WIDTHS = [60, 80, 100, 120, 200]


@pytest.fixture(scope="module")
def published() -> list[Table]:
    records = load([ROOT / "results"])
    sections = [chapter.section(records, figures=False) for chapter in CHAPTERS]
    return [table for section in sections if section for table in section.tables]


def printed(table: Table, width: int, *, colour: bool = False) -> str:
    console = Console(
        width=width, file=io.StringIO(), force_terminal=colour, color_system="standard" if colour else None
    )
    console.print(FittedTable(table))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def words(cells: list[str]) -> Counter[str]:
    return Counter(word for cell in cells for word in cell.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_no_digit_and_no_name_of_the_published_tables_is_cut(published: list[Table], width: int) -> None:
    assert len(published) > 10
    for table in published:
        text = printed(table, width)
        assert max(map(cell_width, text.splitlines())) <= width, table.name
        assert "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n" == table.to_text(width)
        cells = [cell for row in table.rows for cell in row]
        assert words(cells) - words([text]) == Counter(), table.name
        for row in table.rows:
            for column, cell in zip(table.columns, row, strict=True):
                # A number stays on one line, its interval included.
                assert column.left or cell in text, (table.name, cell)


def test_brackets_are_no_markup_and_alarms_are_red() -> None:
    table = Table(
        "t",
        "[b]title[/b]",
        (Column("[/bold]x", group="[/red]", left=True),),
        (("[red]x[/red]",), ("y",)),
        ("[/] note",),
        frozenset({(1, 0)}),
    )
    for width in (40, 8):
        shown = printed(table, width)
        assert "[/bold]x" in shown
        assert "[red]x[" in shown
    for text in ("[b]title[/b]", "[/red]", "[red]x[/red]", "[/] note"):
        assert text in printed(table, 40)
    assert "\x1b[1;31my " in printed(table, 40, colour=True)


def test_a_field_named_like_markup_is_a_heading_of_the_report(tmp_path: Path) -> None:
    record = {"schema": 1, "kind": "bench", "name": "x", "title": "[/]", "rows": [{"[/bold]x": 1.0, "[red]": "[/red]"}]}
    (tmp_path / "bench.json").write_text(json.dumps(record))
    page = tmp_path / "report.html"
    done = CliRunner().invoke(cli.app, ["report", str(tmp_path / "bench.json"), "--out", str(page)])
    assert done.exit_code == 0, done.output
    for text in ("[/bold]x", "[red]", "[/red]", "[/]"):
        assert text in done.output
