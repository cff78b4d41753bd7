"""Which part of the anchor is needed: the mass without an anchor, and one anchor for all slots and heads."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.nn import MemorySpec, SlotUpdate
from mooring.nn.slot_update import LOG_ODDS_FLOOR
from mooring.ops import SlotState
from mooring.zoo.base import SlotRival
from mooring.zoo.registry import register

PAPER = "Marcoccia 2026, ablation"


def mass_mlp(spec: MemorySpec) -> nn.Sequential:
    return nn.Sequential(nn.Linear(spec.heads, spec.channels), nn.GELU(), nn.Linear(spec.channels, spec.channels))


class LogMassUpdate(SlotUpdate):
    r"""The Cross-Attn VN's update plus :math:`\operatorname{MLP}(\log Z)`, added after normalisation.

    This is the anchored update with the anchor logit held at zero and no anchor value. Since a mass MLP's first layer
    is shared by all slots, a private anchor adds one learned offset of :math:`\log Z` per slot and head.

    Departs: :math:`\log Z` itself, floored at -20 for an empty set, whatever ``spec.mass`` is.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, anchored=False)
        self.mass_mlp = mass_mlp(spec)

    def forward(
        self, state: SlotState, identity: Float[Tensor, "slots channels"] | None = None
    ) -> Float[Tensor, "graphs slots channels"]:
        u = super().forward(state, identity)
        mass: Tensor = self.mass_mlp(state.log_mass.clamp(min=LOG_ODDS_FLOOR).to(u.dtype))
        return u + mass


@register("lse", title="Cross-Attn VN with log Z, no anchor", paper=PAPER)
class LogMassVirtualNode(SlotRival):
    """Cross-attention slots that also receive their log-sum-exp, as ``flex_attention(return_lse=True)`` returns it.

    Paper: ``prop:mass``, the part of it that needs no anchor.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        self.update = LogMassUpdate(spec)


class SharedAnchorUpdate(SlotUpdate):
    """The anchored update with a single logit and a single value."""

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(
            spec.channels, spec.slots, spec.heads, anchored=False, mass=spec.mass, anchor_init=spec.anchor_init
        )
        self.shape = (spec.slots, spec.heads)
        self.anchored = True
        self.logit = nn.Parameter(torch.tensor(spec.anchor_init))
        self.value = nn.Parameter(torch.randn(spec.channels // spec.heads))
        self.mass_mlp = mass_mlp(spec)

    @property
    def anchor_logit(self) -> Tensor:  # type: ignore[override]
        return self.logit.expand(self.shape)

    @property
    def anchor_value(self) -> Tensor:  # type: ignore[override]
        return self.value.expand(*self.shape, -1)

    def reset_parameters(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.LayerNorm):
                module.reset_parameters()
        if self.anchored:
            nn.init.constant_(self.logit, self.anchor_init)
            nn.init.normal_(self.value)


@register("shared-anchor", title="one anchor shared by all slots", paper=PAPER)
class SharedAnchorVirtualNode(SlotRival):
    """Cross-attention slots that all measure their mass against one anchor.

    Paper: ``eq:anchored`` without "each slot has its own private anchor".
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, anchored=True)
        self.update = SharedAnchorUpdate(spec)
