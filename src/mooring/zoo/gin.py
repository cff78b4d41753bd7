"""A sum-aggregated route: every target is the centre of a star of all sources."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import GINConv

from mooring.nn import MemorySpec
from mooring.zoo.base import GlobalModule, Rows
from mooring.zoo.registry import register


class StarGIN(GlobalModule):
    r"""A GIN layer over edges from every source to every target, without building the edges.

    .. math::
        h_j^+ = h_j + \operatorname{MLP}\Big((1 + \epsilon) h_j + \sum_i h_i\Big)

    Paper: Xu et al. 2019 (arXiv 1810.00826). The weights live in PyG's ``GINConv``, which gives the same numbers on
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
        own = (1 + self.conv.eps) * readers.x
        return readers.x + self.conv.nn(own + gathered.squeeze(1)[readers.index])


@register("gin-sum", title="sum over a star of all sources", paper="Xu et al. 2019")
def gin_sum(spec: MemorySpec) -> nn.Module:
    return StarGIN(spec)
