"""A slot update for writes that are not normalised, whose content carries information in its size."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mooring.nn import SlotUpdate
from mooring.ops import SlotState
from mooring.zoo.registry import MemorySpec

# exp(40) is well within float32; a slot that gathers more mass than that stops growing.
MAX_LOG_MASS = 40.0


class MagnitudeUpdate(SlotUpdate):
    r"""Slot state -> slot memory, with LayerNorm only inside the residual branch, so that it cannot erase the size.

    .. math::
        u = S + \operatorname{asinh}(c) \, W_O, \qquad Z = u + \operatorname{FF}(\operatorname{LN}(u)), \qquad
        c = Z_{\text{mass}} \, \mu \;\text{ or }\; \mu

    Sums grow with the graph; ``asinh`` leaves small ones almost unchanged and takes the logarithm of large ones. That
    is the "additional scaling or clipping" which the paper says unnormalised reads require.

    Args:
        spec: see :class:`~mooring.zoo.MemorySpec`.
        total: take the sum :math:`Z_{\text{mass}} \mu` of the state; else its content as it is.
    """

    def __init__(self, spec: MemorySpec, *, total: bool) -> None:
        super().__init__(
            spec.channels, spec.slots, spec.heads, anchored=False, hidden_channels=spec.hidden_channels or spec.channels
        )
        self.total = total
        del self.norm_out

    def forward(
        self, state: SlotState, identity: Float[Tensor, "slots channels"] | None = None
    ) -> Float[Tensor, "graphs slots channels"]:
        content = state.content
        if self.total:
            content = SlotState(content, state.log_mass.clamp(max=MAX_LOG_MASS)).total
        u: Tensor = self.lin_out(torch.asinh(content.flatten(-2)).to(self.lin_out.weight.dtype))
        if identity is not None:
            u = u + identity
        forward: Tensor = self.feed_forward(self.norm_in(u))
        return u + forward
