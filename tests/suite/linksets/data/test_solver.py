from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from ortools.graph.python import min_cost_flow

from mooring.suite.linksets.data import LinkGraph, LinkSettings, adjacency, generate, greedy, is_feasible, solve

SMALL = LinkSettings(nodes=(5, 43), larger_nodes=(47, 53))


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
        graph = generate(SMALL, "test", index, seed=4)
        problem = (graph.num_nodes, graph.pairs, graph.sector, graph.weight, SMALL)
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


def test_missing_solver_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(ImportError, match=r"pip install 'mooring\[links\]'"):
        generate(SMALL, "train", index=0, seed=0)
