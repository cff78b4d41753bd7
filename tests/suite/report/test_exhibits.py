"""Every table and figure stands in one chapter and is found by its name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.chapters import CHAPTERS, REPORT, build_report, tables_text
from mooring.suite.records import Records
from mooring.suite.report import load
from mooring.suite.report.documents import find
from mooring.suite.report.exhibits import Chapter, Exhibit, Kind
from mooring.table import Table

Make = Callable[..., dict[str, Any]]
Save = Callable[[dict[str, Any], str], Path]


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


def test_a_task_without_a_chapter_has_a_table(save: Save, make_run: Make, tmp_path: Path) -> None:
    def ring(model: str, seed: int, error: float) -> Path:
        best = {"error": error, "undefined": float("nan"), "learning_rate": 0.1, "train/loss": 3.0}
        metrics = {"best": best, "final": {"test/error": 2 * error}, "epochs": [{"epoch": 0, **best}]}
        record = make_run(model, seed, 0.1, 0.2, 0.02) | {"task": "ring", "preset": "quick", "metrics": metrics}
        return save(record, f"{model}{seed}.json")

    paths = [ring("vn", 0, 0.25), ring("vn", 1, 0.25), ring("mine", 0, 0.5)]
    text = tables_text(paths)
    assert "ring, preset quick" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith(("  mine", "  VN"))}
    assert rows["mine"] == ["mine", "0.5000", "–", "1.0000", "1"]
    assert rows["VN"] == ["VN", "0.2500", "±", "0.0000", "–", "0.5000", "±", "0.0000", "2"]
    assert "train/loss" not in text
    summary = build_report(paths, tmp_path / "page.html")
    assert "ring, preset quick" in summary.path.read_text(encoding="utf-8")
    assert "own" in summary.sections


def test_tasks_with_a_chapter_have_no_second_table(save: Save, make_run: Make, tmp_path: Path) -> None:
    path = save(make_run("vn", 0, 0.1, 0.2, 0.02), "vn.json")
    assert "own" not in build_report([path], tmp_path / "page.html").sections
