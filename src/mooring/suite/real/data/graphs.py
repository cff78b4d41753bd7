"""Sets of graphs in memory: packed arrays, positional encodings, batches as tensors, and small generated sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

from mooring.suite.packed import ragged
from mooring.suite.real.data.catalogue import ATOMS, BONDS

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Encoding = Literal["none", "walk", "laplacian"]
GENERATED = "generated"
# Where the training and the validation part of a generated set end.
SPLIT_SHARES = (0.7, 0.85)


@dataclass(frozen=True, eq=False)
class GraphSet:
    """Graphs with targets, and the indices of the training, validation and test graphs.

    Args:
        name: name of the set.
        x: integer features of the nodes, ``[nodes, features]``.
        edge: each edge once, numbered inside its graph, ``[edges, 2]``.
        edge_attr: integer features of the edges, ``[edges, features]``.
        node_start, edge_start: first node and edge of each graph, and the end of the last, ``[graphs + 1]``.
        y: targets, ``[graphs, targets]``; NaN if missing.
        splits: indices of the graphs of each split.
        sha256: hash of the file; empty for a generated set.
        pe: positional encodings of the nodes, ``[nodes, width]``, or None.
    """

    name: str
    x: NDArray[np.uint8]
    edge: NDArray[np.uint16]
    edge_attr: NDArray[np.uint8]
    node_start: NDArray[np.int64]
    edge_start: NDArray[np.int64]
    y: NDArray[np.float32]
    splits: Mapping[str, NDArray[np.int64]]
    sha256: str = ""
    pe: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, number: int) -> Data:
        """Return one graph as a PyG ``Data``, every edge in both directions."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self.name}: graph {number} of {len(self)}.")
        batch = collate(self, np.array([number]))
        return Data(x=batch.x, edge_index=batch.edge_index, edge_attr=batch.edge_attr, y=batch.y)


@dataclass(frozen=True, eq=False)
class NodeSet:
    """One graph whose nodes have labels, and several splits of them.

    Args:
        name: name of the set.
        x: features, ``[nodes, features]``.
        edge: each edge once, ``[edges, 2]``.
        y: labels 0 and 1, ``[nodes]``.
        masks: the nodes of each split, ``[splits, nodes]``.
        sha256: hash of the file; empty for a generated set.
    """

    name: str
    x: NDArray[np.float32]
    edge: NDArray[np.int64]
    y: NDArray[np.float32]
    masks: Mapping[str, NDArray[np.bool_]]
    sha256: str = ""

    @property
    def num_splits(self) -> int:
        return len(self.masks["train"])


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs joined as in PyG: nodes sorted by graph, every edge in both directions."""

    x: Int[Tensor, "nodes features"]
    edge_index: Int[Tensor, "2 edges"]
    edge_attr: Int[Tensor, "edges features"]
    batch: Int[Tensor, " nodes"]
    ptr: Int[Tensor, " offsets"]
    y: Float[Tensor, "graphs targets"]
    pe: Float[Tensor, "nodes width"] | None = None

    @property
    def num_graphs(self) -> int:
        return len(self.y)

    def inputs(self) -> dict[str, Any]:
        """Return the arguments of :class:`mooring.models.GNN`."""
        return {name: value for name, value in vars(self).items() if name != "y"}

    def to_data(self) -> Data:
        """Return the batch as a PyG ``Data``, for drawing."""
        return Data(**vars(self), atomic_number=self.x[:, 0] + 1)


def collate(graphs: GraphSet, chosen: NDArray[np.int64]) -> GraphBatch:
    """Join some graphs of a set, in the given order."""
    nodes, node_graph = ragged(graphs.node_start, chosen)
    edges, edge_graph = ragged(graphs.edge_start, chosen)
    ptr = np.concatenate([[0], np.cumsum(np.diff(graphs.node_start)[chosen])])
    forward = torch.from_numpy((graphs.edge[edges] + ptr[edge_graph, None]).T.copy())
    edge_attr = torch.from_numpy(graphs.edge_attr[edges].astype(np.int64))
    return GraphBatch(
        x=torch.from_numpy(graphs.x[nodes].astype(np.int64)),
        edge_index=torch.cat([forward, forward.flip(0)], dim=1),
        edge_attr=torch.cat([edge_attr, edge_attr]),
        batch=torch.from_numpy(node_graph),
        ptr=torch.from_numpy(ptr),
        y=torch.from_numpy(graphs.y[chosen]),
        pe=None if graphs.pe is None else torch.from_numpy(graphs.pe[nodes]),
    )


@lru_cache(maxsize=4)
def encoded(graphs: GraphSet, encoding: Encoding, width: int) -> GraphSet:
    """Add positional encodings by PyG's transforms to the nodes of a set, once per process.

    Args:
        graphs: the set.
        encoding: ``"walk"``, return probabilities of a random walk after 1, 2, ... steps; ``"laplacian"``, the first
            eigenvectors, with arbitrary signs; ``"none"``.
        width: number of steps or of eigenvectors; padded with zeros if a graph has too few nodes.
    """
    if encoding == "none":
        return graphs
    pe = np.zeros((len(graphs.x), width), dtype=np.float32)
    for number in range(len(graphs)):
        first, last = graphs.node_start[number : number + 2].tolist()
        edges = graphs.edge[graphs.edge_start[number] : graphs.edge_start[number + 1]].astype(np.int64)
        # A walk has any number of steps; the first eigenvector is constant and omitted.
        columns = min(width, last - first - 1) if encoding == "laplacian" else width
        if columns and len(edges):
            forward = torch.from_numpy(edges.T.copy())
            data = Data(edge_index=torch.cat([forward, forward.flip(0)], dim=1), num_nodes=last - first)
            pe[first:last, :columns] = _encode(data, encoding, columns).numpy()
    return replace(graphs, pe=pe)


def _encode(data: Data, encoding: Encoding, width: int) -> Tensor:
    if encoding == "walk":
        return AddRandomWalkPE(width, attr_name="pe")(data).pe
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AddLaplacianEigenvectorPE(width, attr_name="pe", is_undirected=True)(data).pe.float()


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
