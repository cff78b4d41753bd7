"""A user's own mesh: files in and out, and what is wrong with a bad one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mooring.suite.meshes.data import MeshError, PlateSettings, generate, read_mesh, write_mesh

meshio = pytest.importorskip("meshio", reason="mesh files are read by meshio: pip install 'mooring[meshes]'")
pytest.importorskip("skfem", reason="solutions are made by scikit-fem: pip install 'mooring[meshes]'")


@pytest.mark.parametrize("suffix", ["vtu", "vtk"])
@pytest.mark.parametrize("physics", ["heat", "elasticity"])
def test_a_mesh_comes_back_as_it_was(suffix: str, physics: Any, tmp_path: Path) -> None:
    mesh = generate(PlateSettings(physics, (40, 60), (0, 1)), "test", 0, 0)
    path = tmp_path / f"plate.{suffix}"
    write_mesh(path, mesh, {"prediction": 2.0 * mesh.solution})
    again = read_mesh(path)
    for name, value in vars(mesh).items():
        np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    np.testing.assert_array_equal(read_mesh(path, {"solution": "prediction"}).solution, 2.0 * mesh.solution)


def file(tmp_path: Path, **changes: Any) -> Path:
    mesh = generate(PlateSettings(nodes=(40, 60), holes=(0, 0)), "test", 0, 0)
    points = np.pad(mesh.position.astype(np.float64), ((0, 0), (0, 1)))
    data = {name: getattr(mesh, name) for name in ("coefficient", "source", "kind", "value")}
    parts = {"points": points, "cells": [("triangle", mesh.cells.T)], "point_data": data} | changes.get("parts", {})
    for name in changes.get("without", ()):
        del parts["point_data"][name]
    for name, value in changes.get("at_node_7", {}).items():
        parts["point_data"][name] = parts["point_data"][name].astype(float)
        parts["point_data"][name][7] = value
    parts["points"][:, 2] += changes.get("height", 0.0) * parts["points"][:, 0]
    cells = parts["cells"][0][1]
    if "flip" in changes:
        cells[changes["flip"]] = cells[changes["flip"], ::-1]
    if "flatten" in changes:
        parts["points"][cells[changes["flatten"], 0]] = parts["points"][cells[changes["flatten"], 1]]
    if "loose" in changes:
        parts["points"] = np.concatenate([points, points[:1]])
        parts["point_data"] = {name: np.concatenate([array, array[:1]]) for name, array in data.items()}
    path = tmp_path / "plate.vtu"
    meshio.Mesh(**parts).write(path)
    return path


def test_a_file_without_a_solution_is_fine(tmp_path: Path) -> None:
    assert not read_mesh(file(tmp_path)).solution.any()


@pytest.mark.parametrize(
    ("changes", "names", "message"),
    [
        ({"without": ["kind"]}, None, r"no point data called 'kind' for kind; it has coefficient, source, value"),
        ({}, {"kind": "region"}, r"no point data called 'region' for kind"),
        ({}, {"kinds": "region"}, "names has 'kinds', expected some of coefficient"),
        ({"height": 0.5}, None, "the mesh is not flat"),
        ({"flip": 3}, None, "cell 3 is flipped"),
        ({"flatten": 3}, None, r"cell [\d, ]*3[\d, ]* has no area"),
        ({"loose": True}, None, r"node \d+ is in no cell"),
        ({"at_node_7": {"coefficient": np.nan}}, None, "coefficient is NaN or infinite at node 7"),
        ({"at_node_7": {"kind": 0.0}}, None, "node 7 is on the boundary but its kind says interior"),
        ({"at_node_7": {"kind": np.nan}}, None, "kind is nan somewhere, expected 0 to 3"),
        ({"at_node_7": {"kind": 257.0}}, None, "kind is 257 somewhere, expected 0 to 3"),
        ({"parts": {"cells": [("quad", np.array([[0, 1, 2, 3]]))]}}, None, "has quad, expected triangles"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    changes: dict[str, Any], names: dict[str, str] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(MeshError, match=f"^plate.vtu: {message}"):
        read_mesh(file(tmp_path, **changes), names)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.vtu", None, r"File .*gone.vtu not found"),
        ("plate.foo", "", "Could not deduce file format"),
        ("plate.vtu", "hello", "its content is not what its suffix says"),
        ("plate.msh", "hello", "its content is not what its suffix says"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_and_does_not_end_the_program(
    name: str, content: str | None, message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(MeshError, match=f"^{name}: meshio cannot read it: {message}"):
        read_mesh(tmp_path / name)
