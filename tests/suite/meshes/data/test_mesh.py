"""A bad mesh is refused with what is wrong and where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mooring.suite.meshes.data import FIXED, FREE, INTERIOR, Mesh, MeshError, check_mesh


def square() -> Mesh:
    """Four corners and the middle, four triangles."""
    position = np.array([(0, 0), (1, 0), (1, 1), (0, 1), (0.5, 0.5)], np.float32)
    cells = np.array([(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)], np.int32).T
    kind = np.array([FIXED, FREE, FREE, FIXED, INTERIOR], np.uint8)
    nothing = np.zeros(5, np.float32)
    return Mesh(position, nothing, nothing[:, None], kind, nothing[:, None], nothing, cells)


def changed(name: str, place: Any, value: Any) -> Mesh:
    array = getattr(square(), name).copy()
    array[place] = value
    return replace(square(), **{name: array})


def test_a_good_mesh_passes() -> None:
    mesh = square()
    assert check_mesh(mesh) is mesh


def without_node_4() -> Mesh:
    return replace(square(), cells=np.array([(0, 1, 2), (0, 2, 3)], np.int32).T)


def with_flipped_cell() -> Mesh:
    cells = square().cells.copy()
    cells[:, 2] = cells[[1, 0, 2], 2]
    return replace(square(), cells=cells)


def in_two_pieces() -> Mesh:
    """The square, and beside it a copy of which nothing is fixed."""
    one, other = square(), changed("kind", [0, 3], FREE)
    both = {name: np.concatenate([array, getattr(other, name)]) for name, array in vars(one).items() if name != "cells"}
    both["position"][5:, 0] += 2.0
    return Mesh(**both, cells=np.concatenate([one.cells, one.cells + 5], axis=1))


@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        (in_two_pieces(), "no node is fixed in the piece with node 5, 6, 7, 8, 9, so the solution is not unique"),
        (without_node_4(), "node 4 is in no cell. Remove loose nodes"),
        (with_flipped_cell(), "cell 2 is flipped: its nodes run clockwise. Swap two"),
        (changed("position", 4, (0.5, 0.0)), "cell 0 has no area. Remove it"),
        (changed("position", (1, 0), np.nan), "position is NaN or infinite at node 1. Replace it"),
        (changed("coefficient", slice(None), np.inf), "coefficient is NaN or infinite at node 0, 1, 2, 3, 4. "),
        (changed("kind", [1, 2], INTERIOR), "node 1, 2 is on the boundary but its kind says interior. Give every"),
        (changed("kind", 4, FREE), "node 4 is inside but its kind says boundary. Set it to 0"),
        (changed("kind", [0, 3], FREE), "no node is fixed, so the solution is not unique. Give some a kind of 1"),
        (changed("kind", 2, 7), "kind of node 2 is none of 0 interior, 1 fixed, 2 loaded, 3 free"),
        (changed("cells", (0, 0), 9), "cell 0 names a node outside 0 to 4"),
        (replace(square(), cells=np.zeros((3, 0), np.int32)), "there are no triangles. Pass a mesh with cells"),
        (replace(square(), value=np.zeros((5, 2), np.float32)), r"value has shape \(5, 2\) but \(5, 1\) was expected"),
        (replace(square(), solution=np.zeros(4, np.float32)), r"solution has shape \(4,\) but \(5,\) was expected"),
    ],
)
def test_a_bad_mesh_is_refused_with_the_place_of_its_fault(mesh: Mesh, message: str) -> None:
    with pytest.raises(MeshError, match=f"^plate.msh: {message}"):
        check_mesh(mesh, "plate.msh")


def test_a_long_list_of_faults_is_cut() -> None:
    many = np.arange(12)
    mesh = replace(square(), position=np.full((12, 2), np.nan, np.float32))
    with pytest.raises(MeshError, match="at node 0, 1, 2, 3, 4 and 7 more"):
        check_mesh(replace(mesh, **dict.fromkeys(("coefficient", "kind", "solution"), many)))
