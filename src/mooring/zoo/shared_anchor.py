"""One anchor for all slots and heads, where the paper gives each its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mooring.nn import MemorySpec, SlotUpdate
from mooring.zoo.base import SlotRival
from mooring.zoo.registry import register


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
        self.mass_mlp = nn.Sequential(
            nn.Linear(spec.heads, spec.channels), nn.GELU(), nn.Linear(spec.channels, spec.channels)
        )

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


class SharedAnchorVirtualNode(SlotRival):
    """Cross-attention slots that all measure their mass against one anchor.

    Paper: ``eq:anchored`` without "each slot has its own private anchor".
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, anchored=True)
        self.update = SharedAnchorUpdate(spec)


@register("shared-anchor", title="one anchor shared by all slots", paper="Marcoccia 2026, ablation")
def shared_anchor(spec: MemorySpec) -> nn.Module:
    return SharedAnchorVirtualNode(spec)
