"""Tables at every width: all words and digits of every cell are there, whole, and no line is too long."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from mooring.suite.report import Table, load
from mooring.suite.report.sections import CHAPTERS
from mooring.suite.terminal import FittedTable, Heading

ROOT = Path(__file__).parents[2]
WIDTHS = [60, 80, 100, 120, 200]


@pytest.fixture(scope="module")
def published() -> list[Table]:
    sections = [chapter.section(load([ROOT / "results"])) for chapter in CHAPTERS]
    return [block for section in sections if section for block in section.blocks if isinstance(block, Table)]


def printed(table: FittedTable, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def words(cells: list[str]) -> Counter[str]:
    return Counter(word for cell in cells for word in cell.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_no_digit_and_no_name_of_the_published_tables_is_cut(published: list[Table], width: int) -> None:
    assert len(published) > 10
    for table in published:
        text = table.to_text(width)
        assert max(map(cell_len, text.splitlines())) <= width, table.name
        cells = [cell for row in table.rows for cell in row]
        assert words(cells) - words([text]) == Counter(), table.name
        for row in table.rows:
            for column, cell in zip(table.columns, row, strict=True):
                # A number stays on one line, its interval included.
                assert column.left or cell in text, (table.name, cell)


MEASURED = FittedTable(
    "measured",
    [Heading("shape", left=True), Heading("contestant", left=True), *(Heading(f"time {i}") for i in range(4))],
    [["1x20", "slots", "1.25", "420,760", "3", "4"], ["1x20", "ISAB", "2.50", "99", "3", "4"]],
    ["A note."],
)


def test_bands_repeat_the_columns_that_tell_rows_apart() -> None:
    assert MEASURED.bands(80) == [[0, 1, 2, 3, 4, 5]]
    assert MEASURED.bands(40) == [[0, 1, 2, 3], [0, 1, 4, 5]]
    lines = [line.split() for line in printed(MEASURED, 40).splitlines()]
    for row in (["1x20", "slots", "1.25", "420,760"], ["1x20", "ISAB", "3", "4"]):
        assert row in lines


def test_rows_become_blocks_where_not_even_one_column_fits() -> None:
    assert MEASURED.bands(24) is None
    text = printed(MEASURED, 24)
    assert max(map(len, text.splitlines())) <= 24
    assert "shape: 1x20" in text
    assert "420,760" in text


def test_room_to_spare_is_used_and_not_exceeded() -> None:
    table = FittedTable("t", [Heading("a", left=True), Heading("b", left=True, wide=True)], [["x y", "word " * 30]])
    for width in (40, 60, 100):
        widths = table.widths([0, 1], width)
        assert sum(widths) + 3 * 2 + 1 == width
    assert table.widths([0, 1], 500) == table.natural


def test_brackets_are_no_markup_and_alarms_are_red() -> None:
    table = FittedTable(
        "[b]title[/b]", [Heading("a", left=True)], [["[red]x[/red]"], ["y"]], alarms=frozenset({(1, 0)})
    )
    assert "[red]x[/red]" in printed(table, 40)
    assert "[b]title[/b]" in printed(table, 40)
    console = Console(width=40, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[1;31my " in console.file.getvalue()
