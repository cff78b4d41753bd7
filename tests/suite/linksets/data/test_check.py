from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from mooring.suite.linksets.data import CONSTRAINTS, LinkGraph, LinkSettings, is_feasible, violations

SETTINGS = LinkSettings(nodes=(7, 7), larger_nodes=(11, 13), sectors=2, per_sector=2, degree=3, reach=0.5)

# Node 0 in the middle, looking along x; 1-5 around it, of the other parity; 6 far away.
ANGLES = np.array([0.3, 0.9, 1.5, -0.4, -1.2])
POSITION = np.concatenate(
    [np.zeros((1, 2)), 0.3 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1), np.array([[-0.9, 0.0]])]
)
GRAPH = LinkGraph(
    position=POSITION,
    orientation=np.zeros(7),
    gain=np.ones(7),
    parity=np.array([0, 1, 1, 1, 1, 1, 1], dtype=np.uint8),
    pairs=np.zeros((2, 0), dtype=np.int32),
    sector=np.zeros((2, 0), dtype=np.uint8),
    weight=np.zeros(0, dtype=np.int64),
    chosen=np.zeros(0, dtype=np.bool_),
    status=4,
)


def links(*pairs: tuple[int, int], one_way: bool = False) -> NDArray[np.bool_]:
    matrix = np.zeros((7, 7), dtype=np.bool_)
    for i, j in pairs:
        matrix[i, j] = True
        matrix[j, i] = not one_way
    return matrix


@pytest.mark.parametrize(
    ("matrix", "rule", "share"),
    [
        (links((0, 1), one_way=True), "symmetry", 1.0),
        (links((1, 4)), "parity", 1.0),
        (links((0, 6)), "reach", 1.0),
        (links((0, 1), (0, 2), (0, 4), (0, 5)), "degree", 1 / 7),
        (links((0, 1), (0, 2), (0, 3)), "sector", 1 / 14),
    ],
)
def test_each_rule_is_broken_alone(matrix: NDArray[np.bool_], rule: str, share: float) -> None:
    if rule == "parity":
        assert np.hypot(*(POSITION[1] - POSITION[4])) < SETTINGS.reach
    assert violations(GRAPH, matrix, SETTINGS) == {name: share if name == rule else 0.0 for name in CONSTRAINTS}
    assert not is_feasible(GRAPH, matrix, SETTINGS)


def test_a_self_link_is_named() -> None:
    matrix = links((0, 1))
    matrix[2, 2] = True
    # A node's parity is its own, so a self-link breaks that rule as well.
    assert violations(GRAPH, matrix, SETTINGS)["self_link"] == pytest.approx(1 / 3)


def test_sectors_turn_with_the_antenna() -> None:
    matrix = links((0, 1), (0, 2), (0, 4))
    assert is_feasible(GRAPH, matrix, SETTINGS)
    turned = dataclasses.replace(GRAPH, orientation=np.full(7, -1.0))
    assert violations(turned, matrix, SETTINGS)["sector"] > 0


def test_no_links_break_nothing() -> None:
    assert is_feasible(GRAPH, links(), SETTINGS)
