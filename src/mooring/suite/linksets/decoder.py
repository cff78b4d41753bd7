"""Two node vectors and the geometry between them -> is this pair a link?"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.suite.linksets.batch import LinkBatch
from mooring.suite.linksets.features import sector_middle

# Log-weights lie between about 11 and 18.4; brought to the scale of the other features.
WEIGHT_CENTRE, WEIGHT_SCALE = 15.0, 2.0


class PairDecoder(nn.Module):
    r"""Candidate pairs -> one logit each, the same whichever node comes first.

    .. math::
        u_{ij} = \phi\bigl(W_{s(i,j)} h_i, e_{ij}\bigr), \qquad \ell_{ij} = \psi(u_{ij} + u_{ji}, u_{ij} \odot u_{ji})

    :math:`u_{ij}` is what node i thinks of j. A node has one vector for each of its sectors, :math:`W_s h_i`, and the
    pair takes that of the sector :math:`s(i,j)` in which i sees j. The features :math:`e_{ij}` hold all that greedy
    knows of one pair: weight, distance, both gains, and where in the sector j stands.

    Args:
        channels: Width of the node vectors.
        sectors: Sectors of a node.
        hidden: Width inside.

    Shapes: h ``[nodes, channels]`` -> ``[pairs]``.
    """

    def __init__(self, channels: int, sectors: int, hidden: int) -> None:
        super().__init__()
        self.sectors = sectors
        self.by_sector = nn.Linear(channels, sectors * hidden)
        self.lin_pair = nn.Linear(6, hidden, bias=False)
        self.side = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, h: Float[Tensor, "nodes channels"], batch: LinkBatch) -> Float[Tensor, " pairs"]:
        views = self.by_sector(h).unflatten(1, (self.sectors, -1)).flatten(0, 1)
        # The two ends are one batch of twice the pairs: [2, pairs, hidden].
        seen = views[batch.pairs * self.sectors + batch.sector]
        first, second = self.side(seen + self.lin_pair(pair_features(batch, self.sectors)))
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
