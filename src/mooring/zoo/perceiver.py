"""Latents with self-attention between write and read."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from mooring.nn import MemorySpec, SlotUpdate
from mooring.ops import SlotState
from mooring.zoo.base import SlotRival
from mooring.zoo.registry import register


class LatentUpdate(SlotUpdate):
    r"""Cross-Attn update, then self-attention of the slots: :math:`Z + \operatorname{MHA}(\operatorname{LN} Z)`."""

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, anchored=False, hidden_channels=spec.hidden)
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
        met: Tensor = self.attention(normed, normed, normed, need_weights=False)[0]
        return latent + met


@register("perceiver", title="latents with self-attention between them", paper="Jaegle et al. 2021")
class Perceiver(SlotRival):
    """Cross-attention into latents, self-attention between them, cross-attention back to the nodes.

    Paper: Jaegle et al. 2021 (arXiv 2103.03206); the read is Perceiver IO's (arXiv 2107.14795).
    Departs: one round, one latent layer, Slot-FiLM at the end; the blind write is the same, so it cannot count.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        self.update = LatentUpdate(spec)
