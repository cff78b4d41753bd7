"""Nodes meet only in a global memory; then pairs are judged one by one."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring import zoo
from mooring.suite.linksets.data import LinkBatch, LinkSettings
from mooring.zoo import MemorySpec

# Radians per unit of length: waves of about the disc's diameter down to the size of a neighbourhood.
WAVE_SCALE = 4.0
# Half periods of a gain, which lies in [0, 1].
GAIN_WAVES = 4


class NodeFeatures(nn.Module):
    r"""Nodes -> features from which a memory can be addressed by place.

    A node gives its gain, parity, position and orientation, and the Fourier features
    :math:`\cos(\omega^\top p), \sin(\omega^\top p)` of its own position and of one *probe point* in each of its
    sectors, half the reach away along the sector's middle. Where two points are near, their Fourier features are
    alike: a slot that gathers nodes around a place is found by the node whose sector looks there, through plain dot
    products. Without them an attention score would have to learn this trigonometry first. The gain comes in waves as
    well, and these times the parity, because both decide who competes, and a score is linear in its input.

    Shapes: -> ``[nodes, out_channels]``.
    """

    frequency: Tensor

    def __init__(self, sectors: int, reach: float, waves: int) -> None:
        super().__init__()
        self.sectors = sectors
        self.reach = reach
        # Drawn once and for all: the features belong to the task, not to a model's seed.
        frequency = torch.randn(2, waves, generator=torch.Generator().manual_seed(0)) * WAVE_SCALE
        self.register_buffer("frequency", frequency)
        self.out_channels = 4 + 4 * GAIN_WAVES + (1 + sectors) * (2 + 2 * waves)

    def forward(self, batch: LinkBatch) -> Float[Tensor, "nodes out_channels"]:
        middle = sector_middle(
            batch.orientation.unsqueeze(1), torch.arange(self.sectors, device=batch.gain.device), self.sectors
        )
        ahead = 0.5 * self.reach * torch.stack([middle.cos(), middle.sin()], dim=-1)
        points = torch.cat([batch.position.unsqueeze(1), batch.position.unsqueeze(1) + ahead], dim=1)
        phase = points @ self.frequency
        own = torch.stack([batch.gain, batch.parity, batch.orientation.cos(), batch.orientation.sin()], dim=1)
        gain = batch.gain.unsqueeze(1) * torch.arange(1, GAIN_WAVES + 1, device=batch.gain.device) * math.pi
        gain = torch.cat([gain.cos(), gain.sin()], dim=1)
        places = torch.cat([points, phase.cos(), phase.sin()], dim=-1).flatten(1)
        return torch.cat([own, gain, batch.parity.unsqueeze(1) * gain, places], dim=1)


def sector_middle(orientation: Tensor, sector: Tensor, sectors: int) -> Tensor:
    """Direction of the middle of a sector, in radians from the x axis."""
    return orientation + (sector + 0.5) * (2 * math.pi / sectors)


# Log-weights lie between about 11 and 18.4; brought to the scale of the other features.
WEIGHT_CENTRE, WEIGHT_SCALE = 15.0, 2.0


class PairDecoder(nn.Module):
    r"""Candidate pairs -> one logit each, the same whichever node comes first.

    .. math::
        u_{ij} = \phi\bigl(W_{s(i,j)} h_i, e_{ij}\bigr), \qquad \ell_{ij} = \psi(u_{ij} + u_{ji}, u_{ij} \odot u_{ji})

    :math:`u_{ij}` is what node i thinks of j. A node has one vector for each of its sectors, :math:`W_s h_i`, and the
    pair takes that of the sector :math:`s(i,j)` in which i sees j. The features :math:`e_{ij}` hold all that the greedy
    solver knows of one pair: weight, distance, both gains, and where in the sector j stands.

    Args:
        channels: width of the node vectors.
        sectors: sectors of a node.
        hidden: width inside.
        ranks: the features also hold the exact ranks of the pair, see :func:`pair_ranks`.

    Shapes: h ``[nodes, channels]`` -> ``[pairs]``.
    """

    def __init__(self, channels: int, sectors: int, hidden: int, *, ranks: bool = False) -> None:
        super().__init__()
        self.sectors = sectors
        self.ranks = ranks
        self.by_sector = nn.Linear(channels, sectors * hidden)
        self.lin_pair = nn.Linear(6 + 2 * ranks, hidden, bias=False)
        self.side = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, h: Float[Tensor, "nodes channels"], batch: LinkBatch) -> Float[Tensor, " pairs"]:
        views = self.by_sector(h).unflatten(1, (self.sectors, -1)).flatten(0, 1)
        # The two ends are one batch of twice the pairs: [2, pairs, hidden].
        seen = views[batch.pairs * self.sectors + batch.sector]
        features = pair_features(batch, self.sectors)
        if self.ranks:
            features = torch.cat([features, pair_ranks(batch, self.sectors).log1p()], dim=-1)
        first, second = self.side(seen + self.lin_pair(features))
        return self.head(torch.cat([first + second, first * second], dim=-1)).squeeze(-1)


def pair_features(batch: LinkBatch, sectors: int) -> Float[Tensor, "2 pairs 6"]:
    """What either end of each pair sees: weight, distance, own gain, other's gain, direction within the sector."""
    here, there = batch.pairs, batch.pairs.flip(0)
    offset = batch.position[there] - batch.position[here]
    # Two nodes at one point have no direction; any will do, and atan2 gives zero.
    direction = torch.atan2(offset[..., 1], offset[..., 0])
    within = direction - sector_middle(batch.orientation[here], batch.sector, sectors)
    weight = ((batch.weight - WEIGHT_CENTRE) / WEIGHT_SCALE).expand(2, -1)
    return torch.stack(
        [weight, offset.norm(dim=-1), batch.gain[here], batch.gain[there], within.cos(), within.sin()], dim=-1
    )


