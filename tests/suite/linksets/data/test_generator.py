"""Problems are as the settings say, and their solutions optimal.

``MOORING_LINKSET_CHECKS=1000`` checks 1,000 graphs of each split, of full size, instead of a few small ones.
"""

from __future__ import annotations

import itertools
import math
import os
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from ortools.graph.python import min_cost_flow

from mooring.suite.linksets.data import (
    SPLITS,
    STATUS_OPTIMAL,
    LinkGraph,
    LinkSettings,
    adjacency,
    generate,
    greedy,
    is_feasible,
    solve,
)
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


MIDDLING = LinkSettings(nodes=(5, 43), larger_nodes=(47, 53))


def by_flow(graph: LinkGraph, settings: LinkSettings) -> NDArray[np.bool_]:
    """The same optimum as a minimum-cost flow: even node -> its sector -> the pair -> odd node's sector -> odd node."""
    flow = min_cost_flow.SimpleMinCostFlow()
    arc = flow.add_arc_with_capacity_and_unit_cost
    source, sink = 0, 1

    def cell(node: int, sector: int) -> int:
        return 2 + graph.num_nodes * (1 + int(sector)) + int(node)

    for node, parity in enumerate(graph.parity.tolist()):
        arc(*((2 + node, sink) if parity else (source, 2 + node)), settings.degree, 0)
        for sector in range(settings.sectors):
            inner = (2 + node, cell(node, sector))
            arc(*(inner if not parity else inner[::-1]), settings.per_sector, 0)
    arcs = []
    for (i, j), (s, t), weight in zip(graph.pairs.T, graph.sector.T, graph.weight, strict=True):
        even, odd = (cell(i, s), cell(j, t)) if graph.parity[i] == 0 else (cell(j, t), cell(i, s))
        arcs.append(arc(even, odd, 1, -int(weight)))
    supply = settings.degree * graph.num_nodes
    arc(source, sink, supply, 0)
    flow.set_node_supply(source, supply)
    flow.set_node_supply(sink, -supply)
    assert flow.solve() == flow.OPTIMAL
    return np.array([flow.flow(number) > 0 for number in arcs], dtype=np.bool_)


@pytest.mark.parametrize("rules", [{}, {"per_sector": 1, "degree": 2}, {"sectors": 4, "per_sector": 2, "degree": 5}])
def test_optimum_agrees_with_a_flow_solver(rules: dict[str, int]) -> None:
    settings = LinkSettings(nodes=(31, 43), larger_nodes=(47, 53), **rules)
    beaten = 0
    for index in range(7):
        graph = generate(settings, "train", index, seed=1)
        assert (graph.chosen == by_flow(graph, settings)).all()
        beaten += graph.weight[graph.chosen].sum() > graph.weight[greedy(graph, settings)].sum()
    # The control: a solver that is only good would not pass, because greedy would not.
    assert beaten >= 3


def test_optimum_agrees_with_trying_every_set() -> None:
    settings = LinkSettings(nodes=(5, 7), larger_nodes=(11, 13), per_sector=1, degree=2)
    tried = 0
    for index in range(17):
        graph = generate(settings, "train", index, seed=2)
        if not 4 <= len(graph.weight) <= 9:
            continue
        sets = [np.array(bits) for bits in itertools.product([False, True], repeat=len(graph.weight))]
        totals = [graph.weight[bits].sum() for bits in sets if is_feasible(graph, adjacency(graph, bits), settings)]
        assert graph.weight[graph.chosen].sum() == max(totals)
        assert totals.count(max(totals)) == 1
        tried += 1
    assert tried >= 3


def test_optimum_is_unique() -> None:
    for index in range(11):
        graph = generate(MIDDLING, "test", index, seed=4)
        problem = (graph.num_nodes, graph.pairs, graph.sector, graph.weight, MIDDLING)
        second, _ = solve(*problem, excluded=graph.chosen)
        assert (second != graph.chosen).any()
        assert graph.weight[second].sum() < graph.weight[graph.chosen].sum()


def test_ties_would_be_seen() -> None:
    pairs = np.array([[0, 0], [1, 2]], dtype=np.int32)
    settings = LinkSettings(sectors=1, per_sector=1, degree=1)
    problem = (3, pairs, np.zeros((2, 2), dtype=np.uint8), np.array([5, 5]), settings)
    first, _ = solve(*problem)
    second, _ = solve(*problem, excluded=first)
    assert first.sum() == second.sum() == 1


def test_a_problem_without_an_answer_is_told_apart_from_an_empty_one() -> None:
    nothing = (2, np.zeros((2, 0), np.int32), np.zeros((2, 0), np.uint8), np.zeros(0, np.int64), SMALL)
    assert solve(*nothing)[1] == STATUS_OPTIMAL
    with pytest.raises(RuntimeError, match="CP-SAT ended with INFEASIBLE on 2 nodes and 0 pairs"):
        solve(*nothing, excluded=np.zeros(0, np.bool_))


def test_missing_solver_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(ImportError, match=r"pip install 'mooring\[links\]'"):
        generate(MIDDLING, "train", index=0, seed=0)
