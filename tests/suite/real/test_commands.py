"""``mooring data``, and a look into a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mooring.suite.cli import app
from mooring.suite.look import page_of
from mooring.suite.real.data import GRAPH_SETS, NODE_SETS
from mooring.suite.train import RunRequest, resolve, run_one


def test_all_sets_are_listed_with_what_is_here(folder: Path) -> None:
    done = CliRunner().invoke(app, ["data"])
    assert done.exit_code == 0, done.output
    rows = {line.split()[0]: line.split()[-1] for line in done.output.splitlines() if line.strip()}
    assert {name: rows[name] for name in (*GRAPH_SETS, *NODE_SETS) if rows[name] == "yes"} == dict.fromkeys(
        ("bace", "esol", "func", "minesweeper"), "yes"
    )
    assert rows["hiv"] == "no"


def test_the_folder_is_handed_on_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_DATA", "elsewhere")
    done = CliRunner().invoke(app, ["run", "nodes", "--data-dir", str(tmp_path), "--models", "none"])
    assert os.environ["MOORING_DATA"] == str(tmp_path)
    assert "minesweeper" in str(done.exception)


@pytest.mark.parametrize(("task", "model"), [("molecules", "anchored"), ("nodes", "moored")])
def test_a_run_can_be_looked_into(task: str, model: str, tmp_path: Path) -> None:
    request = RunRequest(task, model, 0, "tiny", {"carry": "true"}, tmp_path)
    run_one(request)
    page = page_of(str(resolve(request).record_path))
    assert "2 memories" in repr(page)
