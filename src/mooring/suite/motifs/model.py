"""Local backbone, the compared readouts, and a head that predicts six log-counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GINConv
from torch_geometric.nn.aggr import (
    Aggregation,
    DegreeScalerAggregation,
    MaxAggregation,
    MeanAggregation,
    SumAggregation,
)

from mooring.nn import SlotAggregation
from mooring.suite.motifs.data import MotifBatch

TYPE_STD = 0.05


class GINBackbone(nn.Module):
    r"""Node features -> node vectors that depend only on the ``layers`` hops around a node.

    .. math::
        h_i \leftarrow \operatorname{LN}\bigl(h_i + \operatorname{MLP}((1 + \epsilon) h_i + \textstyle\sum_{j \sim i}
        h_j)\bigr)

    Normalised per node: statistics over a batch would reveal the sizes of the graph and its batch mates.

    Paper: app:motifs ("An MPNN must recognize local rooted structure"); the paper does not name the MPNN. Sums over
    neighbours are needed, because the six motifs differ in their degrees.
    """

    def __init__(self, num_types: int, channels: int, layers: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(num_types + 1, channels)
        # Types are independent of motifs. At full strength they would dominate the structure: a linear probe on the
        # sums of an untrained backbone explains 45 % of the counts' variance with them and 90 % without.
        nn.init.normal_(self.encoder.weight[:, :num_types], std=TYPE_STD)
        self.convs = nn.ModuleList(GINConv(_mlp(channels), train_eps=True) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(layers))

    def forward(self, x: Float[Tensor, "nodes features"], edge_index: Tensor) -> Float[Tensor, "nodes dim"]:
        h = self.encoder(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = norm(h + conv(h, edge_index))
        return h


class MotifNet(nn.Module):
    """Backbone, readout (``memory``) and linear head, which cannot compensate for what a readout does not express.

    Args:
        backbone: node features -> node vectors.
        channels: width of node vectors and readout.
        readout: called as ``readout(x, index, dim_size=graphs)``, returns ``[graphs, channels]``.
        num_motifs: number of counts to predict.
    """

    def __init__(self, backbone: GINBackbone, channels: int, readout: nn.Module, num_motifs: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.memory = readout
        self.head = nn.Linear(channels, num_motifs)

    def forward(self, batch: MotifBatch) -> Float[Tensor, "graphs motifs"]:
        h = self.backbone(batch.x, batch.edge_index)
        return self.head(self.memory(h, batch.batch, dim_size=batch.num_graphs))


class ReaderNet(nn.Module):
    """Learned backbone, global module, and one reader per motif: a node without edges that reads a count.

    The nodes of the graph write and only readers read, so a count reaches the head through the module alone.

    Args:
        backbone: a trained backbone, frozen here.
        channels, num_motifs: as in :class:`MotifNet`.
        memory: a module with the forward of :class:`~mooring.nn.SlotVirtualNode`; if None, the readers are unchanged.
    """

    def __init__(self, backbone: GINBackbone, channels: int, memory: nn.Module | None, num_motifs: int) -> None:
        super().__init__()
        self.backbone = backbone.requires_grad_(False)
        self.memory = memory
        self.readers = nn.Parameter(torch.randn(num_motifs, channels))
        self.head = nn.Linear(channels, num_motifs)

    def forward(self, batch: MotifBatch) -> Float[Tensor, "graphs motifs"]:
        graphs, motifs = batch.num_graphs, len(self.readers)
        readers = self.readers.repeat(graphs, 1)
        if self.memory is not None:
            h = self.backbone(batch.x, batch.edge_index)
            index = torch.arange(graphs).repeat_interleave(motifs)
            reads = torch.arange(len(h) + len(readers)) >= len(h)
            out = self.memory(
                torch.cat([h, readers]),
                torch.cat([batch.batch, index]),
                sources=~reads,
                targets=reads,
                num_graphs=graphs,
            )
            readers = out[len(h) :]
        # Each motif has a separate row of the head, so a module that sends the same message to all readers can still
        # answer.
        return torch.einsum("gmc,mc->gm", readers.unflatten(0, (graphs, motifs)), self.head.weight) + self.head.bias


def _mlp(channels: int) -> nn.Module:
    # No norm inside: with one, backbones do not learn to distinguish the path from the path with one more node.
    return nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))


def lift(channels: int) -> nn.Module:
    """Build the MLP that every readout applies to a node before aggregation."""
    return nn.Sequential(nn.Linear(channels, 2 * channels), nn.SiLU(), nn.Linear(2 * channels, channels))


class Lifted(nn.Module):
    """MLP on every node, then an aggregation.

    Shapes: x ``[nodes, dim]`` -> ``[graphs, dim]``.
    """

    def __init__(self, channels: int, aggregate: Aggregation) -> None:
        super().__init__()
        self.lift = lift(channels)
        self.aggregate = aggregate

    def forward(
        self, x: Float[Tensor, "nodes dim"], index: Int[Tensor, " nodes"], *, dim_size: int
    ) -> Float[Tensor, "graphs dim"]:
        return self.aggregate(self.lift(x), index, dim_size=dim_size)


class Pool(nn.Module):
    r"""Nodes of a graph -> one vector: an MLP on every node, one aggregation, a linear map plus an MLP.

    .. math::
        z = W p + \operatorname{MLP}(p), \qquad p = \operatorname{after}(\operatorname{aggregate}_i
        \operatorname{before}(\operatorname{MLP}(h_i)))

    The linear map is needed because only it can extrapolate counts beyond the training range.

    Args:
        channels: width of nodes and of the result.
        aggregate: aggregation of a graph's nodes.
        num_aggregates: number of vectors that `aggregate` concatenates.
        hidden: hidden width of the MLP on the pooled vector, which equalises the parameters of the readouts.
        before: applied to every node's vector before pooling.
        after: applied to the pooled vector.

    Shapes: x ``[nodes, dim]`` -> ``[graphs, dim]``.
    """

    def __init__(
        self,
        channels: int,
        aggregate: Aggregation,
        *,
        hidden: int,
        num_aggregates: int = 1,
        before: Callable[[Tensor], Tensor] | None = None,
        after: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        pooled = num_aggregates * channels
        self.lift = lift(channels)
        self.aggregate = aggregate
        self.linear = nn.Linear(pooled, channels)
        self.deep = nn.Sequential(nn.Linear(pooled, hidden), nn.SiLU(), nn.Linear(hidden, channels))
        self.before = before
        self.after = after

    def forward(
        self, x: Float[Tensor, "nodes dim"], index: Int[Tensor, " nodes"], *, dim_size: int
    ) -> Float[Tensor, "graphs dim"]:
        lifted = self.lift(x)
        if self.before is not None:
            lifted = self.before(lifted)
        pooled = self.aggregate(lifted, index, dim_size=dim_size)
        if self.after is not None:
            pooled = self.after(pooled)
        return self.linear(pooled) + self.deep(pooled)


# Scales the sum over a small graph to the size of one node's vector. The constant is the same for all graphs, so counts
# are preserved.
SUM_SCALE = 1 / 32
# Hidden width of the pools, which gives them the parameters of the slot readouts.
HIDDEN = 557
# Temperature of both slot readouts: the sharper routing of Two-Radius.
TEMPERATURE = 0.35


@dataclass(frozen=True)
class ReadoutSpec:
    """Arguments of a readout's builder.

    Args:
        channels: width of node features and of the readout's result.
        slots, heads: of slot readouts.
        graph_sizes: histogram of the training graphs' numbers of nodes; it defines PNA's scalers, and the anchors start
            at the log of its mean.
    """

    channels: int
    slots: int
    heads: int
    graph_sizes: Int[Tensor, " sizes"]


@dataclass(frozen=True)
class Readout:
    """Name of a readout in tables, and its builder."""

    title: str
    build: Callable[[ReadoutSpec], nn.Module]


def _scaled(pooled: Tensor) -> Tensor:
    return SUM_SCALE * pooled


def _sum_log(spec: ReadoutSpec) -> nn.Module:
    # Positive terms: the log of a sum is then log(1 + count) if a node adds one for its motif and nothing else.
    return Pool(spec.channels, SumAggregation(), hidden=HIDDEN, before=functional.softplus, after=torch.log1p)


def _pna(spec: ReadoutSpec) -> nn.Module:
    # On a graph the scalers' degree is its number of nodes: this is the only readout that receives the graph's size.
    aggregate = DegreeScalerAggregation(
        ["mean", "max", "min", "std"], ["identity", "amplification", "attenuation"], spec.graph_sizes
    )
    return Pool(spec.channels, aggregate, num_aggregates=12, hidden=32)


def _cross_attention(spec: ReadoutSpec) -> nn.Module:
    slots = SlotAggregation(spec.channels, spec.slots, spec.heads, anchored=False, temperature=TEMPERATURE)
    return Lifted(spec.channels, slots)


def _anchored(spec: ReadoutSpec) -> nn.Module:
    mean_size = float((spec.graph_sizes * torch.arange(len(spec.graph_sizes))).sum() / spec.graph_sizes.sum())
    slots = SlotAggregation(
        spec.channels,
        spec.slots,
        spec.heads,
        temperature=TEMPERATURE,
        # Every slot sees all nodes of a graph, so anchors start with the weight of all nodes.
        anchor_init=math.log(mean_size),
        mass_map="linear",
        content_dropout=0.5,
    )
    return Lifted(spec.channels, slots)


# In the order of tables.
READOUTS: dict[str, Readout] = {
    "mean": Readout("Mean pool", lambda spec: Pool(spec.channels, MeanAggregation(), hidden=HIDDEN)),
    "max": Readout("Max pool", lambda spec: Pool(spec.channels, MaxAggregation(), hidden=HIDDEN)),
    "pna": Readout("PNA", _pna),
    "sum-raw": Readout("Sum pool, raw", lambda spec: Pool(spec.channels, SumAggregation(), hidden=HIDDEN)),
    "sum-log": Readout("Sum pool, log head", _sum_log),
    "sum": Readout("Sum pool", lambda spec: Pool(spec.channels, SumAggregation(), hidden=HIDDEN, after=_scaled)),
    "cross-attn": Readout("Cross-Attn VN", _cross_attention),
    "anchored": Readout("Anchored Cross-Attn VN", _anchored),
}

# Blind to the number of disjoint copies of a graph, for any weights.
NORMALISED: frozenset[str] = frozenset({"mean", "max", "cross-attn"})
