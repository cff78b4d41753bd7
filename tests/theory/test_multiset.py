import math

import networkx as nx
import pytest
import torch

from mooring.theory.multiset import (
    all_multisets,
    anchored_read,
    color_state,
    exact_histogram,
    histogram,
    normalised_read,
    refine,
    same_partition,
    slot_refine,
)


@pytest.mark.parametrize("seed", range(7))
def test_partition_is_that_of_networkx(seed: int) -> None:
    graph = nx.gnp_random_graph(19, 0.15, seed=seed)
    edges = [*graph.edges, *((target, source) for source, target in graph.edges)]
    # From one colour, a first round tells degrees and no more: networkx is started there, we one round before.
    nx.set_node_attributes(graph, {node: str(degree) for node, degree in graph.degree}, "color")
    hashes = nx.weisfeiler_lehman_subgraph_hashes(graph, iterations=3, node_attr="color", include_initial_labels=True)
    colors = refine([0] * 19, edges)
    for step in range(4):
        assert same_partition(colors, [hashes[node][step] for node in range(19)])
        colors = refine(colors, edges)


def test_same_partition_is_strict_both_ways() -> None:
    assert same_partition("aab", [7, 7, 3])
    assert not same_partition("aab", [7, 5, 3])
    assert not same_partition("abc", [7, 7, 3])


def test_neighbours_count_with_multiplicity_and_direction() -> None:
    assert refine([0, 0, 1, 2], [(0, 2), (1, 2), (0, 3)])[:2] == [0, 0]
    twice = refine([0, 0, 0, 1, 1], [(0, 3), (1, 3), (2, 4)])
    assert twice[3] != twice[4]


def test_all_multisets_are_counted_by_stars_and_bars() -> None:
    assert len(all_multisets(3, 5)) == math.comb(5 + 3, 3) - 1
    assert len(set(all_multisets(3, 5))) == len(all_multisets(3, 5))


def test_anchored_output_is_the_proofs() -> None:
    state = color_state(torch.tensor([0, 2, 2]), torch.zeros(3, dtype=torch.long), colors=3, groups=1)
    torch.testing.assert_close(anchored_read(state)[0], torch.tensor([1.0, 1.0, 0.0, 2.0], dtype=torch.float64) / 4)
    torch.testing.assert_close(histogram(anchored_read(state))[0], torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(normalised_read(state)[0], torch.tensor([0.0, 1.0, 0.0, 2.0], dtype=torch.float64) / 3)


def test_an_empty_neighbourhood_has_an_empty_histogram() -> None:
    state = color_state(torch.tensor([1]), torch.tensor([1]), colors=2, groups=3)
    assert exact_histogram(state).tolist() == [[0, 0], [0, 1], [0, 0]]


def test_refinement_of_a_star_tells_hub_from_leaves() -> None:
    edges = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    colors = slot_refine(exact_histogram, torch.zeros(4, dtype=torch.long), edges)
    assert colors[1] == colors[2] == colors[3] != colors[0]


def test_colours_of_any_kind_are_only_ever_compared_for_equality() -> None:
    edges = [(0, 2), (1, 2), (0, 3)]
    mixed: list[object] = ["a", 1, ("b", 2), ("b", 2)]
    colors = refine(mixed, edges)
    assert len(set(colors)) == 4
    assert colors == refine([0, 1, 2, 2], edges)
