"""Packed data sets of census graphs, and batches as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from mooring.suite.motifs.data.generator import generate
from mooring.suite.motifs.data.graph import MotifGraph, MotifSettings
from mooring.suite.packed import Packed, in_chunks, ragged

_CHUNK = 125  # graphs per message between processes: about 0.1 s of work


class MotifDataset(Packed[MotifGraph]):
    """Packed arrays of :class:`MotifGraph`; edges are numbered inside each graph."""

    graph_type = MotifGraph
    per_node = ("types", "marker", "planted")
    per_edge = ("edges",)
    starts = ("node_start", "edge_start")


def generate_many(settings: MotifSettings, split: str, num_graphs: int, seed: int, *, workers: int = 1) -> MotifDataset:
    """Generate graphs ``0..num_graphs-1`` of a split; the result does not depend on ``workers``.

    Args:
        settings: ranges of the census.
        split: one of ``SPLITS``.
        num_graphs: number of graphs.
        seed: seed of the whole census.
        workers: number of processes; 1 uses the current process.

    >>> len(generate_many(MotifSettings(), "train", num_graphs=3, seed=0))
    3
    """
    if num_graphs < 1 or workers < 1:
        raise ValueError(f"motifs: num_graphs={num_graphs} and workers={workers} must be at least 1.")
    chunks = in_chunks(partial(_generate_range, settings, split, seed), num_graphs, _CHUNK, workers)
    return MotifDataset.pack([graph for chunk in chunks for graph in chunk])


def _generate_range(settings: MotifSettings, split: str, seed: int, indices: range) -> list[MotifGraph]:
    return [generate(settings, split, index, seed) for index in indices]


@dataclass(frozen=True, eq=False)
class MotifBatch:
    """Node features (one-hot type, root marker), directed edges, the graph of each node, and ``log(1 + count)``.

    ``planted`` is the gadget whose root a node is, 0 for none: a node label that is not an input of readouts.
    """

    x: Float[Tensor, "nodes features"]
    edge_index: Int[Tensor, "2 edges"]
    batch: Int[Tensor, " nodes"]
    target: Float[Tensor, "graphs motifs"]
    planted: Int[Tensor, " nodes"]

    @property
    def num_graphs(self) -> int:
        return len(self.target)

    def to_data(self) -> Data:
        """Return the same graphs as a PyG ``Data``."""
        return Data(**vars(self))


@lru_cache(maxsize=16)
def cached_census(settings: MotifSettings, split: str, num_graphs: int, seed: int) -> MotifDataset:
    """Generate a split once per process: 4,000 graphs take about a second and 3 MB."""
    return generate_many(settings, split, num_graphs, seed)


def collate(dataset: MotifDataset, graphs: NDArray[np.int64], num_types: int) -> MotifBatch:
    """Join some graphs of a data set, in the given order."""
    nodes, node_graph = ragged(dataset.node_start, graphs)
    edges, edge_graph = ragged(dataset.edge_start, graphs)
    sizes = np.diff(dataset.node_start)[graphs]
    offset = np.cumsum(sizes) - sizes
    forward = torch.from_numpy(dataset.edges[:, edges] + offset[edge_graph])
    x = torch.zeros(len(nodes), num_types + 1)
    x[torch.arange(len(nodes)), torch.from_numpy(dataset.types[nodes].astype(np.int64))] = 1.0
    x[:, num_types] = torch.from_numpy(dataset.marker[nodes]).float()
    return MotifBatch(
        x=x,
        edge_index=torch.cat([forward, forward.flip(0)], dim=1),
        batch=torch.from_numpy(node_graph),
        target=torch.from_numpy(np.log1p(dataset.counts[graphs]).astype(np.float32)),
        planted=torch.from_numpy(dataset.planted[nodes].astype(np.int64)),
    )
