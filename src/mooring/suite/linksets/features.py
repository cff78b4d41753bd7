"""What a node says about itself: where it is, and where its sectors look."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring.suite.linksets.batch import LinkBatch

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
    well, and these times the parity, because who competes is told by both and a score is linear in what it is given.

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
