"""What slots are timed against: each peer maps ``(x, batch, num_graphs)`` to new node features, or to graph features.

A peer that needs dense input gets it from PyG's ``to_dense_batch``, as its users do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv, SetTransformerAggregation
from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock
from torch_geometric.utils import to_dense_batch

from mooring.nn import SlotVirtualNode, VirtualNode

Forward = Callable[[Tensor, Tensor, int], Tensor]

# Scores a dense peer may hold at once; beyond that a shape is left out for it, and the table says so.
MOST_SCORES = 400_000_000


@dataclass(frozen=True)
class Peer:
    """A contestant.

    Args:
        build: ``(dim, slots, heads)`` -> module.
        call: how the module is called.
        scores: ``(largest graph, graphs, slots, heads)`` -> number of attention scores held at once, for peers that
            hold them.
    """

    name: str
    build: Callable[[int, int, int], nn.Module]
    call: Callable[[Any], Forward]
    scores: Callable[[int, int, int, int], int] | None = None

    def fits(self, largest: int, graphs: int, slots: int, heads: int) -> bool:
        return self.scores is None or self.scores(largest, graphs, slots, heads) <= MOST_SCORES


class ProjectedSlots(nn.Module):
    """The textbook order: project every node to keys and values, pad, call scaled_dot_product_attention twice."""

    def __init__(self, dim: int, slots: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.slots = nn.Parameter(torch.randn(slots, dim))
        self.write_key_value, self.read_query = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.write_query, self.read_key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.write_out, self.read_out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        key, value = (self._split(part) for part in self.write_key_value(x).chunk(2, dim=-1))
        query = self._split(self.write_query(self.slots)).expand(x.size(0), -1, -1, -1)
        written = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
        memory = self.slots + self.write_out(written.transpose(1, 2).flatten(2))
        key, value = (self._split(part) for part in self.read_key_value(memory).chunk(2, dim=-1))
        read = nn.functional.scaled_dot_product_attention(self._split(self.read_query(x)), key, value)
        return x + self.read_out(read.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)


class DenseAttention(nn.Module):
    """GPSConv's global half alone, without a local layer: dense attention over all pairs of nodes."""

    def __init__(self, dim: int, heads: int, kind: str) -> None:
        super().__init__()
        self.conv = GPSConv(dim, conv=None, heads=heads, norm=None, attn_type=kind)

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return self.conv(x, torch.empty(2, 0, dtype=torch.long), batch)


def _ragged(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch, num_graphs=num_graphs)


def _dense(module: Any) -> Forward:
    def forward(x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        dense, mask = to_dense_batch(x, batch, batch_size=num_graphs)
        return module(dense, mask)[mask]

    return forward


def _layer(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch)


def _readout(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch, dim_size=num_graphs)


def _slot_scores(largest: int, graphs: int, slots: int, heads: int) -> int:
    return graphs * largest * slots * heads


def _pair_scores(largest: int, graphs: int, slots: int, heads: int) -> int:
    return graphs * largest * largest * heads


PEERS = {
    peer.name: peer
    for peer in (
        Peer("slots", lambda d, m, h: SlotVirtualNode(d, m, h, integrate="residual"), _ragged),
        Peer("slots, FiLM", lambda d, m, h: SlotVirtualNode(d, m, h), _ragged),
        Peer("OGB-style VN", lambda d, m, h: VirtualNode(d, "sum"), _ragged),
        Peer("ISAB", lambda d, m, h: InducedSetAttentionBlock(d, m, heads=h), _dense, _slot_scores),
        Peer("projected + SDPA", ProjectedSlots, _dense, _slot_scores),
        Peer("SetTransformer", lambda d, m, h: SetTransformerAggregation(d, heads=h), _readout, _pair_scores),
        Peer("GPSConv multihead", lambda d, m, h: DenseAttention(d, h, "multihead"), _layer, _pair_scores),
        Peer("GPSConv performer", lambda d, m, h: DenseAttention(d, h, "performer"), _layer, _slot_scores),
    )
}
