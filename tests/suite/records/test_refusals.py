"""Refusals: a record that nobody can make again is not published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mooring.suite import cli
from mooring.suite.records import refusals, write

Save = Callable[[dict[str, Any], str], Path]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def run(model: str, **changes: Any) -> dict[str, Any]:
    names = {"task": "two-radius", "model": model, "seed": 0, "preset": "paper", "git_commit": COMMIT}
    metrics = {"best": {}, "final": {}, "epochs": []}
    return {"schema": 1, "kind": "run", **names, "config": {}, "metrics": metrics, **changes}


def test_a_run_that_hides_a_change_of_its_preset_is_refused(save: Save, tmp_path: Path) -> None:
    presets = {("two-radius", "paper"): {"epochs": 200, "slots": 12, "later": 1}}
    record = run("vn", config={"epochs": 3, "slots": 12})
    hidden = save(record, "paper/vn-seed0.json")
    (line,) = refusals(tmp_path / "records", presets)
    assert line.startswith(f"{hidden}: epochs is 3 where preset 'paper' has 200, and the record does not name it")
    assert refusals(tmp_path / "records") == []
    hidden.unlink()
    save(record, "paper,epochs=3/vn-seed0.json")
    assert refusals(tmp_path / "records", presets) == []


@pytest.mark.parametrize(
    ("commit", "why"),
    [
        (COMMIT, None),
        (f"{COMMIT}-dirty", "made at commit 0123456789 with changes that were never committed"),
        ("unknown", "its commit is 'unknown'"),
        ("main", "its commit is 'main'"),
        (None, "names no commit"),
    ],
)
def test_only_a_clean_commit_will_do(save: Save, tmp_path: Path, commit: str | None, why: str | None) -> None:
    path = save(run("vn", git_commit=commit), "inner/vn.json")
    refused = refusals(tmp_path / "records")
    if why is None:
        assert refused == []
    else:
        assert len(refused) == 1
        assert refused[0].startswith(f"{path}: {why}")


def test_a_commit_that_is_not_there_is_refused(save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(run("vn", git_commit=COMMIT), "vn.json")
    monkeypatch.setattr("mooring.suite.records.publishing.unknown_commits", lambda _, commits: set(commits))
    told = f"{path}: this clone has no commit 0123456789. Make it again from a clean commit."
    assert refusals(tmp_path / "records") == [told]


def test_a_file_that_is_no_record_is_refused(save: Save, tmp_path: Path) -> None:
    save(run("vn"), "vn.json")
    (tmp_path / "records" / "half.json").write_text('{"schema": 1')
    (line,) = refusals(tmp_path / "records")
    assert "half.json: not valid JSON" in line


def test_the_command_names_what_it_refuses(save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(run("vn", git_commit=f"{COMMIT}-dirty"), "vn.json")
    save(run("mpnn", git_commit=COMMIT), "mpnn.json")
    (tmp_path / "records").rename(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.app, ["report", "--check"])
    assert done.exit_code == 1
    assert "results/vn.json: made at commit 0123456789 with changes that were never committed" in done.output
    assert "mpnn.json" not in done.output
    (tmp_path / "results" / "vn.json").unlink()
    assert CliRunner().invoke(cli.app, ["report", "--check"]).exit_code == 0


def test_every_record_that_the_command_writes_names_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.suite.records.run.git_commit", lambda: COMMIT)
    write(tmp_path / "records" / "a.json", {"schema": 1, "kind": "bench", "rows": [], "versions": {"torch": "2"}})
    written = json.loads((tmp_path / "records" / "a.json").read_text())
    assert written["git_commit"] == COMMIT
    assert written["versions"]["torch"] == "2"
    assert "python" in written["versions"]
    assert refusals(tmp_path / "records") == []
