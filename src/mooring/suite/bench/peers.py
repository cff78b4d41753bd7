"""Peers of the benchmarks: each maps ``(x, batch, num_graphs)`` to new node features, or to graph features.

A peer that needs dense input receives it from PyG's ``to_dense_batch``, as its users do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch_geometric.nn import GPSConv, SetTransformerAggregation
from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock
from torch_geometric.utils import to_dense_batch

from mooring import ops, zoo
from mooring.named import suggest
from mooring.nn import SlotVirtualNode, VirtualNode
from mooring.ops.plain import is_small
from mooring.suite.bench import batches
from mooring.suite.bench.shapes import Setting

Forward = Callable[[Tensor, Tensor, int], Tensor]

# Largest number of scores and of features that a peer may hold at once; a larger shape is skipped with a note.
MOST_SCORES, MOST_NUMBERS = 400_000_000, 150_000_000
FLEX_BACKWARD = "flex_attention has no backward on CPU"


class WriteRead(nn.Module):
    """Our two ops alone, with slot tables as a memory would compute them: the operations bounded by the floor."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        shape = (setting.slots, setting.heads, setting.dim)
        self.query, self.key = (nn.Parameter(torch.randn(shape) / setting.dim**0.5) for _ in range(2))

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        x = x.unsqueeze(1)
        state = ops.write(self.query, x, x, batch, num_graphs=num_graphs)
        return ops.read(x, self.key, state.content, batch, sum_heads=True).squeeze(1)


class ProjectedSlots(nn.Module):
    """Textbook order: project every node to keys and values, pad, call scaled_dot_product_attention twice."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        dim = setting.dim
        self.heads = setting.heads
        self.slots = nn.Parameter(torch.randn(setting.slots, dim))
        self.write_key_value, self.read_query = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.write_query, self.read_key_value = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.write_out, self.read_out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        key, value = (self.split(part) for part in self.write_key_value(x).chunk(2, dim=-1))
        query = self.split(self.write_query(self.slots)).expand(x.size(0), -1, -1, -1)
        written = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None])
        memory = self.slots + self.write_out(written.transpose(1, 2).flatten(2))
        key, value = (self.split(part) for part in self.read_key_value(memory).chunk(2, dim=-1))
        read = nn.functional.scaled_dot_product_attention(self.split(self.read_query(x)), key, value)
        return x + self.read_out(read.transpose(1, 2).flatten(2))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)


class FlexSlots(ProjectedSlots):
    """:class:`ProjectedSlots` without padding: all graphs in one row, separated by flex_attention's block masks.

    The masks depend on the batch only and are built once, because layers share them.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.attention = torch.compile(flex_attention, dynamic=False)
        self.masks: tuple[BlockMask, BlockMask] | None = None

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:  # type: ignore[override]
        if self.masks is None:
            self.masks = self._masks(batch, num_graphs)
        x = x.unsqueeze(0)
        key, value = (self.split(part) for part in self.write_key_value(x).chunk(2, dim=-1))
        query = self.split(self.write_query(self.slots.repeat(num_graphs, 1)).unsqueeze(0))
        written = self.attention(query, key, value, block_mask=self.masks[0])
        memory = self.slots.repeat(num_graphs, 1) + self.write_out(written.transpose(1, 2).flatten(2))
        key, value = (self.split(part) for part in self.read_key_value(memory).chunk(2, dim=-1))
        read = self.attention(self.split(self.read_query(x)), key, value, block_mask=self.masks[1])
        return (x + self.read_out(read.transpose(1, 2).flatten(2))).squeeze(0)

    def _masks(self, batch: Tensor, num_graphs: int) -> tuple[BlockMask, BlockMask]:
        slots, nodes = self.slots.size(0), batch.numel()

        def slot_sees(b: Tensor, h: Tensor, slot: Tensor, node: Tensor) -> Tensor:
            return slot // slots == batch[node]

        def node_sees(b: Tensor, h: Tensor, node: Tensor, slot: Tensor) -> Tensor:
            return slot // slots == batch[node]

        rows = num_graphs * slots
        return (
            create_block_mask(slot_sees, None, None, rows, nodes, device=batch.device),
            create_block_mask(node_sees, None, None, nodes, rows, device=batch.device),
        )


class DenseAttention(nn.Module):
    """Global half of GPSConv, without a local layer: dense attention over all pairs of nodes."""

    def __init__(self, setting: Setting, kind: str) -> None:
        super().__init__()
        self.conv = GPSConv(setting.dim, conv=None, heads=setting.heads, norm=None, attn_type=kind)

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        return self.conv(x, torch.empty(2, 0, dtype=torch.long, device=x.device), batch)


@dataclass(frozen=True)
class Peer:
    """Contestant of the benchmarks.

    Args:
        build: setting -> module.
        call: module -> forward function.
        scores: ``(largest graph, graphs, setting)`` -> number of attention scores in memory at once, if any.
        dtype: dtype of the features and the parameters.
        compiled: whether it is compiled; the compiler's memory would be measured too.
        no_cpu_backward: reason that only the forward pass can be timed on a CPU.
        readout: whether it returns one row per graph, not per node.
    """

    name: str
    build: Callable[[Setting], nn.Module]
    call: Callable[[Any], Forward]
    scores: Callable[[int, int, Setting], int] | None = None
    dtype: torch.dtype = torch.float32
    compiled: bool = False
    no_cpu_backward: str = ""
    readout: bool = False

    @property
    def slug(self) -> str:
        """The name on the command line: lower case, words joined by dashes."""
        return "-".join(re.findall(r"[a-z0-9]+", self.name.lower()))

    def place(self, setting: Setting) -> nn.Module:
        """Build the module on the device of the setting, in the precision of the peer."""
        return self.build(setting).to(device=setting.device, dtype=self.dtype)

    def no_backward(self, device: str) -> str:
        """Return why only the forward pass can be timed, or an empty string."""
        return self.no_cpu_backward if device == "cpu" else ""

    def too_large(self, largest: int, graphs: int, setting: Setting) -> str:
        """Return why a shape is skipped, or an empty string."""
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


