"""A small model with three memories, and graphs to look at it on."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv

from mooring.nn import SlotVirtualNode

CHANNELS, SLOTS, HEADS = 12, 5, 2


class Net(nn.Module):
    """Convolutions with a memory after each; no memory is asked for its state."""

    def __init__(self, layers: int = 3, slots: int = SLOTS) -> None:
        super().__init__()
        self.convs = nn.ModuleList(GINConv(nn.Linear(CHANNELS, CHANNELS)) for _ in range(layers))
        self.memories = nn.ModuleList(
            SlotVirtualNode(CHANNELS, slots, HEADS, dropout=0.5, anchor_init=2.0) for _ in range(layers)
        )

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        for conv, memory in zip(self.convs, self.memories, strict=True):
            x = memory(x + conv(x, edge_index).tanh(), batch)
        return x


def ring(nodes: int, seed: int = 0, **values: object) -> Data:
    """A cycle with a few chords."""
    generator = torch.Generator().manual_seed(seed)
    here = torch.arange(nodes)
    chords = torch.randint(nodes, (2, nodes // 5), generator=generator)
    edges = torch.cat([torch.stack([here, (here + 1) % nodes]), chords], dim=1)
    return Data(x=torch.randn(nodes, CHANNELS, generator=generator), edge_index=edges, **values)


def copies(graph: Data, times: int) -> Data:
    """Disjoint copies of a graph as one graph."""
    nodes = int(graph.num_nodes)
    edges = torch.cat([graph.edge_index + nodes * copy for copy in range(times)], dim=1)
    return Data(x=graph.x.repeat(times, 1), edge_index=edges)
