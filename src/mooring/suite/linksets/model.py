"""Network of the link sets: nodes interact only through a global memory; a decoder scores the pairs."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mooring import zoo
from mooring.suite.linksets.data import LinkBatch, LinkSettings
from mooring.suite.linksets.decoder import PairDecoder, sector_middle
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
        self.mlps = nn.ModuleList(_mlp(channels, hidden) for _ in range(blocks))
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


def _mlp(channels: int, hidden: int) -> nn.Module:
    return nn.Sequential(nn.Linear(channels, hidden), nn.SiLU(), nn.Linear(hidden, channels))
