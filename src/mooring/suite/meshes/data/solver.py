"""Heat conduction and plane stress on triangles, solved by scikit-fem with quadratic elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from mooring.suite.meshes.data.mesh import FIXED, FREE, INTERIOR, LOADED, Mesh
from mooring.suite.meshes.data.plate import Triangulation

#: A function of places ``[2, ...]``: numbers ``[...]``, or one row for each component ``[components, ...]``.
Field = Callable[[Any], Any]

POISSON_RATIO = 0.3


@dataclass(frozen=True, eq=False)
class Condition:
    """A kind of boundary along one curve, and its value by components.

    Args:
        kind: :data:`FIXED`, :data:`LOADED` or :data:`FREE`.
        value: temperature or displacement, flux or load.
    """

    kind: int
    value: Field


def solve_heat(triangles: Triangulation, log_k: Field, source: Field, conditions: Sequence[Condition]) -> Mesh:
    r"""Return the temperature :math:`u` with :math:`-\nabla \cdot (k \nabla u) = f`.

    Args:
        triangles: the mesh.
        log_k: logarithm of the conductivity.
        source: heat source :math:`f`, as one component.
        conditions: one for each curve of the mesh.
    """
    from skfem import Basis, BilinearForm, ElementTriP2
    from skfem.helpers import dot, grad

    basis = Basis(_skfem_mesh(triangles), ElementTriP2())
    # Once, and not for every pair of basis functions.
    conductivity = np.exp(log_k(basis.global_coordinates()))
    matrix = BilinearForm(lambda u, v, w: conductivity * dot(grad(u), grad(v))).assemble(basis)
    temperature = _solve(triangles, basis, matrix, source, conditions, lambda value, v: value[0] * v, ("u",))
    return _mesh(triangles, log_k, source, conditions, temperature[basis.nodal_dofs[0]])


def solve_elasticity(triangles: Triangulation, log_young: Field, force: Field, conditions: Sequence[Condition]) -> Mesh:
    """Return the von Mises stress in plane stress.

    The stress of the displacement is projected onto linear elements before the von Mises stress is taken at the nodes.

    Args:
        triangles: the mesh.
        log_young: logarithm of Young's modulus.
        force: body force, two components.
        conditions: one for each curve of the mesh.
    """
    from skfem import Basis, BilinearForm, ElementTriP1, ElementTriP2, ElementVector
    from skfem.helpers import ddot, div, dot, sym_grad

    # Lamé's first parameter in plane stress, as a multiple of the second.
    ratio = 2.0 * POISSON_RATIO / (1.0 - POISSON_RATIO)
    basis = Basis(_skfem_mesh(triangles), ElementVector(ElementTriP2()))
    moduli = np.exp(log_young(basis.global_coordinates())) / (2.0 * (1.0 + POISSON_RATIO))
    matrix = BilinearForm(
        lambda u, v, w: moduli * (2.0 * ddot(sym_grad(u), sym_grad(v)) + ratio * div(u) * div(v))
    ).assemble(basis)
    displacement = _solve(triangles, basis, matrix, force, conditions, dot, ("u^1", "u^2"))
    strain = sym_grad(basis.interpolate(displacement))
    trace = ratio * (strain[0, 0] + strain[1, 1])
    linear = basis.with_element(ElementTriP1())
    first, second = (linear.project(moduli * (2.0 * strain[axis, axis] + trace)) for axis in (0, 1))
    shearing = linear.project(moduli * 2.0 * strain[0, 1])
    stress = np.sqrt(first**2 - first * second + second**2 + 3.0 * shearing**2)
    return _mesh(triangles, log_young, force, conditions, stress)


def _skfem_mesh(triangles: Triangulation) -> Any:
    from skfem import MeshTri

    # As they are: scikit-fem would renumber the nodes of each triangle.
    return MeshTri(triangles.points.T.copy(), triangles.cells.copy(), sort_t=False)


def _solve(
    triangles: Triangulation,
    basis: Any,
    matrix: Any,
    source: Field,
    conditions: Sequence[Condition],
    times: Callable[[Any, Any], Any],
    components: Sequence[str],
) -> NDArray[np.float64]:
    """Return the solution under some conditions.

    Args:
        triangles, basis, matrix: the mesh, its elements, and the assembled operator.
        source: inside the plate.
        conditions: one for each curve of the mesh.
        times: product of a source or load with a test function.
        components: scikit-fem's name of each component.
    """
    from skfem import LinearForm

    right = LinearForm(lambda v, w: times(source(w.x), v)).assemble(basis)
    solution, fixed = np.zeros(basis.N), np.zeros(basis.N, bool)
    for curve, condition in enumerate(conditions):
        facets = _facets(basis.mesh, triangles, curve)
        if condition.kind == LOADED:
            load = LinearForm(lambda v, w, value=condition.value: times(value(w.x), v))
            right += load.assemble(basis.boundary(facets))
        elif condition.kind == FIXED:
            for component, name in enumerate(components):
                dofs = basis.get_dofs(facets).all(name)
                solution[dofs], fixed[dofs] = condition.value(basis.doflocs[:, dofs])[component], True
    free = np.flatnonzero(~fixed)
    rows = matrix.tocsr()[free]
    # Symmetric and positive definite: no pivoting, and an ordering made for that.
    factors = splu(
        rows[:, free].tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    solution[free] = factors.solve(right[free] - rows @ np.where(fixed, solution, 0.0))
    return solution


def _facets(mesh: Any, triangles: Triangulation, curve: int) -> NDArray[np.int64]:
    """Return the numbers of a curve's edges in the mesh of scikit-fem, which keeps them sorted by their nodes."""
    nodes = len(triangles.points)

    def key(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(pairs.min(0) * nodes + pairs.max(0))

    every = key(mesh.facets.astype(np.int64))
    order = np.argsort(every)
    wanted = key(triangles.facets[:, triangles.curve == curve])
    return np.asarray(order[np.searchsorted(every, wanted, sorter=order)])


def _mesh(
    triangles: Triangulation,
    coefficient: Field,
    source: Field,
    conditions: Sequence[Condition],
    solution: NDArray[np.float64],
) -> Mesh:
    place = triangles.points.T
    kind = np.full(len(triangles.points), INTERIOR, np.uint8)
    value = np.zeros((len(kind), len(conditions[0].value(np.zeros((2, 1))))))
    # In a corner a fixed side goes before a loaded one, and that before a free one.
    for wanted in (FREE, LOADED, FIXED):
        for curve, condition in enumerate(conditions):
            if condition.kind == wanted:
                nodes = np.unique(triangles.facets[:, triangles.curve == curve])
                kind[nodes], value[nodes] = wanted, condition.value(triangles.points[nodes].T).T
    return Mesh(
        position=triangles.points.astype(np.float32),
        coefficient=coefficient(place).astype(np.float32),
        source=source(place).T.astype(np.float32),
        kind=kind,
        value=value.astype(np.float32),
        solution=solution.astype(np.float32),
        cells=triangles.cells.astype(np.int32),
    )
