"""Every table and figure stands in one chapter and is found by its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.suite.chapters import CHAPTERS, REPORT
from mooring.suite.records import Records
from mooring.suite.report import load
from mooring.suite.report.documents import find
from mooring.suite.report.exhibits import Chapter, Exhibit, Kind
from mooring.table import Table


@pytest.mark.parametrize("kind", ["table", "figure"])
def test_a_name_is_taken_once(kind: Kind) -> None:
    exhibits = [*REPORT.unshown(), *(exhibit for chapter in CHAPTERS for exhibit in chapter.exhibits())]
    names = [exhibit.name for exhibit in exhibits if exhibit.kind == kind]
    assert len(names) == len(set(names))
    assert {name: find(REPORT, kind, name).name for name in names} == {name: name for name in names}


def test_no_table_or_figure_is_forgotten() -> None:
    exhibits = [*REPORT.unshown(), *(exhibit for chapter in CHAPTERS for exhibit in chapter.exhibits())]
    modules = [module for name, module in sys.modules.items() if name.startswith("mooring.suite.")]
    written = {id(value) for module in modules for value in vars(module).values() if isinstance(value, Exhibit)}
    assert written == {id(exhibit) for exhibit in exhibits}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_a_chapter_names_the_records_that_its_blocks_are_made_of(chapter: Chapter) -> None:
    assert {exhibit.task or exhibit.record for exhibit in chapter.exhibits()} == {chapter.needs}
    assert chapter.section(Records(())) is None


def test_a_table_stands_on_the_page_as_documents_ask_for_it(everything: Path) -> None:
    records = load([everything])
    (two_radius,) = [chapter for chapter in CHAPTERS if chapter.name == "two-radius"]
    section = two_radius.section(records)
    assert section is not None
    assert section.tables == [
        find(REPORT, "table", name).make(records, {"preset": "paper"})
        for name in ("two-radius", "two-radius-diagnostics")
    ]
    # Tables stand between figures.
    assert [block.name for block in section.blocks][:3] == ["idea", "two-radius", "learning-curves-paper"]
    tables_only = two_radius.section(records, figures=False)
    assert tables_only is not None
    assert list(tables_only.blocks) == section.tables


def test_blocks_of_one_preset_stand_together(everything: Path) -> None:
    records = load([everything])
    (bench,) = [chapter for chapter in CHAPTERS if chapter.name == "bench"]
    section = bench.section(records)
    assert section is not None
    assert [isinstance(block, Table) for block in section.blocks] == [True, False]


def test_tables_are_made_without_a_drawing_library() -> None:
    program = (
        "import sys; from pathlib import Path; from mooring.suite.chapters import tables_text;"
        "tables_text([Path('results/linksets.jsonl')]); print('matplotlib' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "False"
