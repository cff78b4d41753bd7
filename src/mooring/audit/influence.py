"""Range: how many hops away the nodes are that an output depends on."""

from __future__ import annotations

import contextlib
import io

import torch
from torch import Generator, Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import total_influence

from mooring.audit.adapters import Adapter, single
from mooring.audit.card import Finding

# Nodes of the path; the ends are this many hops apart, less one.
PATH = 13


class _OnEdges(nn.Module):
    """An adapter as a model of features and edges, which PyG's measurement calls."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__()
        self.adapter = adapter

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.adapter(single(x, edge_index)).float()


def influence(adapter: Adapter, seed: int, trials: int) -> Finding:
    r"""Measure the influence of each hop on a path: PyG's ``total_influence``, from arXiv 2503.09008.

    .. math::
        I_k(v) = \sum_{u \,:\, d(u, v) = k} \lVert \partial f_v / \partial x_u \rVert_1, \qquad
        R = \operatorname{mean}_v \frac{\sum_k k \, I_k(v)}{\sum_k I_k(v)}

    One local layer reaches one hop. A global memory reaches the other end of the path in one call, whatever the edges.
    Every node is measured on one path, so ``trials`` is not used.
    """
    explanation = f"mean number of hops to what an output depends on (R), every node of a path of {PATH}"
    if not adapter.per_node:
        return Finding("influence", "a readout: nothing returns to the nodes", None, "none", 0, explanation)
    start = torch.arange(PATH - 1)
    edges = torch.stack([start, start + 1])
    # PyG's receptive field is computed in float32; the adapter casts the features to the precision of the module.
    x = torch.randn(PATH, adapter.channels, generator=Generator().manual_seed(seed))
    data = Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    # PyG draws the order of the nodes from the global generator and writes a progress bar.
    with torch.random.fork_rng(devices=[]), contextlib.redirect_stderr(io.StringIO()):
        by_hop, breadth = total_influence(_OnEdges(adapter), data, PATH - 1, normalize=False, vectorize=False)
    share = by_hop / by_hop.sum()
    farthest = int((share > adapter.tolerance).nonzero().max())
    verdict = f"{breadth:.1f} hops on average, {farthest} of {PATH - 1} at most"
    return Finding(
        name="influence",
        verdict=verdict if farthest else "nothing travels between nodes",
        value=breadth,
        worst_case=f"a path of {PATH} nodes",
        trials=PATH,
        explanation=explanation,
        details={"share_by_hop": [round(float(value), 6) for value in share], "farthest": farthest},
    )
