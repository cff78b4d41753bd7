"""Plates with holes: their shapes, drawn at random, and triangles of good quality that fill them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay, cKDTree

Physics = Literal["heat", "elasticity"]
SPLITS = ("train", "validation", "test", "finer", "holes", "larger")
#: The splits whose plates differ from those of training.
BEYOND = SPLITS[3:]

SIDES = ("left", "right", "bottom", "top")
# Half the longer axis of a hole, and the shorter one as a share of it.
HOLE_RADIUS, HOLE_RATIO = (0.08, 0.16), (0.6, 1.0)
# Between two holes, and between a hole and a side.
SMALLEST_GAP = 0.08
HOLE_TRIES = 200
LEAST_RING = 6
# In units of the spacing: how far lattice points are moved at random, and how near a boundary they may be.
JITTER, CLEARANCE = 0.25, 0.6
SMOOTHING_ROUNDS = 4


@dataclass(frozen=True)
class PlateSettings:
    """The plates of a data set.

    Args:
        physics: ``"heat"`` conduction, or ``"elasticity"`` with the von Mises stress as the solution.
        nodes: fewest and most nodes of a plate of area 1 without holes.
        holes: fewest and most holes per unit of area.
        more_holes: the same in the split ``holes``.
        finer: the spacing of the split ``finer`` is that of training divided by this.
        larger: area of the plates of the split ``larger``; they have as many nodes and holes per unit of area.
    """

    physics: Physics = "heat"
    nodes: tuple[int, int] = (400, 700)
    holes: tuple[int, int] = (0, 3)
    more_holes: tuple[int, int] = (4, 6)
    finer: float = 2.0
    larger: float = 2.0

    def __post_init__(self) -> None:
        who = type(self).__name__
        if self.physics not in get_args(Physics):
            raise ValueError(f"{who}: physics is {self.physics!r}, expected 'heat' or 'elasticity'.")
        for name, least in (("nodes", 30), ("holes", 0), ("more_holes", 0)):
            low, high = getattr(self, name)
            if not least <= low <= high:
                raise ValueError(f"{who}: {name}=({low}, {high}), expected two rising numbers of {least} or more.")
        for name in ("finer", "larger"):
            if not 1.0 <= getattr(self, name) <= 16.0:
                raise ValueError(f"{who}: {name}={getattr(self, name)}, expected a factor from 1 to 16.")

    @property
    def spacing(self) -> float:
        """The distance between neighbouring nodes of a typical training plate, in which edges are measured."""
        return spacing_of(math.sqrt(self.nodes[0] * self.nodes[1]))


@dataclass(frozen=True, eq=False)
class Hole:
    """An ellipse: centre, half axes and the angle of the first axis."""

    centre: NDArray[np.float64]
    axes: NDArray[np.float64]
    angle: float

    def inside(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether each point is inside."""
        return np.asarray(np.square((points - self.centre) @ self._turn() / self.axes).sum(1) < 1.0)

    def ring(self, spacing: float) -> NDArray[np.float64]:
        """Return points at equal distances along the edge, in order."""
        angle = np.linspace(0.0, 2.0 * math.pi, 401)
        curve = np.stack([np.cos(angle), np.sin(angle)], 1) * self.axes @ self._turn().T + self.centre
        length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
        count = max(LEAST_RING, round(length[-1] / spacing))
        places = np.arange(count) / count * length[-1]
        return np.stack([np.interp(places, length, curve[:, axis]) for axis in (0, 1)], 1)

    def _turn(self) -> NDArray[np.float64]:
        cos, sin = math.cos(self.angle), math.sin(self.angle)
        return np.array([[cos, -sin], [sin, cos]])


@dataclass(frozen=True, eq=False)
class Plate:
    """A rectangle with one corner at the origin, its holes, and the distance between neighbouring nodes."""

    size: tuple[float, float]
    holes: tuple[Hole, ...]
    spacing: float


