"""Positional encodings of the nodes of a set, by PyG's transforms."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

from mooring.suite.real.data.packed import GraphSet

Encoding = Literal["none", "walk", "laplacian"]


def encoded(graphs: GraphSet, encoding: Encoding, width: int) -> GraphSet:
    """Add encodings to the nodes of a set, once per process.

    Args:
        graphs: the set.
        encoding: ``"walk"``, return probabilities of a random walk after 1, 2, ... steps; ``"laplacian"``, the first
            eigenvectors, with arbitrary signs; ``"none"``.
        width: number of steps or of eigenvectors; padded with zeros if a graph has too few nodes.
    """
    return graphs if encoding == "none" else _encoded(graphs, encoding, width)


@lru_cache(maxsize=4)
def _encoded(graphs: GraphSet, encoding: Encoding, width: int) -> GraphSet:
    pe = np.zeros((len(graphs.x), width), dtype=np.float32)
    for number in range(len(graphs)):
        first, last = graphs.node_start[number : number + 2]
        edges = graphs.edge[graphs.edge_start[number] : graphs.edge_start[number + 1]].astype(np.int64)
        forward = torch.from_numpy(edges.T.copy())
        data = Data(edge_index=torch.cat([forward, forward.flip(0)], dim=1), num_nodes=int(last - first))
        # A walk has any number of steps; the first eigenvector is constant and omitted.
        available = int(last - first) - 1 if encoding == "laplacian" else width
        columns = _transform(data, encoding, min(width, available))
        if columns is not None:
            pe[first:last, : columns.size(1)] = columns.numpy()
    return replace(graphs, pe=pe)


def _transform(data: Data, encoding: Encoding, width: int) -> torch.Tensor | None:
    if width < 1 or not data.num_edges:
        return None
    if encoding == "walk":
        return AddRandomWalkPE(width, attr_name="pe")(data).pe
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AddLaplacianEigenvectorPE(width, attr_name="pe", is_undirected=True)(data).pe.float()
