"""Labels against an independent census, and that census against graphs spoilt on purpose.

``MOORING_MOTIF_CHECKS=1000`` checks 1,000 graphs of each split instead of a few.
"""

import os
from dataclasses import replace

import numpy as np
import pytest

from mooring.suite.motifs.data import DISTRACTORS, MOTIFS, SPLITS, MotifSettings, generate
from mooring.suite.motifs.data.graph import MotifGraph
from suite.motifs.data.recount import check, recount

NUM_CHECKS = int(os.environ.get("MOORING_MOTIF_CHECKS", "7"))
ALL = MOTIFS + DISTRACTORS


def hung(*shapes, ring: int = 11) -> MotifGraph:
    """Shapes hung on a ring, written out by hand: no part of the generator is used."""
    edges = [(node, (node + 1) % ring) for node in range(ring)]
    planted = np.zeros(ring + sum(shape.num_nodes for shape in shapes), dtype=np.uint8)
    start = ring
    for place, shape in enumerate(shapes):
        edges += [(start + a, start + b) for a, b in shape.edges] + [(place, start)]
        planted[start] = 1 + ALL.index(shape)
        start += shape.num_nodes
    return MotifGraph(
        types=np.zeros(start, dtype=np.uint8),
        marker=planted > 0,
        planted=planted,
        edges=np.array(edges, dtype=np.int32).T,
        counts=np.array([shapes.count(motif) for motif in MOTIFS], dtype=np.int32),
        distractors=np.array([shapes.count(shape) for shape in DISTRACTORS], dtype=np.int32),
    )


@pytest.mark.parametrize("split", SPLITS)
def test_generated_graphs_hold_exactly_what_they_claim(split):
    for index in range(NUM_CHECKS):
        check(generate(MotifSettings(), split, index, seed=11))


@pytest.mark.parametrize("settings", [MotifSettings(background=(6, 7), extra_edges=0.0), MotifSettings(rewired=1.0)])
def test_so_do_those_of_extreme_settings(settings):
    for index in range(5):
        check(generate(settings, "jittered", index, seed=13))


@pytest.mark.parametrize("place", range(len(ALL)), ids=[shape.name for shape in ALL])
def test_each_gadget_is_found_once_and_as_itself_only(place):
    found = recount(hung(ALL[place]), ALL)
    assert found.tolist() == [int(other == place) for other in range(len(ALL))]


def test_a_gadget_without_its_marker_is_not_counted():
    graph = hung(MOTIFS[0], MOTIFS[4])
    marker = graph.marker.copy()
    marker[11] = False
    assert recount(replace(graph, marker=marker)).tolist() == [0, 0, 0, 0, 1, 0]


def test_a_second_bridge_destroys_a_motif():
    graph = hung(MOTIFS[1])
    edges = np.concatenate([graph.edges, np.array([[12], [5]], dtype=np.int32)], axis=1)
    assert recount(replace(graph, edges=edges)).sum() == 0


def test_an_edge_inside_a_square_makes_it_a_diamond():
    graph = hung(MOTIFS[1])
    edges = np.concatenate([graph.edges, np.array([[11], [13]], dtype=np.int32)], axis=1)
    assert recount(replace(graph, edges=edges)).tolist() == [0, 0, 0, 0, 0, 1]


def spoil_count(graph):
    return replace(graph, counts=graph.counts + np.array([0, 0, 1, 0, 0, 0], dtype=np.int32))


def spoil_distractor(graph):
    return replace(graph, distractors=graph.distractors + np.array([0, 1, 0, 0, 0, 0], dtype=np.int32))


def spoil_marker(graph):
    marker = graph.marker.copy()
    marker[2] = True
    return replace(graph, marker=marker)


def spoil_edge(graph):
    return replace(graph, edges=np.concatenate([graph.edges, graph.edges[::-1, :1]], axis=1))


def spoil_connection(graph):
    return replace(graph, copies=2)


def spoil_nodes(graph):
    return replace(graph, edges=np.concatenate([graph.edges, np.array([[3], [97]], dtype=np.int32)], axis=1))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_count, "motif counts .* labelled"),
        (spoil_distractor, "distractor counts .* labelled"),
        (spoil_marker, "belongs to no gadget"),
        (spoil_edge, "a double edge"),
        (spoil_connection, "1 connected components, expected 2"),
        (spoil_nodes, "edges name"),
    ],
)
def test_a_spoilt_graph_fails_its_check(spoil, message):
    graph = hung(MOTIFS[0], DISTRACTORS[2])
    check(graph)
    with pytest.raises(ValueError, match=message):
        check(spoil(graph))
