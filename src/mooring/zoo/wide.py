"""Capacity without addresses: one wide virtual node, or several without addressing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mooring.nn import GlobalFiLM, MemorySpec
from mooring.ops.checks import check_flag
from mooring.zoo.base import AddedBroadcast, GlobalModule, JointBroadcast, Locate, Rows
from mooring.zoo.registry import register

PAPER = "Marcoccia 2026, the ablation it leaves open"


class GlobalFiLMBroadcast(GlobalFiLM):
    """:class:`~mooring.nn.GlobalFiLM`, called like the other broadcasts."""

    def forward(self, readers: Rows, state: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(readers.x, None, state.unflatten(-1, (-1, readers.x.size(-1))), readers.index)


class ModulatedBroadcast(nn.Module):
    r"""Decoder in which each node modulates the whole state, then decodes it: FiLM before the MLP.

    .. math::
        [\gamma_j, \beta_j] = \operatorname{MLP}(h_j), \qquad
        h_j + \epsilon \operatorname{MLP}\big((1 + \gamma_j) \odot z + \beta_j\big)

    A node that sets :math:`\gamma_j` to -1 outside one block of the state reads that block: addressing by a mask.

    Args: as :class:`~mooring.zoo.base.AddedBroadcast`.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int, scale: float = 0.2) -> None:
        super().__init__()
        self.scale = scale
        self.film = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, 2 * state_channels))
        self.mlp = nn.Sequential(nn.Linear(state_channels, hidden), nn.GELU(), nn.Linear(hidden, channels))

    def reset_parameters(self) -> None:
        reset(self.film)
        reset(self.mlp)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        gamma, beta = self.film(readers.x).chunk(2, dim=-1)
        seen = state[readers.index]
        return readers.x + self.scale * self.mlp(torch.addcmul(beta + seen, gamma, seen))


class BilinearBroadcast(nn.Module):
    r"""Decoder in which each node generates a linear map of the state, of rank ``hidden``: a hypernetwork.

    .. math::
        h_j + \epsilon W_O \big(\operatorname{MLP}(h_j) \odot W z\big)

    Args: as :class:`~mooring.zoo.base.AddedBroadcast`.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int, scale: float = 0.2) -> None:
        super().__init__()
        self.scale = scale
        self.mlp = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, hidden))
        self.lin_state = nn.Linear(state_channels, hidden)
        self.lin_out = nn.Linear(hidden, channels)

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        return readers.x + self.scale * self.lin_out(self.mlp(readers.x) * self.lin_state(state)[readers.index])


class WideVirtualNode(GlobalModule):
    r"""Node features -> one state of width :math:`M d` -> all nodes, through a separable or joint decoder.

    .. math::
        z = s + \operatorname{pool}_i \phi(h_i), \qquad \phi(h) = \operatorname{GELU}(W_2 \operatorname{GELU}(W_1 h)),
        \qquad h_j^+ = F(h_j, z)

    The map :math:`\phi` is needed because a pool of linear features has rank :math:`d` at any width. It can store
    sources in different coordinates, and a joint :math:`F` can select among them: implicit addressing.

    Paper: ``prop:separable``, ``eq:global-slot-film``, and "one wide VN with D = Md" of the discussion.
    Departs: no MLP between pool and decoder; encoder and decoder have its parameters instead. Addresses, if given, are
    an input of :math:`\phi`; the decoder receives the node, whose encoder includes them. ``asinh`` is applied to sums.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`; ``slots * channels`` is the width, ``hidden_channels`` that of
            :math:`\phi` and :math:`F`.
        decoder: one of the broadcasts, built.
        total: pool by sum instead of mean.
    """

    def __init__(self, spec: MemorySpec, decoder: nn.Module, *, total: bool = False) -> None:
        super().__init__(spec, address=True)
        width, hidden = spec.slots * spec.channels, spec.hidden
        self.total = check_flag(type(self).__name__, "total", total)
        self.locate = Locate(spec)
        self.encoder = nn.Sequential(nn.Linear(spec.channels, hidden), nn.GELU(), nn.Linear(hidden, width), nn.GELU())
        self.state = nn.Parameter(torch.zeros(width))
        self.decoder = decoder

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.state)

    def gather(self, writers: Rows) -> Tensor:
        pooled = writers.pooled(self.encoder(self.locate(writers)))
        content = torch.asinh(pooled.total) if self.total else pooled.content
        return self.state + content.flatten(2).to(self.state.dtype)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        out: Tensor = self.decoder(readers, gathered.squeeze(1))
        return out


def added(spec: MemorySpec) -> nn.Module:
    return AddedBroadcast(spec.channels, spec.slots * spec.channels, spec.hidden)


def joint(spec: MemorySpec, depth: int = 1) -> nn.Module:
    return JointBroadcast(spec.channels, spec.slots * spec.channels, spec.hidden, depth=depth)


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


@register("wide-vn-deep-sum", title="wide virtual node, sum pool, joint MLP of three hidden layers", paper=PAPER)
def wide_deep_sum(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, joint(spec, depth=3), total=True)


@register("wide-vn-mask-sum", title="wide virtual node, sum pool, modulated by each node", paper=PAPER)
def wide_mask_sum(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, ModulatedBroadcast(spec.channels, spec.slots * spec.channels, spec.hidden), total=True)


@register("wide-vn-bilinear-sum", title="wide virtual node, sum pool, weights made by each node", paper=PAPER)
def wide_bilinear_sum(spec: MemorySpec) -> nn.Module:
    return WideVirtualNode(spec, BilinearBroadcast(spec.channels, spec.slots * spec.channels, spec.hidden), total=True)


@register("vn-independent", title="as many independent virtual nodes as slots", paper="Marcoccia 2026, control")
class IndependentVirtualNodes(GlobalModule):
    r"""Mean-pool virtual nodes, as many as slots, updated independently; nodes receive their average.

    .. math::
        z_m = s_m + \operatorname{MLP}_m(s_m + \tfrac1n \textstyle\sum_i h_i), \qquad
        h_j^+ = h_j + \epsilon \operatorname{MLP}([h_j, \tfrac1M \sum_m z_m])

    Their states differ, unlike the states of clones, but neither write nor read has an address that could select a
    state.

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
