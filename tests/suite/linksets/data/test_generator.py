"""``MOORING_LINKSET_CHECKS=1000`` checks 1,000 graphs of each split, of full size, instead of a few small ones."""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import pytest

from mooring.suite.linksets.data import SPLITS, STATUS_OPTIMAL, LinkSettings, adjacency, generate, is_feasible
from mooring.suite.linksets.data.graph import sector_of

SMALL = LinkSettings(nodes=(5, 23), larger_nodes=(29, 31))
NUM_CHECKS = int(os.environ.get("MOORING_LINKSET_CHECKS", "0"))
CHECKED = LinkSettings() if NUM_CHECKS else SMALL


@pytest.mark.parametrize("split", SPLITS)
def test_graphs_pass_their_own_validity_check(split: str) -> None:
    low, high = CHECKED.size_range(split)
    for index in range(NUM_CHECKS or 19):
        graph = generate(CHECKED, split, index, seed=3)
        assert low <= graph.num_nodes <= high
        assert graph.status == STATUS_OPTIMAL
        assert is_feasible(graph, adjacency(graph, graph.chosen), CHECKED)
        assert np.linalg.norm(graph.position, axis=1).max() <= 1
        assert (graph.weight > 0).all()


def test_candidates_sectors_and_weights_by_hand() -> None:
    graph = generate(SMALL, "test", index=2, seed=5)
    expected = {}
    for i, j in itertools.combinations(range(graph.num_nodes), 2):
        dx, dy = graph.position[j] - graph.position[i]
        if graph.parity[i] == graph.parity[j] or math.hypot(dx, dy) > SMALL.reach:
            continue
        sectors = tuple(
            int((math.atan2(sign * dy, sign * dx) - graph.orientation[node]) % math.tau / (math.tau / SMALL.sectors))
            for node, sign in ((i, 1), (j, -1))
        )
        log_weight = math.log(1e8) + 3 * (graph.gain[i] + graph.gain[j]) - 6 - (dx * dx + dy * dy) / 2
        expected[i, j] = (*sectors, pytest.approx(math.exp(log_weight), abs=1))
    assert len(expected) > 10
    found = {
        (i, j): (*sectors, weight)
        for (i, j), sectors, weight in zip(
            graph.pairs.T.tolist(), graph.sector.T.tolist(), graph.weight.tolist(), strict=True
        )
    }
    assert found == expected


def test_sizes_are_spread_over_the_range() -> None:
    settings = LinkSettings(nodes=(4, 7), larger_nodes=(11, 13))
    sizes = {generate(settings, "train", index, seed=0).num_nodes for index in range(31)}
    assert sizes == {4, 5, 6, 7}


def test_graph_is_a_function_of_split_index_and_seed() -> None:
    def positions(split: str, index: int, seed: int) -> bytes:
        return generate(SMALL, split, index, seed).position.tobytes()

    assert positions("train", 3, 7) == positions("train", 3, 7)
    others = [("validation", 3, 7), ("train", 4, 7), ("train", 3, 8)]
    assert all(positions(*other) != positions("train", 3, 7) for other in others)


def test_a_graph_of_one_parity_has_the_empty_answer() -> None:
    settings = LinkSettings(nodes=(2, 2), larger_nodes=(3, 3), sectors=1, per_sector=1, degree=1)
    graphs = [generate(settings, "train", index, seed=0) for index in range(13)]
    empty = [graph for graph in graphs if len(graph.weight) == 0]
    assert empty
    assert all(graph.chosen.shape == (0,) and graph.status == STATUS_OPTIMAL for graph in empty)
    assert all(graph.chosen.all() for graph in graphs if len(graph.weight))


def test_a_direction_a_hair_before_the_orientation_is_in_the_last_sector() -> None:
    orientation = np.array([1.0, 1.0, 1.0])
    direction = np.array([1.0, np.nextafter(1.0, 0.0), 1.0 - 1e-17])
    assert sector_of(direction, orientation, 3).tolist() == [0, 2, 0]
    assert sector_of(np.array([-1e-20]), np.array([0.0]), 3).tolist() == [2]
