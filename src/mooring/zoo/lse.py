"""The mass without the anchor: is the anchor needed at all, or only log Z?"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from mooring.nn import MemorySpec, SlotUpdate
from mooring.nn.slot_update import LOG_ODDS_FLOOR
from mooring.ops import SlotState
from mooring.zoo.base import SlotRival
from mooring.zoo.registry import register


class LogMassUpdate(SlotUpdate):
    r"""The Cross-Attn VN's update plus :math:`\operatorname{MLP}(\log Z)`, added after normalisation.

    This is the anchored update with the anchor logit held at zero and no anchor value. Since a mass MLP's first layer
    is shared by all slots, a private anchor adds one learned offset of :math:`\log Z` per slot and head.

    Departs: :math:`\log Z` itself, floored at -20 for an empty set, whatever ``spec.mass`` is.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, anchored=False)
        self.mass_mlp = nn.Sequential(
            nn.Linear(spec.heads, spec.channels), nn.GELU(), nn.Linear(spec.channels, spec.channels)
        )

    def forward(
        self, state: SlotState, identity: Float[Tensor, "slots channels"] | None = None
    ) -> Float[Tensor, "graphs slots channels"]:
        u = super().forward(state, identity)
        mass: Tensor = self.mass_mlp(state.log_mass.clamp(min=LOG_ODDS_FLOOR).to(u.dtype))
        return u + mass


class LogMassVirtualNode(SlotRival):
    """Cross-attention slots that also receive their log-sum-exp, as ``flex_attention(return_lse=True)`` returns it.

    Paper: ``prop:mass``, the part of it that needs no anchor.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        self.update = LogMassUpdate(spec)


@register("lse", title="Cross-Attn VN with log Z, no anchor", paper="Marcoccia 2026, ablation")
def lse(spec: MemorySpec) -> nn.Module:
    return LogMassVirtualNode(spec)
