"""The compared readouts, by name. ``docs/motifs.md`` says why each is built as it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.aggr import DegreeScalerAggregation, MaxAggregation, MeanAggregation, SumAggregation

from mooring.nn import SlotAggregation
from mooring.suite.motifs.pool import Lifted, Pool

# Brings the sum over a small graph to the size of one node's vector. One constant for all graphs: counts survive it.
SUM_SCALE = 1 / 32
# Of both slot readouts: the sharper routing of Two-Radius.
TEMPERATURE = 0.35


@dataclass(frozen=True)
class ReadoutSpec:
    """What a readout is built from.

    Args:
        channels: Width of node features and of the readout's result.
        slots: Number of slots, where there are slots.
        heads: Heads per slot.
        graph_sizes: How many training graphs have each number of nodes: PNA's scalers are defined by it, and the
            anchors start at the log of its mean.
    """

    channels: int
    slots: int
    heads: int
    graph_sizes: Int[Tensor, " sizes"]


@dataclass(frozen=True)
class Readout:
    """A way to build a readout, and the factor on the learning rate that suits it best on validation graphs."""

    build: Callable[[ReadoutSpec], nn.Module]
    rate: float = 1.0


def _mean(spec: ReadoutSpec) -> nn.Module:
    return Pool(spec.channels, MeanAggregation(), hidden=557)


def _max(spec: ReadoutSpec) -> nn.Module:
    return Pool(spec.channels, MaxAggregation(), hidden=557)


def _sum(spec: ReadoutSpec) -> nn.Module:
    return Pool(spec.channels, SumAggregation(), hidden=557, after=_scaled)


def _scaled(pooled: Tensor) -> Tensor:
    return SUM_SCALE * pooled


def _sum_raw(spec: ReadoutSpec) -> nn.Module:
    return Pool(spec.channels, SumAggregation(), hidden=557)


def _sum_log(spec: ReadoutSpec) -> nn.Module:
    # Positive terms: the log of a sum is then log(1 + count) where a node adds one for its motif and nothing else.
    return Pool(spec.channels, SumAggregation(), hidden=557, before=functional.softplus, after=torch.log1p)


def _pna(spec: ReadoutSpec) -> nn.Module:
    # On a graph the scalers' degree is its number of nodes: of all readouts this one alone is told the graph's size.
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
        # Every slot sees all nodes of a graph: anchors start as heavy as these are together.
        anchor_init=math.log(mean_size),
        mass_map="linear",
        content_dropout=0.5,
    )
    return Lifted(spec.channels, slots)


READOUTS: dict[str, Readout] = {
    "mean": Readout(_mean),
    "sum": Readout(_sum),
    "cross-attn": Readout(_cross_attention),
    "anchored": Readout(_anchored),
    "sum-raw": Readout(_sum_raw),
    "sum-log": Readout(_sum_log),
    "max": Readout(_max),
    "pna": Readout(_pna),
}

# Blind to the number of disjoint copies of a graph, whatever their weights.
NORMALISED: frozenset[str] = frozenset({"mean", "max", "cross-attn"})
