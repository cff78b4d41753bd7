"""Aggregates of all sources as global modules: broadcast readouts, and a GIN layer over a star."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv
from torch_geometric.nn.aggr import Aggregation, DeepSetsAggregation, DegreeScalerAggregation

from mooring.nn import MemorySpec
from mooring.zoo.base import GlobalModule, JointBroadcast, Rows
from mooring.zoo.registry import register

# PNA divides by the average set size of the training data, which a specification does not contain. The constant only
# scales two thirds of the features, which the next layer can undo.
TYPICAL_SIZE = 32


class Readout(GlobalModule):
    """PyG aggregation of the sources, followed by an MLP and the joint decoder of the homogeneous virtual node.

    Departs: PyG's aggregations do not support weights, so multiplicities become literal copies.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        aggregation: called as ``aggregation(x, index, dim_size=graphs)``.
        width: width of the aggregate.
    """

    def __init__(self, spec: MemorySpec, aggregation: Aggregation, width: int) -> None:
        super().__init__(spec)
        hidden = spec.hidden
        self.aggregation = aggregation
        self.update = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, spec.channels))
        self.decoder = JointBroadcast(spec.channels, spec.channels, spec.channels)

    def gather(self, writers: Rows) -> Tensor:
        copies = writers.copies(type(self).__name__)
        pooled = self.aggregation(copies.x, copies.index, dim_size=copies.num_graphs)
        return self.update(pooled).unsqueeze(1)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        out: Tensor = self.decoder(readers, gathered.squeeze(1))
        return out


@register("pna", title="PNA readout, broadcast", paper="Corso et al. 2020", label="PNA")
def pna(spec: MemorySpec) -> nn.Module:
    """Build PNA: four aggregators, three scalers (arXiv 2004.05718), and an average set size of 32."""
    sizes = torch.zeros(TYPICAL_SIZE + 1)
    sizes[TYPICAL_SIZE] = 1
    scalers = ["identity", "amplification", "attenuation"]
    aggregation = DegreeScalerAggregation(["mean", "min", "max", "std"], scalers, sizes)
    return Readout(spec, aggregation, 12 * spec.channels)


@register("deep-sets", title="Deep Sets readout, broadcast", paper="Zaheer et al. 2017")
def deep_sets(spec: MemorySpec) -> nn.Module:
    """Build Deep Sets: a sum of MLPs of the nodes (arXiv 1703.06114); :class:`Readout` has the MLP after the sum."""
    channels, hidden = spec.channels, spec.hidden
    local = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))
    return Readout(spec, DeepSetsAggregation(local_nn=local), channels)


@register("gin-sum", title="sum over a star of all sources", paper="Xu et al. 2019")
class StarGIN(GlobalModule):
    r"""GIN layer over edges from every source to every target, without building the edges.

    .. math::
        h_j^+ = h_j + \operatorname{MLP}\Big((1 + \epsilon) h_j + \sum_i h_i\Big)

    Paper: Xu et al. 2019 (arXiv 1810.00826). The weights are in PyG's ``GINConv``, which returns the same numbers on
    the complete bipartite graph.
    Departs: a residual around the layer.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        hidden = spec.hidden
        mlp = nn.Sequential(nn.Linear(spec.channels, hidden), nn.ReLU(), nn.Linear(hidden, spec.channels))
        self.conv = GINConv(mlp, train_eps=True)

    def gather(self, writers: Rows) -> Tensor:
        return writers.mean().total.flatten(2).to(writers.x.dtype)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        scaled = (1 + self.conv.eps) * readers.x
        return readers.x + self.conv.nn(scaled + gathered.squeeze(1)[readers.index])
