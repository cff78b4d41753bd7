"""Pair decoder: scores each candidate link once, or over several turns that see the competing links picked before."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from mooring.suite.linksets.data import LinkBatch


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
