"""Packed sets of graphs, single graphs with masks, and batches as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from mooring.suite.packed import ragged

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")


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
    pe: NDArray[np.float32] | None = field(default=None)

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
        options = {"edge_attr": self.edge_attr, "batch": self.batch, "ptr": self.ptr, "pe": self.pe}
        return {"x": self.x, "edge_index": self.edge_index, **options}

    def to_data(self) -> Data:
        """Return the batch as a PyG ``Data``, for drawing."""
        return Data(**self.inputs(), y=self.y, atomic_number=self.x[:, 0] + 1)


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
