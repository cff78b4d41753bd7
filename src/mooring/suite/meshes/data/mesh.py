"""One mesh with its problem and solution: the checks that it must pass, and files in any format that meshio reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
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
    """Return the first of some nodes or cells, and how many more there are."""
    numbers = np.flatnonzero(wrong)
    more = f" and {len(numbers) - LISTED} more" if len(numbers) > LISTED else ""
    return f"{name} {', '.join(map(str, numbers[:LISTED]))}{more}"


#: The point data of a file that are read, by the names of :class:`Mesh`. The solution may be missing.
FIELDS = ("coefficient", "source", "kind", "value", "solution")


def read_mesh(path: Path | str, names: Mapping[str, str] | None = None) -> Mesh:
    """Read a mesh of triangles with the problem as point data, and check it.

    Args:
        path: a file that meshio reads: ``.msh``, ``.vtk``, ``.vtu``, ``.xdmf`` and others.
        names: the file's name of each of :data:`FIELDS`, if it is another one.

    A third coordinate is left out if it is the same everywhere. Triangles that run clockwise raise MeshError, as does
    everything that no solver and no network can use.
    """
    import meshio

    where, names = Path(path).name, names or {}
    try:
        file = meshio.read(path)
    except (Exception, SystemExit) as error:  # meshio exits where all readers of a suffix fail
        reason = str(error) if isinstance(error, meshio.ReadError) else "its content is not what its suffix says."
        raise MeshError(f"{where}: meshio cannot read it: {reason} Pass a whole file in a format of meshio.") from None
    position = np.asarray(file.points, np.float32)
    if position.shape[1] == 3:
        if np.ptp(position[:, 2]) > 0.0:
            raise MeshError(f"{where}: the mesh is not flat: its third coordinate changes. Pass a mesh in a plane.")
        position = position[:, :2]
    cells = [block.data for block in file.cells if block.type == "triangle"]
    other = sorted({block.type for block in file.cells} - {"triangle", "vertex", "line"})
    if not cells or other:
        got = ", ".join(other) or "no cells of two dimensions"
        raise MeshError(f"{where}: has {got}, expected triangles. Split other cells into triangles before.")
    if unknown := sorted(set(names) - set(FIELDS)):
        raise MeshError(f"{where}: names has {unknown[0]!r}, expected some of {', '.join(FIELDS)}.")
    columns = {}
    for field in FIELDS:
        name = names.get(field, field)
        if name not in file.point_data and field != "solution":
            has = ", ".join(sorted(file.point_data)) or "none"
            raise MeshError(
                f"{where}: no point data called {name!r} for {field}; it has {has}. Add it, or pass its name in names."
            )
        columns[field] = np.asarray(file.point_data.get(name, np.zeros(len(position))))
    wide = {name: _in_plane(columns[name]) for name in ("source", "value")}
    flat = {name: columns[name].reshape(-1).astype(np.float32) for name in ("coefficient", "solution")}
    kind = columns["kind"].reshape(-1)
    if (odd := ~np.isin(kind, range(len(KINDS)))).any():
        raise MeshError(f"{where}: kind is {kind[odd][0]:g} somewhere, expected 0 to 3: {', '.join(KINDS)}.")
    triangles = np.concatenate(cells).T.astype(np.int32)
    return check_mesh(Mesh(position=position, kind=kind.astype(np.uint8), cells=triangles, **wide, **flat), where)


def write_mesh(path: Path | str, mesh: Mesh, fields: Mapping[str, NDArray[np.floating]] | None = None) -> None:
    """Write a mesh with its problem and further point data such as a prediction, e.g. to ``plate.vtu`` for ParaView."""
    import meshio

    data = {name: getattr(mesh, name) for name in FIELDS} | dict(fields or {})
    points = np.pad(mesh.position.astype(np.float64), ((0, 0), (0, 1)))
    meshio.Mesh(points, [("triangle", mesh.cells.T)], point_data=data).write(path)


def _in_plane(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return values in columns, without the third one that VTK adds to vectors in a plane."""
    columns = values.reshape(len(values), -1).astype(np.float32)
    return columns[:, :2] if columns.shape[1] == 3 and not columns[:, 2].any() else columns
