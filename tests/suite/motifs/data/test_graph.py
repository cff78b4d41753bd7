"""Shapes that can be told apart, and settings that are refused."""

import itertools
import math

import networkx as nx
import pytest

from mooring.suite.motifs.data import DISTRACTORS, MOTIF_NAMES, MOTIFS, MotifSettings, Shape

ALL = MOTIFS + DISTRACTORS


def rooted(shape: Shape) -> nx.Graph:
    graph = nx.Graph(shape.edges)
    nx.set_node_attributes(graph, {node: node == 0 for node in graph}, "root")
    return graph


def root_colour(shape: Shape, rounds: int, *, marked: bool = True) -> str:
    """1-WL colour of the root after some rounds, with the shape hung on a cycle of eleven nodes."""
    graph = nx.cycle_graph(range(100, 111))
    graph.add_edges_from(shape.edges)
    graph.add_edge(0, 100)
    nx.set_node_attributes(graph, {node: str(marked and node == 0) for node in graph}, "marker")
    return nx.weisfeiler_lehman_subgraph_hashes(graph, node_attr="marker", iterations=rounds)[0][-1]


def test_the_order_is_that_of_the_papers_target():
    assert MOTIF_NAMES == ("triangle", "square", "star", "path", "clique", "diamond")


@pytest.mark.parametrize("shape", ALL, ids=lambda shape: shape.name)
def test_each_is_connected_simple_and_numbered_from_its_root(shape):
    graph = rooted(shape)
    assert sorted(graph) == list(range(shape.num_nodes))
    assert nx.is_connected(graph)
    assert graph.number_of_edges() == len(shape.edges)
    assert nx.number_of_selfloops(graph) == 0


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(ALL, 2)), ids=lambda shape: shape.name)
def test_no_two_are_the_same_rooted_graph(one, other):
    same_root = nx.algorithms.isomorphism.categorical_node_match("root", None)
    assert not nx.is_isomorphic(rooted(one), rooted(other), node_match=same_root)


PAW = nx.lollipop_graph(3, 1)
DIAMOND = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])


@pytest.mark.parametrize(
    ("name", "graph", "root_degree"),
    [
        ("triangle", nx.cycle_graph(3), 2),
        ("square", nx.cycle_graph(4), 2),
        ("star", nx.star_graph(4), 4),
        ("path", nx.path_graph(4), 1),
        ("clique", nx.complete_graph(4), 3),
        ("diamond", DIAMOND, 3),
        ("paw", PAW, 2),
        ("pentagon", nx.cycle_graph(5), 2),
        ("claw", nx.star_graph(3), 3),
        ("long_path", nx.path_graph(5), 1),
        ("clique5", nx.complete_graph(5), 4),
        ("tilted_diamond", DIAMOND, 2),
    ],
)
def test_each_is_what_its_name_says_with_its_root_where_it_should_be(name, graph, root_degree):
    shape = next(shape for shape in ALL if shape.name == name)
    assert nx.is_isomorphic(rooted(shape), graph)
    assert rooted(shape).degree[0] == root_degree


def test_the_tilted_diamond_differs_from_the_diamond_by_its_root_only():
    shapes = {shape.name: shape for shape in ALL}
    assert nx.is_isomorphic(rooted(shapes["diamond"]), rooted(shapes["tilted_diamond"]))


def test_four_rounds_of_message_passing_tell_all_twelve_apart():
    assert len({root_colour(shape, rounds=4) for shape in ALL}) == len(ALL)


def test_three_rounds_do_not():
    # The fourth layer of the backbone is needed: a path of four and a path of five differ only at their far end.
    assert len({root_colour(shape, rounds=3) for shape in ALL}) < len(ALL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"background": (5, 40)}, "Use at least 6 nodes"),
        ({"background": (40, 23)}, "Pass the smaller end first"),
        ({"extra_edges": 5.0}, "above half of all pairs"),
        ({"extra_edges": -0.5}, "Use 0 for a tree"),
        ({"extra_edges": math.nan}, "extra_edges=nan, expected 0 or more"),
        ({"extra_edges": math.inf}, "extra_edges=inf asks for inf edges among 16 background nodes"),
        ({"extra_edges": 1e308}, "above half of all pairs"),
        ({"max_count": 1}, "Use at least 2"),
        ({"max_distractors": -1}, "Use 0 for no distractors"),
        ({"num_types": 0}, "Use 1 to 256"),
        ({"ood_counts": (6, 18)}, "Start it at 7 or above"),
        ({"ood_background": (64, 128)}, "Start it at 65 or above"),
        ({"copies": (1, 3)}, "replicates nothing"),
        ({"rewired": 1.5}, "rewired=1.5 is not a share"),
        ({"retyped": -0.1}, "retyped=-0.1 is not a share"),
    ],
)
def test_refused(change, message):
    with pytest.raises(ValueError, match=message):
        MotifSettings(**change)


def test_the_smallest_that_works_is_accepted():
    assert MotifSettings(background=(6, 6), extra_edges=0.0, num_types=1, max_distractors=0)
