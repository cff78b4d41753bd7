"""Nodes choose among slots instead of slots among nodes: the softmax runs over the slots."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mooring.nn import Addresses, MemorySpec, SlotWrite
from mooring.zoo.base import SlotRival
from mooring.zoo.registry import register
from mooring.zoo.sum_attention import MagnitudeUpdate


def shared_out(scores: Float[Tensor, "nodes slots heads"]) -> tuple[Tensor, Tensor]:
    r"""Scores -> query and key whose dot product is :math:`\log \operatorname{softmax}_{\text{slots}}(s)`.

    The query is a one-hot row for each slot and the key holds a node's logarithms, so that :func:`mooring.ops.write`
    does the rest: its content is the mean that Slot Attention takes and its total the sum that GMT takes.
    """
    slots, heads = scores.shape[1:]
    query = torch.eye(slots, dtype=scores.dtype, device=scores.device).unsqueeze(1).expand(-1, heads, -1)
    return query, scores.log_softmax(dim=1).transpose(1, 2)


class SlotSoftmaxWrite(SlotWrite):
    r"""Each node distributes one unit of mass over the slots, :math:`a_{im} = \operatorname{softmax}_m(s_{im})`."""

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, temperature=spec.temperature, addresses=addresses)
        # A node's scores are needed for all slots at once, so nothing can be folded into the slots.
        self.folded = False

    def score_parts(self, x: Tensor, address: Tensor | None, slots: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if slots is not None and self.addresses is None:
            raise ValueError("gmt: takes no memory of the layer before. Build the model with carry=False.")
        query, key = super().score_parts(x, address, slots)
        return shared_out(torch.einsum("mhd,nhd->nmh", query, key.expand(-1, self.heads, -1)))


@register("gmt", title="softmax over slots, sums over nodes", paper="Baek et al. 2021; Li et al. 2024")
class SlotSoftmaxVirtualNode(SlotRival):
    r"""Slots that keep :math:`\sum_i a_{im} v_i`: mass over nodes survives, so they count.

    Paper: the clusters of GMT (Baek et al. 2021, arXiv 2102.11533, in its authors' code) and Neural Atoms
    (Li et al. 2024, arXiv 2311.01276).
    Departs: no attention between the slots, no graph structure in the scores; the sum passes ``asinh``, see
    :class:`MagnitudeUpdate`. PyG's ``GraphMultisetTransformer`` has its softmax over the nodes and does not count.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        self.write = SlotSoftmaxWrite(spec, self.write.addresses)
        self.update = MagnitudeUpdate(spec, total=True)
