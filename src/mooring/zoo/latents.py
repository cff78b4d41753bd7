"""Attention through a few latents: induced set attention on padded blocks, the Perceiver, and a relay."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad
from torch_geometric.nn.aggr.utils import InducedSetAttentionBlock

from mooring import ops
from mooring.nn import MemorySpec, SlotRead
from mooring.nn.addresses import Routes
from mooring.nn.checks import check_plan
from mooring.ops import Plan, SlotState
from mooring.zoo.base import GlobalModule, Locate, Padding, RivalUpdate, Rows, SlotRival
from mooring.zoo.registry import register


@register("isab", title="induced set attention block", paper="Lee et al. 2019")
class InducedSetAttention(GlobalModule):
    """PyG's ``InducedSetAttentionBlock``: inducing points attend to the sources, targets to the points.

    Paper: Set Transformer, Lee et al. 2019 (arXiv 1810.00825).
    Departs: numerically identical if all nodes write and read. Multiplicities become literal copies, because the block
    does not support weights; a graph without sources has one source of zeros.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, address=True)
        self.locate = Locate(spec)
        self.block = InducedSetAttentionBlock(spec.channels, spec.slots, spec.heads)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        # torch's reset omits the output weights.
        for half in (self.block.mab1, self.block.mab2):
            half.attn.out_proj.reset_parameters()
            nn.init.zeros_(half.attn.out_proj.bias)

    def gather(self, writers: Rows) -> Tensor:
        copies = writers.copies(type(self).__name__)
        padding = Padding(copies)
        points = self.block.ind.expand(copies.num_graphs, -1, -1)
        if not copies.num_graphs:  # torch's attention raises on an empty batch
            return points
        out: Tensor = self.block.mab1(points, padding.pad(self.locate(copies)), y_mask=padding.present_or_stand_in())
        return out

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        if not readers.num_graphs:
            return readers.x
        padding = Padding(readers)
        return padding.unpad(self.block.mab2(padding.pad(self.locate(readers)), gathered))


class LatentUpdate(RivalUpdate):
    r"""Cross-Attn update, then self-attention of the slots: :math:`Z + \operatorname{MHA}(\operatorname{LN} Z)`."""

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, spec.hidden)
        self.norm_latent = nn.LayerNorm(spec.channels)
        self.attention = nn.MultiheadAttention(spec.channels, spec.heads, batch_first=True)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "attention"):
            self.attention._reset_parameters()

    def forward(
        self, state: SlotState, identity: Float[Tensor, "slots channels"] | None = None
    ) -> Float[Tensor, "graphs slots channels"]:
        latent = super().forward(state, identity)
        normed = self.norm_latent(latent)
        attended: Tensor = self.attention(normed, normed, normed, need_weights=False)[0]
        return latent + attended


@register("perceiver", title="latents with self-attention between them", paper="Jaegle et al. 2021")
class Perceiver(SlotRival):
    """Cross-attention into latents, self-attention between them, cross-attention back to the nodes.

    Paper: Jaegle et al. 2021 (arXiv 2103.03206); the read is Perceiver IO's (arXiv 2107.14795).
    Departs: one round, one latent layer without an MLP after its self-attention, Slot-FiLM at the end. The write is
    normalised, so the module cannot count.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        self.update = LatentUpdate(spec)


class RelayRead(SlotRead):
    r"""Read in which every node also attends to itself, besides the slots.

    .. math::
        O_j = \Big(\sum_m \rho_{jm} Z_m U_V + \rho_{jj} h_j U_V\Big) U_O, \qquad
        \rho_j = \operatorname{softmax}([s_{j1}, \dots, s_{jM}, s_{jj}])

    The key of the node itself is one more slot, shared by all nodes: an extra coordinate is :math:`s_{jj}` in the query
    and 1 in that slot's key, and an extra coordinate of the values returns its weight :math:`\rho_{jj}`.
    """

    def __init__(self, spec: MemorySpec, out_channels: int, *, by_address: bool) -> None:
        temperature = 1.0 if by_address else spec.temperature
        sizes = (spec.channels, spec.slots, spec.heads)
        super().__init__(*sizes, out_channels=out_channels, temperature=temperature, by_address=by_address)
        # The self-loop has one logit per head, so heads cannot share a query.
        self.folded = False
        self.lin_self = nn.Linear(spec.channels, spec.heads)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "lin_self"):
            self.lin_self.reset_parameters()

    def score_parts(
        self, x: Tensor, memory: Tensor, address: Routes | None, *, folded: bool | None = False
    ) -> tuple[Tensor, Tensor]:
        query, key = super().score_parts(x, memory, address, folded=False)
        query = torch.cat([query.expand(-1, self.heads, -1), self.lin_self(x).unsqueeze(-1)], dim=-1)
        return query, append_self_slot(key if key.dim() == 4 else key.unsqueeze(0))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        batch: Tensor | Plan | None = None,
        *,
        address: Routes | None = None,
        targets: Tensor | None = None,
        ptr: Tensor | None = None,
        plan: Plan | None = None,
        gain: Tensor | None = None,
    ) -> Tensor:
        batch = check_plan(type(self).__name__, x, batch, ptr, plan, memory.size(0))
        query, key = self.score_parts(x, memory, address)
        value = append_self_slot(self.lin_value(memory).unflatten(-1, (self.heads, -1)))
        context = ops.read(query, key, value, batch, where=targets).to(x.dtype)
        self_value = self.lin_value(x).unflatten(-1, (self.heads, -1))
        out: Tensor = self.lin_out((context[..., :-1] + context[..., -1:] * self_value).flatten(1))
        return out if gain is None else torch.addcmul(x, out, gain.to(x.dtype))


def append_self_slot(slots: Tensor) -> Tensor:
    """Append one more slot to ``[graphs, slots, heads, dim]``: 1 in an extra coordinate, 0 elsewhere."""
    zeros = torch.zeros_like(slots[:, :1])
    return torch.cat([pad(slots, (0, 1)), pad(zeros, (0, 1), value=1.0)], dim=1)


@register("range", title="relay with a self-loop in the broadcast", paper="Caruso et al. 2026")
class RelayVirtualNode(SlotRival):
    """Cross-attention slots whose broadcast lets a node prefer itself.

    Paper: RANGE, Caruso et al. 2026 (arXiv 2502.13797).
    Departs: the self-loop's logit is a linear map of the node, not a product with a key; no positional encodings of
    distances; Slot-FiLM at the end, as for all slots here. RANGE's regulariser, a learned function of the number of
    nodes that scales each broadcast, is omitted, so this module cannot count. ``read_weights`` of the memory have one
    more column, the self-loop.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        if self.read is None:
            raise ValueError(
                f"{type(self).__name__}: with integrate={spec.integrate!r} nodes read nothing, so there is no read for "
                "the self-loop. Use 'film' or 'residual'."
            )
        self.read = RelayRead(spec, self.integrate.context_channels, by_address=self.write.addresses is not None)
