"""Substitutes for private anchors: the mass alone, one anchor for all slots, or extra tokens in the softmax."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring import ops
from mooring.nn import Addresses, MemorySpec, SlotUpdate, SlotWrite
from mooring.nn.checks import check_share
from mooring.nn.slot_update import LOG_ODDS_FLOOR
from mooring.ops import Plan, SlotState
from mooring.ops.checks import check_flag
from mooring.zoo.base import SlotRival, update_options, write_options
from mooring.zoo.registry import register

PAPER = "Marcoccia 2026, ablation"
REGISTERS = 4


def mass_mlp(spec: MemorySpec) -> nn.Linear | nn.Sequential:
    """Build the map of the mass, as in :class:`~mooring.nn.SlotUpdate`."""
    if spec.mass_map == "linear":
        return nn.Linear(spec.heads, spec.channels)
    hidden = spec.channels if spec.update_channels is None else spec.update_channels
    return nn.Sequential(nn.Linear(spec.heads, hidden), nn.GELU(), nn.Linear(hidden, spec.channels))


class LogMassUpdate(SlotUpdate):
    r"""Update of the Cross-Attn VN plus :math:`\operatorname{MLP}(\log Z)`, added after normalisation.

    This is the anchored update with the anchor logit held at zero and no anchor value. Since a mass MLP's first layer
    is shared by all slots, a private anchor adds one learned offset of :math:`\log Z` per slot and head.

    Departs: uses :math:`\log Z`, floored at -20 for an empty set, for every ``spec.mass``.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, anchored=False, **update_options(spec))
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


class SharedAnchorUpdate(SlotUpdate):
    """Anchored update with a single logit and a single value."""

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec.channels, spec.slots, spec.heads, anchored=False, **update_options(spec))
        self.shape = (spec.slots, spec.heads)
        self.mass, self.split, self.anchor_init = spec.mass, spec.split, spec.anchor_init
        self.anchored, self.mass_map = True, spec.mass_map
        self.content_dropout = spec.content_dropout
        self.logit = nn.Parameter(torch.tensor(float(spec.anchor_init)))
        self.value = nn.Parameter(torch.randn(spec.channels // spec.heads))
        if spec.split:
            self.mass_mlp = mass_mlp(spec)

    @property
    def anchor_logit(self) -> Tensor:  # type: ignore[override]
        return self.logit.expand(self.shape)

    @property
    def anchor_value(self) -> Tensor:  # type: ignore[override]
        return self.value.expand(*self.shape, -1)

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


class TokenWrite(SlotWrite):
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
        super().__init__(spec.channels, spec.slots, spec.heads, addresses=addresses, **write_options(spec))
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


@register("registers", title=f"Cross-Attn VN with {REGISTERS} register tokens", paper="Darcet et al. 2024")
def registers(spec: MemorySpec) -> nn.Module:
    return RegisterVirtualNode(spec, tokens=REGISTERS)


@register("sink", title="Cross-Attn VN with an attention sink", paper="Xiao et al. 2024")
def sink(spec: MemorySpec) -> nn.Module:
    return RegisterVirtualNode(spec, tokens=1, silent=True)
