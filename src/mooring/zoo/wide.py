"""Capacity without addresses: one virtual node as wide as all slots together, or many that nothing selects among."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mooring.nn import GlobalFiLM, MemorySpec
from mooring.zoo.base import AddedBroadcast, GlobalModule, JointBroadcast, Locate, Rows
from mooring.zoo.registry import register

PAPER = "Marcoccia 2026, the ablation it leaves open"


class GlobalFiLMBroadcast(GlobalFiLM):
    """:class:`~mooring.nn.GlobalFiLM`, called like the other broadcasts."""

    def forward(self, readers: Rows, state: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(readers.x, None, state.unflatten(-1, (-1, readers.x.size(-1))), readers.index)


class WideVirtualNode(GlobalModule):
    r"""Node features -> one state of width :math:`M d` -> all nodes, through a decoder that may or may not be joint.

    .. math::
        z = s + \operatorname{pool}_i \phi(h_i), \qquad \phi(h) = \operatorname{GELU}(W_2 \operatorname{GELU}(W_1 h)),
        \qquad h_j^+ = F(h_j, z)

    The map :math:`\phi` is there because a pool of linear features has rank :math:`d`, however wide. It can keep
    sources apart in different coordinates, and a joint :math:`F` can select them: implicit addressing.

    Paper: ``prop:separable``, ``eq:global-slot-film``, and "one wide VN with D = Md" of the discussion.
    Departs: no MLP between pool and decoder; its parameters go to both sides instead. With addresses, :math:`\phi`
    sees them; the decoder sees the node, which has them from its encoder. Sums pass ``asinh``.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`; ``slots * channels`` is the width, ``hidden_channels`` that of
            :math:`\phi` and :math:`F`.
        decoder: :class:`AddedBroadcast`, :class:`JointBroadcast` or :class:`GlobalFiLMBroadcast`, built.
        total: pool by sum, not by mean.
    """

    def __init__(self, spec: MemorySpec, decoder: nn.Module, *, total: bool = False) -> None:
        super().__init__(spec, address=True)
        width, hidden = spec.slots * spec.channels, spec.hidden
        self.total = total
        self.locate = Locate(spec)
        self.encoder = nn.Sequential(nn.Linear(spec.channels, hidden), nn.GELU(), nn.Linear(hidden, width), nn.GELU())
        self.state = nn.Parameter(torch.zeros(width))
        self.decoder = decoder

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.state)

    def gather(self, writers: Rows) -> Tensor:
        pooled = writers.pooled(self.encoder(self.locate(writers)))
        kept = torch.asinh(pooled.total) if self.total else pooled.content
        return self.state + kept.flatten(2).to(self.state.dtype)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        out: Tensor = self.decoder(readers, gathered.squeeze(1))
        return out


def added(spec: MemorySpec) -> nn.Module:
    return AddedBroadcast(spec.channels, spec.slots * spec.channels, spec.hidden)


def joint(spec: MemorySpec) -> nn.Module:
    return JointBroadcast(spec.channels, spec.slots * spec.channels, spec.hidden)


def film(spec: MemorySpec) -> nn.Module:
    return GlobalFiLMBroadcast(spec.channels, spec.slots, spec.hidden_channels, init_std=spec.init_std)


@register("wide-vn-add", title="wide virtual node, added to every node", paper=PAPER)
def wide_add(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, added(spec))


@register("wide-vn-film", title="wide virtual node, global FiLM", paper=PAPER)
def wide_film(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, film(spec))


@register("wide-vn-mlp", title="wide virtual node, joint MLP", paper=PAPER)
def wide_mlp(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, joint(spec))


@register("wide-vn-film-sum", title="wide virtual node, sum pool, global FiLM", paper=PAPER)
def wide_film_sum(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, film(spec), total=True)


@register("wide-vn-mlp-sum", title="wide virtual node, sum pool, joint MLP", paper=PAPER)
def wide_mlp_sum(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, joint(spec), total=True)


@register("vn-independent", title="as many independent virtual nodes as slots", paper="Marcoccia 2026, control")
class IndependentVirtualNodes(GlobalModule):
    r"""As many mean-pool virtual nodes as slots, initialised and updated independently; nodes get their average.

    .. math::
        z_m = s_m + \operatorname{MLP}_m(s_m + \tfrac1n \textstyle\sum_i h_i), \qquad
        h_j^+ = h_j + \epsilon \operatorname{MLP}([h_j, \tfrac1M \sum_m z_m])

    Their states differ, unlike those of clones, but nothing selects among them: neither write nor read has an address.

    Paper: the control beside "symmetric VN clones remain one channel" (``app:capacity``).
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        channels, hidden = spec.channels, spec.hidden
        self.state = nn.Parameter(torch.randn(spec.slots, channels))
        self.updates = nn.ModuleList(
            nn.Sequential(
                nn.Linear(channels, hidden),
                nn.GELU(),
                nn.Linear(hidden, hidden),
                nn.GELU(),
                nn.Linear(hidden, channels),
            )
            for _ in range(spec.slots)
        )
        self.decoder = JointBroadcast(channels, channels, channels)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.state)

    def gather(self, writers: Rows) -> Tensor:
        mean = writers.mean().content.flatten(1).to(self.state.dtype)
        seen = self.state + mean.unsqueeze(1)
        return self.state + torch.stack([update(seen[:, m]) for m, update in enumerate(self.updates)], dim=1)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        out: Tensor = self.decoder(readers, gathered.mean(dim=1))
        return out
