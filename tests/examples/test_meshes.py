"""The examples and the tutorial on meshes."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.suite.meshes.data import PlateSettings, generate, read_mesh, write_mesh
from mooring.suite.train import RunRequest, resolve, run_one
from support import ROOT

for package in ("skfem", "meshio"):
    pytest.importorskip(package, reason="meshes need pip install 'mooring[meshes]'")

EXAMPLE = str(ROOT / "examples" / "own_mesh.py")
TUTORIAL = ROOT / "docs" / "tutorials" / "learned-solver.md"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_CACHE", str(tmp_path / "cache"))


def test_a_trained_run_predicts_on_a_mesh_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = RunRequest("meshes", "anchored", 0, "tiny", {"beyond_graphs": 0}, tmp_path / "runs")
    run_one(request)
    plate, out = tmp_path / "plate.vtu", tmp_path / "solved.vtu"
    write_mesh(plate, generate(PlateSettings(nodes=(40, 60), holes=(0, 0)), "test", 5, 3))
    monkeypatch.setattr(sys, "argv", ["own_mesh.py", str(resolve(request).folder), str(plate), str(out)])
    runpy.run_path(EXAMPLE, run_name="__main__")
    assert capsys.readouterr().out.startswith("plate.vtu: ")
    assert read_mesh(out, {"solution": "prediction"}).solution.any()


def test_the_example_runs_without_a_file(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["own_mesh.py"])
    runpy.run_path(EXAMPLE, run_name="__main__")
    assert "prediction in solved.vtu" in capsys.readouterr().out


def tutorial() -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), flags=re.M | re.S))


@pytest.mark.usefixtures("as_users_run_it")
def test_the_tutorial_learns_with_slots_what_it_does_not_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, replaced = re.subn(r"^STEPS = \d+$", "STEPS = 150", tutorial(), flags=re.M)
    code, fewer = re.subn(r'"train", \d+, seed', '"train", 100, seed', code)
    assert (replaced, fewer) == (1, 1)
    monkeypatch.chdir(tmp_path)
    left: dict[str, Any] = {"__name__": "tutorial"}
    exec(compile(code, str(TUTORIAL), "exec", dont_inherit=True), left)
    assert left["result"]["with slots"] < 0.95 * left["result"]["local"] < 0.95
    assert (tmp_path / "plate.png").stat().st_size > 10_000


def test_the_tutorial_has_sixty_lines() -> None:
    assert len([line for line in tutorial().splitlines() if line.strip()]) <= 60
