"""Other ways for slots to count: the mass alone, one shared anchor, tokens in the softmax, sums and set sizes."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring import ops
from mooring.nn import Addresses, MemorySpec
from mooring.nn.checks import check_plan, check_share
from mooring.nn.slot_update import LOG_ODDS_FLOOR
from mooring.nn.virtual_node import pooled_mean
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_flag
from mooring.zoo.base import RivalUpdate, RivalWrite, SlotRival, mlp
from mooring.zoo.registry import register

PAPER = "Marcoccia 2026, ablation"
REGISTERS = 4
# exp(40) is well within float32; the mass of a slot is capped there.
MAX_LOG_MASS = 40.0


def mass_mlp(spec: MemorySpec) -> nn.Linear | nn.Sequential:
    """Build the map of the mass, as in :class:`~mooring.nn.SlotUpdate`."""
    if spec.mass_map == "linear":
        return nn.Linear(spec.heads, spec.channels)
    return mlp(spec.heads, spec.channels if spec.update_channels is None else spec.update_channels, spec.channels)


class LogMassUpdate(RivalUpdate):
    r"""Update of the Cross-Attn VN plus :math:`\operatorname{MLP}(\log Z)`, added after normalisation.

    This is the anchored update with the anchor logit held at zero and no anchor value. Since a mass MLP's first layer
    is shared by all slots, a private anchor adds one learned offset of :math:`\log Z` per slot and head.

    Departs: uses :math:`\log Z`, floored at -20 for an empty set, for every ``spec.mass``.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        # Set here, because the base class without an anchor has no mass.
        check_share(type(self).__name__, "content_dropout", spec.content_dropout)
        self.content_dropout = spec.content_dropout
        self.mass_mlp = mass_mlp(spec)

    def forward(
        self, state: SlotState, identity: Float[Tensor, "slots channels"] | None = None
    ) -> Float[Tensor, "graphs slots channels"]:
        u = super().forward(state, identity)
        mass: Tensor = self.mass_mlp(state.log_mass.clamp(min=LOG_ODDS_FLOOR).to(u.dtype))
        return u + mass


@register("lse", title="Cross-Attn VN with log Z, no anchor", paper=PAPER)
class LogMassVirtualNode(SlotRival):
    """Cross-attention slots that also receive their log-sum-exp, as from ``flex_attention(return_lse=True)``.

    Paper: the part of ``prop:mass`` that needs no anchor.
    """

    ignores = frozenset({"mass", "split", "anchor_init"})

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, content_dropout=0.0)
        self.update = LogMassUpdate(spec)


class SharedAnchorUpdate(RivalUpdate):
    """Anchored update with a single logit and a single value."""

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        # Set here, because the base class without an anchor has none of them.
        self.anchored, self.mass, self.mass_map, self.split = True, spec.mass, spec.mass_map, spec.split
        self.anchor_init, self.content_dropout = spec.anchor_init, spec.content_dropout
        self.logit = nn.Parameter(torch.tensor(float(spec.anchor_init)))
        self.value = nn.Parameter(torch.randn(spec.channels // spec.heads))
        if spec.split:
            self.mass_mlp = mass_mlp(spec)

    @property
    def anchor_logit(self) -> Tensor:  # type: ignore[override]
        return self.logit.expand(self.state_shape[:2])

    @property
    def anchor_value(self) -> Tensor:  # type: ignore[override]
        return self.value.expand(self.state_shape)

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)
        if self.anchored:
            nn.init.constant_(self.logit, self.anchor_init)
            nn.init.normal_(self.value)


@register("shared-anchor", title="one anchor shared by all slots", paper=PAPER)
class SharedAnchorVirtualNode(SlotRival):
    """Cross-attention slots that measure their mass against one shared anchor.

    Paper: ``eq:anchored`` without "each slot has its own private anchor".
    """

    ignores = frozenset()

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec, anchored=True)
        self.update = SharedAnchorUpdate(spec)