def pair_ranks(batch: LinkBatch, sectors: int) -> Float[Tensor, "2 pairs 2"]:
    """How many heavier candidates either end of each pair has, in the sector that the pair lies in and in all of them.

    What a memory that held every node, and lost nothing, could tell the decoder.
    """
    weight = batch.weight.repeat(2)
    crowds = (batch.pairs * sectors + batch.sector, batch.pairs)
    return torch.stack([_rank(crowd.flatten(), weight).view_as(batch.pairs) for crowd in crowds], dim=-1)


def _rank(crowd: Tensor, weight: Tensor) -> Tensor:
    """For each entry the number of heavier ones in its crowd; of equal ones the first counts as heavier."""
    order = weight.argsort(descending=True, stable=True)
    order = order[crowd[order].argsort(stable=True)]
    sizes = torch.bincount(crowd)
    place = torch.arange(len(crowd), device=crowd.device) - (sizes.cumsum(0) - sizes)[crowd[order]]
    return torch.empty_like(weight).scatter_(0, order, place.to(weight.dtype))


# The model whose size the others are matched to.
MATCHED = "anchored"


class LinkNet(nn.Module):
    r"""Candidate pairs -> link logits.

    .. math::
        h \leftarrow \operatorname{Memory}_b(h), \quad
        h_i \leftarrow \operatorname{LN}(h_i + \operatorname{MLP}_b(h_i)), \qquad b = 1 \dots B

    Nodes never exchange messages along pairs, so a node learns about its competitors through the memory or not at all.

    Paper: ``sec:external-validation`` ("we remove the local MPNN and compare virtual-node readouts directly").

    Args:
        settings: sectors and reach of a node.
        memory: name of the global module in :mod:`mooring.zoo`; ``"none"`` leaves it out.
        spec: what it is built from; its ``channels`` are the width of the node vectors.
        blocks: memory modules, each followed by a node MLP.
        hidden: hidden width of the node MLPs, see :func:`matched_hidden`.
        waves: Fourier features of a point.
        ranks: as in :class:`PairDecoder`.
    """

    def __init__(
        self,
        settings: LinkSettings,
        memory: str,
        spec: MemorySpec,
        *,
        blocks: int,
        hidden: int,
        waves: int,
        ranks: bool = False,
    ) -> None:
        super().__init__()
        channels = spec.channels
        modules = [zoo.build(memory, spec) for _ in range(blocks)]
        self.features = NodeFeatures(settings.sectors, settings.reach, waves)
        self.encoder = nn.Sequential(
            nn.Linear(self.features.out_channels, 2 * channels),
            nn.SiLU(),
            nn.Linear(2 * channels, channels),
            nn.LayerNorm(channels),
        )
        self.memory = nn.ModuleList(module for module in modules if module is not None)
        self.mlps = nn.ModuleList(_mlp(channels, hidden) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(blocks))
        self.decoder = PairDecoder(channels, settings.sectors, channels, ranks=ranks)

    def forward(self, batch: LinkBatch) -> Float[Tensor, " pairs"]:
        h = self.encoder(self.features(batch))
        for block, (mlp, norm) in enumerate(zip(self.mlps, self.norms, strict=True)):
            if self.memory:
                h = self.memory[block](h, batch.batch, num_graphs=batch.num_graphs)
            h = norm(h + mlp(h))
        return self.decoder(h, batch)


def matched_hidden(memory: str, spec: MemorySpec, hidden: int) -> int:
    """Return the hidden width of the node MLPs that gives a model as many parameters as ``anchored`` has with `hidden`.

    Everything else is the same in all models, so what a smaller memory saves goes into the node MLPs. One unit of
    hidden width costs ``blocks * (2 * channels + 1)`` parameters; the width is the nearest whole number, at least 1.
    """
    if memory == MATCHED:
        return hidden
    # Per block, since both grow with their number.
    surplus = _memory_size(MATCHED, spec) - _memory_size(memory, spec)
    return max(1, hidden + round(surplus / (2 * spec.channels + 1)))


def _memory_size(memory: str, spec: MemorySpec) -> int:
    # Not zoo.size, which restores the random state: the published records depend on these draws.
    module = zoo.build(memory, spec)
    return 0 if module is None else zoo.count(module)


def _mlp(channels: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, channels))
