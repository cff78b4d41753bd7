import networkx as nx
import pytest

from mooring.theory.weisfeiler import refine, same_partition


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


def test_colours_of_any_kind_are_only_ever_compared_for_equality() -> None:
    edges = [(0, 2), (1, 2), (0, 3)]
    mixed: list[object] = ["a", 1, ("b", 2), ("b", 2)]
    colors = refine(mixed, edges)
    assert len(set(colors)) == 4
    assert colors == refine([0, 1, 2, 2], edges)
