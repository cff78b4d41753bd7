"""One mesh with its problem and solution, and the checks that a mesh must pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from mooring.suite.meshes.data.plate import boundary, signed_areas

#: What holds at a node: nothing, a fixed solution, a flux or load, or a free (insulated) boundary.
INTERIOR, FIXED, LOADED, FREE = range(4)
KINDS = ("interior", "fixed", "loaded", "free")
# A triangle whose area is a smaller share of its longest side squared has no usable gradient.
FLATTEST = 1e-6
# As many numbers as a message lists.
LISTED = 5


class MeshError(ValueError):
    """A mesh that no solver and no network can use."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles, the problem at each node, and its solution.

    Args:
        position: ``[nodes, 2]``.
        coefficient: logarithm of the conductivity, or of Young's modulus, ``[nodes]``.
        source: heat source ``[nodes, 1]``, or body force ``[nodes, 2]``.
        kind: :data:`INTERIOR`, :data:`FIXED`, :data:`LOADED` or :data:`FREE`, ``[nodes]``.
        value: what is fixed, or the flux or load, zero at all other nodes, as wide as the source.
        solution: temperature, or von Mises stress, ``[nodes]``.
        cells: nodes of each triangle, counter-clockwise, ``[3, cells]``.
    """

    position: NDArray[np.float32]
    coefficient: NDArray[np.float32]
    source: NDArray[np.float32]
    kind: NDArray[np.uint8]
    value: NDArray[np.float32]
    solution: NDArray[np.float32]
    cells: NDArray[np.int32]


def check_mesh(mesh: Mesh, where: str = "mesh") -> Mesh:
    """Return the mesh, or raise MeshError with the first thing that is wrong with it.

    Args:
        mesh: the mesh.
        where: what messages call it, e.g. the name of its file.
    """
    nodes, width = len(mesh.position), mesh.source.shape[-1] if mesh.source.ndim == 2 else 1
    shapes = {
        "position": (nodes, 2),
        "coefficient": (nodes,),
        "source": (nodes, width),
        "kind": (nodes,),
        "value": (nodes, width),
        "solution": (nodes,),
        "cells": (3, mesh.cells.shape[-1]),
    }
    for name, shape in shapes.items():
        got = getattr(mesh, name).shape
        if got != shape:
            raise MeshError(f"{where}: {name} has shape {got} but {shape} was expected, as there are {nodes} nodes.")
        if name != "cells" and not (finite := np.isfinite(getattr(mesh, name)).reshape(nodes, -1).all(1)).all():
            raise MeshError(f"{where}: {name} is NaN or infinite at {_listed('node', ~finite)}. Replace it there.")
    _check_cells(mesh, where)
    _check_boundary(mesh, where)
    return mesh


def _check_cells(mesh: Mesh, where: str) -> None:
    nodes, cells = len(mesh.position), mesh.cells
    if cells.shape[1] == 0:
        raise MeshError(f"{where}: there are no triangles. Pass a mesh with cells, not a cloud of points.")
    if (wrong := ((cells < 0) | (cells >= nodes)).any(0)).any():
        raise MeshError(f"{where}: {_listed('cell', wrong)} names a node outside 0 to {nodes - 1}.")
    loose = np.bincount(cells.ravel(), minlength=nodes) == 0
    if loose.any():
        raise MeshError(f"{where}: {_listed('node', loose)} is in no cell. Remove loose nodes before.")
    corners = mesh.position[cells].astype(np.float64)
    longest = np.square(corners - np.roll(corners, 1, axis=0)).sum(-1).max(0)
    area = signed_areas(mesh.position, cells)
    if (flat := np.abs(area) <= FLATTEST * longest).any():
        raise MeshError(f"{where}: {_listed('cell', flat)} has no area. Remove it, or merge nodes that coincide.")
    if (flipped := area < 0.0).any():
        raise MeshError(f"{where}: {_listed('cell', flipped)} is flipped: its nodes run clockwise. Swap two of them.")


def _check_boundary(mesh: Mesh, where: str) -> None:
    on_boundary = np.zeros(len(mesh.position), bool)
    on_boundary[boundary(mesh.cells)] = True
    if (unknown := mesh.kind > FREE).any():
        names = ", ".join(f"{number} {name}" for number, name in enumerate(KINDS))
        raise MeshError(f"{where}: kind of {_listed('node', unknown)} is none of {names}.")
    if (missing := on_boundary & (mesh.kind == INTERIOR)).any():
        raise MeshError(
            f"{where}: {_listed('node', missing)} is on the boundary but its kind says interior. Give every boundary "
            f"node a kind: {FIXED} fixed, {LOADED} loaded or {FREE} free."
        )
    if (inside := ~on_boundary & (mesh.kind != INTERIOR)).any():
        raise MeshError(
            f"{where}: {_listed('node', inside)} is inside but its kind says boundary. Set it to {INTERIOR}."
        )
    sides = np.concatenate([mesh.cells[:2], mesh.cells[1:]], axis=1)
    nodes = len(mesh.position)
    links = coo_array((np.ones(sides.shape[1]), sides), (nodes, nodes))
    count, piece = connected_components(links, directed=False)
    held = np.isin(piece, piece[mesh.kind == FIXED])
    if not held.all():
        loose = "no node is fixed" if count == 1 else f"no node is fixed in the piece with {_listed('node', ~held)}"
        raise MeshError(f"{where}: {loose}, so the solution is not unique. Give some a kind of {FIXED}.")


def _listed(name: str, wrong: Any) -> str:
    """The first of some nodes or cells, and how many more there are."""
    numbers = np.flatnonzero(wrong)
    more = f" and {len(numbers) - LISTED} more" if len(numbers) > LISTED else ""
    return f"{name} {', '.join(map(str, numbers[:LISTED]))}{more}"