@dataclass(frozen=True, eq=False)
class Triangulation:
    """Nodes, cells, and the curves that bound them.

    Args:
        points: ``[nodes, 2]``.
        cells: nodes of each triangle, counter-clockwise, ``[3, cells]``.
        facets: the two nodes of each boundary edge, ``[2, facets]``.
        curve: of each boundary edge: 0 to 3 for the :data:`SIDES`, 4 for the first hole, and so on.
    """

    points: NDArray[np.float64]
    cells: NDArray[np.int64]
    facets: NDArray[np.int64]
    curve: NDArray[np.int64]


def spacing_of(nodes: float) -> float:
    """Return the spacing of a triangular lattice with this many nodes per unit of area."""
    return math.sqrt(2.0 / (math.sqrt(3.0) * nodes))


def draw_plate(settings: PlateSettings, split: str, rng: np.random.Generator) -> Plate | None:
    """Return a random plate of a split; None if its holes do not fit."""
    nodes = math.exp(rng.uniform(*np.log(settings.nodes)))
    spacing = spacing_of(nodes) / (settings.finer if split == "finer" else 1.0)
    area = settings.larger if split == "larger" else 1.0
    aspect = math.sqrt(rng.uniform(0.64, 1.56))
    size = (math.sqrt(area) * aspect, math.sqrt(area) / aspect)
    low, high = settings.more_holes if split == "holes" else settings.holes
    # A ring and a side that are nearer than this have no room for a good triangle between them.
    gap = max(SMALLEST_GAP, 1.5 * spacing)
    holes: list[Hole] = []
    rings: list[NDArray[np.float64]] = []
    for _ in range(round(area * rng.integers(low, high + 1))):
        for _ in range(HOLE_TRIES):
            radius = rng.uniform(*HOLE_RADIUS)
            axes = np.array([radius, radius * rng.uniform(*HOLE_RATIO)])
            hole = Hole(rng.uniform((0.0, 0.0), size), axes, rng.uniform(0.0, math.pi))
            ring = hole.ring(spacing)
            fits = (ring > gap).all() and (ring < np.array(size) - gap).all()
            if fits and all(cKDTree(other).query(ring)[0].min() > gap for other in rings):
                holes.append(hole)
                rings.append(ring)
                break
        else:
            return None
    return Plate(size, tuple(holes), spacing)


def triangulate(plate: Plate, rng: np.random.Generator) -> Triangulation | None:
    """Fill a plate with triangles; None if they do not follow its boundary.

    A lattice of equilateral triangles is turned and shifted at random, moved a little, cleared around the boundary,
    joined with points along the boundary by Delaunay's rule, and smoothed.
    """
    rings = [_outline(plate), *(hole.ring(plate.spacing) for hole in plate.holes)]
    edge = np.concatenate(rings)
    ring = np.repeat(np.arange(len(rings)), [len(curve) for curve in rings])
    points = np.concatenate([edge, _lattice(plate, edge, rng)])
    for _ in range(SMOOTHING_ROUNDS):
        points[len(edge) :] = _neighbour_mean(points, _cells(plate, points))[len(edge) :]
    cells = _cells(plate, points)
    if len(np.unique(cells)) < len(points):
        return None
    facets = boundary(cells)
    # Each point of a curve has a boundary edge to the next one, and there are no other boundary edges.
    ends = np.cumsum([len(curve) for curve in rings])
    following = np.arange(len(edge)) + 1
    following[ends - 1] = ends - [len(curve) for curve in rings]
    if not np.array_equal(_as_pairs(facets), _as_pairs(np.stack([np.arange(len(edge)), following]))):
        return None
    return Triangulation(points, cells, facets, _curves(plate, points, facets, ring))


def boundary(cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the edges that belong to one triangle only, ``[2, facets]``."""
    sides = np.concatenate([cells[[0, 1]], cells[[1, 2]], cells[[2, 0]]], axis=1).astype(np.int64)
    low, high = sides.min(0), sides.max(0)
    _, first, count = np.unique(low * (int(cells.max()) + 1) + high, return_index=True, return_counts=True)
    return sides[:, first[count == 1]]


def signed_areas(points: NDArray[np.floating], cells: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the area of each triangle, below zero where its nodes run clockwise."""
    first, second, third = np.asarray(points, np.float64)[cells]
    a, b = second - first, third - first
    return np.asarray(0.5 * (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]))


