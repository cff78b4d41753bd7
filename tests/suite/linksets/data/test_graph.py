"""Settings of link sets; decoded link sets obey the rules, and the check of the rules sees every breach."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mooring.suite.linksets.data import (
    CONSTRAINTS,
    LinkGraph,
    LinkSettings,
    adjacency,
    feasible,
    generate,
    greedy,
    is_feasible,
    violations,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": (13, 11)}, "empty. Pass the smaller end first"),
        ({"nodes": (1, 11)}, "a link needs two nodes"),
        ({"larger_nodes": (64, 90)}, "inside the training range"),
        ({"reach": 0.0}, "leaves no candidate pair"),
        ({"reach": 2.5}, "reaches past the disc"),
        ({"sectors": 0}, "at least 1"),
        ({"sectors": 8, "degree": 7}, "8 sectors around a node that has at most 7 others"),
        ({"per_sector": 7}, "the sector rule could never bind"),
        ({"degree": 10}, "have room for \\(9\\)"),
        ({"spread": 20.0}, "Lower spread or raise decay"),
        ({"decay": 0.0}, "Lower spread or raise decay"),
        ({"spread": -1.0}, "expected 0 to 14"),
    ],
)
def test_impossible_settings_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinkSettings(**fields)


def test_settings_at_the_limits_are_accepted() -> None:
    LinkSettings(nodes=(4, 4), larger_nodes=(5, 5), sectors=3, per_sector=1, degree=3, reach=2.0, spread=0.0)


def test_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match="unknown split 'valid'; the splits are train, validation, test, larger"):
        LinkSettings().size_range("valid")


def test_published_settings_are_the_default() -> None:
    published = {"nodes": (8, 64), "larger_nodes": (80, 128), "reach": 1.0, "spread": 6.0, "decay": 1.0}
    assert LinkSettings() == LinkSettings(**published, sectors=3, per_sector=3, degree=6)


LARGE = LinkSettings(nodes=(23, 37), larger_nodes=(41, 43))


def test_any_probabilities_become_a_feasible_set_that_cannot_grow() -> None:
    rng = np.random.default_rng(0)
    for index in range(7):
        graph = generate(LARGE, "train", index, seed=0)
        chosen = feasible(graph, rng.random(len(graph.weight)), LARGE, threshold=0.0)
        assert is_feasible(graph, adjacency(graph, chosen), LARGE)
        for extra in np.flatnonzero(~chosen):
            grown = chosen.copy()
            grown[extra] = True
            assert not is_feasible(graph, adjacency(graph, grown), LARGE)


def test_without_decoding_the_rules_are_broken() -> None:
    graph = generate(LARGE, "train", index=0, seed=0)
    broken = violations(graph, adjacency(graph, np.ones(len(graph.weight), dtype=np.bool_)), LARGE)
    assert broken["degree"] > 0.3
    assert broken["sector"] > 0.1
    assert broken["parity"] == broken["reach"] == broken["symmetry"] == broken["self_link"] == 0


def test_a_sure_model_gets_its_own_set_back() -> None:
    graph = generate(LARGE, "train", index=1, seed=0)
    assert (feasible(graph, graph.chosen.astype(float), LARGE) == graph.chosen).all()


def test_pairs_below_the_threshold_are_left_out() -> None:
    graph = generate(LARGE, "train", index=2, seed=0)
    probability = np.linspace(0, 1, len(graph.weight))
    assert not feasible(graph, probability, LARGE, threshold=0.7)[probability < 0.7].any()


def test_greedy_takes_the_heaviest_first() -> None:
    graph = generate(LARGE, "train", index=3, seed=0)
    chosen = greedy(graph, LARGE)
    assert chosen[np.argmax(graph.weight)]
    by_weight = feasible(graph, graph.weight / graph.weight.max(), LARGE, threshold=0.0)
    assert (chosen == by_weight).all()
    assert graph.weight[chosen].sum() <= graph.weight[graph.chosen].sum()


def test_wrong_number_of_probabilities() -> None:
    graph = generate(LARGE, "train", index=0, seed=0)
    with pytest.raises(ValueError, match="Pass one probability per pair"):
        feasible(graph, np.zeros(3), LARGE)


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
