"""Attention without normalisation (ACAM), and attention with its cardinality restored (CPA)."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.nn import Addresses, MemorySpec, SlotUpdate, SlotWrite
from mooring.nn.checks import check_plan
from mooring.nn.virtual_node import pooled_mean
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_flag
from mooring.zoo.base import SlotRival, update_options, write_options
from mooring.zoo.registry import register

# exp(40) is well within float32; the mass of a slot is capped there.
MAX_LOG_MASS = 40.0


class MagnitudeUpdate(SlotUpdate):
    r"""Slot state -> slot memory, with a norm only inside the residual branch, so that magnitude is preserved.

    .. math::
        u = S + \operatorname{asinh}(c) \, W_O, \qquad Z = u + \operatorname{FF}(\operatorname{LN}(u)), \qquad
        c = Z_{\text{mass}} \, \mu \;\text{ or }\; \mu

    Sums grow with the graph; ``asinh`` leaves small sums almost unchanged and takes the logarithm of large ones. This
    is the "additional scaling or clipping" that unnormalised reads require according to the paper.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        total: use the sum :math:`Z_{\text{mass}} \mu` of the state instead of its content.
    """

    def __init__(self, spec: MemorySpec, *, total: bool) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, anchored=False, **update_options(spec, spec.hidden))
        self.total = check_flag(type(self).__name__, "total", total)
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
        forward: Tensor = self.feed_forward(self._normalised(self.norm_in, u.flatten(0, 1), state).view_as(u))
        return u + forward


@register("acam", title="unnormalised sum attention", paper="Marcoccia et al. 2026 (NetDiff)")
class SumVirtualNode(SlotRival):
    r"""Slots that store the unnormalised sum :math:`\sum_i e^{s_i} v_i = Z \mu`.

    Paper: the ACAM tokens of NetDiff (Marcoccia et al. 2026), as described in our paper.
    Departs: ``asinh`` is applied to the sum, and slots are normalised inside a residual branch only, see
    :class:`MagnitudeUpdate`; no code or settings of NetDiff's scaling are public.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        self.update = MagnitudeUpdate(spec, total=True)


class CountedWrite(SlotWrite):
    """Write whose slots all receive a statistic of the whole set: mean and number of a graph's sources."""

    def whole_set(
        self,
        x: Tensor,
        batch: Tensor | Plan | None,
        *,
        log_weight: Tensor | None = None,
        sources: Tensor | None = None,
        num_graphs: int | None = None,
        ptr: Tensor | None = None,
        plan: Plan | None = None,
        **_: Any,
    ) -> SlotState:
        """Return mean and size of the written set, from the arguments of a write.

        Addresses and a memory of the previous layer do not change the set, nor does dropout, which hides some writes of
        a node but not the node. If the weights of a node differ between slots or heads, their average counts.
        """
        if log_weight is not None and log_weight.dim() > 1:
            rows = log_weight.flatten(1)
            # The logarithm of an empty sum has no gradient.
            absent = (rows == -math.inf).all(dim=1)
            mean = rows.masked_fill(absent.unsqueeze(1), 0.0).logsumexp(dim=1) - math.log(rows.size(1))
            log_weight = mean.masked_fill(absent, -math.inf)
        plan = check_plan(type(self).__name__, x, batch, ptr, plan, num_graphs)
        return pooled_mean(x, plan, sources=sources, log_weight=log_weight)


class AdditiveWrite(CountedWrite):
    r"""Attention plus a gated plain sum, :math:`\mu + w \odot \sum_i v_i`, with :math:`w` initialised to one."""

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, addresses=addresses, **write_options(spec))
        self.gate = nn.Parameter(torch.ones(spec.channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        # The base class calls this before the gate exists.
        if hasattr(self, "gate"):
            nn.init.ones_(self.gate)

    def forward(self, x: Tensor, batch: Tensor | Plan | None = None, **options: Any) -> SlotState:
        state = super().forward(x, batch, **options)
        whole = self.whole_set(x, batch, **options)
        summed = self.gate * self.lin_value(whole.total.flatten(1).to(x.dtype))
        return SlotState(state.content + summed.view(-1, 1, *state.content.shape[2:]), state.log_mass)


class ScaledWrite(CountedWrite):
    r"""Attention scaled by a learned function of the set's size, :math:`\psi(n) \odot \mu`, with :math:`\psi(0) = 0`.

    Departs: :math:`\psi` takes :math:`\log(1 + n)`, because :math:`n` can be far outside a small network's range.
    """

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, addresses=addresses, **write_options(spec))
        hidden = spec.hidden
        self.scale = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, spec.channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "scale"):
            reset(self.scale)

    def forward(self, x: Tensor, batch: Tensor | Plan | None = None, **options: Any) -> SlotState:
        state = super().forward(x, batch, **options)
        whole = self.whole_set(x, batch, **options)
        size = torch.log1p(whole.log_mass.exp()).view(-1, 1).to(x.dtype)
        scale: Tensor = size * self.scale(size)
        return SlotState(state.content * scale.view(-1, 1, *state.content.shape[2:]), state.log_mass)


class CardinalityVirtualNode(SlotRival):
    """Slots with cardinality-preserved attention.

    Paper: Zhang and Xie 2020 (arXiv 1907.02204), the additive and the scaled model.
    Departs: sets are the sources of a graph instead of neighbourhoods, so all slots receive the size of the whole set,
    not of the part that a slot attends to. ``asinh`` is applied to the content, see :class:`MagnitudeUpdate`; the
    additive model adds the sum before ``asinh``, which compresses differences between slots.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        write: :class:`AdditiveWrite` or :class:`ScaledWrite`.
    """

    write: CountedWrite

    def __init__(self, spec: MemorySpec, write: type[AdditiveWrite] | type[ScaledWrite]) -> None:
        super().__init__(spec)
        self.write = write(spec, self.write.addresses)
        self.update = MagnitudeUpdate(spec, total=False)


@register("cpa-add", title="cardinality-preserved attention, additive", paper="Zhang and Xie 2020")
def cpa_add(spec: MemorySpec) -> nn.Module:
    return CardinalityVirtualNode(spec, AdditiveWrite)


@register("cpa-scale", title="cardinality-preserved attention, scaled", paper="Zhang and Xie 2020")
def cpa_scale(spec: MemorySpec) -> nn.Module:
    return CardinalityVirtualNode(spec, ScaledWrite)
