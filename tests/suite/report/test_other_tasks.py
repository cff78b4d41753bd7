"""Runs of tasks without a chapter have a table of what they measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.suite.chapters import build_report, tables_text

Make = Callable[..., dict[str, Any]]
Save = Callable[[dict[str, Any], str], Path]


def test_a_task_of_ones_own_has_a_table(save: Save, make_run: Make, tmp_path: Path) -> None:
    def own(model: str, seed: int, error: float) -> Path:
        best = {"error": error, "undefined": float("nan"), "learning_rate": 0.1, "train/loss": 3.0}
        metrics = {"best": best, "final": {"test/error": 2 * error}, "epochs": [{"epoch": 0, **best}]}
        record = make_run(model, seed, 0.1, 0.2, 0.02) | {"task": "ring", "preset": "quick", "metrics": metrics}
        return save(record, f"{model}{seed}.json")

    paths = [own("vn", 0, 0.25), own("vn", 1, 0.25), own("mine", 0, 0.5)]
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