def _dense(module: Any) -> Forward:
    def forward(x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        dense, mask = to_dense_batch(x, batch, batch_size=num_graphs)
        return module(dense, mask)[mask]

    return forward


def _plain(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch, num_graphs)


def _layer(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch)


def _default(setting: Setting) -> nn.Module:
    return SlotVirtualNode(setting.dim, setting.slots, setting.heads)


def _in_pytorch(module: Any) -> Forward:
    """As without the C++ operators; the back end of a backward is that of its forward."""

    def forward(x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        plan = ops.plan(batch, num_graphs=num_graphs)
        with ops.use_backend("plain" if is_small(plan) else "tiles"):
            return module(x, plan=plan)

    return forward


def _slots(setting: Setting) -> nn.Module:
    return SlotVirtualNode(setting.dim, setting.slots, setting.heads, integrate="residual")


def _slot_scores(largest: int, graphs: int, setting: Setting) -> int:
    return graphs * largest * setting.rows


def _pair_scores(largest: int, graphs: int, setting: Setting) -> int:
    return graphs * largest * largest * setting.heads


def _feature_scores(largest: int, graphs: int, setting: Setting) -> int:
    """Count Performer's random features of queries and keys, and both again for the backward."""
    width = setting.dim // setting.heads
    return 4 * graphs * largest * setting.heads * int(width * math.log(width))


def _one_row_scores(largest: int, graphs: int, setting: Setting) -> int:
    """Count the entries of the mask of every slot with every node, from which block masks are built."""
    return graphs * setting.slots * graphs * largest


OURS = "slots"
PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, _slots, _ragged),
        Peer("slots, FiLM", _default, _ragged),
        Peer("slots, PyTorch alone", _default, _in_pytorch),
        Peer("slots, compiled", _slots, lambda m: _ragged(torch.compile(m, dynamic=True)), compiled=True),
        Peer("slots, bf16", _slots, _ragged, dtype=torch.bfloat16),
        Peer("write + read", WriteRead, _ragged),
        Peer("OGB-style VN", lambda s: VirtualNode(s.dim, "sum"), _ragged),
        Peer(batches.PADDED, batches.PaddedSlots, _plain, _slot_scores),
        Peer("GINEConv", batches.LocalLayer, _plain),
        Peer("ISAB", lambda s: InducedSetAttentionBlock(s.dim, s.slots, heads=s.heads), _dense, _slot_scores),
        Peer("projected + SDPA", ProjectedSlots, _dense, _slot_scores),
        Peer("flex_attention", FlexSlots, _ragged, _one_row_scores, compiled=True, no_cpu_backward=FLEX_BACKWARD),
        Peer(
            "SetTransformer",
            lambda s: SetTransformerAggregation(s.dim, heads=s.heads),
            lambda m: lambda x, batch, num_graphs: m(x, batch, dim_size=num_graphs),
            _pair_scores,
            readout=True,
        ),
        Peer("GPSConv multihead", lambda s: DenseAttention(s, "multihead"), _layer, _pair_scores),
        Peer("GPSConv performer", lambda s: DenseAttention(s, "performer"), _layer, _feature_scores),
    )
}

# Prefix of zoo modules as contestants, as in ``zoo.lse``; and the module with a score for every pair.
ZOO, DENSE = "zoo.", "transformer"


def get_peer(name: str) -> Peer:
    """Return one of :data:`PEERS` by its name or its slug, or a module of the zoo as in ``zoo.lse``.

    >>> get_peer("zoo.lse").name, get_peer("slots-film").name
    ('zoo.lse', 'slots, FiLM')
    """
    slugs = {peer.slug: peer for peer in PEERS.values()}
    if name in PEERS or name.lower() in slugs:
        return PEERS[name] if name in PEERS else slugs[name.lower()]
    if name.startswith(ZOO):
        entry = zoo.entry(name.removeprefix(ZOO))
        if entry.name == "none":
            raise ValueError("bench: 'zoo.none' builds no module; nothing to time.")
        scores = _pair_scores if entry.name == DENSE else None
        return Peer(name, lambda setting: _from_zoo(entry, setting), _ragged, scores)
    hint = suggest(name, slugs, f"the peers are {', '.join(slugs)}, and zoo.NAME.")
    raise ValueError(f"bench: unknown peer {name!r}; {hint}")


def zoo_peers() -> list[str]:
    """Return the names of all modules of the zoo as contestants."""
    return [ZOO + name for name in zoo.names() if name != "none"]


def _from_zoo(entry: zoo.Entry, setting: Setting) -> nn.Module:
    module = entry.build(zoo.MemorySpec(channels=setting.dim, slots=setting.slots, heads=setting.heads))
    assert module is not None
    return module
