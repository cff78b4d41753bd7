"""The modules a user would choose between, built small, with the names their cards carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, GPSConv, aggr
from torch_geometric.nn.attention import PolynormerAttention, SGFormerAttention
from torch_geometric.transforms import VirtualNode as VirtualNodeTransform

from mooring import nn as mooring_nn
from mooring import zoo
from mooring.audit.card import Card
from mooring.audit.runner import audit

CHANNELS, HEADS, SLOTS = 16, 4, 8
# What a module of the zoo is called outside of it, as in ``zoo.lse``.
ZOO = "zoo."

# Often asked: the question, the cards that answer it and the finding that holds the answer.
QUESTIONS = (
    (
        "Do PyG's linear attentions depend on the graphs in the same batch?",
        ("GPS (performer)", "SGFormer attention", "Polynormer attention"),
        ("batch_mates", "padding"),
    ),
    ("Is PyG's GraphMultisetTransformer blind to replication?", ("graph multiset transformer",), ("replication",)),
)


@dataclass(frozen=True)
class Entry:
    """One module of the catalogue: its name, who offers it, how to build it and how it is called."""

    name: str
    origin: str
    build: Callable[[], Callable[..., Any]]
    kind: str | None = None


class TransformedGIN(nn.Module):
    """Two GIN layers over PyG's ``transforms.VirtualNode``, whose extra rows are dropped at the end.

    Args:
        channels: Width of the node features.
        batched: Whether the transform is applied to the batch as a whole, as happens when it is called after
            batching, or to each graph before batching, as its documentation intends.
    """

    def __init__(self, channels: int, *, batched: bool) -> None:
        super().__init__()
        self.first, self.second = (GINConv(_mlp(channels, channels)) for _ in range(2))
        self.batched = batched
        self.transform = VirtualNodeTransform()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        if self.batched:
            return self._propagate(x, edge_index)
        out = torch.zeros_like(x)
        for graph in batch.unique():
            nodes = (batch == graph).nonzero().squeeze(1)
            place = torch.full_like(batch, -1)
            place[nodes] = torch.arange(nodes.numel())
            edges = place[edge_index[:, batch[edge_index[0]] == graph]]
            out = out.index_copy(0, nodes, self._propagate(x[nodes], edges))
        return out

    def _propagate(self, x: Tensor, edge_index: Tensor) -> Tensor:
        data = self.transform(Data(x=x, edge_index=edge_index))
        return self.second(self.first(data.x, data.edge_index).relu(), data.edge_index)[: x.size(0)]


def entries() -> tuple[Entry, ...]:
    """Return the catalogue; building an entry draws its weights from torch's global generator."""
    return (
        Entry("sum", "PyG SumAggregation", aggr.SumAggregation),
        Entry("mean", "PyG MeanAggregation", aggr.MeanAggregation),
        Entry("max", "PyG MaxAggregation", aggr.MaxAggregation),
        Entry("softmax", "PyG SoftmaxAggregation", lambda: aggr.SoftmaxAggregation(learn=True)),
        Entry("attentional", "PyG AttentionalAggregation", lambda: aggr.AttentionalAggregation(_mlp(CHANNELS, 1))),
        Entry(
            "deep sets",
            "PyG DeepSetsAggregation",
            lambda: aggr.DeepSetsAggregation(_mlp(CHANNELS, CHANNELS), _mlp(CHANNELS, CHANNELS)),
        ),
        Entry(
            "set transformer",
            "PyG SetTransformerAggregation",
            lambda: aggr.SetTransformerAggregation(CHANNELS, heads=HEADS),
        ),
        Entry(
            "graph multiset transformer",
            "PyG GraphMultisetTransformer",
            lambda: aggr.GraphMultisetTransformer(CHANNELS, k=SLOTS, heads=HEADS),
        ),
        Entry(
            "slot aggregation",
            "mooring SlotAggregation",
            lambda: mooring_nn.SlotAggregation(CHANNELS, slots=SLOTS, heads=HEADS),
        ),
        Entry("GPS (multihead)", "PyG GPSConv(attn_type='multihead')", lambda: _gps("multihead")),
        Entry("GPS (performer)", "PyG GPSConv(attn_type='performer')", lambda: _gps("performer")),
        Entry(
            "SGFormer attention", "PyG SGFormerAttention", lambda: SGFormerAttention(CHANNELS, HEADS, CHANNELS), "dense"
        ),
        Entry(
            "Polynormer attention",
            "PyG PolynormerAttention",
            lambda: PolynormerAttention(CHANNELS, HEADS, CHANNELS),
            "dense",
        ),
        Entry(
            "VN transform (batched)",
            "PyG transforms.VirtualNode on a batch, 2 GINConv",
            lambda: TransformedGIN(CHANNELS, batched=True),
        ),
        Entry(
            "VN transform (per graph)",
            "PyG transforms.VirtualNode per graph, 2 GINConv",
            lambda: TransformedGIN(CHANNELS, batched=False),
        ),
        Entry("VN (mean)", "mooring VirtualNode(pool='mean')", lambda: mooring_nn.VirtualNode(CHANNELS, pool="mean")),
        Entry("VN (sum)", "mooring VirtualNode(pool='sum')", lambda: mooring_nn.VirtualNode(CHANNELS, pool="sum")),
        Entry(
            "Cross-Attn VN",
            "mooring SlotVirtualNode(anchored=False)",
            lambda: mooring_nn.SlotVirtualNode(CHANNELS, SLOTS, HEADS, anchored=False),
        ),
        Entry("Anchored VN", "mooring SlotVirtualNode", lambda: mooring_nn.SlotVirtualNode(CHANNELS, SLOTS, HEADS)),
    )


def zoo_entries(names: Iterable[str] = ()) -> tuple[Entry, ...]:
    """Return modules of the zoo as entries, all that there are by default; ``none`` has nothing to audit."""
    found = [zoo.entry(name) for name in names or zoo.names() if name != "none"]
    spec = zoo.MemorySpec(channels=CHANNELS, slots=SLOTS, heads=HEADS)
    return tuple(
        Entry(
            ZOO + item.name,
            f"{item.title} ({item.paper})",
            cast(Callable[[], Callable[..., Any]], partial(zoo.build, item.name, spec)),
            "virtual_node",
        )
        for item in found
    )


def build(entry: Entry, seed: int = 0) -> Callable[..., Any]:
    """Build an entry with weights that are a function of the seed, leaving torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return entry.build()


def cards(seed: int = 0, trials: int = 12, chosen: Iterable[Entry] | None = None) -> Iterator[Card]:
    """Audit the chosen entries, or the whole catalogue, one card at a time."""
    for entry in entries() if chosen is None else chosen:
        yield audit(build(entry, seed), entry.kind, channels=CHANNELS, seed=seed, trials=trials, name=entry.name)


def _gps(attention: str) -> nn.Module:
    options = {"head_channels": CHANNELS} if attention == "performer" else {}
    conv = GINConv(_mlp(CHANNELS, CHANNELS))
    return GPSConv(CHANNELS, conv, heads=HEADS, attn_type=attention, attn_kwargs=options)


def _mlp(channels: int, out_channels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, out_channels))
