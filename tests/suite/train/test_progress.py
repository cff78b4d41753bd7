from __future__ import annotations

import math
from pathlib import Path

import pytest

from mooring.suite.train.progress import Monitor, Progress, ProgressFile, read_progress


def test_the_reader_sees_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    assert read_progress(path) is None
    ProgressFile(path).epoch(Progress(1, 5, {"mse": math.inf}, 3.5))
    assert read_progress(path) == Progress(1, 5, {"mse": math.inf}, 3.5)


def test_writes_are_throttled_except_the_last(tmp_path: Path) -> None:
    monitor = ProgressFile(tmp_path / "progress.json", interval=1000.0)
    for epoch in (1, 2, 3):
        monitor.epoch(Progress(epoch, 5))
    assert read_progress(monitor.path) == Progress(1, 5)
    monitor.epoch(Progress(5, 5))
    assert read_progress(monitor.path) == Progress(5, 5)


def test_notes_are_written_at_once_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monitor = ProgressFile(tmp_path / "progress.json")
    monitor.note("a corrupt checkpoint")
    monitor.epoch(Progress(5, 5))
    assert read_progress(monitor.path) == Progress(5, 5, notes=("a corrupt checkpoint",))
    assert capsys.readouterr().err == "a corrupt checkpoint\n"


def test_without_a_file_a_note_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="a corrupt checkpoint"):
        Monitor().note("a corrupt checkpoint")
