"""Random problems on random plates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.suite.meshes.data.mesh import FIXED, FREE, LOADED, Mesh, check_mesh
from mooring.suite.meshes.data.plate import SIDES, SPLITS, Plate, PlateSettings, draw
from mooring.suite.meshes.data.solver import Condition, Field, solve_elasticity, solve_heat

WAVES = 4
# Radians per unit of length.
WAVE_NUMBER = (1.0, 6.0)
SOURCE_WIDTH, SOURCE_HEIGHT, MOST_SOURCES = (0.06, 0.15), 30.0, 3
FLUX, LOAD, BODY_FORCE = 1.5, (0.5, 1.5), 0.5


def generate(settings: PlateSettings, split: str, index: int, seed: int) -> Mesh:
    """Return one solved problem, a pure function of the arguments."""
    rng = np.random.default_rng((seed, SPLITS.index(split), index))
    plate, triangles = draw(settings, split, rng)
    if settings.physics == "heat":
        field, source = waves(rng, 0.8), sources(plate, rng)
        mesh = solve_heat(triangles, field, source, heat_conditions(plate, rng))
    else:
        field, force = waves(rng, 0.5), constant(*(BODY_FORCE * rng.normal(size=2)))
        mesh = solve_elasticity(triangles, field, force, load_conditions(plate, rng))
    return check_mesh(mesh, f"meshes: {split} {index} of seed {seed}")


def heat_conditions(plate: Plate, rng: np.random.Generator) -> list[Condition]:
    """Draw the conditions of the sides and holes; at least one side is fixed.

    All fixed sides follow one smooth field, so that there is no jump in a corner. A hole has one temperature or flux.
    """
    outside, first = waves(rng, 1.0), rng.integers(len(SIDES))
    conditions = []
    for curve in range(len(SIDES) + len(plate.holes)):
        kind = FIXED if curve == first else int(rng.choice((FIXED, LOADED, FREE)))
        level = rng.normal() * {FIXED: 1.0, LOADED: FLUX, FREE: 0.0}[kind]
        follows = curve < len(SIDES) and kind == FIXED
        conditions.append(Condition(kind, (lambda place: outside(place)[None]) if follows else constant(level)))
    return conditions


def load_conditions(plate: Plate, rng: np.random.Generator) -> list[Condition]:
    """Clamp one side and load the opposite one in any direction; all else is free."""
    clamped = int(rng.integers(len(SIDES)))
    # Opposite sides are next to each other in SIDES.
    loaded = clamped ^ 1
    angle, size = rng.uniform(0.0, 2.0 * math.pi), rng.uniform(*LOAD)
    conditions = [Condition(FREE, constant(0.0, 0.0))] * (len(SIDES) + len(plate.holes))
    conditions[clamped] = Condition(FIXED, constant(0.0, 0.0))
    conditions[loaded] = Condition(LOADED, constant(size * math.cos(angle), size * math.sin(angle)))
    return conditions


def waves(rng: np.random.Generator, size: float) -> Field:
    """Draw a smooth field: a few sine waves of deviation ``size``."""
    number = rng.uniform(*WAVE_NUMBER, WAVES)
    angle, phase = rng.uniform(0.0, 2.0 * math.pi, (2, WAVES))
    height = size * rng.normal(size=WAVES) * math.sqrt(2.0 / WAVES)
    direction = number * np.stack([np.cos(angle), np.sin(angle)])

    def field(place: Any) -> Any:
        return np.tensordot(height, np.sin(np.tensordot(direction, place, (0, 0)) + _like(phase, place)), 1)

    return field


def sources(plate: Plate, rng: np.random.Generator) -> Field:
    """Draw a few heat sources and sinks, as many per unit of area on plates of every size."""
    width, height = plate.size
    count = max(1, round(width * height * rng.integers(1, MOST_SOURCES + 1)))
    centre = rng.uniform((0.0, 0.0), plate.size, (count, 2))
    breadth, power = rng.uniform(*SOURCE_WIDTH, count), SOURCE_HEIGHT * rng.normal(size=count)

    def field(place: Any) -> Any:
        away = np.square(place[:, None] - _like(centre.T, place[0])).sum(0)
        return np.tensordot(power, np.exp(-0.5 * away / _like(breadth**2, place)), 1)[None]

    return field


def constant(*levels: float) -> Field:
    """Return the field that has the same components everywhere."""
    return lambda place: np.stack([np.full(np.shape(place)[1:], level) for level in levels])


def _like(values: NDArray[np.float64], place: Any) -> NDArray[np.float64]:
    """Values with as many axes behind them as a place has behind its first."""
    return values.reshape(*values.shape, *[1] * (np.ndim(place) - 1 + (values.ndim > 1)))
