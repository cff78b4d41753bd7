"""Plates and their triangles: quality, boundary, and what each split changes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mooring.suite.meshes.data.plate import (
    SPLITS,
    Hole,
    Plate,
    PlateSettings,
    Triangulation,
    boundary,
    draw,
    signed_areas,
    spacing_of,
    triangulate,
)

SETTINGS = PlateSettings(nodes=(150, 250), holes=(1, 2), more_holes=(3, 4))


def drawn(split: str, number: int) -> tuple[Plate, Triangulation]:
    return draw(SETTINGS, split, np.random.default_rng((3, number)))


def angles(triangles: Triangulation) -> NDArray[np.float64]:
    corners = triangles.points[triangles.cells]
    to_next, to_last = (np.roll(corners, shift, axis=0) - corners for shift in (-1, 1))
    cosine = (to_next * to_last).sum(-1) / (np.linalg.norm(to_next, axis=-1) * np.linalg.norm(to_last, axis=-1))
    return np.asarray(np.degrees(np.arccos(cosine)))


@pytest.mark.parametrize("split", SPLITS)
def test_triangles_fill_the_plate_and_leave_its_holes(split: str) -> None:
    for number in range(3):
        plate, triangles = drawn(split, number)
        area = signed_areas(triangles.points, triangles.cells)
        holes = sum(np.pi * hole.axes.prod() for hole in plate.holes)
        # The rings are polygons inside their ellipses.
        assert area.sum() == pytest.approx(np.prod(plate.size) - holes, rel=0.02)
        assert area.min() > 0.0
        assert angles(triangles).min() > 12.0
        assert np.array_equal(np.unique(triangles.cells), np.arange(len(triangles.points)))


@pytest.mark.parametrize("split", SPLITS)
def test_every_boundary_edge_has_its_curve(split: str) -> None:
    plate, triangles = drawn(split, 0)
    assert set(triangles.curve) == set(range(4 + len(plate.holes)))
    left, right, bottom, top = (triangles.points[triangles.facets[:, triangles.curve == side]] for side in range(4))
    width, height = plate.size
    for points, axis, at in ((left, 0, 0.0), (right, 0, width), (bottom, 1, 0.0), (top, 1, height)):
        assert np.abs(points[..., axis] - at).max() < 1e-12
    for number, hole in enumerate(plate.holes):
        edge = triangles.points[triangles.facets[:, triangles.curve == 4 + number]].reshape(-1, 2)
        wider, narrower = (Hole(hole.centre, factor * hole.axes, hole.angle) for factor in (1.01, 0.99))
        assert wider.inside(edge).all()
        assert not narrower.inside(edge).any()


def test_a_split_beyond_training_changes_one_thing() -> None:
    def mean(split: str) -> tuple[float, float, float]:
        plates = [drawn(split, number)[0] for number in range(12)]
        areas = [np.prod(plate.size) for plate in plates]
        holes = sum(len(plate.holes) for plate in plates) / sum(areas)
        return float(np.mean(areas)), float(holes), float(np.mean([plate.spacing for plate in plates]))

    usual = mean("test")
    assert mean("finer") == pytest.approx((1.0, usual[1], usual[2] / 2), rel=0.3)
    assert mean("larger") == pytest.approx((2.0, usual[1], usual[2]), rel=0.3)
    assert mean("holes")[::2] == pytest.approx(usual[::2], rel=0.1)
    assert mean("holes")[1] >= 3.0 > 2.0 >= usual[1]


def test_triangles_that_cut_off_a_boundary_are_not_accepted() -> None:
    # The hole reaches the side, so that no triangle follows its edge there.
    plate = Plate((1.0, 1.0), (Hole(np.array([0.1, 0.5]), np.array([0.15, 0.15]), 0.0),), spacing_of(200))
    assert triangulate(plate, np.random.default_rng(0)) is None


def test_boundary_edges_belong_to_one_triangle() -> None:
    edges = boundary(np.array([[0, 0], [1, 2], [2, 3]]))
    assert {tuple(sorted(pair)) for pair in edges.T.tolist()} == {(0, 1), (1, 2), (2, 3), (0, 3)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"physics": "flow"}, "physics is 'flow', expected 'heat' or 'elasticity'"),
        ({"nodes": (10, 20)}, r"nodes=\(10, 20\), expected two rising numbers of 30 or more"),
        ({"holes": (3, 1)}, r"holes=\(3, 1\), expected two rising numbers"),
        ({"finer": 0.5}, "finer=0.5, expected a factor from 1 to 16"),
    ],
)
def test_settings_that_no_plate_has_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^PlateSettings: {message}"):
        PlateSettings(**changes)


def test_holes_that_do_not_fit_are_an_error_with_a_remedy() -> None:
    settings = PlateSettings(nodes=(40, 40), more_holes=(30, 30))
    with pytest.raises(ValueError, match=r"no plate of the split 'holes' could be meshed with .*fewer holes or more"):
        draw(settings, "holes", np.random.default_rng(0))
