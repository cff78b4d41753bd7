"""What slots are timed against: each peer maps ``(x, batch, num_graphs)`` to new node features, or to graph features.

A peer that needs dense input gets it from PyG's ``to_dense_batch``, as its users do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import SetTransformerAggregation
from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock
from torch_geometric.utils import to_dense_batch

from mooring import zoo
from mooring.nn import SlotVirtualNode, VirtualNode
from mooring.suite.bench.modules import DenseAttention, FlexSlots, ProjectedSlots, WriteRead
from mooring.suite.bench.setting import Setting

Forward = Callable[[Tensor, Tensor, int], Tensor]

# Scores and feature numbers a peer that holds them may have; beyond that a shape is left out for it, and the record
# says so.
MOST_SCORES, MOST_NUMBERS = 400_000_000, 150_000_000
FLEX_BACKWARD = "flex_attention has no backward on CPU"


@dataclass(frozen=True)
class Peer:
    """A contestant.

    Args:
        build: setting -> module.
        call: how the module is called.
        scores: ``(largest graph, graphs, setting)`` -> number of attention scores held at once, for peers that hold
            them.
        dtype: of the features and the parameters.
        compiled: made by a compiler, whose own memory would be measured along.
        no_backward: why it can only be timed forward.
        readout: gives one row a graph and not a node.
    """

    name: str
    build: Callable[[Setting], nn.Module]
    call: Callable[[Any], Forward]
    scores: Callable[[int, int, Setting], int] | None = None
    dtype: torch.dtype = torch.float32
    compiled: bool = False
    no_backward: str = ""
    readout: bool = False

    @property
    def slug(self) -> str:
        """The name as it is typed: lower case, and dashes between its words."""
        return "-".join(re.findall(r"[a-z0-9]+", self.name.lower()))

    def too_large(self, largest: int, graphs: int, setting: Setting) -> str:
        """Why a shape is left out, or nothing."""
        if self.scores is None:
            return ""
        scores = self.scores(largest, graphs, setting)
        if scores > MOST_SCORES:
            return f"left out: {scores:,} scores at once"
        numbers = graphs * largest * setting.dim
        return f"left out: {numbers:,} features once padded" if numbers > MOST_NUMBERS else ""

    def output_rows(self, num_nodes: int, num_graphs: int) -> int:
        return num_graphs if self.readout else num_nodes


def _ragged(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch, num_graphs=num_graphs)


def _compiled(module: Any) -> Forward:
    return _ragged(torch.compile(module, dynamic=True))


def _dense(module: Any) -> Forward:
    def forward(x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        dense, mask = to_dense_batch(x, batch, batch_size=num_graphs)
        return module(dense, mask)[mask]

    return forward


def _layer(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch)


def _readout(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch, dim_size=num_graphs)


def _slots(setting: Setting) -> nn.Module:
    return SlotVirtualNode(setting.dim, setting.slots, setting.heads, integrate="residual")


def _film(setting: Setting) -> nn.Module:
    return SlotVirtualNode(setting.dim, setting.slots, setting.heads)


def _isab(setting: Setting) -> nn.Module:
    return InducedSetAttentionBlock(setting.dim, setting.slots, heads=setting.heads)


def _set_transformer(setting: Setting) -> nn.Module:
    return SetTransformerAggregation(setting.dim, heads=setting.heads)


def _slot_scores(largest: int, graphs: int, setting: Setting) -> int:
    return graphs * largest * setting.rows


def _pair_scores(largest: int, graphs: int, setting: Setting) -> int:
    return graphs * largest * largest * setting.heads


def _feature_scores(largest: int, graphs: int, setting: Setting) -> int:
    """Performer has random features instead of slots; of queries and of keys, and of both again for the backward."""
    width = setting.dim // setting.heads
    return 4 * graphs * largest * setting.heads * int(width * math.log(width))


def _one_row_scores(largest: int, graphs: int, setting: Setting) -> int:
    """Block masks are made from a mask of every slot with every node of the batch, here at most graphs x largest."""
    return graphs * setting.slots * graphs * largest


OURS = "slots"
PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, _slots, _ragged),
        Peer("slots, FiLM", _film, _ragged),
        Peer("slots, compiled", _slots, _compiled, compiled=True),
        Peer("slots, bf16", _slots, _ragged, dtype=torch.bfloat16),
        Peer("write + read", WriteRead, _ragged),
        Peer("OGB-style VN", lambda s: VirtualNode(s.dim, "sum"), _ragged),
        Peer("ISAB", _isab, _dense, _slot_scores),
        Peer("projected + SDPA", ProjectedSlots, _dense, _slot_scores),
        Peer("flex_attention", FlexSlots, _ragged, _one_row_scores, compiled=True, no_backward=FLEX_BACKWARD),
        Peer("SetTransformer", _set_transformer, _readout, _pair_scores, readout=True),
        Peer("GPSConv multihead", lambda s: DenseAttention(s, "multihead"), _layer, _pair_scores),
        Peer("GPSConv performer", lambda s: DenseAttention(s, "performer"), _layer, _feature_scores),
    )
}

# A module of the zoo is a contestant by its name there, as in ``zoo.lse``; this one holds a score for every pair.
ZOO, DENSE = "zoo.", "transformer"


def get_peer(name: str) -> Peer:
    """One of :data:`PEERS` by its name or its slug, or a module of the zoo as in ``zoo.lse``.

    >>> get_peer("zoo.lse").name, get_peer("slots-film").name
    ('zoo.lse', 'slots, FiLM')
    """
    slugs = {peer.slug: peer for peer in PEERS.values()}
    if name in PEERS or name.lower() in slugs:
        return PEERS[name] if name in PEERS else slugs[name.lower()]
    if name.startswith(ZOO):
        entry = zoo.entry(name.removeprefix(ZOO))
        if entry.name == "none":
            raise ValueError("bench: 'zoo.none' is the absence of a module and takes no time.")
        scores = _pair_scores if entry.name == DENSE else None
        return Peer(name, lambda setting: _from_zoo(entry, setting), _ragged, scores)
    close = get_close_matches(name.lower(), slugs, n=1) or [slug for slug in slugs if name.lower() in slug.split("-")]
    guess = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(f"bench: unknown peer {name!r}; {guess}There are {', '.join(slugs)}, and zoo.NAME.")


def zoo_peers() -> list[str]:
    """All modules of the zoo as contestants."""
    return [ZOO + name for name in zoo.names() if name != "none"]


def _from_zoo(entry: zoo.Entry, setting: Setting) -> nn.Module:
    module = entry.build(zoo.MemorySpec(channels=setting.dim, slots=setting.slots, heads=setting.heads))
    assert module is not None
    return module
