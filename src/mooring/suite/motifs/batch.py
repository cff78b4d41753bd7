"""Census graphs as tensors: one batch of many graphs, with nothing in it that names their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mooring.suite.motifs.data import MotifDataset, MotifSettings, generate_many


@dataclass(frozen=True, eq=False)
class MotifBatch:
    """Node features (one-hot type, root marker), directed edges, the graph of each node, and ``log(1 + count)``.

    ``planted`` is the gadget whose root a node is, 0 for none: a label of single nodes that no readout is shown.
    """

    x: Float[Tensor, "nodes features"]
    edge_index: Int[Tensor, "2 edges"]
    batch: Int[Tensor, " nodes"]
    target: Float[Tensor, "graphs motifs"]
    planted: Int[Tensor, " nodes"]

    @property
    def num_graphs(self) -> int:
        return len(self.target)


@lru_cache(maxsize=16)
def cached_census(settings: MotifSettings, split: str, num_graphs: int, seed: int) -> MotifDataset:
    """:func:`~mooring.suite.motifs.data.generate_many`, once per process: 4,000 graphs take about a second and 3 MB."""
    return generate_many(settings, split, num_graphs, seed)


def collate(dataset: MotifDataset, graphs: NDArray[np.int64], num_types: int) -> MotifBatch:
    """Join some graphs of a dataset, in the order given."""
    nodes, node_graph = _ragged(dataset.node_start, graphs)
    edges, edge_graph = _ragged(dataset.edge_start, graphs)
    sizes = np.diff(dataset.node_start)[graphs]
    offset = np.cumsum(sizes) - sizes
    once = torch.from_numpy(dataset.edges[:, edges] + offset[edge_graph])
    x = torch.zeros(len(nodes), num_types + 1)
    x[torch.arange(len(nodes)), torch.from_numpy(dataset.types[nodes].astype(np.int64))] = 1.0
    x[:, num_types] = torch.from_numpy(dataset.marker[nodes]).float()
    return MotifBatch(
        x=x,
        edge_index=torch.cat([once, once.flip(0)], dim=1),
        batch=torch.from_numpy(node_graph),
        target=torch.from_numpy(np.log1p(dataset.counts[graphs]).astype(np.float32)),
        planted=torch.from_numpy(dataset.planted[nodes].astype(np.int64)),
    )


def _ragged(start: NDArray[np.int64], graphs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of every element of some graphs, and which of those graphs each belongs to."""
    sizes = np.diff(start)[graphs]
    owner = np.repeat(np.arange(len(graphs)), sizes)
    within = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    return start[graphs][owner] + within, owner
