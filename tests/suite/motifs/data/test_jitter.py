"""Rewiring keeps degrees, connection and bridges; a control shows that it does rewire."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.suite.motifs.data.generator import retype, rewire


def frame_of(num_background: int, num_roots: int, rng: np.random.Generator) -> np.ndarray:
    graph = nx.connected_watts_strogatz_graph(num_background, 4, 0.5, seed=int(rng.integers(1000)))
    bridges = [(int(rng.integers(num_background)), num_background + root) for root in range(num_roots)]
    return np.array([*graph.edges, *bridges], dtype=np.int32).T


def edge_set(frame: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(edge) for edge in frame.T.tolist()}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), num_background=st.integers(7, 29), num_roots=st.integers(0, 13))
def test_rewiring_keeps_what_the_labels_rest_on(seed, num_background, num_roots):
    rng = np.random.default_rng(seed)
    before = frame_of(num_background, num_roots, rng)
    after = rewire(before, num_background, num_swaps=11, rng=rng)
    assert np.array_equal(np.bincount(before.ravel()), np.bincount(after.ravel()))
    assert len(edge_set(after)) == before.shape[1]
    assert all(len(edge) == 2 for edge in edge_set(after))
    assert nx.is_connected(nx.Graph(after.T.tolist()))
    assert (after.min(axis=0) < num_background).all()


def test_rewiring_moves_edges_and_bridges():
    rng = np.random.default_rng(3)
    before = frame_of(23, 7, rng)
    after = rewire(before, 23, num_swaps=17, rng=rng)
    moved = edge_set(before) - edge_set(after)
    assert len(moved) > 17
    assert any(max(edge) >= 23 for edge in moved)


def test_a_frame_that_allows_no_swap_is_left_alone():
    star = np.array([[0] * 7, list(range(1, 8))], dtype=np.int32)
    assert edge_set(rewire(star, 8, num_swaps=5, rng=np.random.default_rng(0))) == edge_set(star)


def test_a_frame_of_one_edge_is_left_alone():
    edge = np.array([[0], [1]], dtype=np.int32)
    assert edge_set(rewire(edge, 2, num_swaps=5, rng=np.random.default_rng(0))) == edge_set(edge)


def test_retype_changes_the_share_it_says():
    types = np.zeros(20_011, dtype=np.uint8)
    changed = (retype(types, 4, 0.2, np.random.default_rng(5)) != 0).mean()
    assert changed == pytest.approx(0.2 * 3 / 4, abs=0.01)


def test_no_more_swaps_are_made_than_asked_for():
    rng = np.random.default_rng(3)
    before = frame_of(23, 7, rng)
    for num_swaps in (0, 1, 2, 3):
        moved = edge_set(before) - edge_set(rewire(before, 23, num_swaps, rng))
        # A swap replaces two edges; a later one may replace an edge that is new.
        assert num_swaps <= len(moved) <= 2 * num_swaps
