"""The solver against solutions that quadratic elements hold exactly, and the random problems around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mooring.suite.meshes.data import FIXED, FREE, INTERIOR, LOADED, Mesh, PlateSettings, generate
from mooring.suite.meshes.data.plate import Triangulation, boundary, draw
from mooring.suite.meshes.data.problems import constant
from mooring.suite.meshes.data.solver import POISSON_RATIO, Condition, solve_elasticity, solve_heat

pytest.importorskip("skfem", reason="solutions are made by scikit-fem: pip install 'mooring[meshes]'")

SETTINGS = PlateSettings(nodes=(90, 130), holes=(2, 2), more_holes=(2, 3))


@pytest.fixture(scope="module")
def triangles() -> Triangulation:
    return draw(SETTINGS, "test", np.random.default_rng(5))[1]


def log_two(place: Any) -> Any:
    return np.full(place.shape[1:], np.log(2.0))


def test_heat_is_exact_for_a_quadratic_temperature(triangles: Triangulation) -> None:
    def exact(place: Any) -> Any:
        return 1.0 + 2.0 * place[0] + 3.0 * place[0] * place[1] - 2.0 * place[1] ** 2

    # -div(2 grad u) = 8, and through the right side flows 2 du/dx.
    conditions = [Condition(FIXED, lambda place: exact(place)[None])] * 6
    conditions[1] = Condition(LOADED, lambda place: 2.0 * (2.0 + 3.0 * place[1])[None])
    mesh = solve_heat(triangles, log_two, constant(8.0), conditions)
    np.testing.assert_allclose(mesh.solution, exact(triangles.points.T), atol=1e-5)


def test_no_heat_flows_through_a_free_boundary(triangles: Triangulation) -> None:
    conditions = [Condition(FREE, constant(0.0))] * 6
    conditions[2] = Condition(FIXED, constant(0.7))
    mesh = solve_heat(triangles, log_two, constant(0.0), conditions)
    np.testing.assert_allclose(mesh.solution, 0.7, atol=1e-6)


def test_stress_is_exact_for_a_uniform_strain(triangles: Triangulation) -> None:
    def stretched(place: Any) -> Any:
        return np.stack([0.2 * place[0], 0.1 * place[0] - 0.05 * place[1]])

    mesh = solve_elasticity(triangles, log_two, constant(0.0, 0.0), [Condition(FIXED, stretched)] * 6)
    young, along, across, slide = 2.0, 0.2, -0.05, 0.1
    first, second = (
        young / (1 - POISSON_RATIO**2) * (one + POISSON_RATIO * other)
        for one, other in ((along, across), (across, along))
    )
    shear = young / (2 * (1 + POISSON_RATIO)) * slide
    expected = np.sqrt(first**2 - first * second + second**2 + 3 * shear**2)
    np.testing.assert_allclose(mesh.solution, expected, rtol=1e-5)


def test_a_pulled_plate_without_holes_has_the_stress_of_its_load() -> None:
    plain = draw(PlateSettings(nodes=(150, 150), holes=(0, 0)), "test", np.random.default_rng(1))[1]
    conditions = [Condition(FREE, constant(0.0, 0.0))] * 4
    conditions[0], conditions[1] = Condition(FIXED, constant(0.0, 0.0)), Condition(LOADED, constant(3.0, 0.0))
    mesh = solve_elasticity(plain, log_two, constant(0.0, 0.0), conditions)
    far = mesh.position[:, 0] > 0.7 * mesh.position[:, 0].max()
    np.testing.assert_allclose(mesh.solution[far], 3.0, rtol=0.05)


@pytest.mark.parametrize("physics", ["heat", "elasticity"])
@pytest.mark.parametrize("split", ["train", "holes"])
def test_a_problem_is_a_pure_function_of_its_seed(physics: Any, split: str) -> None:
    settings = PlateSettings(physics, (60, 90), (1, 1), (2, 2))

    def fields(index: int, seed: int) -> dict[str, Any]:
        return vars(generate(settings, split, index, seed))

    first, again = fields(2, 0), fields(2, 0)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    for other in (fields(3, 0), fields(2, 1)):
        assert not np.array_equal(first["solution"], other["solution"])


def kinds_agree(mesh: Mesh) -> None:
    edge = np.zeros(len(mesh.kind), bool)
    edge[boundary(mesh.cells)] = True
    assert np.array_equal(edge, mesh.kind != INTERIOR)
    free = (mesh.kind == FREE) | (mesh.kind == INTERIOR)
    assert not mesh.value[free].any()


def check_heat(mesh: Mesh) -> None:
    fixed = mesh.kind == FIXED
    assert fixed.any()
    np.testing.assert_allclose(mesh.solution[fixed], mesh.value[fixed, 0], atol=1e-6)


def check_elasticity(mesh: Mesh) -> None:
    assert set(mesh.kind) == {INTERIOR, FIXED, LOADED, FREE}
    assert (mesh.solution >= 0.0).all()
    assert len(np.unique(mesh.value[mesh.kind == LOADED], axis=0)) == 1


@pytest.mark.parametrize(("physics", "check"), [("heat", check_heat), ("elasticity", check_elasticity)])
def test_a_problem_says_what_holds_at_each_node(physics: Any, check: Callable[[Mesh], None]) -> None:
    for index in range(4):
        mesh = generate(PlateSettings(physics, (60, 90), (1, 1)), "train", index, 0)
        kinds_agree(mesh)
        check(mesh)


def test_the_first_problems_stay_what_they_were() -> None:
    """Published records are made of them; a change of the generator is seen here."""
    sums = {
        physics: [float(np.abs(generate(PlateSettings(physics), "train", index, 0).solution).sum()) for index in (0, 1)]  # type: ignore[arg-type]
        for physics in ("heat", "elasticity")
    }
    assert sums["heat"] == pytest.approx([278.9148, 221.8121], rel=1e-4)
    assert sums["elasticity"] == pytest.approx([1997.4860, 1089.3430], rel=1e-4)
