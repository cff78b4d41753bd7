"""The examples and the tutorial on meshes."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from mooring.suite.meshes.data import PlateSettings, generate
from mooring.suite.meshes.files import read_mesh, write_mesh
from mooring.suite.train import RunRequest, resolve, run_one
from support import ROOT

for package in ("skfem", "meshio"):
    pytest.importorskip(package, reason="meshes need pip install 'mooring[meshes]'")

EXAMPLE = str(ROOT / "examples" / "own_mesh.py")


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
