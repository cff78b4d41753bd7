"""Peers of the benchmarks: each maps ``(x, batch, num_graphs)`` to new node features, or to graph features.

A peer that needs dense input receives it from PyG's ``to_dense_batch``, as its users do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch_geometric.nn import GINEConv, GPSConv, SetTransformerAggregation
from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock
from torch_geometric.utils import to_dense_batch

from mooring import ops, zoo
from mooring.named import suggest
from mooring.nn import SlotVirtualNode, VirtualNode
from mooring.ops.plain import is_small
from mooring.suite.bench.shapes import Setting

Forward = Callable[[Tensor, Tensor, int], Tensor]

# Largest number of scores and of features that a peer may hold at once; a larger shape is skipped with a note.
MOST_SCORES, MOST_NUMBERS = 400_000_000, 150_000_000
FLEX_BACKWARD = "flex_attention has no backward on CPU"
# The names of contestants that sweeps refer to.
OURS, DEFAULT, ALONE, PADDED, LOCAL = "slots", "slots, FiLM", "slots, PyTorch alone", "plain padded", "GINEConv"
# Prefix of zoo modules as contestants, as in ``zoo.lse``; and the module with a score for every pair.
ZOO, DENSE = "zoo.", "transformer"


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
        write = partial(scaled_dot_product_attention, attn_mask=mask[:, None, None])
        return self.attend(x, self.slots, write, scaled_dot_product_attention)

    def attend(self, x: Tensor, slots: Tensor, write: Callable[..., Any], read: Callable[..., Any]) -> Tensor:
        """Write to the slots and read from them, each by an attention function of queries, keys and values."""
        key, value = map(self.split, self.write_key_value(x).chunk(2, dim=-1))
        written = write(self.split(self.write_query(slots)).expand(x.size(0), -1, -1, -1), key, value)
        memory = slots + self.write_out(written.transpose(1, 2).flatten(2))
        key, value = map(self.split, self.read_key_value(memory).chunk(2, dim=-1))
        context = read(self.split(self.read_query(x)), key, value)
        return x + self.read_out(context.transpose(1, 2).flatten(2))

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
            slots, rows, nodes = self.slots.size(0), num_graphs * self.slots.size(0), batch.numel()
            self.masks = (
                create_block_mask(
                    lambda b, h, slot, node: slot // slots == batch[node], None, None, rows, nodes, device=batch.device
                ),
                create_block_mask(
                    lambda b, h, node, slot: slot // slots == batch[node], None, None, nodes, rows, device=batch.device
                ),
            )
        write, read = (partial(self.attention, block_mask=mask) for mask in self.masks)
        return self.attend(x.unsqueeze(0), self.slots.repeat(num_graphs, 1), write, read).squeeze(0)


class DenseAttention(nn.Module):
    """Global half of GPSConv, without a local layer: dense attention over all pairs of nodes."""

    def __init__(self, setting: Setting, kind: str) -> None:
        super().__init__()
        self.conv = GPSConv(setting.dim, conv=None, heads=setting.heads, norm=None, attn_type=kind)

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        return self.conv(x, torch.empty(2, 0, dtype=torch.long, device=x.device), batch)


class PaddedSlots(nn.Module):
    """:class:`~mooring.nn.SlotVirtualNode` in plain PyTorch: pad, ``einsum``, ``logsumexp``, and autograd.

    Same parameters and same outputs, without plan, checks, masks or a choice of order.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.memory = SlotVirtualNode(setting.dim, setting.slots, setting.heads)

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        write, update, read, film = self.memory.write, self.memory.update, self.memory.read, self.memory.integrate
        assert read is not None
        heads, dim = self.memory.heads, self.memory.channels // self.memory.heads
        sizes = torch.bincount(batch, minlength=num_graphs)
        length = int(sizes.max())
        first = (torch.arange(num_graphs, device=x.device) * length - sizes.cumsum(0) + sizes).index_select(0, batch)
        place = torch.arange(x.size(0), device=x.device) + first
        h = x.new_zeros(num_graphs * length, x.size(1)).index_copy(0, place, x).view(num_graphs, length, -1)
        absent = torch.arange(length, device=x.device) >= sizes.unsqueeze(1)

        assert write.addresses is not None
        address, value = nn.functional.layer_norm(h, h.shape[-1:]), write.lin_value(h).unflatten(-1, (heads, dim))
        shared = torch.einsum("mhc,glc->gmhl", write.addresses.table(), address)
        scores = shared.masked_fill(absent[:, None, None], float("-inf"))
        log_mass = scores.logsumexp(-1)
        content = torch.einsum("gmhl,glhd->gmhd", (scores - log_mass.unsqueeze(-1)).exp(), value)

        u = update.norm_in(update.lin_out(content.flatten(2)))
        slots = update.norm_out(u + update.feed_forward(u))
        slots = slots + update.mass_mlp(nn.functional.softplus(log_mass - update.anchor_logit))

        value = read.lin_value(slots).unflatten(-1, (heads, dim))
        context = read.lin_out(torch.einsum("gmhl,gmhd->glhd", shared.softmax(1), value).flatten(2))
        hidden = nn.functional.gelu(film.lin_node(h) + context)
        gamma, beta = film.lin_film(hidden).tanh().chunk(2, -1)
        out: Tensor = (1 + 0.5 * gamma) * h + beta
        return out.flatten(0, 1).index_select(0, place)


