"""One state for all nodes, without addresses: wide virtual nodes, readouts, and a star; how nodes receive it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv
from torch_geometric.nn.aggr import Aggregation, DeepSetsAggregation, DegreeScalerAggregation

from mooring.nn import GlobalFiLM, MemorySpec
from mooring.ops.checks import check_flag
from mooring.zoo.base import GlobalModule, Locate, Rows, mlp
from mooring.zoo.registry import register

CAPACITY = "Marcoccia 2026, the ablation it leaves open"
# The paper's epsilon: what a node receives is scaled by it.
SCALE = 0.2
# PNA divides by the average set size of the training data, which a specification does not contain. The constant only
# scales two thirds of the features, which the next layer can undo.
TYPICAL_SIZE = 32


class AddedBroadcast(nn.Module):
    r"""Separable decoder: :math:`h_j + \epsilon \operatorname{MLP}(z)`, the same update for every node.

    Paper: ``eq:separable-broadcast``; by ``prop:separable`` no lookup can be built on it.

    Args:
        channels: width of the nodes.
        state_channels: width of the state.
        hidden: hidden width.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int) -> None:
        super().__init__()
        self.mlp = mlp(state_channels, hidden, channels)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        return readers.x + SCALE * self.mlp(state)[readers.index]


class JointBroadcast(nn.Module):
    r"""Non-separable decoder: :math:`h_j + \epsilon \operatorname{MLP}([h_j, z])`.

    The decoder of :class:`~mooring.nn.VirtualNode`, for a state of any width.

    Args: as :class:`AddedBroadcast`, and depth: hidden layers of the MLP.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int, depth: int = 1) -> None:
        super().__init__()
        self.lin_node = nn.Linear(channels, hidden)
        self.lin_state = nn.Linear(state_channels, hidden, bias=False)
        self.lin_hidden = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth - 1))
        self.lin_out = nn.Linear(hidden, channels)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.lin_node(readers.x) + self.lin_state(state)[readers.index])
        for lin in self.lin_hidden:
            hidden = nn.functional.gelu(lin(hidden))
        return readers.x + SCALE * self.lin_out(hidden)


class ModulatedBroadcast(nn.Module):
    r"""Decoder in which each node modulates the whole state, then decodes it: FiLM before the MLP.

    .. math::
        [\gamma_j, \beta_j] = \operatorname{MLP}(h_j), \qquad
        h_j + \epsilon \operatorname{MLP}\big((1 + \gamma_j) \odot z + \beta_j\big)

    A node that sets :math:`\gamma_j` to -1 outside one block of the state reads that block: addressing by a mask.

    Args: as :class:`AddedBroadcast`.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int) -> None:
        super().__init__()
        self.film = mlp(channels, hidden, 2 * state_channels)
        self.mlp = mlp(state_channels, hidden, channels)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        gamma, beta = self.film(readers.x).chunk(2, dim=-1)
        seen = state[readers.index]
        return readers.x + SCALE * self.mlp(torch.addcmul(beta + seen, gamma, seen))


class BilinearBroadcast(nn.Module):
    r"""Decoder in which each node generates a linear map of the state, of rank ``hidden``: a hypernetwork.

    .. math::
        h_j + \epsilon W_O \big(\operatorname{MLP}(h_j) \odot W z\big)

    Args: as :class:`AddedBroadcast`.
    """

    def __init__(self, channels: int, state_channels: int, hidden: int) -> None:
        super().__init__()
        self.mlp = mlp(channels, hidden, hidden)
        self.lin_state = nn.Linear(state_channels, hidden)
        self.lin_out = nn.Linear(hidden, channels)

    def forward(self, readers: Rows, state: Tensor) -> Tensor:
        return readers.x + SCALE * self.lin_out(self.mlp(readers.x) * self.lin_state(state)[readers.index])


