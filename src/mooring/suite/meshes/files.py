"""Meshes from files and back: any format that meshio reads, VTK for ParaView among them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mooring.suite.meshes.data.mesh import KINDS, Mesh, MeshError, check_mesh

#: The point data of a file that are read, by the names of :class:`Mesh`. The solution may be missing.
FIELDS = ("coefficient", "source", "kind", "value", "solution")


def read_mesh(path: Path | str, names: Mapping[str, str] | None = None) -> Mesh:
    """Read a mesh of triangles with the problem as point data, and check it.

    Args:
        path: a file that meshio reads: ``.msh``, ``.vtk``, ``.vtu``, ``.xdmf`` and others.
        names: what the file calls a field, by the names of :data:`FIELDS`; each is called as here if None.

    A third coordinate is left out if it is the same everywhere. Triangles that run clockwise are refused, not turned.

    Raises:
        MeshError: for a mesh that no solver and no network can use, with what is wrong and where.
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
    found = {}
    for field in FIELDS:
        name = names.get(field, field)
        if name not in file.point_data and field != "solution":
            has = ", ".join(sorted(file.point_data)) or "none"
            raise MeshError(
                f"{where}: no point data called {name!r} for {field}; it has {has}. Add it, or pass its name in names."
            )
        found[field] = np.asarray(file.point_data.get(name, np.zeros(len(position))))
    wide = {name: _in_plane(found[name]) for name in ("source", "value")}
    flat = {name: found[name].reshape(-1).astype(np.float32) for name in ("coefficient", "solution")}
    kind = found["kind"].reshape(-1)
    if (odd := ~np.isin(kind, range(len(KINDS)))).any():
        raise MeshError(f"{where}: kind is {kind[odd][0]:g} somewhere, expected 0 to 3: {', '.join(KINDS)}.")
    triangles = np.concatenate(cells).T.astype(np.int32)
    return check_mesh(Mesh(position=position, kind=kind.astype(np.uint8), cells=triangles, **wide, **flat), where)


def write_mesh(path: Path | str, mesh: Mesh, fields: Mapping[str, NDArray[np.floating]] | None = None) -> None:
    """Write a mesh and its problem, and more point data such as a prediction.

    Args:
        path: a file that meshio writes, e.g. ``plate.vtu`` for ParaView.
        mesh: the mesh.
        fields: further values at the nodes, by name.
    """
    import meshio

    data = {name: getattr(mesh, name) for name in FIELDS} | dict(fields or {})
    points = np.pad(mesh.position.astype(np.float64), ((0, 0), (0, 1)))
    meshio.Mesh(points, [("triangle", mesh.cells.T)], point_data=data).write(path)


def _in_plane(values: NDArray[np.floating]) -> NDArray[np.float32]:
    """Values in columns, without the third one that VTK adds to vectors in a plane."""
    columns = values.reshape(len(values), -1).astype(np.float32)
    return columns[:, :2] if columns.shape[1] == 3 and not columns[:, 2].any() else columns
