"""The modules that are compared, as users build them, and one way to call them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, GPSConv
from torch_geometric.nn.aggr import SetTransformerAggregation
from torch_geometric.transforms import VirtualNode

from mooring.nn import HeteroSlotVirtualNode, SlotAggregation, SlotConv, SlotVirtualNode

CHANNELS, HEADS = 12, 4
BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 1])
EDGES = torch.tensor([[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]])
PEERS = ("GPSConv", "SetTransformerAggregation", "VirtualNode transform")


def local() -> GINConv:
    return GINConv(nn.Linear(CHANNELS, CHANNELS))


def typed() -> HeteroSlotVirtualNode:
    return HeteroSlotVirtualNode({"a": CHANNELS, "b": CHANNELS}, 3, HEADS, init_std=0.5)


def on_edges(module: nn.Module, x: Tensor, batch: Tensor | None = None, edges: Tensor = EDGES, **given: Any) -> Tensor:
    return module(x, edges, batch, **given)


def on_nodes(module: nn.Module, x: Tensor, batch: Tensor | None = None, edges: Any = None, **given: Any) -> Tensor:
    return module(x, batch, **given)


def on_types(module: nn.Module, x: Tensor, batch: Any = None, edges: Any = None, **given: Any) -> Any:
    """Two node types, the second with the channels of the first in reverse; the sum of what both become."""
    shared = {"ptr": "ptr_dict", "sources": "sources", "log_weight": "log_weight"}
    given = {shared.get(name, name): {"a": one, "b": one} if name in shared else one for name, one in given.items()}
    found = module({"a": x, "b": x.flip(-1)}, None if batch is None else {"a": batch, "b": batch}, **given)
    out, *inside = found if isinstance(found, tuple) else (found,)
    return (out["a"] + out["b"], *inside) if inside else out["a"] + out["b"]


def transformed(module: nn.Module, x: Tensor, batch: Tensor | None = None, edges: Tensor = EDGES) -> Tensor:
    """Each graph with its virtual node, the layer on all of them, and what the other nodes hold afterwards."""
    batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
    graphs, rows = [], []
    for graph in batch.unique().tolist():
        own = (batch == graph).nonzero().squeeze(1)
        place = torch.full((len(x),), -1).index_copy(0, own, torch.arange(len(own)))
        inside = place[edges][:, (place[edges] >= 0).all(dim=0)]
        graphs.append(VirtualNode()(Data(x=x[own], edge_index=inside)))
        rows.append(own)
    together = Batch.from_data_list(graphs)
    out = module(together.x, together.edge_index)
    real = torch.ones(len(out), dtype=torch.bool)
    real[together.ptr[1:] - 1] = False
    return torch.zeros_like(x).index_copy(0, torch.cat(rows), out[real])


class Layers(nn.Module):
    """Two layers: what nodes write to a virtual node in the first, they read in the second."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(local() for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, edge_index)
        return x


@dataclass(frozen=True)
class Subject:
    """A module and how it is called: ``call(module, x, batch, **further arguments)``."""

    name: str
    build: Callable[[], nn.Module]
    call: Callable[..., Tensor]

    @property
    def per_node(self) -> bool:
        return "Aggregation" not in self.name


SUBJECTS = {
    one.name: one
    for one in (
        Subject("SlotVirtualNode", lambda: SlotVirtualNode(CHANNELS, 3, HEADS, init_std=0.5), on_nodes),
        Subject("SlotConv", lambda: SlotConv(CHANNELS, local(), 3, HEADS, act="gelu", init_std=0.5), on_edges),
        Subject("HeteroSlotVirtualNode", typed, on_types),
        Subject("SlotAggregation", lambda: SlotAggregation(CHANNELS, 3, HEADS), on_nodes),
        Subject("GPSConv", lambda: GPSConv(CHANNELS, local(), HEADS, act="gelu"), on_edges),
        Subject("SetTransformerAggregation", lambda: SetTransformerAggregation(CHANNELS, 3, heads=HEADS), on_nodes),
        Subject("VirtualNode transform", Layers, transformed),
    )
}
OURS = tuple(name for name in SUBJECTS if name not in PEERS)
