"""Shapes that can be told apart, settings that are refused, packed graphs and their batches."""

import itertools
import math
from dataclasses import fields

import networkx as nx
import numpy as np
import pytest
import torch

from mooring.suite.motifs.data import (
    DISTRACTORS,
    MOTIF_NAMES,
    MOTIFS,
    MotifDataset,
    MotifSettings,
    Shape,
    cached_census,
    collate,
    generate,
    generate_many,
)
from mooring.suite.records import Identity

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


SETTINGS = MotifSettings()


def as_bytes(packed: MotifDataset) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in packed.arrays.items()}


def test_the_bytes_do_not_depend_on_the_number_of_workers():
    # 257 graphs are three chunks, the last one short.
    alone = generate_many(SETTINGS, "jittered", 257, seed=3)
    assert as_bytes(generate_many(SETTINGS, "jittered", 257, seed=3, workers=2)) == as_bytes(alone)
    assert as_bytes(generate_many(SETTINGS, "jittered", 257, seed=4)) != as_bytes(alone)


def test_a_packed_graph_is_the_graph_of_its_index():
    packed = generate_many(SETTINGS, "replicated", 5, seed=3)
    for index in range(5):
        graph = generate(SETTINGS, "replicated", index, seed=3)
        for field in fields(graph):
            assert np.array_equal(getattr(packed[index], field.name), getattr(graph, field.name))


def test_saving_and_loading_changes_nothing(tmp_path):
    packed = generate_many(SETTINGS, "mixture", 7, seed=3)
    identity = Identity("motifs", "", 0, {})
    packed.save(tmp_path / "mixture.npz", identity)
    assert as_bytes(MotifDataset.load(tmp_path / "mixture.npz", identity)) == as_bytes(packed)


def test_a_graph_out_of_range_is_refused():
    packed = generate_many(SETTINGS, "iid", 3, seed=3)
    with pytest.raises(IndexError, match="graph 3 of 3"):
        packed[3]


@pytest.mark.parametrize("arguments", [{"num_graphs": 0}, {"num_graphs": 3, "workers": 0}])
def test_nothing_to_do_or_nobody_to_do_it_is_refused(arguments):
    with pytest.raises(ValueError, match="at least 1"):
        generate_many(SETTINGS, "iid", seed=3, **arguments)


THREE_TYPES = MotifSettings(num_types=3)


def test_a_batch_is_its_graphs_in_the_order_given():
    census = cached_census(THREE_TYPES, "mixture", 11, 5)
    batch = collate(census, np.array([7, 2, 7]), THREE_TYPES.num_types)
    assert batch.num_graphs == 3
    for place, index in enumerate([7, 2, 7]):
        graph = generate(THREE_TYPES, "mixture", index, 5)
        nodes = torch.nonzero(batch.batch == place).flatten()
        assert torch.equal(batch.x[nodes, :3].argmax(dim=1), torch.from_numpy(graph.types.astype(np.int64)))
        assert torch.equal(batch.x[nodes, 3] > 0, torch.from_numpy(graph.marker))
        edges = batch.edge_index[:, torch.isin(batch.edge_index[0], nodes)] - nodes[0]
        both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)
        assert {tuple(edge) for edge in edges.T.tolist()} == {tuple(edge) for edge in both.T.tolist()}
        assert torch.equal(batch.target[place], torch.from_numpy(graph.target))


def test_features_are_types_and_marker_only():
    census = cached_census(THREE_TYPES, "train", 5, 5)
    batch = collate(census, np.arange(5), THREE_TYPES.num_types)
    assert batch.x.shape[1] == THREE_TYPES.num_types + 1
    assert torch.equal(batch.x[:, :3].sum(dim=1), torch.ones(len(batch.x)))
    assert set(batch.x.unique().tolist()) == {0.0, 1.0}