class TokenWrite(RivalWrite):
    r"""Write in which every graph has a few learned tokens besides its nodes.

    .. math::
        \mu = \frac{\sum_i e^{s_i} v_i + \sum_r e^{s_r} v_r}{\sum_i e^{s_i} + \sum_r e^{s_r}}

    All slots and heads attend to the same tokens; if slots compete for nodes, they compete for tokens too. The mass
    that tokens absorb is not returned: it only moves the content towards the tokens' values.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        addresses: as in :class:`~mooring.nn.SlotWrite`; if given, the tokens have addresses too.
        tokens: number of tokens.
        silent: whether the values of the tokens are zero.
    """

    def __init__(self, spec: MemorySpec, addresses: Addresses | None, *, tokens: int, silent: bool) -> None:
        super().__init__(spec, addresses)
        self.silent = check_flag(type(self).__name__, "silent", silent)
        self.token = nn.Parameter(torch.randn(tokens, spec.channels))
        self.token_address: nn.Parameter | None = None
        if self.address_channels is not None:
            self.token_address = nn.Parameter(torch.randn(tokens, self.address_channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for name, parameter in self.named_parameters(recurse=False):
            if name.startswith("token"):
                nn.init.normal_(parameter)

    def forward(self, x: Tensor, batch: Tensor | Plan | None = None, **options: Any) -> SlotState:
        nodes = super().forward(x, batch, **options)
        tokens = self._token_state(options.get("slots"))
        value = torch.zeros_like(tokens.content) if self.silent else tokens.content
        return ops.merge(nodes, SlotState(value.expand_as(nodes.content), tokens.log_mass.expand_as(nodes.log_mass)))

    def _token_state(self, slots: Tensor | None) -> SlotState:
        """Return the state of the tokens alone: one for all graphs, or one per graph if slots are carried over."""
        if slots is None or self.addresses is not None:
            return super().forward(self.token, address=self.token_address)
        graphs = torch.arange(slots.size(0), device=slots.device).repeat_interleave(self.token.size(0))
        tokens = self.token.repeat(slots.size(0), 1)
        return super().forward(tokens, graphs, slots=slots, num_graphs=slots.size(0))


class RegisterVirtualNode(SlotRival):
    """Cross-attention slots whose softmax has registers (or, if silent, a sink) that absorb attention.

    Paper: Darcet et al. 2024 (arXiv 2309.16588); Xiao et al. 2024 (arXiv 2309.17453).

    Departs: both papers use self-attention over a sequence. Here the slots attend to the tokens, the one place where
    tokens could act as anchors. The sink's value is zero, because trained sinks have values close to zero; the sink of
    a trained language model is its first token.

    ``write_weights`` of the memory sum to less than one over the nodes of a graph; the tokens have the rest. Graphs
    without nodes contain tokens too, so with ``update_norm="batch"`` they enter the training statistics.
    """

    only_nodes_write = False

    def __init__(self, spec: MemorySpec, *, tokens: int, silent: bool = False) -> None:
        super().__init__(spec)
        silent = check_flag(type(self).__name__, "silent", silent)
        self.write = TokenWrite(spec, self.write.addresses, tokens=tokens, silent=silent)


register("registers", title=f"Cross-Attn VN with {REGISTERS} register tokens", paper="Darcet et al. 2024")(
    lambda spec: RegisterVirtualNode(spec, tokens=REGISTERS)
)
register("sink", title="Cross-Attn VN with an attention sink", paper="Xiao et al. 2024")(
    lambda spec: RegisterVirtualNode(spec, tokens=1, silent=True)
)


class MagnitudeUpdate(RivalUpdate):
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
        super().__init__(spec, spec.hidden)
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


class CardinalityWrite(RivalWrite):
    """Write whose content also receives the whole set: the sum and the number of a graph's sources."""

    def forward(self, x: Tensor, batch: Tensor | Plan | None = None, **options: Any) -> SlotState:
        state = super().forward(x, batch, **options)
        return SlotState(self.restore(state.content, self.whole_set(x, batch, options)), state.log_mass)

    def restore(self, content: Tensor, whole: SlotState) -> Tensor:
        """Return the content with the cardinality of the whole set in it."""
        raise NotImplementedError

    def whole_set(self, x: Tensor, batch: Tensor | Plan | None, options: dict[str, Any]) -> SlotState:
        """Return mean and size of the written set, from the arguments of the write.

        Addresses and a memory of the previous layer do not change the set, nor does dropout, which hides some writes of
        a node but not the node. If the weights of a node differ between slots or heads, their average counts.
        """
        sources, log_weight, ptr, plan, num_graphs = map(
            options.get, ("sources", "log_weight", "ptr", "plan", "num_graphs")
        )
        if log_weight is not None and log_weight.dim() > 1:
            rows = log_weight.flatten(1)
            # The logarithm of an empty sum has no gradient.
            absent = (rows == -math.inf).all(dim=1)
            mean = rows.masked_fill(absent.unsqueeze(1), 0.0).logsumexp(dim=1) - math.log(rows.size(1))
            log_weight = mean.masked_fill(absent, -math.inf)
        plan = check_plan(type(self).__name__, x, batch, ptr, plan, num_graphs)
        return pooled_mean(x, plan, sources=sources, log_weight=log_weight)


class AdditiveWrite(CardinalityWrite):
    r"""Attention plus a gated plain sum, :math:`\mu + w \odot \sum_i v_i`, with :math:`w` initialised to one."""

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        super().__init__(spec, addresses)
        self.gate = nn.Parameter(torch.ones(spec.channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        # The base class calls this before the gate exists.
        if hasattr(self, "gate"):
            nn.init.ones_(self.gate)

    def restore(self, content: Tensor, whole: SlotState) -> Tensor:
        summed = self.gate * self.lin_value(whole.total.flatten(1).to(self.gate.dtype))
        return content + summed.view(-1, 1, *content.shape[2:])


class ScaledWrite(CardinalityWrite):
    r"""Attention scaled by a learned function of the set's size, :math:`\psi(n) \odot \mu`, with :math:`\psi(0) = 0`.

    Departs: :math:`\psi` takes :math:`\log(1 + n)`, because :math:`n` can be far outside a small network's range.
    """

    def __init__(self, spec: MemorySpec, addresses: Addresses | None) -> None:
        super().__init__(spec, addresses)
        self.scale = nn.Sequential(nn.Linear(1, spec.hidden), nn.ReLU(), nn.Linear(spec.hidden, spec.channels))

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "scale"):
            reset(self.scale)

    def restore(self, content: Tensor, whole: SlotState) -> Tensor:
        size = torch.log1p(whole.log_mass.exp()).view(-1, 1).to(self.lin_value.weight.dtype)
        scale: Tensor = size * self.scale(size)
        return content * scale.view(-1, 1, *content.shape[2:])


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

    def __init__(self, spec: MemorySpec, write: type[CardinalityWrite]) -> None:
        super().__init__(spec)
        self.write = write(spec, self.write.addresses)
        self.update = MagnitudeUpdate(spec, total=False)


register("cpa-add", title="cardinality-preserved attention, additive", paper="Zhang and Xie 2020")(
    lambda spec: CardinalityVirtualNode(spec, AdditiveWrite)
)
register("cpa-scale", title="cardinality-preserved attention, scaled", paper="Zhang and Xie 2020")(
    lambda spec: CardinalityVirtualNode(spec, ScaledWrite)
)
