"""Where in its graph a node is, by PyG's transforms, for a whole set at once."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

from mooring.suite.real.data.packed import GraphSet

Encoding = Literal["none", "walk", "laplacian"]


def encoded(graphs: GraphSet, encoding: Encoding, width: int) -> GraphSet:
    """The set with encodings of its nodes, made once per process.

    Args:
        graphs: the set.
        encoding: ``"walk"``, the probabilities that a random walk is back after 1, 2, ... steps; ``"laplacian"``, the
            first eigenvectors, whose signs mean nothing; ``"none"``.
        width: number of steps or of eigenvectors; a graph with fewer nodes has zeros for the rest.
    """
    return graphs if encoding == "none" else _encoded(graphs, encoding, width)


@lru_cache(maxsize=4)
def _encoded(graphs: GraphSet, encoding: Encoding, width: int) -> GraphSet:
    pe = np.zeros((len(graphs.x), width), dtype=np.float32)
    for number in range(len(graphs)):
        first, last = graphs.node_start[number : number + 2]
        own = graphs.edge[graphs.edge_start[number] : graphs.edge_start[number + 1]].astype(np.int64)
        once = torch.from_numpy(own.T.copy())
        data = Data(edge_index=torch.cat([once, once.flip(0)], dim=1), num_nodes=int(last - first))
        found = _transform(encoding, min(width, _most(encoding, int(last - first))))(data)
        if found is not None:
            pe[first:last, : found.size(1)] = found.numpy()
    return replace(graphs, pe=pe)


def _most(encoding: Encoding, num_nodes: int) -> int:
    # A walk has any number of steps; the first eigenvector is constant and left out.
    return num_nodes - 1 if encoding == "laplacian" else 10**9


def _transform(encoding: Encoding, width: int) -> Any:
    def apply(data: Data) -> torch.Tensor | None:
        if width < 1 or not data.num_edges:
            return None
        if encoding == "walk":
            return AddRandomWalkPE(width, attr_name="pe")(data).pe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return AddLaplacianEigenvectorPE(width, attr_name="pe", is_undirected=True)(data).pe.float()

    return apply
