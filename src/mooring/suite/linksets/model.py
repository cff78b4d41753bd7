"""Network of the link sets: nodes interact only through a global memory; a decoder scores the pairs."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from mooring import zoo
from mooring.suite.linksets.data import LinkBatch, LinkSettings
from mooring.zoo import MemorySpec

# Radians per unit of length: waves of about the disc's diameter down to the size of a neighbourhood.
WAVE_SCALE = 4.0
# Half periods of a gain, which lies in [0, 1].
GAIN_WAVES = 4


class NodeFeatures(nn.Module):
    r"""Nodes -> features with which a memory can be addressed by place.

    The features are gain, parity, position and orientation, and the Fourier features
    :math:`\cos(\omega^\top p), \sin(\omega^\top p)` of the position and of one *probe point* per sector, half the reach
    away along the sector's middle. Near points have similar Fourier features: a node whose sector covers a place finds
    the slot that gathers nodes around it by plain dot products. Without them an attention score would have to learn
    this trigonometry first. The gain has Fourier features too, also multiplied by the parity, because both decide which
    nodes compete, and a score is linear in its input.

    Shapes: -> ``[nodes, out_channels]``.
    """

    frequency: Tensor

    def __init__(self, sectors: int, reach: float, waves: int) -> None:
        super().__init__()
        self.sectors = sectors
        self.reach = reach
        # The seed is fixed: the features belong to the task, not to a model's seed.
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
        attributes = torch.stack([batch.gain, batch.parity, batch.orientation.cos(), batch.orientation.sin()], dim=1)
        gain = batch.gain.unsqueeze(1) * torch.arange(1, GAIN_WAVES + 1, device=batch.gain.device) * math.pi
        gain = torch.cat([gain.cos(), gain.sin()], dim=1)
        places = torch.cat([points, phase.cos(), phase.sin()], dim=-1).flatten(1)
        return torch.cat([attributes, gain, batch.parity.unsqueeze(1) * gain, places], dim=1)


# The model whose size all others match.
MATCHED = "anchored"


class LinkNet(nn.Module):
    r"""Candidate pairs -> link logits.

    .. math::
        h \leftarrow \operatorname{Memory}_b(h), \quad
        h_i \leftarrow \operatorname{LN}(h_i + \operatorname{MLP}_b(h_i)), \qquad b = 1 \dots B

    Nodes never exchange messages along pairs, so information about competitors comes only from the memory.

    Paper: ``sec:external-validation`` ("we remove the local MPNN and compare virtual-node readouts directly").

    Args:
        settings: sectors and reach of a node.
        memory: name of the global module in :mod:`mooring.zoo`; ``"none"`` for none.
        spec: specification of the memory; its ``channels`` are the width of the node vectors.
        blocks: memory modules, each followed by a node MLP.
        hidden: hidden width of the node MLPs, see :func:`matched_sizes`.
        waves: Fourier features of a point.
        turns: as in :class:`PairDecoder`.
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
        turns: int = 0,
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
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, channels)) for _ in range(blocks)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(blocks))
        self.decoder = PairDecoder(channels, settings.sectors, channels, turns=turns)

    def forward(self, batch: LinkBatch, *, every_turn: bool = False) -> Float[Tensor, "*turns pairs"]:
        """Return the logits of the decoder's last turn, which are the answer, or of every turn."""
        h = self.encoder(self.features(batch))
        for block, (mlp, norm) in enumerate(zip(self.mlps, self.norms, strict=True)):
            if self.memory:
                h = self.memory[block](h, batch.batch, num_graphs=batch.num_graphs)
            h = norm(h + mlp(h))
        logits = self.decoder(h, batch)
        return logits if every_turn else logits[-1]


def matched_sizes(memory: str, spec: MemorySpec, hidden: int) -> tuple[MemorySpec, int]:
    """Return the spec and the hidden width of the node MLPs that match the parameters of ``anchored``.

    All other parts are the same in all models, so the parameters that a smaller memory saves go to the node MLPs. One
    unit of hidden width costs ``blocks * (2 * channels + 1)`` parameters; the width is the nearest whole number. A
    memory that would leave the node MLPs less than half their width is made smaller instead.
    """
    if memory == MATCHED:
        return spec, hidden
    # Per block, because both sizes are proportional to the number of blocks.
    budget, size = _memory_size(MATCHED, spec), _memory_size(memory, spec)
    unit = 2 * spec.channels + 1
    if size - budget > hidden // 2 * unit:
        spec = zoo.fitting(memory, spec, budget)
        size = zoo.size(memory, spec)
    return spec, max(1, hidden + round((budget - size) / unit))


def _memory_size(memory: str, spec: MemorySpec) -> int:
    # Not zoo.size, which restores the random state: the published records depend on these draws.
    module = zoo.build(memory, spec)
    return 0 if module is None else zoo.count(module)


def sector_middle(orientation: Tensor, sector: Tensor, sectors: int) -> Tensor:
    """Return the direction of the middle of a sector, in radians from the x axis."""
    return orientation + (sector + 0.5) * (2 * math.pi / sectors)


# Log-weights are between about 11 and 18.4; these scale them like the other features.
WEIGHT_CENTRE, WEIGHT_SCALE = 15.0, 2.0