def draw(settings: PlateSettings, split: str, rng: np.random.Generator) -> tuple[Plate, Triangulation]:
    """Return a plate and its triangles; what cannot be filled is drawn again."""
    for _ in range(HOLE_TRIES):
        plate = draw_plate(settings, split, rng)
        triangles = None if plate is None else triangulate(plate, rng)
        if plate is not None and triangles is not None:
            return plate, triangles
    wanted = ", ".join(f"{item.name}={getattr(settings, item.name)}" for item in fields(settings))
    raise ValueError(
        f"meshes: no plate of the split {split!r} could be meshed with {wanted}. Ask for fewer holes or more nodes."
    )


def _outline(plate: Plate) -> NDArray[np.float64]:
    """Points along the rectangle, in order."""
    width, height = plate.size
    corners = np.array([(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)])
    parts = []
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        count = max(2, round(float(np.linalg.norm(end - start)) / plate.spacing))
        share = np.arange(count)[:, None] / count
        parts.append(start + share * (end - start))
    return np.concatenate(parts)


def _lattice(plate: Plate, edge: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Points inside the plate, clear of its boundary."""
    size, spacing = np.array(plate.size), plate.spacing
    reach = math.ceil(float(np.linalg.norm(size)) / spacing / math.sqrt(3.0) * 1.2) + 2
    row, column = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    points = spacing * np.stack([column + 0.5 * (row % 2), math.sqrt(0.75) * row], -1).reshape(-1, 2)
    angle = rng.uniform(0.0, math.pi / 3.0)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    points = points @ turn + size / 2.0 + rng.uniform(-0.5, 0.5, 2) * spacing
    points += rng.uniform(-JITTER, JITTER, points.shape) * spacing
    points = points[(points > 0.0).all(1) & (points < size).all(1)]
    for hole in plate.holes:
        points = points[~hole.inside(points)]
    return points[cKDTree(edge).query(points)[0] > CLEARANCE * spacing]


def _cells(plate: Plate, points: NDArray[np.float64]) -> NDArray[np.int64]:
    """The Delaunay triangles outside the holes, counter-clockwise, flat ones left out."""
    cells = Delaunay(points).simplices.T.astype(np.int64)
    middle = points[cells].mean(0)
    for hole in plate.holes:
        keep = ~hole.inside(middle)
        cells, middle = cells[:, keep], middle[keep]
    area = signed_areas(points, cells)
    cells = np.where(area < 0.0, cells[[0, 2, 1]], cells)
    return cells[:, np.abs(area) > 1e-3 * plate.spacing**2]


def _neighbour_mean(points: NDArray[np.float64], cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean of each node's neighbours, those in two shared triangles twice."""
    total, count = np.zeros_like(points), np.zeros(len(points))
    for here in range(3):
        for there in ((here + 1) % 3, (here + 2) % 3):
            for axis in (0, 1):
                total[:, axis] += np.bincount(cells[here], points[cells[there], axis], len(points))
            count += np.bincount(cells[here], minlength=len(points))
    return np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], points)


def _curves(
    plate: Plate, points: NDArray[np.float64], facets: NDArray[np.int64], ring: NDArray[np.int64]
) -> NDArray[np.int64]:
    curve = ring[facets[0]] + len(SIDES) - 1
    middle = points[facets].mean(0)
    outer = ring[facets[0]] == 0
    for number, (axis, at) in enumerate(((0, 0.0), (0, plate.size[0]), (1, 0.0), (1, plate.size[1]))):
        curve[outer & (np.abs(middle[:, axis] - at) < 1e-9)] = number
    return curve


def _as_pairs(facets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Edges in one order, whichever way each runs."""
    pairs = np.sort(facets, axis=0)
    return pairs[:, np.lexsort(pairs)]