class GlobalFiLMBroadcast(GlobalFiLM):
    """:class:`~mooring.nn.GlobalFiLM`, called like the other broadcasts."""

    def forward(self, readers: Rows, state: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(readers.x, None, state.unflatten(-1, (-1, readers.x.size(-1))), readers.index)


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
        self.encoder = nn.Sequential(*mlp(spec.channels, hidden, width), nn.GELU())
        self.state = nn.Parameter(torch.zeros(width))
        self.decoder = decoder

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.zeros_(self.state)

    def gather(self, writers: Rows) -> Tensor:
        pooled = writers.mean(self.encoder(self.locate(writers)))
        content = torch.asinh(pooled.total) if self.total else pooled.content
        return self.state + content.flatten(2).to(self.state.dtype)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        out: Tensor = self.decoder(readers, gathered.squeeze(1))
        return out


def film(spec: MemorySpec) -> nn.Module:
    return GlobalFiLMBroadcast(spec.channels, spec.slots, spec.hidden_channels, init_std=spec.init_std)


def of_all_slots(decoder: Callable[..., nn.Module], **options: int) -> Callable[[MemorySpec], nn.Module]:
    """Return a builder of a broadcast whose state is as wide as all slots."""
    return lambda spec: decoder(spec.channels, spec.slots * spec.channels, spec.hidden, **options)


added, joint = of_all_slots(AddedBroadcast), of_all_slots(JointBroadcast)
deep = of_all_slots(JointBroadcast, depth=3)
masked, bilinear = of_all_slots(ModulatedBroadcast), of_all_slots(BilinearBroadcast)


def wide(name: str, title: str, decoder: Callable[[MemorySpec], nn.Module], *, total: bool = False) -> None:
    """Register a wide virtual node."""
    register(name, title=f"wide virtual node, {title}", paper=CAPACITY)(
        lambda spec: WideVirtualNode(spec, decoder(spec), total=total)
    )


wide("wide-vn-add", "added to every node", added)
wide("wide-vn-film", "global FiLM", film)
wide("wide-vn-mlp", "joint MLP", joint)
wide("wide-vn-film-sum", "sum pool, global FiLM", film, total=True)
wide("wide-vn-mlp-sum", "sum pool, joint MLP", joint, total=True)
wide("wide-vn-deep-sum", "sum pool, joint MLP of three hidden layers", deep, total=True)
wide("wide-vn-mask-sum", "sum pool, modulated by each node", masked, total=True)
wide("wide-vn-bilinear-sum", "sum pool, weights made by each node", bilinear, total=True)


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
        self.updates = nn.ModuleList(mlp(channels, hidden, hidden, channels) for _ in range(spec.slots))
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


class Readout(GlobalModule):
    """PyG aggregation of the sources, followed by an MLP and the joint decoder of the homogeneous virtual node.

    Departs: PyG's aggregations do not support weights, so multiplicities become literal copies.

    Args:
        spec: see :class:`~mooring.nn.MemorySpec`.
        aggregation: called as ``aggregation(x, index, dim_size=graphs)``.
        width: width of the aggregate.
    """

    def __init__(self, spec: MemorySpec, aggregation: Aggregation, width: int) -> None:
        super().__init__(spec)
        self.aggregation = aggregation
        self.update = mlp(width, spec.hidden, spec.channels)
        self.decoder = JointBroadcast(spec.channels, spec.channels, spec.channels)

    def gather(self, writers: Rows) -> Tensor:
        copies = writers.copies(type(self).__name__)
        pooled = self.aggregation(copies.x, copies.index, dim_size=copies.num_graphs)
        return self.update(pooled).unsqueeze(1)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        out: Tensor = self.decoder(readers, gathered.squeeze(1))
        return out


@register("pna", title="PNA readout, broadcast", paper="Corso et al. 2020", label="PNA")
def pna(spec: MemorySpec) -> nn.Module:
    """Build PNA: four aggregators, three scalers (arXiv 2004.05718), and an average set size of 32."""
    sizes = torch.zeros(TYPICAL_SIZE + 1)
    sizes[TYPICAL_SIZE] = 1
    scalers = ["identity", "amplification", "attenuation"]
    aggregation = DegreeScalerAggregation(["mean", "min", "max", "std"], scalers, sizes)
    return Readout(spec, aggregation, 12 * spec.channels)


@register("deep-sets", title="Deep Sets readout, broadcast", paper="Zaheer et al. 2017")
def deep_sets(spec: MemorySpec) -> nn.Module:
    """Build Deep Sets: a sum of MLPs of the nodes (arXiv 1703.06114); :class:`Readout` has the MLP after the sum."""
    local = mlp(spec.channels, spec.hidden, spec.channels)
    return Readout(spec, DeepSetsAggregation(local_nn=local), spec.channels)


@register("gin-sum", title="sum over a star of all sources", paper="Xu et al. 2019")
class StarGIN(GlobalModule):
    r"""GIN layer over edges from every source to every target, without building the edges.

    .. math::
        h_j^+ = h_j + \operatorname{MLP}\Big((1 + \epsilon) h_j + \sum_i h_i\Big)

    Paper: Xu et al. 2019 (arXiv 1810.00826). The weights are in PyG's ``GINConv``, which returns the same numbers on
    the complete bipartite graph.
    Departs: a residual around the layer.
    """

    def __init__(self, spec: MemorySpec) -> None:
        super().__init__(spec)
        channels, hidden = spec.channels, spec.hidden
        layers = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels))
        self.conv = GINConv(layers, train_eps=True)

    def gather(self, writers: Rows) -> Tensor:
        return writers.mean().total.flatten(2).to(writers.x.dtype)

    def spread(self, readers: Rows, gathered: Tensor) -> Tensor:
        scaled = (1 + self.conv.eps) * readers.x
        return readers.x + self.conv.nn(scaled + gathered.squeeze(1)[readers.index])
