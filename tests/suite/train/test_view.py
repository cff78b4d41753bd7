from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from mooring.suite.records import RunRecord
from mooring.suite.train import Monitor, Progress, RunRequest, resolve, view
from mooring.suite.train.view import LiveView, PlainView, ProgressFile, make_view, read_progress

HALF = Progress(3, 6, {"epoch": 2, "train/loss": 9.0, "learning_rate": 0.1, "mse": 0.25}, 83.0)
METRICS = {"best": {"mse": 0.125}, "final": {}, "epochs": [{}] * 6}
RECORD = RunRecord("toy", "linear", 0, "quick", {}, METRICS, 4, {}, 61.0)


@pytest.fixture
def make(toy: Callable[..., RunRequest]) -> Callable[[bool], PlainView]:
    def maker(terminal: bool) -> PlainView:
        console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
        return make_view(["linear seed 0", "linear seed 1"], [resolve(toy()).experiment] * 2, console)

    return maker


def said(made: PlainView) -> str:
    assert isinstance(made.console.file, io.StringIO)
    return made.console.file.getvalue()


def drawn(made: LiveView, width: int) -> str:
    plain = Console(file=io.StringIO(), width=width)
    plain.print(made.table())
    assert isinstance(plain.file, io.StringIO)
    return plain.file.getvalue()


def test_plain_lines_away_from_a_terminal(make: Callable[[bool], PlainView], monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(False)
    assert type(made) is PlainView
    with made:
        made.started(0)
        made.progress(0, HALF)
        made.tick()
        assert said(made) == "", "progress is not printed before its time"
        monkeypatch.setattr(view, "PLAIN_SECONDS", 0.0)
        made.tick()
        assert said(made) == "linear seed 0: epoch 3/6  mse 0.25  1 min 23 s left\n"
        made.finished(0, RECORD)
        made.ended(1, "failed: exit code 1; [red]no markup[/red]")
        made.tick()
    assert said(made).splitlines()[1:] == [
        "linear seed 0: finished in 1 min 01 s; epoch 5 selected: mse 0.125",
        "linear seed 1: failed: exit code 1; [red]no markup[/red]",
    ]


def test_a_note_is_printed_once(make: Callable[[bool], PlainView]) -> None:
    with make(False) as made:
        for _ in range(2):
            made.progress(0, Progress(1, 6, notes=("a corrupt checkpoint",)))
    assert said(made) == "linear seed 0: a corrupt checkpoint\n"


def test_live_table_shows_what_runs_and_how_much_waits(make: Callable[[bool], PlainView]) -> None:
    made = make(True)
    assert isinstance(made, LiveView)
    with made:
        made.started(0)
        made.progress(0, HALF)
        table = drawn(made, 120)
    for text in ("linear seed 0", "3/6", "mse 0.25", "1 min 23 s", "1 waiting"):
        assert text in table
    assert "linear seed 1" not in table


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_run_that_starts_says_what_it_does(toy: Callable[..., RunRequest], width: int) -> None:
    made = LiveView(["two-radius quick anchored seed 0"], [resolve(toy()).experiment], Console(width=width))
    made.started(0)
    assert {"starting:", "imports,", "data,", "checkpoint"} <= set(drawn(made, width).split())


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_live_table_cuts_nothing(toy: Callable[..., RunRequest], width: int) -> None:
    name = "two-radius-leaderboard screen my_module:CountedMean seed 11"
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    made = LiveView([name], [resolve(toy()).experiment], console)
    made.started(0)
    made.progress(0, Progress(103, 206, {"mse": 0.1234, "count": 0.4321, "both": 0.9876, "label": 0.5432}, 4839.0))
    text = drawn(made, width)
    assert "…" not in text
    for word in ("103/206", "0.1234", "0.4321", "0.9876", "0.5432", "80", "39"):
        assert word in text.split(), text
    assert "━" in text, "the bar stays"
    if width >= 80:
        assert {"two-radius-leaderboard", "my_module:CountedMean"} <= set(text.split()), "no word is broken"
    # A name longer than its column is folded, letter for letter.
    assert Counter(name.replace(" ", "")) <= Counter(text)


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
