from __future__ import annotations

import numpy as np
import pytest

from mooring.suite.linksets.data import LinkSettings, adjacency, feasible, generate, greedy, is_feasible, violations

SETTINGS = LinkSettings(nodes=(23, 37), larger_nodes=(41, 43))


def test_any_probabilities_become_a_feasible_set_that_cannot_grow() -> None:
    rng = np.random.default_rng(0)
    for index in range(7):
        graph = generate(SETTINGS, "train", index, seed=0)
        chosen = feasible(graph, rng.random(len(graph.weight)), SETTINGS, threshold=0.0)
        assert is_feasible(graph, adjacency(graph, chosen), SETTINGS)
        for extra in np.flatnonzero(~chosen):
            grown = chosen.copy()
            grown[extra] = True
            assert not is_feasible(graph, adjacency(graph, grown), SETTINGS)


def test_without_decoding_the_rules_are_broken() -> None:
    graph = generate(SETTINGS, "train", index=0, seed=0)
    broken = violations(graph, adjacency(graph, np.ones(len(graph.weight), dtype=np.bool_)), SETTINGS)
    assert broken["degree"] > 0.3
    assert broken["sector"] > 0.1
    assert broken["parity"] == broken["reach"] == broken["symmetry"] == broken["self_link"] == 0


def test_a_sure_model_gets_its_own_set_back() -> None:
    graph = generate(SETTINGS, "train", index=1, seed=0)
    assert (feasible(graph, graph.chosen.astype(float), SETTINGS) == graph.chosen).all()


def test_pairs_below_the_threshold_are_left_out() -> None:
    graph = generate(SETTINGS, "train", index=2, seed=0)
    probability = np.linspace(0, 1, len(graph.weight))
    assert not feasible(graph, probability, SETTINGS, threshold=0.7)[probability < 0.7].any()


def test_greedy_takes_the_heaviest_first() -> None:
    graph = generate(SETTINGS, "train", index=3, seed=0)
    chosen = greedy(graph, SETTINGS)
    assert chosen[np.argmax(graph.weight)]
    by_weight = feasible(graph, graph.weight / graph.weight.max(), SETTINGS, threshold=0.0)
    assert (chosen == by_weight).all()
    assert graph.weight[chosen].sum() <= graph.weight[graph.chosen].sum()


def test_wrong_number_of_probabilities() -> None:
    graph = generate(SETTINGS, "train", index=0, seed=0)
    with pytest.raises(ValueError, match="Give one probability a pair"):
        feasible(graph, np.zeros(3), SETTINGS)
