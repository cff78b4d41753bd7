"""Three renderings of one table; at every width all words and digits are there, whole, and no line is too long."""

from __future__ import annotations

import subprocess
import sys

from mooring.table import Column, FittedText, Table, cell_width

SMALL = Table(
    "small",
    "A < B",
    (Column("Model", left=True), Column("F1", group="paper"), Column("Seeds")),
    (("a|b", "0.5", "3"), ("<x> [red]", "0.25", "11")),
    ("A note.",),
    frozenset({(1, 1)}),
)
MEASURED = Table(
    "measured",
    "measured",
    (Column("shape", left=True), Column("contestant", left=True), *(Column(f"time {i}") for i in range(4))),
    (("1x20", "slots", "1.25", "420,760", "3", "4"), ("1x20", "ISAB", "2.50", "99", "3", "4")),
    ("A note.",),
)


def test_markdown_is_padded_and_escaped() -> None:
    assert SMALL.to_markdown() == (
        "| Model     | F1 (paper) | Seeds |\n"
        "| :-------- | ---------: | ----: |\n"
        "| a\\|b      |        0.5 |     3 |\n"
        "| <x> [red] |       0.25 |    11 |\n"
        "\n"
        "A note.\n"
    )


def test_html_is_escaped_and_grouped() -> None:
    html = SMALL.to_html()
    assert "<caption>A &lt; B</caption>" in html
    assert '<th colspan="1" class=group>paper</th>' in html
    assert '<td class="alarm">0.25</td>' in html
    assert '<th scope="row" class="left">&lt;x&gt; [red]</th>' in html


def test_text_keeps_brackets_and_puts_the_group_above_the_title() -> None:
    assert SMALL.to_text(60) == (
        "A < B\n"
        "\n"
        "              paper\n"
        "  Model          F1   Seeds\n"
        " ───────────────────────────\n"
        "  a|b           0.5       3\n"
        "  <x> [red]    0.25      11\n"
        "\n"
        "A note.\n"
    )


def test_bands_repeat_the_columns_that_tell_rows_apart() -> None:
    layout = FittedText(MEASURED)
    assert layout.bands(80) == [[0, 1, 2, 3, 4, 5]]
    assert layout.bands(40) == [[0, 1, 2, 3], [0, 1, 4, 5]]
    lines = [line.split() for line in MEASURED.to_text(40).splitlines()]
    for row in (["1x20", "slots", "1.25", "420,760"], ["1x20", "ISAB", "3", "4"]):
        assert row in lines


def test_rows_become_blocks_where_not_even_one_column_fits() -> None:
    assert FittedText(MEASURED).bands(24) is None
    text = MEASURED.to_text(24)
    assert max(map(len, text.splitlines())) <= 24
    assert "shape: 1x20" in text
    assert "420,760" in text


def test_room_to_spare_is_used_and_not_exceeded() -> None:
    columns = (Column("a", left=True), Column("b", left=True, wide=True))
    layout = FittedText(Table("t", "t", columns, (("x y", "word " * 30),)))
    for width in (40, 60, 100):
        widths = layout.widths([0, 1], width)
        assert sum(widths) + 3 * 2 + 1 == width
    assert layout.widths([0, 1], 500) == layout.natural


def test_wide_letters_keep_columns_straight() -> None:
    table = Table("t", "t", (Column("name", left=True), Column("n")), (("字字", "1"), ("e\u0301", "23")))
    ends = {cell_width(line) for line in table.to_text(40).splitlines()[-2:]}
    assert len(ends) == 1


def test_a_table_needs_no_more_than_the_core() -> None:
    program = "import sys, mooring.table; print([m for m in ('rich', 'jinja2', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
