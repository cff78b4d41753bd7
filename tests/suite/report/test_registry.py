"""Everything is registered once: shown in a chapter, captioned, and found by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.suite.records import Records
from mooring.suite.report import load
from mooring.suite.report.registry import ENTRIES, Chapter, captions, chapters, find, names, table
from mooring.table import Table

# Asked for by documents only.
UNSHOWN = {("table", "soak"), ("table", "mutation")}


def test_every_table_and_figure_has_a_caption_and_a_place() -> None:
    for kind in ("table", "figure"):
        for name in names(kind):
            assert find(kind, name).name == name
    registered = set(ENTRIES)
    shown = [block for chapter in chapters() for block in chapter.shows]
    assert len(shown) == len(set(shown))
    assert set(shown) == registered - UNSHOWN
    captioned = {tuple(section.split()) for section in captions() if not section.startswith("chapter ")}
    assert captioned == registered


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_a_chapter_names_the_records_that_its_blocks_are_made_of(chapter: Chapter) -> None:
    entries = [find(kind, name) for kind, name in chapter.shows]
    assert {entry.task or entry.record for entry in entries} == {chapter.needs}
    assert chapter.section(Records(())) is None


def test_a_table_stands_on_the_page_as_documents_ask_for_it(everything: Path) -> None:
    records = load([everything])
    (two_radius,) = [chapter for chapter in chapters() if chapter.name == "two-radius"]
    section = two_radius.section(records)
    assert section is not None
    assert section.tables == [
        find("table", name).make(records, {"preset": "paper"}) for name in ("two-radius", "two-radius-diagnostics")
    ]
    # The order is that of the captions, tables between figures.
    assert [block.name for block in section.blocks][:3] == ["idea", "two-radius", "learning-curves-paper"]
    tables_only = two_radius.section(records, figures=False)
    assert tables_only is not None
    assert list(tables_only.blocks) == section.tables


def test_blocks_of_one_preset_stand_together(everything: Path) -> None:
    records = load([everything])
    (bench,) = [chapter for chapter in chapters() if chapter.name == "bench"]
    section = bench.section(records)
    assert section is not None
    assert [isinstance(block, Table) for block in section.blocks] == [True, False]


def test_a_name_is_taken_once() -> None:
    before = dict(ENTRIES)
    with pytest.raises(AssertionError, match="is registered twice"):
        table(names("table")[0])(lambda records: None)
    assert before == ENTRIES


def test_tables_are_made_without_a_drawing_library() -> None:
    program = (
        "import sys; from pathlib import Path; from mooring.suite.report import tables_text;"
        "tables_text([Path('results/linksets.jsonl')]); print('matplotlib' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "False"
