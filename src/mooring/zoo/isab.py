"""Induced set attention: the nearest published relative of the Cross-Attn VN."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock

from mooring.zoo.base import GlobalModule, Locate, Rows
from mooring.zoo.padding import Padding
from mooring.zoo.registry import MemorySpec, register


class InducedSetAttention(GlobalModule):
    """PyG's ``InducedSetAttentionBlock`` as it is: inducing points attend to the sources, targets to the points.

    Paper: Set Transformer, Lee et al. 2019 (arXiv 1810.00825).
    Departs: numerically identical where all nodes write and read. Multiplicities become literal copies, since the
    block takes no weights; a graph without sources has one source of zeros.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, address=True)
        self.locate = Locate(spec)
        self.block = InducedSetAttentionBlock(spec.channels, spec.slots, spec.heads)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        # torch's own reset omits the output weights.
        for half in (self.block.mab1, self.block.mab2):
            half.attn.out_proj.reset_parameters()
            nn.init.zeros_(half.attn.out_proj.bias)

    def gather(self, writers: Rows) -> Tensor:
        copies = writers.copies(type(self).__name__)
        padding = Padding(copies)
        points = self.block.ind.expand(copies.num_graphs, -1, -1)
        out: Tensor = self.block.mab1(points, padding.pad(self.locate(copies)), y_mask=padding.present_or_stand_in())
        return out

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        padding = Padding(readers)
        return padding.unpad(self.block.mab2(padding.pad(self.locate(readers)), gathered))


@register("isab", title="induced set attention block", paper="Lee et al. 2019")
def isab(spec: MemorySpec) -> nn.Module:
    return InducedSetAttention(spec)
