"""Attention between nodes: dense, linear, and sparse along a random expander with global nodes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv, TransformerConv
from torch_geometric.nn.attention.performer import generalized_kernel, linear_attention

from mooring.nn import MemorySpec, SlotUpdate, SlotWrite
from mooring.ops.state import full_precision, statistics_dtype
from mooring.zoo.base import GlobalModule, Locate, Padding, Rows, mlp
from mooring.zoo.registry import register

DEGREE = 4


class Sources(NamedTuple):
    """Padded keys and values of the sources, and their log weights, -inf in padding."""

    x: Tensor
    log_weight: Tensor


@register(
    "transformer",
    title="dense self-attention, as in GPS",
    paper="Vaswani et al. 2017; Rampášek et al. 2022",
    label="Transformer",
)
class DenseAttention(GlobalModule):
    """Global half of a GPS layer: attention, residual, norm, MLP, norm. Quadratic in the nodes of a graph.

    Weights and layers are from PyG's ``GPSConv`` without a local convolution; outputs are equal if all nodes write and
    read.

    Paper: Vaswani et al. 2017; Rampášek et al. 2022 (GPS, arXiv 2205.12454).
    Departs: runs after the local layer, while GPS adds the two; norms are per node rather than per batch, which keeps
    graphs independent. A graph without sources has one source of zeros.
    """

    attention = "multihead"

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, address=True)
        self.locate = Locate(spec)
        self.block = GPSConv(
            spec.channels,
            None,
            spec.heads,
            norm="layer_norm",
            norm_kwargs={"mode": "node"},
            attn_type=self.attention,
            attn_kwargs=self.options(spec),
        )
        # norm1 belongs to the local half, which is absent.
        self.block.norm1 = None

    def options(self, spec: MemorySpec) -> dict[str, Any]:
        """Return further arguments of the attention."""
        return {}

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if isinstance(self.block.attn, nn.MultiheadAttention):
            # torch's reset omits the output weights.
            self.block.attn.out_proj.reset_parameters()
            nn.init.zeros_(self.block.attn.out_proj.bias)

    def gather(self, writers: Rows) -> Sources:
        padding = Padding(writers)
        log_weight = padding.pad(writers.log_weight, fill=float("-inf"))
        stand_in = padding.present_or_stand_in() & ~padding.present
        return Sources(padding.pad(self.locate(writers)), log_weight.masked_fill(stand_in, 0.0))

    def spread(self, readers: Rows, gathered: Sources) -> Tensor:
        padding = Padding(readers)
        x = self.locate(readers)
        block = self.block
        h = block.norm2(x + padding.unpad(self.attend(padding.pad(x), gathered)))
        out: Tensor = block.norm3(h + block.mlp(h))
        return out

    def attend(self, x: Tensor, sources: Sources) -> Tensor:
        """Attend from queries ``[graphs, longest, channels]`` to the sources; log weights are added to the scores."""
        if not x.size(0):  # torch's attention raises on an empty batch
            return x
        out: Tensor = self.block.attn(
            x, sources.x, sources.x, key_padding_mask=sources.log_weight.to(x.dtype), need_weights=False
        )[0]
        return out


@register("performer", title="linear attention", paper="Choromanski et al. 2021")
class LinearAttention(DenseAttention):
    """Layer of :class:`DenseAttention` with PyG's Performer instead of softmax attention: linear in the nodes.

    Paper: Choromanski et al. 2021 (arXiv 2009.14794).
    Departs: in PyG, padded keys remain in the denominator, so that the output depends on batch mates; here padding is
    excluded, and weights count as copies. The kernel is PyG's ReLU kernel; PyG does not have the paper's softmax
    kernel. Heads share the channels, while PyG's heads have 64 each, so there are fewer random features (``int(d log
    d)`` for a head of width d). Features are drawn once and not again in training.
    """

    attention = "performer"

    def options(self, spec: MemorySpec) -> dict[str, Any]:
        if spec.channels == spec.heads:
            raise ValueError(
                f"{type(self).__name__}: channels={spec.channels} and heads={spec.heads} give heads of width 1, which "
                "have no random features. Pass fewer heads."
            )
        return {"head_channels": spec.channels // spec.heads}

    def attend(self, x: Tensor, sources: Sources) -> Tensor:
        attn = self.block.attn
        q, k, v = (
            lin(rows).unflatten(-1, (attn.heads, -1)).transpose(1, 2)
            for lin, rows in ((attn.q, x), (attn.k, sources.x), (attn.v, sources.x))
        )
        # A query without similar keys divides by a tiny number, which underflows in half precision.
        wide = statistics_dtype(q.dtype)
        with full_precision(q.device):
            projection = attn.fast_attn.projection_matrix.to(wide)
            q, k = (generalized_kernel(part.to(wide), projection, attn.kernel) for part in (q, k))
            # Only ratios of weights matter; relative to the largest weight they are finite.
            weight = sources.log_weight - sources.log_weight.amax(dim=1, keepdim=True)
            k = k * weight.exp()[:, None, :, None].to(wide)
            attended = linear_attention(q, k, v.to(wide)).to(v.dtype)
        out: Tensor = attn.attn_out(attended.transpose(1, 2).flatten(-2))
        return out


class Written(NamedTuple):
    """Global nodes ``[graphs, slots, channels]``, and the sources, at which expander edges start."""

    memory: Tensor
    writers: Rows
    x: Tensor


@register("exphormer", title="expander edges and global nodes", paper="Shirzad et al. 2023")
class Expander(GlobalModule):
    """Global nodes attend to the sources; each target attends to the global nodes and to a few random sources.

    Paper: Exphormer, Shirzad et al. 2023 (arXiv 2303.06147). The attention is PyG's ``TransformerConv``.
    Departs: expander edges run from sources to targets, and a union of ``DEGREE`` directed permutations replaces the
    random regular graph. The edges of the graph are left to the local layers. Edges have no features, while the paper's
    features mark the kind of edge. Global nodes are new in each layer and are written before they are read, which takes
    two layers in the paper. No norm follows the MLP.

    The module is *not* equivariant: the sources of a target depend on the order and number of the nodes. The edges are
    drawn once per number of sources, so that a forward pass is deterministic and the graphs of a batch do not interact.
    A weight is not equivalent to copies, which would have separate edges. An edge is repeated by the weight of its
    source, so weights must be logarithms of whole numbers, and a target of weighted sources has more edges than a
    target of copies.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, address=True)
        channels, hidden = spec.channels, spec.hidden_channels or 2 * spec.channels
        self.locate = Locate(spec)
        self.write = SlotWrite(channels, spec.slots, spec.heads, temperature=spec.temperature)
        self.update = SlotUpdate(channels, spec.slots, spec.heads, anchored=False)
        self.conv = TransformerConv((channels, channels), channels // spec.heads, spec.heads)
        self.norm = nn.LayerNorm(channels)
        self.mlp = mlp(channels, hidden, channels)

    def gather(self, writers: Rows) -> Written:
        x = self.locate(writers)
        state = self.write(x, writers.index, log_weight=writers.log_weight, num_graphs=writers.num_graphs)
        return Written(self.update(state, self.write.slot), writers, x)

    def content(self, gathered: Written) -> Tensor:
        return gathered.memory

    def spread(self, readers: Rows, gathered: Written) -> Tensor:
        x, (memory, writers, senders) = self.locate(readers), gathered
        slots = memory.size(1)
        reader = torch.arange(x.size(0), device=x.device)
        slot_rows = senders.size(0) + readers.index.unsqueeze(1) * slots + torch.arange(slots, device=x.device)
        down = torch.stack([slot_rows.flatten(), reader.repeat_interleave(slots)])
        edges = torch.cat([down, expander(writers, readers, DEGREE)], dim=1)
        message = self.conv((torch.cat([senders, memory.flatten(0, 1)]), x), edges)
        h = self.norm(x + message)
        out: Tensor = h + self.mlp(h)
        return out


def expander(writers: Rows, readers: Rows, degree: int) -> Tensor:
    """Return edges within each graph: reader number r attends to writer ``p(r mod n)`` for each permutation p."""
    edges = [torch.empty(2, 0, dtype=torch.long)]
    times = writers.counts("Expander").cpu()
    written, read = writers.index.cpu(), readers.index.cpu()
    for graph in range(writers.num_graphs):
        sources, targets = ((index == graph).nonzero().squeeze(1) for index in (written, read))
        if sources.numel() == 0 or targets.numel() == 0:
            continue
        draw = permutations(sources.numel(), degree)
        chosen = sources[draw[:, torch.arange(targets.numel()) % sources.numel()]].flatten()
        pairs = torch.stack([chosen, targets.repeat(degree)])
        edges.append(pairs.repeat_interleave(times[chosen], dim=1))
    return torch.cat(edges, dim=1).to(writers.index.device)


@lru_cache(maxsize=1024)
def permutations(size: int, degree: int) -> Tensor:
    """Return ``degree`` permutations, always the same ones for ``size`` sources."""
    generator = torch.Generator().manual_seed(size)
    return torch.stack([torch.randperm(size, generator=generator) for _ in range(degree)])