class LocalLayer(nn.Module):
    """GINE layer over chains of bonds, two directed edges per bond: the local work of a model with a memory."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        dim = setting.dim
        self.conv = GINEConv(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)))
        self.edges: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        if self.edges is None:
            start = (batch[1:] == batch[:-1]).nonzero().squeeze(1)
            forward = torch.stack([start, start + 1])
            bonds = torch.cat([forward, forward.flip(0)], dim=1)
            self.edges = bonds, torch.randn(bonds.size(1), x.size(1), device=x.device)
        return self.conv(x, *self.edges)


@dataclass(frozen=True)
class Peer:
    """Contestant of the benchmarks.

    Args:
        build: setting -> module.
        call: module -> forward function.
        scores: ``(largest graph, graphs, setting)`` -> number of attention scores in memory at once, if any.
        compiled: whether it is compiled; the compiler's memory would be measured too.
        no_cpu_backward: reason that only the forward pass can be timed on a CPU.
        readout: whether it returns one row per graph, not per node.
    """

    name: str
    build: Callable[[Setting], Any]
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

    def too_large(self, batch: Tensor, setting: Setting) -> str:
        """Return why the peer is skipped on a batch, or an empty string."""
        if self.scores is None:
            return ""
        largest, graphs = int(torch.bincount(batch).max()), int(batch[-1]) + 1
        scores = self.scores(largest, graphs, setting)
        if scores > MOST_SCORES:
            return f"left out: {scores:,} scores at once"
        numbers = graphs * largest * setting.dim
        return f"left out: {numbers:,} features once padded" if numbers > MOST_NUMBERS else ""


def _ragged(module: Any) -> Forward:
    return lambda x, batch, num_graphs: module(x, batch, num_graphs=num_graphs)


def _dense(module: Any) -> Forward:
    def forward(x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        dense, mask = to_dense_batch(x, batch, batch_size=num_graphs)
        return module(dense, mask)[mask]

    return forward


def _in_pytorch(module: Any) -> Forward:
    """As without the C++ operators; the back end of a backward is that of its forward."""

    def forward(x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        plan = ops.plan(batch, num_graphs=num_graphs)
        with ops.use_backend("plain" if is_small(plan) else "tiles"):
            return module(x, plan=plan)

    return forward


def _default(setting: Setting) -> nn.Module:
    return SlotVirtualNode(setting.dim, setting.slots, setting.heads)


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


PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, _slots, _ragged),
        Peer(DEFAULT, _default, _ragged),
        Peer(ALONE, _default, _in_pytorch),
        Peer("slots, compiled", _slots, lambda m: _ragged(torch.compile(m, dynamic=True)), compiled=True),
        Peer("slots, bf16", _slots, _ragged, dtype=torch.bfloat16),
        Peer("write + read", WriteRead, _ragged),
        Peer("OGB-style VN", lambda s: VirtualNode(s.dim, "sum"), _ragged),
        Peer(PADDED, PaddedSlots, _ragged, _slot_scores),
        Peer(LOCAL, LocalLayer, _ragged),
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
        Peer("GPSConv multihead", lambda s: DenseAttention(s, "multihead"), _ragged, _pair_scores),
        Peer("GPSConv performer", lambda s: DenseAttention(s, "performer"), _ragged, _feature_scores),
    )
}


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
        return Peer(
            name, lambda s: entry.build(zoo.MemorySpec(channels=s.dim, slots=s.slots, heads=s.heads)), _ragged, scores
        )
    hint = suggest(name, slugs, f"the peers are {', '.join(slugs)}, and zoo.NAME.")
    raise ValueError(f"bench: unknown peer {name!r}; {hint}")


def zoo_peers() -> list[str]:
    """Return the names of all modules of the zoo as contestants."""
    return [ZOO + name for name in zoo.names() if name != "none"]
