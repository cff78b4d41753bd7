"""Small generated sets in the offline format, for tests and trial runs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mooring.suite.real.data.catalogue import ATOMS, BONDS
from mooring.suite.real.data.packed import GraphSet, NodeSet

GENERATED = "generated"
SPLIT_SHARES = (0.7, 0.85)


@lru_cache(maxsize=8)
def generated_graphs(num_graphs: int = 60, targets: int = 1, *, classes: bool = False, seed: int = 0) -> GraphSet:
    """Generate random trees of 3 to 13 atoms, some with a ring edge; targets count atoms of one kind.

    >>> len(generated_graphs(11))
    11
    """
    rng = np.random.default_rng((seed, num_graphs, targets))
    sizes = rng.integers(3, 14, num_graphs)
    x = np.stack([rng.integers(0, min(size, 7), sizes.sum()) for size in ATOMS], axis=1).astype(np.uint8)
    node_start = np.concatenate([[0], np.cumsum(sizes)])
    edges = [_tree(size, rng) for size in sizes]
    edge = np.concatenate(edges).astype(np.uint16)
    edge_attr = np.stack([rng.integers(0, size, len(edge)) for size in BONDS], axis=1).astype(np.uint8)
    owner = np.repeat(np.arange(num_graphs), sizes)
    counts = np.stack([np.bincount(owner, x[:, 0] == kind, num_graphs) for kind in range(targets)], axis=1)
    y = ((counts > np.median(counts, axis=0)) if classes else counts).astype(np.float32)
    if targets > 1:
        y[rng.random(y.shape) < 0.05] = np.nan
    low, high = (int(share * num_graphs) for share in SPLIT_SHARES)
    order = rng.permutation(num_graphs)
    splits = {"train": order[:low], "valid": order[low:high], "test": order[high:]}
    edge_start = np.concatenate([[0], np.cumsum([len(pairs) for pairs in edges])])
    return GraphSet(GENERATED, x, edge, edge_attr, node_start, edge_start, y, splits)


@lru_cache(maxsize=8)
def generated_nodes(num_nodes: int = 90, num_splits: int = 3, *, seed: int = 0) -> NodeSet:
    """Generate a ring with chords; a label is the sign of the sum of the neighbours' first feature.

    >>> generated_nodes(20).x.shape
    (20, 5)
    """
    rng = np.random.default_rng((seed, num_nodes))
    x = rng.normal(size=(num_nodes, 5)).astype(np.float32)
    ring = np.stack([np.arange(num_nodes), (np.arange(num_nodes) + 1) % num_nodes], axis=1)
    chords = np.stack([np.arange(num_nodes), (np.arange(num_nodes) + num_nodes // 3) % num_nodes], axis=1)
    edge = np.concatenate([ring, chords])
    total = np.zeros(num_nodes)
    for receiver, sender in (edge.T, edge.T[::-1]):
        np.add.at(total, receiver, x[sender, 0])
    share = rng.random((num_splits, num_nodes))
    low, high = SPLIT_SHARES
    masks = {"train": share < low, "valid": (share >= low) & (share < high), "test": share >= high}
    return NodeSet(GENERATED, x, edge, (total > 0).astype(np.float32), masks)


def _tree(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    parents = np.array([rng.integers(0, node) for node in range(1, size)])
    edge = np.stack([parents, np.arange(1, size)], axis=1)
    return np.concatenate([edge, [[0, size - 1]]]) if rng.random() < 0.3 and parents[-1] != 0 else edge