class PairDecoder(nn.Module):
    r"""Candidate pairs -> one logit each, independent of the order of the two nodes.

    .. math::
        u_{ij} = \phi\bigl(W_{s(i,j)} h_i, e_{ij}\bigr), \qquad \ell_{ij} = \psi(u_{ij} + u_{ji}, u_{ij} \odot u_{ji})

    :math:`u_{ij}` is the view of node i on j. A node has one vector per sector, :math:`W_s h_i`, and the pair uses the
    vector of the sector :math:`s(i,j)` in which i sees j. The features :math:`e_{ij}` are the inputs of the greedy
    solver for one pair: weight, distance, both gains, and the direction of j within the sector.

    With several turns each pair is scored again, given which of its heavier rivals the last turn picked:

    .. math::
        e_{ij}^{(t+1)} = \bigl(e_{ij},\ \log(1 + r_{ij}(p^{(t)})),\ \tanh(\ell_{ij}^{(t)} / 4)\bigr), \qquad
        p^{(t)} = \sigma(\ell^{(t)})

    where :math:`r_{ij}(p)` is the sum of their probabilities, see :class:`Rivals`.

    Args:
        channels: width of the node vectors.
        sectors: sectors of a node.
        hidden: width inside.
        turns: number of times that a pair is scored with its heavier rivals as input, at first with all of them. With 0
            it is scored once, without rivals. All turns share parameters.

    Shapes: h ``[nodes, channels]`` -> ``[turns, pairs]``, at least one turn.
    """

    def __init__(self, channels: int, sectors: int, hidden: int, *, turns: int = 0) -> None:
        super().__init__()
        self.sectors = sectors
        self.turns = turns
        self.by_sector = nn.Linear(channels, sectors * hidden)
        self.lin_pair = nn.Linear(6 + 2 * (turns > 0), hidden, bias=False)
        self.side = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))
        self.lin_turn = nn.Linear(3, hidden, bias=False) if turns > 1 else None

    def forward(self, h: Float[Tensor, "nodes channels"], batch: LinkBatch) -> Float[Tensor, "turns pairs"]:
        views = self.by_sector(h).unflatten(1, (self.sectors, -1)).flatten(0, 1)
        # The two ends are one batch of twice the pairs: [2, pairs, hidden].
        seen = views[batch.pairs * self.sectors + batch.sector]
        features = pair_features(batch, self.sectors)
        if not self.turns:
            return self._score(seen + self.lin_pair(features)).unsqueeze(0)
        rivals = Rivals(batch, self.sectors)
        ranks = rivals.heavier(torch.ones_like(batch.weight)).log1p()
        seen = seen + self.lin_pair(torch.cat([features, ranks], dim=-1))
        logits = [self._score(seen)]
        if self.lin_turn is not None:
            for _ in range(self.turns - 1):
                taken = rivals.heavier(logits[-1].sigmoid()).log1p()
                before = (logits[-1] / 4).tanh().expand(2, -1).unsqueeze(-1)
                logits.append(self._score(seen + self.lin_turn(torch.cat([taken, before], dim=-1))))
        return torch.stack(logits)

    def _score(self, seen: Float[Tensor, "2 pairs hidden"]) -> Float[Tensor, " pairs"]:
        first, second = self.side(seen)
        return self.head(torch.cat([first + second, first * second], dim=-1)).squeeze(-1)


def pair_features(batch: LinkBatch, sectors: int) -> Float[Tensor, "2 pairs 6"]:
    """Return the view of either end of each pair: weight, distance, both gains, direction within the sector."""
    here, there = batch.pairs, batch.pairs.flip(0)
    offset = batch.position[there] - batch.position[here]
    # Two nodes at one point have no direction; atan2 returns zero, which is as good as any.
    direction = torch.atan2(offset[..., 1], offset[..., 0])
    within = direction - sector_middle(batch.orientation[here], batch.sector, sectors)
    weight = ((batch.weight - WEIGHT_CENTRE) / WEIGHT_SCALE).expand(2, -1)
    return torch.stack(
        [weight, offset.norm(dim=-1), batch.gain[here], batch.gain[there], within.cos(), within.sin()], dim=-1
    )


class Rivals:
    """Competing pairs at either end of each pair: in the sector of the pair, and in all sectors.

    If all pairs are taken, :meth:`heavier` returns the ranks that a lossless memory of all nodes could give the
    decoder. The greedy solver's choice is the only fixed point of the rule that keeps a pair if there is room beside
    the heavier pairs that were kept.
    """

    def __init__(self, batch: LinkBatch, sectors: int) -> None:
        crowds = (batch.pairs * sectors + batch.sector, batch.pairs)
        self.crowds = [_Crowd(crowd.flatten(), batch.weight.repeat(2)) for crowd in crowds]

    def heavier(self, taken: Float[Tensor, " pairs"]) -> Float[Tensor, "2 pairs 2"]:
        """Return the number of heavier rivals of each pair that are taken, weighted by their probabilities."""
        share = taken.repeat(2)
        return torch.stack([crowd.before(share).view(2, -1) for crowd in self.crowds], dim=-1)


class _Crowd:
    """Entries of each crowd, heaviest first; of equal weights the first entry counts as heavier."""

    def __init__(self, crowd: Tensor, weight: Tensor) -> None:
        order = weight.argsort(descending=True, stable=True)
        self.order = order[crowd[order].argsort(stable=True)]
        sizes = torch.bincount(crowd)
        # The first position of each entry's crowd in the order.
        self.start = (sizes.cumsum(0) - sizes)[crowd[self.order]]

    def before(self, share: Tensor) -> Tensor:
        """Return for each entry the sum of the shares before it in its crowd."""
        # In double precision, because it is a difference of sums over the whole batch.
        total = functional.pad(share[self.order].double().cumsum(0), (1, 0))
        sums = (total[:-1] - total[self.start]).to(share.dtype)
        return torch.empty_like(share).scatter(0, self.order, sums)
